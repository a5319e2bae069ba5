"""Predictions and alerts as metrics, bounded in applications and sizes; what is stale or gone has no series."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Final

import msgspec
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processors.contracts.load import LoadQuality
from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.outputs import Alert, CurvePoint, FeatureModel, Prediction, ProfileModel, RunningJob, hits
from processors.contracts.service import Service
from sinks.prometheus.registry import gauge
from sinks.prometheus.table import (
    ALERTS,
    FEATURE_KINDS,
    FEATURES,
    JOBS,
    OTHER,
    POWER,
    PREDICTIONS,
    SEVERITIES,
    SUBJECT,
    TARGETS,
    UNDER_LOAD,
    USEFUL,
    WITHIN,
)

APPLICATIONS_MAX: Final = 500
SIZES_MAX: Final = 16
DETAILED_MAX: Final = 100  # applications whose members, load, power and counters are shown
MEMBERS_MAX: Final = 16  # of one application
COUNTERS_MAX: Final = 8  # of one target
FEATURES_MAX: Final = 8  # of one kind of features
NAME_MAX: Final = (
    128  # characters of a counter or feature: what is longer is left out, a part of it would be another's name
)
FIRING_MAX: Final = 200  # series of firing alerts: the worst ones
PUBLISHED: Final = "published"  # in the place of a member: what was predicted
_QUANTILES: Final = ("0.05", "0.5", "0.95")


class PredictionCollector(Collector):
    """The latest predictions of the applications that changed last, and the alerts.

    `now_ms` gives the present in the time that the predictions live in: a prediction past its `valid_until` leaves.
    Where runs fell, run times under load, power, what counters explain and, with `members`, the laws of run time are shown of the
    applications with the most runs. Series: at most `applications_max` times (3 `sizes_max` + 14), and `detailed_max` times (6 `sizes_max` + 322):
    16 weights, errors at four horizons of 16 members and of what was published, 48 of where runs fell, 28 under load, 94 of
    profiles, and 68 of features. With the defaults these are 31 000 and 42 000; 200 firing alerts come on top.
    """

    def __init__(
        self,
        service: Service,
        now_ms: Callable[[], int],
        applications_max: int = APPLICATIONS_MAX,
        sizes_max: int = SIZES_MAX,
        detailed_max: int = DETAILED_MAX,
        *,
        members: bool = False,
    ) -> None:
        self._service, self._now_ms = service, now_ms
        self._applications_max, self._sizes_max = applications_max, sizes_max
        self._detailed_max, self._members = detailed_max, members

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples: registration must not ask the service."""
        return Series().families.values()

    def collect(self) -> Iterator[Metric]:
        """Yield the families with samples."""
        known = self._service.predictions()
        now = _moment(rfc3339(self._now_ms()))
        valid = [entry for entry in known if entry.valid_until is None or _moment(entry.valid_until) > now]
        shown = heapq.nlargest(self._applications_max, valid, key=lambda entry: _moment(entry.time))
        series = Series()
        for entry in shown:
            series.add_prediction(entry, spread(entry.curve, self._sizes_max))
        for entry in heapq.nlargest(self._detailed_max, shown, key=lambda entry: (entry.observations, _key(entry))):
            series.add_study(entry)
            if self._members:
                series.add_members(entry)
            series.add_probabilities(entry)
            series.add_load(entry)
            series.add_power(entry, spread(entry.curve, self._sizes_max))
            series.add_features(entry)
        counts = {"shown": len(shown), "left_out": len(valid) - len(shown), "stale": len(known) - len(valid)}
        for label, count in counts.items():
            series.add("applications", [label], count)
        series.add_alerts(self._service.alerts())
        yield from series.families.values()


