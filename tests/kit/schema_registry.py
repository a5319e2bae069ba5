"""A schema registry as far as a reader of messages asks it, and messages as its serializers write them."""

import base64
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro

NOT_FOUND = b'{"error_code":40403,"message":"Schema not found"}'
LOADAVG: dict[str, Any] = {  # as ldmsd_row_to_json_avro_schema makes it of a row
    "name": "loadavg_8d2b8bd",
    "type": "record",
    "fields": [
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "producer", "type": "string", "default": ""},
        {"name": "instance", "type": "string", "default": ""},
        {"name": "component_id", "type": {"type": "long", "logicalType": "unsigned-long"}, "default": 0},
        {"name": "job_id", "type": {"type": "long", "logicalType": "unsigned-long"}, "default": 0},
        {"name": "load1min", "type": "double", "default": 0.0},
    ],
}


def framed(number: int, schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """Return a record in Confluent's wire format."""
    stream = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    stream.seek(5)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def row(time_ms: int, host: str, load: float, number: int = 37) -> bytes:
    """Return a row of LDMS's loadavg sampler."""
    record = {
        "timestamp": time_ms,
        "producer": host,
        "instance": f"{host}/loadavg",
        "component_id": 1042,
        "job_id": 0,
        "load1min": load,
    }
    return framed(number, LOADAVG, record)


class FakeRegistry:
    """What the registry holds, and what it was asked for.

    `answers` are by path, and so are `statuses` of paths that fail; if `status` is set, every answer has it. A redirect goes to `location`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.log_ins: list[str | None] = []
        self.status: int | None = None
        self.statuses: dict[str, int] = {}
        self.location = ""
        self.served = threading.Condition()

    def hold(self, number: int, schema: dict[str, Any] | str, **more: Any) -> None:
        """Take in a schema."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.answers[f"/schemas/ids/{number}"] = json.dumps({"schema": text, **more}).encode()

    def answer(self, path: str, log_in: str | None) -> tuple[int, bytes]:
        """Return status and body."""
        found = self.answers.get(path)
        failing = self.status or self.statuses.get(path)
        if failing is not None:
            status, body = failing, b'{"error_code": 50001, "message": "Error in the backend"}'
        else:
            status, body = (404, NOT_FOUND) if found is None else (200, found)
        with self.served:
            self.requests.append(path)
            self.log_ins.append(log_in)
            self.served.notify_all()
        return status, body

    def wait(self, count: int, timeout_s: float = 20.0) -> None:
        """Wait until it was asked so often."""
        with self.served:
            assert self.served.wait_for(lambda: len(self.requests) >= count, timeout_s), f"requests {self.requests}"


def basic(user: str, password: str) -> str:
    """Return the header of a log-in."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def schema_registry() -> Iterator[FakeRegistry]:
    """Serve a registry on this machine."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path, self.headers["authorization"])
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            if 300 <= status < 400 and registry.location:
                self.send_header("location", registry.location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
