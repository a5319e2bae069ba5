"""The registry of Prometheus metrics, and the collectors of roles, sources and hosts."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processors import __version__
from processors.contracts.hosts import COMBINED, HostView, ResourceView, quantile
from processors.contracts.names import parse_rfc3339
from processors.contracts.service import Service
from sinks.prometheus.table import AGENT, HEALTH, HOSTS, LEVELS, OTHER, SOURCES, Declaration, Label, ListName

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
RESOURCES_MAX: Final = 16  # of one host
# characters of a label value; longer names are dropped, because a cut name could equal another one
NAME_MAX: Final = 128
GONE_MS: Final = 300_000  # after this time without a sample, the window is empty
QUANTILES: Final = (("low", 0.0), ("high", 1.0), ("q05", 0.05), ("q50", 0.5), ("q95", 0.95))
Kind = TypeVar("Kind", Counter, Gauge, Histogram)


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
        self._counters = {entry.name: self._created(Counter, entry) for entry in AGENT if entry.kind == "counter"}
        self._gauges = {entry.name: self._created(Gauge, entry) for entry in AGENT if entry.kind == "gauge"}
        self._histograms = {
            entry.name: self._created(Histogram, entry, buckets=entry.buckets)
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

    def _created(self, kind: type[Kind], entry: Declaration, **more: Any) -> Kind:
        """Create a metric, with all series whose label values are known."""
        metric = kind(entry.name, entry.help, entry.label_names, registry=self._registry, **more)
        for values in product(*map(self._closed, entry.labels)) if entry.labels else ():
            metric.labels(*values)
        return metric

    def _closed(self, label: Label) -> Sequence[str]:
        return self._lists[label.given_as] if label.given_as else label.values

    def _series(self, metrics: Mapping[str, Kind], name: str, labels: Mapping[str, str]) -> Kind:
        declared = self._declared[name].labels
        if len(labels) != len(declared):
            raise KeyError(f"{name} has the labels {[label.name for label in declared]}, not {sorted(labels)}.")
        values = [labels[label.name] if labels[label.name] in self._closed(label) else OTHER for label in declared]
        return metrics[name].labels(*values) if values else metrics[name]


class Series:
    """The metric families of one export; unknown values get no sample."""

    def __init__(self, declared: Sequence[Declaration]) -> None:
        self.families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
            entry.name: (CounterMetricFamily if entry.kind == "counter" else GaugeMetricFamily)(
                entry.name, entry.help, labels=entry.label_names
            )
            for entry in declared
        }

    def add(self, name: str, labels: Sequence[str], value: float | None) -> None:
        """Add a sample to the family `scalewatch_NAME`."""
        if value is not None:
            self.families[f"scalewatch_{name}"].add_metric(labels, value)

    def add_levels(self, name: str, labels: Sequence[str], values: Sequence[float | None]) -> None:
        """Add the 5 %, 50 % and 95 % quantiles of a prediction."""
        for level, value in zip(LEVELS, values, strict=True):
            self.add(name, [*labels, level], value)


class SeriesCollector(Collector):
    """Exports the metrics that a subclass names in `declared` and fills in `fill`."""

    declared: tuple[Declaration, ...]

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        return Series(self.declared).families.values()

    def collect(self) -> Iterable[Metric]:
        series = Series(self.declared)
        self.fill(series)
        return series.families.values()

    def fill(self, series: Series) -> None:
        raise NotImplementedError


class HealthCollector(SeriesCollector):
    """Exports readiness, lag, checkpoint age and restarts of each role in this process."""

    declared = HEALTH

    def fill(self, series: Series) -> None:
        for health in self._service.health():
            series.add("ready", [health.role], health.ready)
            series.add("role_restarts_total", [health.role], health.restarts)
            series.add("event_time_lag_seconds", [health.role], health.lag_s)
            series.add("checkpoint_age_seconds", [health.role], health.checkpoint_age_s)


class SourceCollector(SeriesCollector):
    """Exports the state of the source topics that the collector looks up, which bounds the number of series."""

    declared = SOURCES

    def fill(self, series: Series) -> None:
        for source in self._service.sources():
            if source.messages is not None:
                series.add("source_messages", [source.topic], source.messages)
                series.add("source_newest_message_timestamp_seconds", [source.topic], (source.heard_ms or 0) / 1000)
                series.add("source_silent_threshold_seconds", [source.topic], source.silent_s)


class HostCollector(SeriesCollector):
    """Exports the last five minutes of at most `hosts_max` hosts, anomalous hosts first; with 0 it exports nothing.

    Number of series: at most `hosts_max` * (11 * 16 + 1).
    """

    declared = HOSTS

    def __init__(self, service: Service, hosts_max: int) -> None:
        super().__init__(service)
        self._hosts_max = hosts_max

    def fill(self, series: Series) -> None:
        views = self._service.hosts(self._hosts_max + 1) if self._hosts_max else ()
        shown = [_add_host(series, view) for view in views[: self._hosts_max]]
        left_out = len(views) > self._hosts_max or any(len(view.resources) > RESOURCES_MAX for view in views)
        series.add("hosts_shown", [], sum(shown))
        series.add("hosts_left_out", [], left_out)


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


def _add_host(series: Series, view: HostView) -> bool:
    """Add the series of a host; return whether the host has any."""
    exported = _exported(view)
    for entry in exported:
        labels, window, forecast = [view.system, view.host, entry.resource], entry.window, entry.forecast
        for stat, value in (("mean", window.mean), *((stat, quantile(window, part)) for stat, part in QUANTILES)):
            series.add("host_window", [*labels, stat], value)
        series.add("host_window_samples", labels, window.count)
        series.add("host_anomaly_score", labels, entry.score)
        if forecast is not None:
            series.add("host_forecast", labels, forecast.value)
            series.add_levels("host_forecast_level", labels, (forecast.q05, forecast.q50, forecast.q95))
    if exported and all(entry.resource != COMBINED for entry in exported):
        series.add("host_anomaly_score", [view.system, view.host, COMBINED], view.score)
    return bool(exported)
