"""Predictions and alerts as metrics, bounded in applications and sizes; what is stale or gone has no series."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processors.contracts.load import LoadQuality, UnderLoad
from processors.contracts.names import rfc3339
from processors.contracts.outputs import Alert, CurvePoint, Prediction, ProfileModel
from processors.contracts.service import Service
from sinks.prometheus.registry import gauge
from sinks.prometheus.table import ALERTS, POWER, PREDICTIONS, SEVERITIES, SUBJECT, TARGETS, UNDER_LOAD

# Sizes as labels, and how many of a curve are shown.


def size_text(n: float) -> str:
    """Return a size as a label: whole numbers without a point or exponent, so that a series keeps its name."""
    return str(int(n)) if n == int(n) else str(n)


def spread(curve: Sequence[CurvePoint], sizes_max: int) -> Sequence[CurvePoint]:
    """Return at most `sizes_max` points, both ends included and the others evenly between."""
    if len(curve) <= sizes_max:
        return curve
    last = len(curve) - 1
    return [curve[round(index * last / max(sizes_max - 1, 1))] for index in range(sizes_max)]


# Power, energy and what counters explain as metrics: of the applications with the most runs.


COUNTERS_MAX: Final = 8  # of one target
NAME_MAX: Final = 128  # characters of a counter: what is longer is left out, a part of it would be another's name
POWER_SERIES_MAX: Final = 4 + len(TARGETS) * (2 + 2 * COUNTERS_MAX)  # of one application, besides its curve
Families = dict[str, GaugeMetricFamily]


def power_families() -> Families:
    """Return the families without samples."""
    return {declaration.name: gauge(declaration) for declaration in POWER}


def add_power(found: Families, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
    """Add the series of an application: power and energy at the points of `curve`, and of its models."""
    key = [entry.application, entry.system, entry.input, entry.unit]
    for point in curve:
        _add_point(found, key, point)
    if entry.power is not None:
        for name, extra, figure in (
            ("scalewatch_power_error_ratio", [], entry.power.median_error),
            ("scalewatch_power_coverage_ratio", [], entry.power.coverage_90),
            ("scalewatch_power_host_minutes_ratio", ["measured"], entry.power.measured),
            ("scalewatch_power_host_minutes_ratio", ["estimated"], entry.power.estimated),
        ):
            if figure is not None:
                found[name].add_metric([*key, *extra], figure)
    for target, model in {model.target: model for model in entry.profiles if model.target in TARGETS}.items():
        _add_model(found, [*key, target], model)


def _add_point(found: Families, key: list[str], point: CurvePoint) -> None:
    powers = (point.power_low_w, point.power_w, point.power_high_w)
    energies = (point.energy_low_j, point.energy_j, point.energy_high_j)
    for name, ends in (("scalewatch_predicted_power_watts", powers), ("scalewatch_predicted_energy_joules", energies)):
        for quantile, value in zip(("0.05", "0.5", "0.95"), ends, strict=True):
            if value is not None:
                found[name].add_metric([*key, size_text(point.n), quantile], value)


def _add_model(found: Families, labels: list[str], model: ProfileModel) -> None:
    for name, figure in (
        ("scalewatch_profile_error_ratio", model.median_error),
        ("scalewatch_profile_coverage_ratio", model.coverage_90),
    ):
        if figure is not None:
            found[name].add_metric(labels, figure)
    named = {each.counter: each for each in reversed(model.explained[:COUNTERS_MAX]) if len(each.counter) <= NAME_MAX}
    for counter, each in named.items():
        found["scalewatch_profile_counter_correlation"].add_metric([*labels, counter], each.rho)
        found["scalewatch_profile_counter_coefficient"].add_metric([*labels, counter], each.standardised)


# Run times under the load of hosts as metrics, and how good they have been: of the applications with the most runs.


LOAD_SERIES_MAX: Final = 28  # of one application: 3 quantiles, 2 loads, and 23 of its quality


def load_families() -> Families:
    """Return the families without samples."""
    return {declaration.name: gauge(declaration) for declaration in UNDER_LOAD}


def add_load(found: Families, entry: Prediction) -> None:
    """Add the series of an application, where its prediction has a run time under load."""
    said = entry.under_load
    if said is None:
        return
    key = [entry.application, entry.system, entry.input, entry.unit]
    _add_figures(found, key, said)
    if said.quality is not None and said.quality.of == "application":
        _add_quality(found, key, said.quality)


def _add_figures(found: Families, key: list[str], said: UnderLoad) -> None:
    for name, extra, value in (
        ("scalewatch_under_load_run_time_seconds", "0.05", said.q05_s),
        ("scalewatch_under_load_run_time_seconds", "0.5", said.q50_s),
        ("scalewatch_under_load_run_time_seconds", "0.95", said.q95_s),
        ("scalewatch_under_load_factor", "now", said.load),
        ("scalewatch_under_load_factor", "usual", said.usual_load),
    ):
        if value is not None:
            found[name].add_metric([*key, extra], value)
    if said.monte_carlo_gap is not None:
        found["scalewatch_under_load_monte_carlo_gap_ratio"].add_metric(key, said.monte_carlo_gap)


def _add_quality(found: Families, key: list[str], quality: LoadQuality) -> None:
    found["scalewatch_under_load_in_range_ratio"].add_metric(key, quality.in_range)
    if quality.crps_ratio is not None:
        found["scalewatch_under_load_crps_ratio"].add_metric(key, quality.crps_ratio)
    for kind, shares in (("observed", quality.hits), ("expected", quality.expected)):
        for number, value in enumerate(shares, 1):
            found["scalewatch_under_load_interval_ratio"].add_metric([*key, str(number), kind], value)
    for number, value in enumerate(quality.pit, 1):
        found["scalewatch_under_load_pit_ratio"].add_metric([*key, str(number)], value)


APPLICATIONS_MAX: Final = 500
SIZES_MAX: Final = 16
DETAILED_MAX: Final = 100  # applications whose members are shown
MEMBERS_MAX: Final = 16  # of one application
FIRING_MAX: Final = 200  # series of firing alerts: the worst ones
PUBLISHED: Final = "published"  # in the place of a member: what was told


def _moment(text: str) -> str:
    return text.rstrip("Z")  # "...:00" sorts before "...:00.250", with the Z it would not


class PredictionCollector(Collector):
    """The latest predictions of the applications that changed last, and the alerts.

    `now_ms` gives the present in the time that the predictions live in: a prediction past its `valid_until` leaves.
    Members, run times under load, power and what counters explain are shown of the applications with the most runs.
    Series: at most `applications_max` times (3 `sizes_max` + 14), and `detailed_max` times (6 `sizes_max` + 206): 16
    weights, errors at four horizons of 16 members and of what was published, 28 under load, and 94 of profiles. With the
    defaults these are 31 000 and 30 200; 200 firing alerts come on top.
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
        """Return the families without samples: registration must not ask the service."""
        beside = (*load_families().values(), *power_families().values())
        return [*(gauge(declaration) for declaration in PREDICTIONS), *beside]

    def collect(self) -> Iterator[Metric]:
        """Yield the families with samples."""
        known = self._service.predictions()
        now = _moment(rfc3339(self._now_ms()))
        valid = [entry for entry in known if entry.valid_until is None or _moment(entry.valid_until) > now]
        shown = heapq.nlargest(self._applications_max, valid, key=lambda entry: _moment(entry.time))
        families = {declaration.name: gauge(declaration) for declaration in PREDICTIONS}
        for entry in shown:
            self._add(families, entry)
        loaded, powers = load_families(), power_families()
        for entry in heapq.nlargest(self._detailed_max, shown, key=lambda entry: (entry.observations, _key(entry))):
            _add_members(families, entry)
            add_load(loaded, entry)
            add_power(powers, entry, spread(entry.curve, self._sizes_max))
        counts = {"shown": len(shown), "left_out": len(valid) - len(shown), "stale": len(known) - len(valid)}
        for label, count in counts.items():
            families["scalewatch_applications"].add_metric([label], count)
        alerts = self._service.alerts()
        _add_counts(families["scalewatch_alerts"], alerts)
        _add_firing(families["scalewatch_alert_firing"], alerts)
        yield from (*families.values(), *loaded.values(), *powers.values())

    def _add(self, families: dict[str, GaugeMetricFamily], entry: Prediction) -> None:
        key = _key(entry)
        for point in spread(entry.curve, self._sizes_max):
            for quantile, value in (("0.05", point.low_s), ("0.5", point.run_time_s), ("0.95", point.high_s)):
                labels = [*key, size_text(point.n), quantile]
                families["scalewatch_predicted_run_time_seconds"].add_metric(labels, value)
        useful = entry.useful_n
        for name, extra, figure in (
            ("scalewatch_prediction_coverage_ratio", [], entry.quality.coverage_90),
            ("scalewatch_prediction_error_ratio", [], entry.quality.median_error),
            ("scalewatch_prediction_runs", ["learned"], entry.observations),
            ("scalewatch_prediction_runs", ["scored"], entry.quality.scored),
            ("scalewatch_useful_size", ["max"], useful.max),
            ("scalewatch_useful_size", ["knee"], useful.knee),
            ("scalewatch_useful_size", ["half_efficiency"], useful.at_half_efficiency),
            ("scalewatch_useful_size", ["least_energy"], useful.least_energy),
            ("scalewatch_useful_size", ["least_energy_delay"], useful.least_energy_delay),
            ("scalewatch_reliability", [entry.reliability.verdict], 1.0),
        ):
            if figure is not None:
                families[name].add_metric([*key, *extra], figure)
        for part in entry.quality.horizons:
            families["scalewatch_prediction_horizon_coverage_ratio"].add_metric([*key, part.horizon], part.coverage_90)


