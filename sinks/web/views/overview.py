"""The overview, and code that it shares with the page of an application: order, scaling laws, and anomalies."""

import math
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from math import isfinite, log
from statistics import median
from typing import Final

import msgspec
from markupsafe import Markup

from processors.contracts.names import HORIZONS, Horizon, grouped
from processors.contracts.outputs import RELIABLE, Alert, CurvePoint, HorizonError, Member, Model, Prediction
from processors.contracts.service import RunningJob
from processors.power.by_size import INSIDE
from sinks.web.charts import drawable, sparkline
from sinks.web.formatting import attention, share, size
from sinks.web.queries import Truth, id_of
from sinks.web.views.alert_states import SEVERITIES

SCORED_MIN: Final = 10  # with fewer scored runs the bands estimate the error better
MEDIAN_OF_BAND: Final = 0.41  # ratio of the median error to the half-width of a 90 % band, for a normal distribution
GOOD: Final = 0.05
FAIR: Final = 0.15


class Trust(msgspec.Struct, frozen=True):
    """Sentences about how reliable predictions are between the sizes that were run (`inside`), and outside them (`beyond`)."""

    inside: str
    beyond: str
    inside_good: bool
    beyond_good: bool


def trust_of(entry: Prediction) -> Trust:
    error = inside_error(entry)
    word = "unknown" if error is None else "good" if error <= GOOD else "fair" if error <= FAIR else "rough"
    return Trust(
        word if error is None else f"{word}, {share(error)}",
        _beyond(entry),
        inside_good=word == "good",
        beyond_good=entry.useful_n.slower_beyond is None and entry.reliability.verdict == RELIABLE,
    )


def inside_error(entry: Prediction) -> float | None:
    """Return the relative error of predictions between the sizes that were run, estimated from the bands until it is measured."""
    scored = next((part for part in entry.quality.horizons if part.horizon == "inside"), None)
    if scored is not None and scored.scored >= SCORED_MIN:
        return scored.median_error
    widths = [
        math.log(point.high_s / point.low_s) / 2.0
        for point in entry.curve
        if point.source in INSIDE and 0 < point.low_s <= point.high_s
    ]
    return math.expm1(MEDIAN_OF_BAND * median(widths)) if widths else None


def _beyond(entry: Prediction) -> str:
    if entry.useful_n.slower_beyond is not None:
        return f"gets slower beyond {size(entry.useful_n.slower_beyond)}"
    largest = max((point.n for point in entry.curve if point.reliable), default=None)
    if entry.reliability.verdict == RELIABLE and largest is not None:
        return f"good up to {size(largest)}"
    return "unknown"


TARGET: Final = "target"  # key of evidence that names a target; the figures are then in the unit of the target
SKETCH: Final = (320, 90)  # width and height in pixels
_KEY: Final = ("application", "system", "input", "unit")
INSIDE_STUDY: Final[Horizon] = "inside"
PREDICTION: Final = "prediction"  # name of the published prediction among the laws
_MEMBERS: Final = {
    PREDICTION: "the published prediction",
    "usl": "universal scalability (Gunther)",
    "ideal": "perfect speed-up from the largest size",
    "last_two": "slope of the two largest sizes",
    "amdahl_short": "Amdahl, from the nearest sizes",
    "root_short": "growth with the square root, from the nearest sizes",
    "linear_short": "linear growth, from the nearest sizes",
    "amdahl_middle": "Amdahl, from the nearer sizes",
    "kazmina": "Kazmina and Antonov",
    "barnes_linear": "Barnes, linear",
    "barnes_quadratic": "Barnes, quadratic",
    "amdahl": "Amdahl",
    "amdahl_log": "Amdahl with logarithmic communication",
    "sup5": "five terms",
    "downey": "Downey, average of his curves",
    "adept": "ADEPT in two steps",
    "attributes": "attributes of the job",
    "communication": "communication of the run",
    "curve": "the published curve",
}


class Ranked(msgspec.Struct, frozen=True):
    """A row of the ranking of scaling laws; `weight` is None if the law is not part of the prediction, `errors` are by horizon."""

    name: str
    law: str
    weight: float | None
    errors: dict[str, HorizonError]
    remark: str
    parameters: dict[str, float]