class Series:
    """The families of predictions and alerts, which are filled with samples; a figure that is not known has none."""

    def __init__(self) -> None:
        declared = (*PREDICTIONS, *UNDER_LOAD, *POWER, *FEATURES)
        self.families: dict[str, GaugeMetricFamily] = {declaration.name: gauge(declaration) for declaration in declared}

    def add(self, name: str, labels: Sequence[str], value: float | None) -> None:
        """Add a sample to the family `scalewatch_NAME`."""
        if value is not None:
            self.families[f"scalewatch_{name}"].add_metric(labels, value)

    def add_prediction(self, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
        """Add the curve of an application, its useful sizes, and how good its predictions were."""
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

    def add_study(self, entry: Prediction) -> None:
        """Add what ADEPT's study measured."""
        if entry.model.study is not None:
            self.add("fluctuation_ratio_max", _key(entry), entry.model.study.fluctuation_ratio_max)

    def add_members(self, entry: Prediction) -> None:
        """Add weights and errors of the members of the model, and the errors of what was published."""
        key, members = _key(entry), entry.model.members[:MEMBERS_MAX]
        for member in members:
            if member.role == "part":
                self.add("member_weight", [*key, member.name], member.weight)
        for name, errors in (*((member.name, member.errors) for member in members), (PUBLISHED, entry.model.errors)):
            for part in errors:
                self.add("member_error_ratio", [*key, name, part.horizon], part.error)

    def add_probabilities(self, entry: Prediction) -> None:
        """Add where runs fell in the published distributions, and the losses of the bands' ends, by horizon."""
        key = _key(entry)
        for part in entry.quality.horizons:
            for number, value in enumerate(part.pit, 1):
                self.add("prediction_pit_ratio", [*key, part.horizon, str(number)], value)
            for end, loss in (("low", part.pinball_05), ("high", part.pinball_95)):
                self.add("prediction_pinball_ratio", [*key, part.horizon, end], loss)

    def add_load(self, entry: Prediction) -> None:
        """Add the run time under load, and how good it has been, where the prediction has one."""
        load, key = entry.under_load, _key(entry)
        if load is None:
            return
        self._add_band("under_load_run_time_seconds", key, (load.q05_s, load.q50_s, load.q95_s))
        self.add("under_load_factor", [*key, "now"], load.load)
        self.add("under_load_factor", [*key, "usual"], load.baseline_load)
        self.add("under_load_monte_carlo_gap_ratio", key, load.monte_carlo_gap)
        if load.quality is not None and load.quality.of == "application":
            self._add_load_quality(key, load.quality)

    def add_power(self, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
        """Add power and energy at the points of the curve, how good they were, and what counters explain."""
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
        for target, model in {model.target: model for model in entry.profiles if model.target in TARGETS}.items():
            self._add_profile([*key, target], model)

    def add_features(self, entry: Prediction) -> None:
        """Add how good features of runs were, how well they order runs, and which of them matter."""
        for kind, model in {
            model.features: model for model in entry.features if model.features in FEATURE_KINDS
        }.items():
            self._add_feature_model([*_key(entry), kind], model)

    def add_alerts(self, alerts: Sequence[Alert]) -> None:
        """Add how many alerts there are of each kind, and the firing ones by subject, the worst first."""
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

    def _add_load_quality(self, key: Sequence[str], quality: LoadQuality) -> None:
        self.add("under_load_in_range_ratio", key, quality.in_range)
        self.add("under_load_crps_ratio", key, quality.crps_ratio)
        for kind, shares in (("observed", quality.hits), ("expected", quality.expected)):
            for number, value in enumerate(shares, 1):
                self.add("under_load_interval_ratio", [*key, str(number), kind], value)
        for number, value in enumerate(quality.pit, 1):
            self.add("under_load_pit_ratio", [*key, str(number)], value)

    def _add_profile(self, labels: Sequence[str], model: ProfileModel) -> None:
        self.add("profile_error_ratio", labels, model.median_error)
        self.add("profile_coverage_ratio", labels, model.coverage_90)
        named = {
            each.counter: each for each in reversed(model.explained[:COUNTERS_MAX]) if len(each.counter) <= NAME_MAX
        }
        for counter, each in named.items():
            self.add("profile_correlation", [*labels, counter], each.rho)
            self.add("profile_coefficient", [*labels, counter], each.standardised)

    def _add_feature_model(self, labels: Sequence[str], model: FeatureModel) -> None:
        for of, error in (("features", model.error), ("curve", model.curve_error), ("both", model.combined_error)):
            self.add("feature_error_ratio", [*labels, of], error)
        self.add("feature_weight_ratio", labels, model.weight)
        self.add("feature_coverage_ratio", labels, model.coverage_90)
        for ties, order in (("first", model.rcc), ("half", model.rcc_symmetric)):
            self.add("feature_rank_correlation", [*labels, ties], order)
        self.add("feature_r_squared", labels, model.r_squared)
        named = [name for name in model.importances if len(name) <= NAME_MAX]
        for name in heapq.nsmallest(FEATURES_MAX, named, key=lambda name: (-model.importances[name], name)):
            self.add("feature_importance_ratio", [*labels, name], model.importances[name])


def spread(curve: Sequence[CurvePoint], sizes_max: int) -> Sequence[CurvePoint]:
    """Return at most `sizes_max` points, both ends included and the others evenly between."""
    if len(curve) <= sizes_max:
        return curve
    last = len(curve) - 1
    return [curve[round(index * last / max(sizes_max - 1, 1))] for index in range(sizes_max)]


def _size(n: float) -> str:
    """Return a size as a label: whole numbers without a point or exponent, so that a series keeps its name."""
    return str(int(n)) if n == int(n) else str(n)


def _moment(text: str) -> str:
    return text.rstrip("Z")  # "...:00" sorts before "...:00.250", with the Z it would not


def _key(entry: Prediction) -> list[str]:
    return [entry.application, entry.system, entry.input, entry.unit]


def _subject(alert: Alert) -> tuple[str, ...]:
    return tuple(alert.labels.get(label.name, "") for label in SUBJECT)


PARTITIONS_MAX: Final = 64  # with series of their own: those with the most jobs
HOUR_MS: Final = 3_600_000
Place = tuple[str, str]  # system and partition
_WITHIN_MS: Final = tuple((label, int(label.removesuffix("h")) * HOUR_MS) for label in WITHIN)


class Running(msgspec.Struct):
    """The running jobs of a partition; `free` counts nodes of theirs that will be free by each of WITHIN."""

    predicted: int = 0
    unknown: int = 0
    hit_limit: int = 0
    nodes: int = 0
    free: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(WITHIN, 0))

    def add(self, job: RunningJob, now_ms: int) -> None:
        """Take a job in. One without a predicted end frees no node that anybody could plan with."""
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
    """Running jobs by system and partition; series: at most 7 times `partitions_max` + 1, whatever does not fit is "other".

    `now_ms` gives the present in the time that the jobs live in.
    """

    def __init__(self, service: Service, now_ms: Callable[[], int], partitions_max: int = PARTITIONS_MAX) -> None:
        self._service, self._now_ms, self._partitions_max = service, now_ms, partitions_max

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples: registration must not ask the service."""
        return [gauge(declaration) for declaration in JOBS]

    def collect(self) -> Iterator[Metric]:
        """Yield the families with samples."""
        jobs, families = self._service.running(), {entry.name: gauge(entry) for entry in JOBS}
        for place, running in by_partition(jobs, self._now_ms(), self._partitions_max).items():
            add(families, place, running)
        yield from families.values()


def by_partition(jobs: Sequence[RunningJob], now_ms: int, partitions_max: int) -> dict[Place, Running]:
    """Return what runs in each partition; those with the fewest jobs are one where there are too many."""
    found: dict[Place, list[RunningJob]] = {}
    for job in jobs:
        found.setdefault((job.system, job.partition or ""), []).append(job)
    largest = sorted(found, key=lambda place: (-len(found[place]), place))[:partitions_max]
    shown: dict[Place, Running] = {}
    for place, own in sorted(found.items()):
        running = shown.setdefault(place if place in largest else (OTHER, OTHER), Running())
        for job in own:
            running.add(job, now_ms)
    return shown


def add(families: dict[str, GaugeMetricFamily], place: Place, running: Running) -> None:
    """Add the samples of a partition."""
    families["scalewatch_running_jobs"].add_metric([*place, "predicted"], running.predicted)
    families["scalewatch_running_jobs"].add_metric([*place, "unknown"], running.unknown)
    families["scalewatch_running_jobs_hit_limit"].add_metric(place, running.hit_limit)
    families["scalewatch_running_nodes"].add_metric(place, running.nodes)
    for label, nodes in running.free.items():
        families["scalewatch_running_nodes_free"].add_metric([*place, label], nodes)
