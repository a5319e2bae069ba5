"""Metrics of predictions, alerts and running jobs, with a bounded number of series."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Final

import msgspec
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.outputs import Alert, CurvePoint, Prediction
from processors.contracts.running import RunningJob, hits
from processors.contracts.service import Service
from sinks.prometheus.registry import gauge
from sinks.prometheus.table import (
    ALERTS,
    JOBS,
    OTHER,
    POWER,
    PREDICTIONS,
    SEVERITIES,
    SUBJECT,
    UNDER_LOAD,
    USEFUL,
    WITHIN,
)

APPLICATIONS_MAX: Final = 500
SIZES_MAX: Final = 16
DETAILED_MAX: Final = 100  # applications with series for load, power and energy
FIRING_MAX: Final = 200  # series of firing alerts, most severe first
_QUANTILES: Final = ("0.05", "0.5", "0.95")


class PredictionCollector(Collector):
    """Exports the latest predictions of the most recently changed applications, and the alerts.

    `now_ms` returns the present in event time; predictions past their `valid_until` are not exported. Run time under load,
    power and energy are exported only for the `detailed_max` applications with the most runs. Number of series: at most
    `applications_max` * (3 `sizes_max` + 19) + `detailed_max` * (6 `sizes_max` + 10), about 45 000 with the defaults, and 200 alerts.
    """

    def __init__(
        self,
        service: Service,
        now_ms: Callable[[], int],
        applications_max: int = APPLICATIONS_MAX,
        sizes_max: int = SIZES_MAX,
        detailed_max: int = DETAILED_MAX,
    ) -> None:
        self._service, self._now_ms = service, now_ms
        self._applications_max, self._sizes_max = applications_max, sizes_max
        self._detailed_max = detailed_max

    def describe(self) -> Iterable[Metric]:
        return Series().families.values()

    def collect(self) -> Iterator[Metric]:
        predictions = self._service.predictions()
        now = _moment(rfc3339(self._now_ms()))
        valid = [entry for entry in predictions if entry.valid_until is None or _moment(entry.valid_until) > now]
        shown = heapq.nlargest(self._applications_max, valid, key=lambda entry: _moment(entry.time))
        series = Series()
        for entry in shown:
            series.add_prediction(entry, spread(entry.curve, self._sizes_max))
        for entry in heapq.nlargest(self._detailed_max, shown, key=lambda entry: (entry.observations, _key(entry))):
            series.add_load(entry)
            series.add_power(entry, spread(entry.curve, self._sizes_max))
        counts = {"shown": len(shown), "left_out": len(valid) - len(shown), "stale": len(predictions) - len(valid)}
        for label, count in counts.items():
            series.add("applications", [label], count)
        series.add_alerts(self._service.alerts())
        yield from series.families.values()


class Series:
    """Metric families of predictions and alerts; unknown values get no sample."""

    def __init__(self) -> None:
        declared = (*PREDICTIONS, *UNDER_LOAD, *POWER)
        self.families: dict[str, GaugeMetricFamily] = {declaration.name: gauge(declaration) for declaration in declared}

    def add(self, name: str, labels: Sequence[str], value: float | None) -> None:
        """Add a sample to the family `scalewatch_NAME`."""
        if value is not None:
            self.families[f"scalewatch_{name}"].add_metric(labels, value)

    def add_prediction(self, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
        key, useful = _key(entry), entry.useful_n
        for point in curve:
            self._add_band(
                "predicted_run_time_seconds", [*key, _size(point.n)], (point.low_s, point.run_time_s, point.high_s)
            )
        self.add("prediction_coverage_ratio", key, entry.quality.coverage_90)
        self.add("prediction_error_ratio", key, entry.quality.median_error)
        self.add("prediction_runs", [*key, "learned"], entry.observations)
        self.add("prediction_runs", [*key, "scored"], entry.quality.scored)
        self.add("reliability", [*key, entry.reliability.verdict], 1.0)
        sizes = (
            useful.max,
            useful.knee,
            useful.at_half_efficiency,
            useful.least_energy,
            useful.least_energy_delay,
            useful.slower_beyond,
        )
        for name, n in zip(USEFUL, sizes, strict=True):
            self.add("useful_size", [*key, name], n)
        for part in entry.quality.horizons:
            self.add("prediction_horizon_coverage_ratio", [*key, part.horizon], part.coverage_90)
            self.add("prediction_horizon_runs", [*key, part.horizon], part.scored)

    def add_load(self, entry: Prediction) -> None:
        load, key = entry.under_load, _key(entry)
        if load is None:
            return
        self._add_band("under_load_run_time_seconds", key, (load.q05_s, load.q50_s, load.q95_s))
        self.add("under_load_factor", [*key, "now"], load.load)
        self.add("under_load_factor", [*key, "usual"], load.baseline_load)
        if load.quality is not None and load.quality.of == "application":
            self.add("under_load_in_range_ratio", key, load.quality.in_range)

    def add_power(self, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
        key = _key(entry)
        for point in curve:
            labels = [*key, _size(point.n)]
            self._add_band("predicted_power_watts", labels, (point.power_low_w, point.power_w, point.power_high_w))
            self._add_band("predicted_energy_joules", labels, (point.energy_low_j, point.energy_j, point.energy_high_j))
        if entry.power is not None:
            self.add("power_error_ratio", key, entry.power.median_error)
            self.add("power_coverage_ratio", key, entry.power.coverage_90)
            self.add("power_source_ratio", [*key, "measured"], entry.power.measured)
            self.add("power_source_ratio", [*key, "estimated"], entry.power.estimated)

    def add_alerts(self, alerts: Sequence[Alert]) -> None:
        counts: Counter[tuple[str, ...]] = Counter((alert.kind, alert.severity, alert.status) for alert in alerts)
        for labels in product(*(label.values for label in ALERTS[0].labels)):
            self.add("alerts", labels, counts[labels])
        firing = Counter(
            (alert.labels.get("alertname", ""), alert.kind, alert.severity, *_subject(alert))
            for alert in alerts
            if alert.status == "firing"
        )
        worst_first = sorted(firing, key=lambda labels: (-SEVERITIES.index(labels[2]), labels))
        for labels in worst_first[:FIRING_MAX]:
            self.add("alert_firing", labels, firing[labels])

    def _add_band(self, name: str, labels: Sequence[str], ends: Sequence[float | None]) -> None:
        for quantile, value in zip(_QUANTILES, ends, strict=True):
            self.add(name, [*labels, quantile], value)


def spread(curve: Sequence[CurvePoint], sizes_max: int) -> Sequence[CurvePoint]:
    """Return at most `sizes_max` points of a curve: both ends and evenly spaced points between them."""
    if len(curve) <= sizes_max:
        return curve
    last = len(curve) - 1
    return [curve[round(index * last / max(sizes_max - 1, 1))] for index in range(sizes_max)]


def _size(n: float) -> str:
    """Return a size as a label value, whole numbers without a decimal point or exponent, so that a series keeps its name."""
    return str(int(n)) if n == int(n) else str(n)


def _moment(text: str) -> str:
    return text.rstrip("Z")  # "...:00" sorts before "...:00.250", with the Z it would not


def _key(entry: Prediction) -> list[str]:
    return [entry.application, entry.system, entry.input, entry.unit]


def _subject(alert: Alert) -> tuple[str, ...]:
    return tuple(alert.labels.get(label.name, "") for label in SUBJECT)


PARTITIONS_MAX: Final = 64  # partitions with their own series: those with the most jobs
HOUR_MS: Final = 3_600_000
Place = tuple[str, str]  # system and partition
_WITHIN_MS: Final = tuple((label, int(label.removesuffix("h")) * HOUR_MS) for label in WITHIN)


class Running(msgspec.Struct):
    """Totals of the running jobs of a partition; `free` counts their nodes that will be free within each time of WITHIN."""

    predicted: int = 0
    unknown: int = 0
    hit_limit: int = 0
    nodes: int = 0
    free: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(WITHIN, 0))

    def add(self, job: RunningJob, now_ms: int) -> None:
        """Add a job; without a predicted end, its nodes are not counted as free."""
        nodes = job.nodes or 0
        self.predicted += job.known
        self.unknown += not job.known
        self.hit_limit += hits(job.probability_exceeds_limit, session=job.session)
        self.nodes += nodes
        if job.end is not None:
            left_ms = parse_rfc3339(job.end) - now_ms
            for label, within_ms in _WITHIN_MS:
                self.free[label] += nodes if left_ms <= within_ms else 0


class JobCollector(Collector):
    """Exports running jobs by system and partition; partitions beyond `partitions_max` are summed up as "other".

    `now_ms` returns the present in event time. Number of series: at most 7 * (`partitions_max` + 1).
    """

    def __init__(self, service: Service, now_ms: Callable[[], int], partitions_max: int = PARTITIONS_MAX) -> None:
        self._service, self._now_ms, self._partitions_max = service, now_ms, partitions_max

    def describe(self) -> Iterable[Metric]:
        return [gauge(declaration) for declaration in JOBS]

    def collect(self) -> Iterator[Metric]:
        jobs, families = self._service.running(), {entry.name: gauge(entry) for entry in JOBS}
        for place, running in by_partition(jobs, self._now_ms(), self._partitions_max).items():
            add(families, place, running)
        yield from families.values()


def by_partition(jobs: Sequence[RunningJob], now_ms: int, partitions_max: int) -> dict[Place, Running]:
    """Return the totals by partition; beyond `partitions_max`, the partitions with the fewest jobs are joined."""
    by_place: dict[Place, list[RunningJob]] = {}
    for job in jobs:
        by_place.setdefault((job.system, job.partition or ""), []).append(job)
    largest = sorted(by_place, key=lambda place: (-len(by_place[place]), place))[:partitions_max]
    shown: dict[Place, Running] = {}
    for place, place_jobs in sorted(by_place.items()):
        running = shown.setdefault(place if place in largest else (OTHER, OTHER), Running())
        for job in place_jobs:
            running.add(job, now_ms)
    return shown


def add(families: dict[str, GaugeMetricFamily], place: Place, running: Running) -> None:
    families["scalewatch_running_jobs"].add_metric([*place, "predicted"], running.predicted)
    families["scalewatch_running_jobs"].add_metric([*place, "unknown"], running.unknown)
    families["scalewatch_running_jobs_hit_limit"].add_metric(place, running.hit_limit)
    families["scalewatch_running_nodes"].add_metric(place, running.nodes)
    for label, nodes in running.free.items():
        families["scalewatch_running_nodes_free"].add_metric([*place, label], nodes)