def _key(entry: Prediction) -> list[str]:
    return [entry.application, entry.system, entry.input, entry.unit]


def _add_members(families: dict[str, GaugeMetricFamily], entry: Prediction) -> None:
    members = entry.model.members[:MEMBERS_MAX]
    for member in members:
        if member.role == "part":
            families["scalewatch_member_weight"].add_metric([*_key(entry), member.name], member.weight)
    for name, errors in (*((member.name, member.errors) for member in members), (PUBLISHED, entry.model.errors)):
        for part in errors:
            families["scalewatch_member_error_ratio"].add_metric([*_key(entry), name, part.horizon], part.error)


def _add_counts(metric: GaugeMetricFamily, alerts: Sequence[Alert]) -> None:
    counts: Counter[tuple[str, ...]] = Counter((alert.kind, alert.severity, alert.status) for alert in alerts)
    declared = next(entry for entry in ALERTS if entry.name == metric.name)
    for labels in product(*(label.values for label in declared.labels)):
        metric.add_metric(labels, counts[labels])


def _add_firing(metric: GaugeMetricFamily, alerts: Sequence[Alert]) -> None:
    firing = Counter(
        (alert.labels.get("alertname", ""), alert.kind, alert.severity, *_subject(alert))
        for alert in alerts
        if alert.status == "firing"
    )
    worst_first = sorted(firing, key=lambda labels: (-SEVERITIES.index(labels[2]), labels))
    for labels in worst_first[:FIRING_MAX]:
        metric.add_metric(labels, firing[labels])


def _subject(alert: Alert) -> tuple[str, ...]:
    return tuple(alert.labels.get(label.name, "") for label in SUBJECT)
