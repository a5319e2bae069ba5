import pytest
from starlette.applications import Starlette

from sinks.prometheus.registry import HealthCollector, Metrics, PredictionCollector
from sinks.web.server import create_app
from tests.kit.service import FixedService, busy_service


@pytest.fixture
def service() -> FixedService:
    return busy_service()


@pytest.fixture
def app(service: FixedService) -> Starlette:
    metrics = Metrics(formats=("native",), reasons=("empty",), processors=("jobs",))
    metrics.register(HealthCollector(service))
    metrics.register(PredictionCollector(service, lambda: 0))
    return create_app(service, metrics)
