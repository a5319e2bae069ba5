"""A real Alertmanager, and a receiver that notes what it is told by it."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import httpx

from tests.kit.agent_process import until
from tests.kit.ports import free_ports

CONFIG = """
route:
  receiver: hook
  group_by: [system]
  group_wait: 1s
  group_interval: 1s
  repeat_interval: 1h
receivers:
  - name: hook
    webhook_configs:
      - url: {url}
        send_resolved: true
"""


class Alertmanager:
    """A running Alertmanager that groups by system and tells a webhook after a second."""

    def __init__(self, url: str, reported: "Queue[dict[str, Any]]") -> None:
        self.url, self.received = url, reported

    def alerts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/api/v2/alerts", trust_env=False).json()
        return found

    def silence(self, name: str, starts: str, ends: str) -> None:
        matcher = {"name": "alertname", "value": name, "isRegex": False, "isEqual": True}
        body = {"matchers": [matcher], "startsAt": starts, "endsAt": ends, "createdBy": "test", "comment": "known"}
        httpx.post(f"{self.url}/api/v2/silences", json=body, trust_env=False).raise_for_status()

    def expire_silences(self) -> None:
        """End every silence now."""
        for silence in httpx.get(f"{self.url}/api/v2/silences", trust_env=False).json():
            httpx.delete(f"{self.url}/api/v2/silence/{silence['id']}", trust_env=False).raise_for_status()

    def notification(self, timeout_s: float = 15.0) -> dict[str, Any] | None:
        """Return what the webhook is told next; None where it is told nothing for so long."""
        try:
            return self.received.get(timeout=timeout_s)
        except Empty:
            return None


@contextmanager
def alertmanager(program: str, folder: Path, settings: str = CONFIG) -> Iterator[Alertmanager]:
    with receiver() as (hook, reported):
        config = folder / "alertmanager.yml"
        config.write_text(settings.replace("{url}", hook))
        url = f"http://127.0.0.1:{free_ports(1)[0]}"
        listen = url.removeprefix("http://")
        arguments = [f"--config.file={config}", f"--storage.path={folder / 'data'}", f"--web.listen-address={listen}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program, *arguments, "--cluster.listen-address="], stdout=log, stderr=log)
        try:
            until(
                lambda: _is_up(url) or None, 20.0, lambda: f"Alertmanager is up: {(folder / 'log').read_text()[-500:]}"
            )
            yield Alertmanager(url, reported)
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def receiver(status: int = 200) -> Iterator[tuple[str, "Queue[Any]"]]:
    """Serve an address that notes what is posted to it."""
    reported: Queue[Any] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            reported.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
            """Say nothing."""

    with _served(Handler) as url:
        yield url, reported


@contextmanager
def answering(answers: dict[str, bytes]) -> Iterator[str]:
    """Serve an address that answers each path with what is there, and with 503 where nothing is; a test may exchange it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            self.send_response(503 if found is None else 200)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
            """Say nothing."""

    with _served(Handler) as url:
        yield url


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
