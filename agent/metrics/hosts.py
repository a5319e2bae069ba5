"""Windows of hosts as metrics: optional, bounded in hosts and in resources of each; what is stale has no series."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.contracts.hosts import COMBINED, HostView, HostWindow, ResourceView, quantile
from agent.contracts.moments import parse_rfc3339
from agent.contracts.service import Service
from agent.metrics.scrape import gauge
from agent.metrics.table import HOSTS

RESOURCES_MAX: Final = 16  # of one host
NAME_MAX: Final = 128  # characters of a label: what is longer is left out, a part of it would be another's name
GONE_MS: Final = 300_000  # without a sample for as long as a window is, nothing of the window is left
QUANTILES: Final = (("q05", 0.05), ("q50", 0.5), ("q95", 0.95))
Families = dict[str, GaugeMetricFamily]


class HostCollector(Collector):
    """The last five minutes of at most `hosts_max` hosts, those with anomalies first; nothing is asked for with 0.

    Series: at most `hosts_max` times (11 times 16 resources, and 1), whatever producers send.

    >>> collector = HostCollector(None, hosts_max=0)
    >>> sum(len(metric.samples) for metric in collector.collect())
    2
    """

    def __init__(self, service: Service, hosts_max: int) -> None:
        self._service, self._hosts_max = service, hosts_max

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples: registration must not ask the service."""
        return [gauge(declaration) for declaration in HOSTS]

    def collect(self) -> Iterator[Metric]:
        """Yield the families with samples."""
        known = self._service.hosts(self._hosts_max + 1) if self._hosts_max else ()
        families = {declaration.name: gauge(declaration) for declaration in HOSTS}
        shown = [_add(families, view) for view in known[: self._hosts_max]]
        left_out = len(known) > self._hosts_max or any(len(view.resources) > RESOURCES_MAX for view in known)
        families["scalewatch_hosts_shown"].add_metric([], sum(shown))
        families["scalewatch_hosts_left_out"].add_metric([], left_out)
        yield from families.values()


def _kept(view: HostView) -> list[ResourceView]:
    """Return the resources whose windows live."""
    if len(view.system) > NAME_MAX or len(view.host) > NAME_MAX:
        return []
    now_ms = parse_rfc3339(view.as_of)
    by_name = {entry.resource: entry for entry in reversed(view.resources[:RESOURCES_MAX])}
    return [
        entry
        for name, entry in by_name.items()
        if len(name) <= NAME_MAX and not entry.window.stale and now_ms - entry.window.until_ms < GONE_MS
    ]


def _add(families: Families, view: HostView) -> bool:
    """Add the series of a host; return whether it has any."""
    kept = _kept(view)
    for entry in kept:
        _add_resource(families, view, entry)
    if kept and view.score is not None and all(entry.resource != COMBINED for entry in kept):
        families["scalewatch_host_anomaly_score"].add_metric([view.system, view.host, COMBINED], view.score)
    return bool(kept)


def _add_resource(families: Families, view: HostView, entry: ResourceView) -> None:
    labels = [view.system, view.host, entry.resource]
    for stat, value in _figures(entry.window):
        if value is not None:
            families["scalewatch_host_window"].add_metric([*labels, stat], value)
    for name, extra, figure in (
        ("scalewatch_host_window_samples", [], float(entry.window.count)),
        ("scalewatch_host_variation", [entry.variation or ""], 1.0 if entry.variation else None),
        ("scalewatch_host_forecast", [], entry.outlook.value if entry.outlook else None),
        ("scalewatch_host_forecast_error", [], entry.outlook.error if entry.outlook else None),
        ("scalewatch_host_anomaly_score", [], entry.score),
    ):
        if figure is not None:
            families[name].add_metric([*labels, *extra], figure)


def _figures(window: HostWindow) -> Iterator[tuple[str, float | None]]:
    yield "mean", window.mean
    yield from (("low", quantile(window, 0.0)), ("high", quantile(window, 1.0)))
    yield from ((stat, quantile(window, share)) for stat, share in QUANTILES)
