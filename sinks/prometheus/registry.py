"""The metrics object that is handed to whoever measures, and what Prometheus reads of roles and hosts."""

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
NAME_MAX: Final = 128  # characters of a label: what is longer is left out, a part of it would be another's name
GONE_MS: Final = 300_000  # without a sample for as long as a window is, nothing of the window is left
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
    """Counters, gauges and histograms of this process, as `sinks.prometheus.table` declares them.

    `formats`, `reasons`, `processors` and `sources` close the label lists that are known only where everything is wired. Series
    with closed labels exist from the start, at zero. A value outside its list counts as ``other``. Thread-safe.
    """

    def __init__(
        self,
        *,
        formats: Sequence[str],
        reasons: Sequence[str],
        processors: Sequence[str],
        sources: Sequence[str] = (),
    ) -> None:
        # else every counter has a second series with the time it was made; the client ships this one without types
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
        """Add to a counter; KeyError where no counter of that name with these labels is declared."""
        self._series(self._counters, name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge; KeyError as for `add`."""
        self._series(self._gauges, name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram; KeyError as for `add`."""
        self._series(self._histograms, name, labels).observe(value)

    def value(self, name: str, **labels: str) -> float:
        """Return the present value of a series (of a histogram: its count); KeyError where there is none."""
        value = self._registry.get_sample_value(f"{name}_count" if name in self._histograms else name, labels)
        if value is None:
            raise KeyError(f"{name}{labels} is no series.")
        return value

    def above_zero(self, name: str) -> dict[str, float]:
        """Return the series of a counter with one label that are not zero, by the label's value."""
        samples = (sample for family in self._counters[name].collect() for sample in family.samples)
        return {next(iter(sample.labels.values())): sample.value for sample in samples if sample.value}

    def register(self, collector: Collector) -> None:
        """Add a collector that is asked at each scrape."""
        self._registry.register(collector)

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format; CONTENT_TYPE is its type."""
        return generate_latest(self._registry)

    def _made(self, kind: type[Made], entry: Declaration, **more: Any) -> Made:
        """Make a metric with those of its series whose labels are known."""
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
        given = ((label, labels[label.name]) for label in declared)
        values = [value if value in self._closed(label) else OTHER for label, value in given]
        return metrics[name].labels(*values) if values else metrics[name]


def family(declaration: Declaration) -> GaugeMetricFamily | CounterMetricFamily:
    """Return an empty metric family as the table declares it."""
    if declaration.kind == "counter":
        return CounterMetricFamily(declaration.name, declaration.help, labels=declaration.label_names)
    return gauge(declaration)


def gauge(declaration: Declaration) -> GaugeMetricFamily:
    """Return an empty gauge family as the table declares it."""
    return GaugeMetricFamily(declaration.name, declaration.help, labels=declaration.label_names)


class HealthCollector(Collector):
    """Readiness, lag, checkpoint age and restarts of every role in this process."""

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


class SourceCollector(Collector):
    """What the topics of the sources hold: of those that the collector looks up, which bounds them."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples: registration must not ask the service."""
        return [gauge(declaration) for declaration in SOURCES]

    def collect(self) -> Iterator[Metric]:
        """Yield the families with a sample for each topic that was looked up."""
        messages, newest, silent = map(gauge, SOURCES)
        for source in self._service.sources():
            if source.messages is not None:
                messages.add_metric([source.topic], source.messages)
                newest.add_metric([source.topic], (source.heard_ms or 0) / 1000)
                silent.add_metric([source.topic], source.silent_s)
        yield from (messages, newest, silent)


class HostCollector(Collector):
    """The last five minutes of at most `hosts_max` hosts, those with anomalies first; nothing is asked for with 0.

    Series: at most `hosts_max` times (11 times 16 resources, and 1), whatever producers send.
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


def _exported(view: HostView) -> list[ResourceView]:
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
        ("scalewatch_host_variation", [entry.variation or ""], 1.0 if entry.variation else None),
        ("scalewatch_host_forecast", [], forecast.value if forecast else None),
        ("scalewatch_host_forecast_error", [], forecast.error if forecast else None),
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
