"""Metrics of predictions, alerts and running jobs, with a bounded number of series."""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.outputs import Alert, CurvePoint, Prediction
from processors.contracts.service import RunningJob, Service, hits
from sinks.prometheus.registry import Series, SeriesCollector
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


class PredictionCollector(SeriesCollector):
    """Exports the latest predictions of the most recently changed applications, and the alerts.

    `now_ms` returns the present in event time; predictions past their `valid_until` are not exported. Run time under load,
    power and energy are exported only for the `detailed_max` applications with the most runs. Number of series: at most
    `applications_max` * (3 `sizes_max` + 19) + `detailed_max` * (6 `sizes_max` + 10), about 45 000 with the defaults, and 200 alerts.
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

    def fill(self, series: Series) -> None:
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


def _add_prediction(series: Series, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
    key, useful, quality = _key(entry), entry.useful_n, entry.quality
    for point in curve:
        run_times_s = (point.low_s, point.run_time_s, point.high_s)
        series.add_levels("predicted_run_time_seconds", [*key, _size(point.n)], run_times_s)
    series.add("prediction_coverage_ratio", key, quality.coverage_90)
    series.add("prediction_error_ratio", key, quality.median_error)
    series.add("prediction_runs", [*key, "learned"], entry.observations)
    series.add("prediction_runs", [*key, "scored"], quality.scored)
    series.add("reliability", [*key, entry.reliability.verdict], 1.0)
    sizes = (
        useful.max,
        useful.knee,
        useful.at_half_efficiency,
        useful.least_energy,
        useful.least_energy_delay,
        useful.slower_beyond,
    )
    for criterion, n in zip(USEFUL, sizes, strict=True):
        series.add("useful_size", [*key, criterion], n)
    for part in quality.horizons:
        series.add("prediction_horizon_coverage_ratio", [*key, part.horizon], part.coverage_90)
        series.add("prediction_horizon_runs", [*key, part.horizon], part.scored)


def _add_load(series: Series, entry: Prediction) -> None:
    load, key = entry.under_load, _key(entry)
    if load is None:
        return
    series.add_levels("under_load_run_time_seconds", key, (load.q05_s, load.q50_s, load.q95_s))
    series.add("under_load_factor", [*key, "now"], load.load)
    series.add("under_load_factor", [*key, "usual"], load.baseline_load)
    if load.quality is not None and load.quality.of == "application":
        series.add("under_load_in_range_ratio", key, load.quality.in_range)


def _add_power(series: Series, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
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


def _add_alerts(series: Series, alerts: Sequence[Alert]) -> None:
    counts: Counter[tuple[str, ...]] = Counter((alert.kind, alert.severity, alert.status) for alert in alerts)
    for labels in product(*(label.values for label in ALERTS[0].labels)):
        series.add("alerts", labels, counts[labels])
    subjects = [label.name for label in SUBJECT]
    firing = Counter(
        (
            alert.labels.get("alertname", ""),
            alert.kind,
            alert.severity,
            *(alert.labels.get(name, "") for name in subjects),
        )
        for alert in alerts
        if alert.status == "firing"
    )
    worst_first = sorted(firing, key=lambda labels: (-SEVERITIES.index(labels[2]), labels))
    for labels in worst_first[:FIRING_MAX]:
        series.add("alert_firing", labels, firing[labels])


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


PARTITIONS_MAX: Final = 64  # partitions with their own series: those with the most jobs
HOUR_MS: Final = 3_600_000
Place = tuple[str, str]  # system and partition


class JobCollector(SeriesCollector):
    """Exports running jobs by system and partition; partitions beyond `partitions_max` are summed up as "other".

    `now_ms` returns the present in event time. Number of series: at most 7 * (`partitions_max` + 1).
    """

    declared = JOBS

    def __init__(self, service: Service, now_ms: Callable[[], int], partitions_max: int = PARTITIONS_MAX) -> None:
        super().__init__(service)
        self._now_ms, self._partitions_max = now_ms, partitions_max

    def fill(self, series: Series) -> None:
        now_ms = self._now_ms()
        for place, jobs in by_partition(self._service.running(), self._partitions_max).items():
            predicted = sum(job.known for job in jobs)
            series.add("running_jobs", [*place, "predicted"], predicted)
            series.add("running_jobs", [*place, "unknown"], len(jobs) - predicted)
            hit_limit = sum(hits(job.probability_exceeds_limit, session=job.session) for job in jobs)
            series.add("running_jobs_hit_limit", place, hit_limit)
            series.add("running_nodes", place, sum(job.nodes or 0 for job in jobs))
            # the nodes of a job without a predicted end are not counted as free
            left = [(parse_rfc3339(job.end) - now_ms, job.nodes or 0) for job in jobs if job.end is not None]
            for within in WITHIN:
                within_ms = int(within.removesuffix("h")) * HOUR_MS
                free = sum(nodes for left_ms, nodes in left if left_ms <= within_ms)
                series.add("running_nodes_free", [*place, within], free)


def by_partition(jobs: Sequence[RunningJob], partitions_max: int) -> dict[Place, list[RunningJob]]:
    """Return the jobs by system and partition; beyond `partitions_max`, the partitions with the fewest jobs are joined."""
    counts = Counter((job.system, job.partition or "") for job in jobs)
    largest = set(sorted(counts, key=lambda place: (-counts[place], place))[:partitions_max])
    by_place: dict[Place, list[RunningJob]] = {}
    for job in sorted(jobs, key=lambda job: (job.system, job.partition or "")):
        place = (job.system, job.partition or "")
        by_place.setdefault(place if place in largest else (OTHER, OTHER), []).append(job)
    return by_place
