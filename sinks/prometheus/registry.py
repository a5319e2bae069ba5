"""The registry of Prometheus metrics, and the collectors of roles, sources, hosts, predictions, alerts and running jobs."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeVar

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processors import __version__
from processors.contracts.hosts import COMBINED, HostView, ResourceView, quantile
from processors.contracts.names import grouped, parse_rfc3339, rfc3339
from processors.contracts.outputs import Alert, CurvePoint, Prediction
from processors.contracts.service import RunningJob, Service, hits
from sinks.alertmanager import posted_labels
from sinks.prometheus.table import (
    AGENT,
    ALERTS,
    HEALTH,
    HOSTS,
    JOBS,
    LEVELS,
    OTHER,
    POWER,
    PREDICTIONS,
    SEVERITIES,
    SOURCES,
    UNDER_LOAD,
    USEFUL,
    WITHIN,
    Declaration,
    Label,
)

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
RESOURCES_MAX: Final = 16  # maximum exported resources per host
# maximum characters of a label value; longer names are dropped, because two truncated names could be equal
NAME_MAX: Final = 128
GONE_MS: Final = 300_000  # after this time in ms without a sample, the window of a host is empty
QUANTILES: Final = (("low", 0.0), ("high", 1.0), ("q05", 0.05), ("q50", 0.5), ("q95", 0.95))
Kind = TypeVar("Kind", prometheus_client.Counter, prometheus_client.Gauge, prometheus_client.Histogram)

_TYPES: Final[Mapping[str, type[MetricWrapperBase]]] = {
    "counter": prometheus_client.Counter, "gauge": prometheus_client.Gauge, "histogram": prometheus_client.Histogram,
}  # fmt: skip


class Metrics:
    """Counters, gauges and histograms of this process, as declared in `sinks.prometheus.table`. Thread-safe.

    `formats`, `reasons`, `processors` and `sources` are lists of allowed label values that the agent passes in. If a label has
    a list, its series exist from the start with the value 0, and a value outside the list is counted as ``other``.
    """

    def __init__(self, **lists: Sequence[str]) -> None:
        # otherwise every counter gets a second series with its creation time; the client's stubs lack this call
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._lists: Mapping[str, Sequence[str]] = {"sources": ()} | lists
        self._registry = CollectorRegistry(auto_describe=True)
        self._declared = {entry.name: entry for entry in AGENT}
        self._metrics = {entry.name: self._created(entry) for entry in AGENT}
        ProcessCollector(registry=self._registry)
        build = prometheus_client.Gauge(
            "scalewatch_build_info", "One, with the version.", ["version"], registry=self._registry
        )
        build.labels(__version__).set(1)

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add `amount` to a counter; raise KeyError if no counter with this name and these labels is declared."""
        self._series(prometheus_client.Counter, name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        self._series(prometheus_client.Gauge, name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._series(prometheus_client.Histogram, name, labels).observe(value)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a series, or the count of a histogram; raise KeyError if the series does not exist."""
        is_histogram = isinstance(self._metrics.get(name), prometheus_client.Histogram)
        value = self._registry.get_sample_value(f"{name}_count" if is_histogram else name, labels)
        if value is None:
            raise KeyError(f"There is no series {name}{labels}.")
        return value

    def above_zero(self, name: str) -> dict[str, float]:
        """Return the non-zero values of a counter that has one label, by label value."""
        samples = (sample for family in self._metrics[name].collect() for sample in family.samples)
        return {next(iter(sample.labels.values())): sample.value for sample in samples if sample.value}

    def register(self, collector: Collector) -> None:
        self._registry.register(collector)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)

    def _created(self, entry: Declaration) -> MetricWrapperBase:
        """Create a metric with all series whose label values are known in advance."""
        more: dict[str, Any] = {"buckets": entry.buckets} if entry.buckets else {}
        metric = _TYPES[entry.kind](entry.name, entry.help, entry.label_names, registry=self._registry, **more)
        for values in product(*map(self._closed, entry.labels)) if entry.labels else ():
            metric.labels(*values)
        return metric

    def _closed(self, label: Label) -> Sequence[str]:
        return self._lists[label.given_as] if label.given_as else label.values

    def _series(self, kind: type[Kind], name: str, labels: Mapping[str, str]) -> Kind:
        metric, declared = self._metrics[name], self._declared[name].labels
        if not isinstance(metric, kind):
            raise KeyError(f"{name} is a {self._declared[name].kind}.")
        if len(labels) != len(declared):
            raise KeyError(f"{name} has the labels {[label.name for label in declared]}, not {sorted(labels)}.")
        values = [labels[label.name] if labels[label.name] in self._closed(label) else OTHER for label in declared]
        return metric.labels(*values) if values else metric


class MetricSeries:
    """The metric families of one scrape; a value of None adds no sample."""

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
        for level, value in zip(LEVELS, values, strict=True):
            self.add(name, [*labels, level], value)


class SeriesCollector(Collector):
    """Exports the metrics that a subclass lists in `declared` and sets in `fill`."""

    declared: tuple[Declaration, ...]

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        return MetricSeries(self.declared).families.values()

    def collect(self) -> Iterable[Metric]:
        series = MetricSeries(self.declared)
        self.fill(series)
        return series.families.values()

    def fill(self, series: MetricSeries) -> None:
        raise NotImplementedError


class HealthCollector(SeriesCollector):
    """Exports readiness, lag, checkpoint age and restarts of each role in this process."""

    declared = HEALTH

    def fill(self, series: MetricSeries) -> None:
        for health in self._service.health():
            series.add("ready", [health.role], health.ready)
            series.add("role_restarts_total", [health.role], health.restarts)
            series.add("event_time_lag_seconds", [health.role], health.lag_s)
            series.add("checkpoint_age_seconds", [health.role], health.checkpoint_age_s)


class SourceCollector(SeriesCollector):
    """Exports the state of the source topics; the collector checks a bounded number of topics, so the number of series is bounded."""

    declared = SOURCES

    def fill(self, series: MetricSeries) -> None:
        for source in self._service.sources():
            if source.messages is not None:
                series.add("source_messages", [source.topic], source.messages)
                series.add("source_newest_message_timestamp_seconds", [source.topic], (source.heard_ms or 0) / 1000)
                series.add("source_silent_threshold_seconds", [source.topic], source.silent_s)


class HostCollector(SeriesCollector):
    """Exports the last five minutes of at most `hosts_max` hosts, anomalous hosts first; exports nothing if `hosts_max` is 0.

    Number of series: at most `hosts_max` * (11 * 16 + 1).
    """

    declared = HOSTS

    def __init__(self, service: Service, hosts_max: int) -> None:
        super().__init__(service)
        self._hosts_max = hosts_max

    def fill(self, series: MetricSeries) -> None:
        views = self._service.hosts(self._hosts_max + 1) if self._hosts_max else ()
        shown = [_add_host(series, view) for view in views[: self._hosts_max]]
        left_out = len(views) > self._hosts_max or any(len(view.resources) > RESOURCES_MAX for view in views)
        series.add("hosts_shown", [], sum(shown))
        series.add("hosts_left_out", [], left_out)


def _exported(view: HostView) -> list[ResourceView]:
    """Return the resources of a host to export: those with recent samples and short names among the first RESOURCES_MAX."""
    if len(view.system) > NAME_MAX or len(view.host) > NAME_MAX:
        return []
    now_ms = parse_rfc3339(view.as_of)
    by_name = {entry.resource: entry for entry in reversed(view.resources[:RESOURCES_MAX])}
    return [
        entry
        for name, entry in by_name.items()
        if len(name) <= NAME_MAX and not entry.window.stale and now_ms - entry.window.until_ms < GONE_MS
    ]


def _add_host(series: MetricSeries, view: HostView) -> bool:
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


APPLICATIONS_MAX: Final = 500
SIZES_MAX: Final = 16
DETAILED_MAX: Final = 100  # maximum applications with series for load, power and energy
FIRING_MAX: Final = 200  # maximum series of firing alerts, most severe first


class PredictionCollector(SeriesCollector):
    """Exports the latest predictions of the most recently changed applications, and the alerts.

    Predictions whose `valid_until` is before `now_ms` (the present event time) are not exported. Run time under load, power and
    energy are exported only for the `detailed_max` applications with the most runs. Number of series: at most
    `applications_max` * (3 `sizes_max` + 19) + `detailed_max` * (6 `sizes_max` + 10), about 45 000 with the defaults, and 200
    alerts.
    """

    declared = (*PREDICTIONS, *UNDER_LOAD, *POWER)

    def __init__(
        self,
        service: Service,
        now_ms: Callable[[], int],
        applications_max: int = APPLICATIONS_MAX,
        sizes_max: int = SIZES_MAX,
        detailed_max: int = DETAILED_MAX,
    ) -> None:
        super().__init__(service)
        self._now_ms = now_ms
        self._applications_max, self._sizes_max, self._detailed_max = applications_max, sizes_max, detailed_max

    def fill(self, series: MetricSeries) -> None:
        predictions = self._service.predictions()
        now = _moment(rfc3339(self._now_ms()))
        valid = [entry for entry in predictions if entry.valid_until is None or _moment(entry.valid_until) > now]
        shown = heapq.nlargest(self._applications_max, valid, key=lambda entry: _moment(entry.time))
        for entry in shown:
            _add_prediction(series, entry, spread(entry.curve, self._sizes_max))
        for entry in heapq.nlargest(self._detailed_max, shown, key=lambda entry: (entry.observations, _key(entry))):
            _add_load(series, entry)
            _add_power(series, entry, spread(entry.curve, self._sizes_max))
        series.add("applications", ["shown"], len(shown))
        series.add("applications", ["left_out"], len(valid) - len(shown))
        series.add("applications", ["stale"], len(predictions) - len(valid))
        _add_alerts(series, self._service.alerts())


def _add_prediction(series: MetricSeries, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
    key, useful, quality = _key(entry), entry.useful_n, entry.quality
    for point in curve:
        run_times_s = (point.low_s, point.run_time_s, point.high_s)
        series.add_levels("predicted_run_time_seconds", [*key, _size(point.n)], run_times_s)
    series.add("prediction_coverage_ratio", key, quality.coverage_90)
    series.add("prediction_error_ratio", key, quality.median_error)
    series.add("prediction_runs", [*key, "learned"], entry.observations)
    series.add("prediction_runs", [*key, "scored"], quality.scored)
    series.add("reliability", [*key, entry.reliability.verdict], 1.0)
    for criterion, n in zip(USEFUL, msgspec.structs.astuple(useful), strict=True):
        series.add("useful_size", [*key, criterion], n)
    for part in quality.horizons:
        series.add("prediction_horizon_coverage_ratio", [*key, part.horizon], part.coverage_90)


def _add_load(series: MetricSeries, entry: Prediction) -> None:
    load, key = entry.under_load, _key(entry)
    if load is None:
        return
    series.add_levels("under_load_run_time_seconds", key, (load.q05_s, load.q50_s, load.q95_s))
    series.add("under_load_factor", [*key, "now"], load.load)
    series.add("under_load_factor", [*key, "usual"], load.baseline_load)
    if load.quality is not None and load.quality.of == "application":
        series.add("under_load_in_range_ratio", key, load.quality.in_range)


def _add_power(series: MetricSeries, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
    key, quality = _key(entry), entry.power
    for point in curve:
        labels = [*key, _size(point.n)]
        series.add_levels("predicted_power_watts", labels, (point.power_low_w, point.power_w, point.power_high_w))
        series.add_levels("predicted_energy_joules", labels, (point.energy_low_j, point.energy_j, point.energy_high_j))
    if quality is not None:
        series.add("power_error_ratio", key, quality.median_error)
        series.add("power_coverage_ratio", key, quality.coverage_90)
        series.add("power_source_ratio", [*key, "measured"], quality.measured)
        series.add("power_source_ratio", [*key, "estimated"], quality.estimated)


def _add_alerts(series: MetricSeries, alerts: Sequence[Alert]) -> None:
    counts: Counter[tuple[str, ...]] = Counter((alert.kind, alert.severity, alert.status) for alert in alerts)
    for labels in product(*(label.values for label in ALERTS[0].labels)):
        series.add("alerts", labels, counts[labels])
    posted = (posted_labels(alert) for alert in alerts if alert.status == "firing")
    firing = Counter(tuple(labels.get(name, "") for name in ALERTS[1].label_names) for labels in posted)
    worst_first = sorted(firing, key=lambda labels: (-SEVERITIES.index(labels[2]), labels))
    for labels in worst_first[:FIRING_MAX]:
        series.add("alert_firing", labels, firing[labels])


def spread(curve: Sequence[CurvePoint], sizes_max: int) -> Sequence[CurvePoint]:
    """Return at most `sizes_max` points of a curve: the first and last point, and evenly spaced points between them."""
    if len(curve) <= sizes_max:
        return curve
    last = len(curve) - 1
    return [curve[round(index * last / max(sizes_max - 1, 1))] for index in range(sizes_max)]


def _size(n: float) -> str:
    """Return a size as a label value; whole numbers have no decimal point or exponent, so that a series keeps its name."""
    return str(int(n)) if n == int(n) else str(n)


def _moment(text: str) -> str:
    return text.rstrip("Z")  # "...:00" sorts before "...:00.250", but "...:00Z" does not


def _key(entry: Prediction) -> list[str]:
    return [entry.application, entry.system, entry.input, entry.unit]


PARTITIONS_MAX: Final = 64  # maximum partitions with their own series, chosen by number of jobs
HOUR_MS: Final = 3_600_000
Place = tuple[str, str]  # system and partition name


class JobCollector(SeriesCollector):
    """Exports running jobs by system and partition; partitions beyond `partitions_max` are summed up as "other".

    `now_ms` returns the present in event time. Number of series: at most 7 * (`partitions_max` + 1).
    """

    declared = JOBS

    def __init__(self, service: Service, now_ms: Callable[[], int], partitions_max: int = PARTITIONS_MAX) -> None:
        super().__init__(service)
        self._now_ms, self._partitions_max = now_ms, partitions_max

    def fill(self, series: MetricSeries) -> None:
        now_ms = self._now_ms()
        for place, jobs in by_partition(self._service.running(), self._partitions_max).items():
            predicted = sum(job.known for job in jobs)
            series.add("running_jobs", [*place, "predicted"], predicted)
            series.add("running_jobs", [*place, "unknown"], len(jobs) - predicted)
            hit_limit = sum(hits(job.probability_exceeds_limit, session=job.session) for job in jobs)
            series.add("running_jobs_hit_limit", place, hit_limit)
            series.add("running_nodes", place, sum(job.nodes or 0 for job in jobs))
            # nodes of a job without a predicted end are not counted as free
            left = [(parse_rfc3339(job.end) - now_ms, job.nodes or 0) for job in jobs if job.end is not None]
            for within in WITHIN:
                within_ms = int(within.removesuffix("h")) * HOUR_MS
                free = sum(nodes for left_ms, nodes in left if left_ms <= within_ms)
                series.add("running_nodes_free", [*place, within], free)


def by_partition(jobs: Sequence[RunningJob], partitions_max: int) -> dict[Place, list[RunningJob]]:
    """Return the jobs by system and partition; beyond `partitions_max`, the partitions with the fewest jobs are merged."""
    counts = Counter(map(_place, jobs))
    largest = set(sorted(counts, key=lambda place: (-counts[place], place))[:partitions_max])
    return grouped(sorted(jobs, key=_place), lambda job: _place(job) if _place(job) in largest else (OTHER, OTHER))


def _place(job: RunningJob) -> Place:
    return job.system, job.partition or ""
