"""The registry of Prometheus metrics, and the collectors of roles, sources and hosts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processors import __version__
from processors.contracts.hosts import COMBINED, HostView, HostWindow, ResourceView, quantile
from processors.contracts.names import parse_rfc3339
from processors.contracts.service import Health, Service
from sinks.prometheus.table import AGENT, HEALTH, HOSTS, OTHER, SOURCES, Declaration, Label, ListName

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
RESOURCES_MAX: Final = 16  # of one host
# characters of a label value; longer names are dropped, because a cut name could equal another one
NAME_MAX: Final = 128
GONE_MS: Final = 300_000  # after this time without a sample, the window is empty
QUANTILES: Final = (("q05", 0.05), ("q50", 0.5), ("q95", 0.95))
Made = TypeVar("Made", Counter, Gauge, Histogram)
Families = dict[str, GaugeMetricFamily]
_HEALTH: Final[dict[str, Callable[[Health], float | None]]] = {
    "scalewatch_ready": lambda health: float(health.ready),
    "scalewatch_role_restarts_total": lambda health: float(health.restarts),
    "scalewatch_event_time_lag_seconds": lambda health: health.lag_s,
    "scalewatch_checkpoint_age_seconds": lambda health: health.checkpoint_age_s,
}


class Metrics:
    """Counters, gauges and histograms of this process, as declared in `sinks.prometheus.table`. Thread-safe.

    `formats`, `reasons`, `processors` and `sources` are the allowed values of the labels that only the application knows. Series
    of labels with a closed list exist from the start with the value 0. A value outside its list is counted as ``other``.
    """

    def __init__(
        self,
        *,
        formats: Sequence[str],
        reasons: Sequence[str],
        processors: Sequence[str],
        sources: Sequence[str] = (),
    ) -> None:
        # without this, every counter gets a second series with its creation time; the client has no types for the call
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._lists: Mapping[ListName, Sequence[str]] = {
            "formats": formats,
            "reasons": reasons,
            "processors": processors,
            "sources": sources,
        }
        self._registry = CollectorRegistry(auto_describe=True)
        self._declared = {entry.name: entry for entry in AGENT}
        self._counters = {entry.name: self._made(Counter, entry) for entry in AGENT if entry.kind == "counter"}
        self._gauges = {entry.name: self._made(Gauge, entry) for entry in AGENT if entry.kind == "gauge"}
        self._histograms = {
            entry.name: self._made(Histogram, entry, buckets=entry.buckets)
            for entry in AGENT
            if entry.kind == "histogram"
        }
        ProcessCollector(registry=self._registry)
        build = Gauge("scalewatch_build_info", "One, with the version.", ["version"], registry=self._registry)
        build.labels(__version__).set(1)

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter; KeyError if no counter with this name and these labels is declared."""
        self._series(self._counters, name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        self._series(self._gauges, name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._series(self._histograms, name, labels).observe(value)

    def value(self, name: str, **labels: str) -> float:
        """Return the current value of a series, of a histogram its count; KeyError if the series does not exist."""
        value = self._registry.get_sample_value(f"{name}_count" if name in self._histograms else name, labels)
        if value is None:
            raise KeyError(f"There is no series {name}{labels}.")
        return value

    def above_zero(self, name: str) -> dict[str, float]:
        """Return the non-zero values of a counter with one label, by label value."""
        samples = (sample for family in self._counters[name].collect() for sample in family.samples)
        return {next(iter(sample.labels.values())): sample.value for sample in samples if sample.value}

    def register(self, collector: Collector) -> None:
        self._registry.register(collector)

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format (CONTENT_TYPE)."""
        return generate_latest(self._registry)

    def _made(self, kind: type[Made], entry: Declaration, **more: Any) -> Made:
        """Create a metric, with all series whose label values are known."""
        metric = kind(entry.name, entry.help, entry.label_names, registry=self._registry, **more)
        for values in product(*map(self._closed, entry.labels)) if entry.labels else ():
            metric.labels(*values)
        return metric

    def _closed(self, label: Label) -> Sequence[str]:
        return self._lists[label.given_as] if label.given_as else label.values

    def _series(self, metrics: Mapping[str, Made], name: str, labels: Mapping[str, str]) -> Made:
        declared = self._declared[name].labels
        if len(labels) != len(declared):
            raise KeyError(f"{name} has the labels {[label.name for label in declared]}, not {sorted(labels)}.")
        values = [labels[label.name] if labels[label.name] in self._closed(label) else OTHER for label in declared]
        return metrics[name].labels(*values) if values else metrics[name]


def family(declaration: Declaration) -> GaugeMetricFamily | CounterMetricFamily:
    if declaration.kind == "counter":
        return CounterMetricFamily(declaration.name, declaration.help, labels=declaration.label_names)
    return gauge(declaration)


def gauge(declaration: Declaration) -> GaugeMetricFamily:
    return GaugeMetricFamily(declaration.name, declaration.help, labels=declaration.label_names)


class HealthCollector(Collector):
    """Exports readiness, lag, checkpoint age and restarts of each role in this process."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        return [family(declaration) for declaration in HEALTH]

    def collect(self) -> Iterator[Metric]:
        roles = self._service.health()
        for declaration in HEALTH:
            metric = family(declaration)
            for health in roles:
                value = _HEALTH[declaration.name](health)
                if value is not None:
                    metric.add_metric([health.role], value)
            yield metric


class SourceCollector(Collector):
    """Exports the state of the source topics that the collector looks up, which bounds the number of series."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        return [gauge(declaration) for declaration in SOURCES]

    def collect(self) -> Iterator[Metric]:
        messages, newest, silent = map(gauge, SOURCES)
        for source in self._service.sources():
            if source.messages is not None:
                messages.add_metric([source.topic], source.messages)
                newest.add_metric([source.topic], (source.heard_ms or 0) / 1000)
                silent.add_metric([source.topic], source.silent_s)
        yield from (messages, newest, silent)


class HostCollector(Collector):
    """Exports the last five minutes of at most `hosts_max` hosts, anomalous hosts first; with 0 it exports nothing.

    Number of series: at most `hosts_max` * (11 * 16 + 1).
    """

    def __init__(self, service: Service, hosts_max: int) -> None:
        self._service, self._hosts_max = service, hosts_max

    def describe(self) -> Iterable[Metric]:
        return [gauge(declaration) for declaration in HOSTS]

    def collect(self) -> Iterator[Metric]:
        views = self._service.hosts(self._hosts_max + 1) if self._hosts_max else ()
        families = {declaration.name: gauge(declaration) for declaration in HOSTS}
        shown = [_add(families, view) for view in views[: self._hosts_max]]
        left_out = len(views) > self._hosts_max or any(len(view.resources) > RESOURCES_MAX for view in views)
        families["scalewatch_hosts_shown"].add_metric([], sum(shown))
        families["scalewatch_hosts_left_out"].add_metric([], left_out)
        yield from families.values()


def _exported(view: HostView) -> list[ResourceView]:
    """Return the resources with samples in their windows."""
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
    """Add the series of a host; return whether the host has any."""
    retained = _exported(view)
    for entry in retained:
        _add_resource(families, view, entry)
    if retained and view.score is not None and all(entry.resource != COMBINED for entry in retained):
        families["scalewatch_host_anomaly_score"].add_metric([view.system, view.host, COMBINED], view.score)
    return bool(retained)


def _add_resource(families: Families, view: HostView, entry: ResourceView) -> None:
    labels = [view.system, view.host, entry.resource]
    for stat, value in _figures(entry.window):
        if value is not None:
            families["scalewatch_host_window"].add_metric([*labels, stat], value)
    forecast = entry.forecast
    for name, extra, figure in (
        ("scalewatch_host_window_samples", [], float(entry.window.count)),
        ("scalewatch_host_forecast", [], forecast.value if forecast else None),
        ("scalewatch_host_forecast_level", ["0.05"], forecast.q05 if forecast else None),
        ("scalewatch_host_forecast_level", ["0.5"], forecast.q50 if forecast else None),
        ("scalewatch_host_forecast_level", ["0.95"], forecast.q95 if forecast else None),
        ("scalewatch_host_anomaly_score", [], entry.score),
    ):
        if figure is not None:
            families[name].add_metric([*labels, *extra], figure)


def _figures(window: HostWindow) -> Iterator[tuple[str, float | None]]:
    yield "mean", window.mean
    yield from (("low", quantile(window, 0.0)), ("high", quantile(window, 1.0)))
    yield from ((stat, quantile(window, share)) for stat, share in QUANTILES)
