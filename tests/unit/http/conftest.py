import pytest
from starlette.applications import Starlette

from agent.http.app import create_app
from agent.metrics.predictions import PredictionCollector
from agent.metrics.registry import Metrics
from agent.metrics.scrape import HealthCollector
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
