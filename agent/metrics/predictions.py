"""Predictions and alerts as metrics, bounded in applications and sizes; what is stale or gone has no series."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.contracts.moments import rfc3339
from agent.contracts.outputs import Alert, Prediction
from agent.contracts.service import Latest
from agent.metrics import power, under_load
from agent.metrics.alert_table import ALERTS, SEVERITIES, SUBJECT
from agent.metrics.scrape import gauge
from agent.metrics.sizes import size_text, spread
from agent.metrics.table import PREDICTIONS

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

    >>> class Silent:
    ...     def predictions(self): return []
    ...     def alerts(self): return []
    >>> collector = PredictionCollector(Silent(), lambda: 0)
    >>> sum(sample.value for metric in collector.collect() for sample in metric.samples)
    0
    """

    def __init__(
        self,
        service: Latest,
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
        beside = (*under_load.families().values(), *power.families().values())
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
        loaded, powers = under_load.families(), power.families()
        for entry in heapq.nlargest(self._detailed_max, shown, key=lambda entry: (entry.observations, _key(entry))):
            _add_members(families, entry)
            under_load.add(loaded, entry)
            power.add(powers, entry, spread(entry.curve, self._sizes_max))
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
