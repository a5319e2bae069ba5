"""As much of a Docker engine as starting, freezing and ending one container takes, on a Unix socket; it runs nothing."""

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

ID = "c1"
IMAGE = {"Id": "i1", "RepoTags": []}
AFTER = {
    "start": "running", "unpause": "running", "pause": "paused", "kill": "exited", "stop": "exited", "remove": "removed",
}  # fmt: skip


@dataclass
class Engine:
    """What is there, what was asked for, and what the container writes."""

    name: str = field(default_factory=socket.gethostname)
    images: bool = True
    log: bytes = b""
    requested: list[tuple[str, str, Any]] = field(default_factory=list)
    status: str = "created"

    def steps(self) -> list[str]:
        """Return what was done with the container, in order."""
        of_it = [(method, path) for method, path, _ in self.requested if path.startswith(f"/containers/{ID}")]
        return [path.split("/")[3] if method == "POST" else "remove" for method, path in of_it if method != "GET"]

    def made(self) -> dict[str, Any]:
        """Return how the container was made."""
        return next(body for _, path, body in self.requested if path == "/containers/create")

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return the status and the body of the answer to a request."""
        self.requested.append((method, path, body))
        known: dict[str, tuple[int, Any]] = {
            "/version": (200, {"ApiVersion": "1.44", "MinAPIVersion": "1.24", "Version": "25.0.0"}),
            "/info": (200, {"Name": self.name}),
            "/images/json": (200, [IMAGE] if self.images else []),
            "/images/i1/json": (200, IMAGE),
            "/images/create": (500, {"message": "the registry does not answer"}),
            "/containers/create": (201, {"Id": ID, "Warnings": []}),
            f"/containers/{ID}/logs": (200, self.log),
            f"/containers/{ID}/json": (200, {"Id": ID, "State": {"Status": self.status}, "Config": {"Tty": True}}),
            f"/containers/{ID}/wait": (200, {"StatusCode": 0}),
        }
        if path in known:
            return known[path]
        if not path.startswith(f"/containers/{ID}"):
            return 200, {}
        self.status = AFTER[self.steps()[-1]]
        return 204, None


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True  # a client keeps its connection


@contextmanager
def serving(engine: Engine, folder: Path) -> Iterator[str]:
    """Let an engine answer, and yield its address as DOCKER_HOST has it."""
    path = folder / "docker.sock"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "a client"

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requested = self.path.partition("?")[0]
            if requested.startswith("/v1."):
                requested = "/" + requested.split("/", 2)[2]
            status, found = engine.answer(self.command, requested, json.loads(body) if body else None)
            given = found if isinstance(found, bytes) else b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(given)))
            self.end_headers()
            if given:  # a client may go once it knows that nothing comes
                self.wfile.write(given)

        do_GET = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815  names that the server looks for

    with Server(str(path), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"unix://{path}"
        server.shutdown()