def ranked(model: Model) -> list[Ranked]:
    """Return the laws and the combined prediction, sorted by error, then by decreasing weight.

    The errors beyond the sizes that were run are used as soon as any row has one.
    """
    rows = [_ranked(member) for member in model.members]
    if model.errors:
        rows.append(Ranked(PREDICTION, _MEMBERS[PREDICTION], None, _by_horizon(model.errors), "", {}))
    deciding: Sequence[Horizon] = [
        name for name in HORIZONS if name != INSIDE_STUDY and any(name in row.errors for row in rows)
    ] or [INSIDE_STUDY]
    return sorted(rows, key=lambda row: (_mean(row, deciding), -(row.weight or 0.0), row.name))


def measured_by_study(model: Model) -> list[str]:
    """Return the bounds and the metric R of ADEPT's study in sentences; empty if there is no study."""
    study = model.study
    if study is None:
        return []
    bounds = study.envelope
    above = (
        f"at most {bounds.parallelism_high:.4g}" if bounds.parallelism_high is not None else "without an upper bound"
    )
    parallelism = f"A is at least {bounds.parallelism_low:.4g} and {above}"
    size_one = f"a run at size 1 takes {bounds.t1_low_s:.4g} to {bounds.t1_high_s:.4g} s"
    serial = f"at most {share(bounds.serial_share_high)} of the work is serial"
    texts = [f"Bounds by ADEPT: {size_one}, the average parallelism {parallelism}, and {serial}."]
    if study.fluctuation:
        steps = ", ".join(
            f"{part.n:g} to {part.to_n:g}: {part.r:.3g} of {2.0 - part.n / part.to_n:.3g}" for part in study.fluctuation
        )
        texts.append(f"ADEPT's metric R of each step, compared with perfect speed-up: {steps}.")
    return texts


def horizons(rows: Sequence[Ranked]) -> list[str]:
    """Return the horizons for which any law has a score, nearest first."""
    return [name for name in HORIZONS if any(name in row.errors for row in rows)]


def _ranked(member: Member) -> Ranked:
    weight = member.weight if member.role == "part" else None
    law = _MEMBERS.get(member.name, member.name.replace("_", " "))
    return Ranked(member.name, law, weight, _by_horizon(member.errors), _remark(member), member.parameters)


def _by_horizon(errors: Sequence[HorizonError]) -> dict[str, HorizonError]:
    return {error.horizon: error for error in errors}


def _remark(member: Member) -> str:
    if member.answers == "larger sizes":
        return "only for sizes larger than those run"
    if member.answers == "nothing":
        return f"not used: needs {member.sizes_min} sizes, or does not apply"
    return ""


def _mean(row: Ranked, deciding: Sequence[str]) -> float:
    parts = [row.errors[name] for name in deciding if name in row.errors]
    scored = sum(part.scored for part in parts)
    return sum(part.error * part.scored for part in parts) / scored if scored else float("inf")


class ApplicationRow(msgspec.Struct, frozen=True):
    """An application in the overview, with its open alerts."""

    id: str
    prediction: Prediction
    trust: Trust
    alerts: Sequence[Alert]
    largest_observed: CurvePoint | None
    error_against_truth: float | None


class SizeMark(msgspec.Struct, frozen=True):
    """A size whose run time deviates from the curve, with a note for the chart."""

    n: float
    run_time_s: float
    note: str


class PointRow(msgspec.Struct, frozen=True):
    """A size in the table of the curve."""

    point: CurvePoint
    truth_s: float | None
    deviation: float | None


def rows(
    predictions: Sequence[Prediction], alerts: Sequence[Alert], truth: Truth | None, rows_max: int = 1000
) -> list[ApplicationRow]:
    """Return at most `rows_max` applications; applications that need attention come first; `alerts` are the open alerts."""
    by_key = grouped(alerts, lambda alert: application_labels_of(alert.labels))
    first = nsmallest(rows_max, predictions, key=lambda entry: _place(entry, by_key.get(_key(entry), [])))
    return [_row(entry, by_key.get(_key(entry), []), truth) for entry in first]


def named_like(predictions: Sequence[Prediction], search: str) -> Sequence[Prediction]:
    if not search:
        return predictions
    sought = search.casefold()
    return [entry for entry in predictions if any(sought in part.casefold() for part in _key(entry))]


