"""What others wrote and the pages use is here as it was published, with its licence."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

import pytest
from starlette.applications import Starlette

from tests.kit.get import get

VENDOR = Path(str(files("sinks.web").joinpath("static", "vendor")))
MANIFEST = json.loads((VENDOR / "manifest.json").read_text())


@pytest.mark.parametrize("package", MANIFEST, ids=lambda package: package["name"])
def test_every_file_is_the_one_that_was_published(package: dict[str, dict[str, str]]) -> None:
    for name, expected in package["files"].items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == expected, name


def test_nothing_else_is_there_and_every_licence_is() -> None:
    listed = {name for package in MANIFEST for name in package["files"]}
    assert {path.name for path in VENDOR.iterdir()} == listed | {"manifest.json"}
    for package in MANIFEST:
        assert package["licence_file"] in package["files"]
        assert all(package[field] for field in ("version", "source", "licence"))


@pytest.mark.parametrize("name", ["live.js", "chart.js", "page.css", "vendor/uPlot.iife.min.js", "favicon.svg"])
def test_a_browser_may_keep_a_file_if_it_asks_whether_it_changed(app: Starlette, name: str) -> None:
    response = get(app, f"/static/{name}")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["etag"]


def test_browsers_that_ask_on_their_own_get_a_picture(app: Starlette) -> None:
    assert get(app, "/favicon.ico").headers["content-type"] == "image/svg+xml"
