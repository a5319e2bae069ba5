"""The chart as an artefact: Helm pulls it from a registry that holds what is in the archive."""

import hashlib
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.packages import chart
from processors import __version__
from tests.kit.tools import tool

pytestmark = [pytest.mark.tools, pytest.mark.thorough]
NAME = "charts/scalewatch"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chart.build(tool("helm3"), __version__, tmp_path_factory.mktemp("chart"))


def contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}  # all are files


@contextmanager
def registry(found: dict[str, bytes]) -> Iterator[str]:
    """Serve the layout of an archive as a registry does: manifests by tag or digest, blobs by digest."""
    (manifest,) = json.loads(found["index.json"])["manifests"]
    tags = {manifest["annotations"]["org.opencontainers.image.ref.name"]: manifest["digest"]}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, _, wanted = self.path.removeprefix(f"/v2/{NAME}/").partition("/")
            digest = tags.get(wanted, wanted)
            content = found.get(f"blobs/sha256/{digest.removeprefix('sha256:')}")
            self.send_response(200 if content is not None or self.path == "/v2/" else 404)
            self.send_header(
                "Content-Type", manifest["mediaType"] if kind == "manifests" else "application/octet-stream"
            )
            self.send_header("Docker-Content-Digest", digest)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        do_HEAD = do_GET  # noqa: N815  the name of the library

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name of the library
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_blob_is_what_its_name_states(archive: Path) -> None:
    found = contents(archive)
    blobs = {name.rpartition("/")[2]: content for name, content in found.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in blobs.items())


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_helm_pulls_the_chart_from_a_registry(helm: str, archive: Path, tmp_path: Path) -> None:
    with registry(contents(archive)) as address:
        command = [tool(helm), "pull", f"oci://{address}/{NAME}", "--version", __version__, "--plain-http"]
        done = subprocess.run([*command, "--destination", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pulled = tmp_path / f"scalewatch-{__version__}.tgz"
    assert pulled.read_bytes() == (archive.parent / pulled.name).read_bytes()
    shown = subprocess.run(
        [tool(helm), "show", "chart", str(pulled)], capture_output=True, text=True, check=True
    ).stdout
    assert f"appVersion: {__version__}" in shown