def _place(entry: Prediction, alerts: Sequence[Alert]) -> tuple[int, int, float, tuple[str, ...]]:
    worst = min((SEVERITIES.index(alert.severity) for alert in alerts), default=len(SEVERITIES))
    error = entry.quality.median_error or 0.0
    return worst, attention(entry.reliability.verdict), -error, _key(entry)


def _key(entry: Prediction) -> tuple[str, ...]:
    return entry.application, entry.system, entry.input, entry.unit


def _row(entry: Prediction, alerts: Sequence[Alert], truth: Truth | None) -> ApplicationRow:
    id_ = id_of(entry)
    observed = [point for point in entry.curve if point.source == "observed"]
    return ApplicationRow(
        id=id_,
        prediction=entry,
        trust=trust_of(entry),
        alerts=alerts,
        largest_observed=max(observed, key=lambda point: point.n, default=None),
        error_against_truth=error_against_truth(entry, truth),
    )


def error_against_truth(entry: Prediction, truth: Truth | None) -> float | None:
    """Return the median relative error against the simulated truth at the sizes that were run; None without a truth."""
    pairs = [(point, row.truth_s) for row in point_rows(entry, truth) if (point := row.point).source == "observed"]
    errors = [abs(point.run_time_s / true_s - 1) for point, true_s in pairs if true_s]
    return median(errors) if errors else None


def point_rows(entry: Prediction, truth: Truth | None) -> list[PointRow]:
    id_ = id_of(entry)
    rows = []
    for point in entry.curve:
        true_s = truth(id_, point.n) if truth else None
        usable = true_s is not None and isfinite(true_s) and true_s > 0
        deviation = point.run_time_s / true_s - 1 if true_s is not None and usable else None
        rows.append(PointRow(point, true_s if usable else None, deviation))
    return rows


def sketch(entry: Prediction, alerts: Sequence[Alert], truth: Truth | None) -> Markup:
    """Return the curve of an application as a small picture on logarithmic axes, with its band and anomalies."""
    points = [p for p in entry.curve if all(map(drawable, (p.n, p.run_time_s, p.low_s, p.high_s)))]
    truths = [(row.point.n, row.truth_s) for row in point_rows(entry, truth) if row.truth_s]
    marks = [("observed", p.n, p.run_time_s) for p in points if p.source == "observed"]
    marks += [("anomaly", mark.n, mark.run_time_s) for mark in anomalies(alerts)]
    logs = {"line": [_logs(p.n, p.run_time_s) for p in points], "truth": [_logs(*truth) for truth in truths]}
    upper, lower = [_logs(p.n, p.high_s) for p in points], [_logs(p.n, p.low_s) for p in points]
    return sparkline(
        f"Run time of {entry.application} against {entry.unit}",
        SKETCH,
        area=[*upper, *reversed(lower)],
        lines=list(logs.items()),
        dots=[(kind, _logs(n, run_time_s)) for kind, n, run_time_s in marks if drawable(n) and drawable(run_time_s)],
    )


def _logs(n: float, run_time_s: float) -> tuple[float, float]:
    return log(n), log(run_time_s)


def anomalies(alerts: Sequence[Alert]) -> list[SizeMark]:
    return [
        SizeMark(alert.evidence.n, alert.evidence.observed, alert.annotations.get("summary", ""))
        for alert in alerts
        if alert.kind == "anomaly" and alert.evidence.n and alert.evidence.observed
        and alert.evidence.expected and alert.evidence.expected > 1  # only run times, because a failure rate is no point of the curve
        and TARGET not in alert.evidence.detail  # figures of power and counters are no points of the curve
    ]  # fmt: skip


def jobs_of(entry: Prediction, jobs: Sequence[RunningJob]) -> list[RunningJob]:
    key = _key(entry)
    return [job for job in jobs if (job.application, job.system, job.input, job.unit) == key]


def is_about(entry: Prediction, alert: Alert) -> bool:
    return application_labels_of(alert.labels) == _key(entry)


def application_labels_of(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return the labels application, system, input and unit of an alert, each None if absent."""
    return tuple(labels.get(name) for name in _KEY)


def change(ratio: float | None) -> str:
    """Return a relative change as text with its sign."""
    return "-" if ratio is None else f"{'+' if ratio > 0 else ''}{share(ratio)}"
