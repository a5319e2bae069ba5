"""What a service knows, as metric families made when Prometheus asks."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.contracts.service import Health, Service
from agent.metrics.declarations import Declaration
from agent.metrics.table import HEALTH

_HEALTH: Final[dict[str, Callable[[Health], float | None]]] = {
    "scalewatch_ready": lambda health: float(health.ready),
    "scalewatch_role_restarts_total": lambda health: float(health.restarts),
    "scalewatch_event_time_lag_seconds": lambda health: health.lag_s,
    "scalewatch_checkpoint_age_seconds": lambda health: health.checkpoint_age_s,
}


def family(declaration: Declaration) -> GaugeMetricFamily | CounterMetricFamily:
    """Return an empty metric family as the table declares it.

    >>> family(HEALTH[0]).name
    'scalewatch_ready'
    """
    if declaration.kind == "counter":
        return CounterMetricFamily(declaration.name, declaration.help, labels=declaration.label_names)
    return gauge(declaration)


def gauge(declaration: Declaration) -> GaugeMetricFamily:
    """Return an empty gauge family as the table declares it.

    >>> gauge(HEALTH[0]).type
    'gauge'
    """
    return GaugeMetricFamily(declaration.name, declaration.help, labels=declaration.label_names)


class HealthCollector(Collector):
    """Readiness, lag, checkpoint age and restarts of every role in this process.

    >>> class Silent:
    ...     def health(self): return [Health(role="learner", ready=True)]
    >>> [sample.value for metric in HealthCollector(Silent()).collect() for sample in metric.samples]
    [1.0, 0.0]
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples: registration must not ask the service."""
        return [family(declaration) for declaration in HEALTH]

    def collect(self) -> Iterator[Metric]:
        """Yield the families with a sample for each role that has the figure."""
        roles = self._service.health()
        for declaration in HEALTH:
            metric = family(declaration)
            for health in roles:
                value = _HEALTH[declaration.name](health)
                if value is not None:
                    metric.add_metric([health.role], value)
            yield metric
