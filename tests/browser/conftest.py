"""One browser and one server for a file; each test has a reader of its own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from sinks.prometheus.registry import Metrics
from sinks.web.server import Server, create_app
from tests.kit.browser import browser
from tests.kit.service import FixedService, busy_service


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture
def service() -> FixedService:
    return busy_service()


@pytest.fixture
def site(service: FixedService) -> Iterator[str]:
    """Where the service is shown."""
    app = create_app(service, Metrics(formats=("native",), reasons=("empty",), processors=("jobs",)))
    with Server(app, "127.0.0.1", 0) as server:
        yield server.url
