"""What the overview shows, and what it shares with the page of an application: order, sources, laws, what stands out."""

import math
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from math import isfinite, log
from statistics import median
from typing import Final

import msgspec
from markupsafe import Markup

from processors.contracts.names import HORIZONS, Horizon, rfc3339
from processors.contracts.outputs import (
    RELIABLE,
    Alert,
    CurvePoint,
    HorizonError,
    Member,
    Model,
    Prediction,
    RunningJob,
)
from processors.contracts.service import SourceStatus
from sinks.web.charts import Spark, drawable, sparkline
from sinks.web.formatting import INSIDE, attention, counted, duration, explained, moment, share, size, verdict_text
from sinks.web.queries import Truth, application_id, link, point_at
from sinks.web.views.alert_states import SEVERITIES

SCORED_MIN: Final = 10  # fewer scored runs tell less of the error than the bands do
MEDIAN_OF_BAND: Final = 0.41  # of the half-width of a band for nine of ten runs, under a normal law: the median error
GOOD: Final = 0.05
FAIR: Final = 0.15


class Trust(msgspec.Struct, frozen=True):
    """What is said of predictions inside and beyond the sizes that were run; whether each is good news."""

    inside: str
    beyond: str
    inside_good: bool
    beyond_good: bool


def trust_of(entry: Prediction) -> Trust:
    """Return how far to trust the predictions of an application."""
    error = inside_error(entry)
    known = error is not None
    word = "unknown" if error is None else "good" if error <= GOOD else "fair" if error <= FAIR else "rough"
    return Trust(
        f"{word}, {share(error)}" if known else word,
        _beyond(entry),
        inside_good=word == "good",
        beyond_good=entry.useful_n.slower_beyond is None and entry.reliability.verdict == RELIABLE,
    )


def inside_error(entry: Prediction) -> float | None:
    """Return the relative error of predictions at sizes among those that were run: measured, or by the width of their bands."""
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


TARGET: Final = "target"  # evidence that has one is of that, in its own unit
SKETCH: Final = (320, 90)  # pixels
_KEY: Final = ("application", "system", "input", "unit")
INSIDE_STUDY: Final[Horizon] = "inside"
PREDICTION: Final = "prediction"  # in the place of a law: what was published
_MEMBERS: Final = {
    PREDICTION: "what was predicted",
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
    "curve": "its published curve",
}


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source: its topic, its events, the newest one's time, how far that is behind the present, and all that as text.

    A source that never spoke `waits`; one that spoke longer ago than it may is silent.
    """

    topic: str
    events: int
    newest: str
    behind: str
    message: str
    is_silent: bool
    waits: bool


def source_rows(sources: Sequence[SourceStatus], now_ms: int = 0) -> list[SourceRow]:
    """Return the sources, those that never spoke and those furthest behind first.

    `now_ms` is the present, where it is known otherwise.
    """
    now = max([now_ms, *(seen.moved_ms or 0 for seen in sources)])
    return [_source_row(seen, now) for seen in sorted(sources, key=lambda seen: (seen.moved_ms or 0, seen.topic))]


def _source_row(seen: SourceStatus, now_ms: int) -> SourceRow:
    moved_ms = seen.moved_ms
    behind_s = 0.0 if moved_ms is None else (now_ms - moved_ms) / 1000
    newest = "-" if moved_ms is None else moment(rfc3339(moved_ms))
    return SourceRow(
        topic=seen.topic,
        events=seen.events,
        newest=newest,
        behind=_silence(seen) if moved_ms is None else _behind(behind_s),
        message=_waiting(seen) if moved_ms is None else f"{counted(seen.events, 'event')}, newest {newest}",
        is_silent=seen.is_silent(now_ms),
        waits=moved_ms is None,
    )


def _silence(seen: SourceStatus) -> str:
    return "not looked up yet" if seen.messages is None else "waiting"


def _waiting(seen: SourceStatus) -> str:
    """Return what is known of a source without a message."""
    if seen.messages is None:
        return f"waiting for {seen.topic}, and for a collector that looks it up"
    gone = " are left" if seen.messages else ""
    return f"waiting for {seen.topic}, 0 messages{gone}"


def _behind(seconds: float) -> str:
    return "newest" if seconds < 1 else f"{duration(seconds)} behind"


class Ranked(msgspec.Struct, frozen=True):
    """A law in its place: name, what it is, weight (None: beside the prediction), errors by horizon, and a remark."""

    name: str
    law: str
    weight: float | None
    errors: dict[str, HorizonError]
    remark: str
    parameters: dict[str, float]


def ranked(model: Model) -> list[Ranked]:
    """Return the laws and the prediction itself, the one with the least error first; without errors the weightiest.

    Errors outside of the sizes that were run decide, once there are any.
    """
    rows = [_ranked(member) for member in model.members]
    if model.errors:
        rows.append(Ranked(PREDICTION, _MEMBERS[PREDICTION], None, _by_horizon(model.errors), "", {}))
    deciding: Sequence[Horizon] = [
        name for name in HORIZONS if name != INSIDE_STUDY and any(name in row.errors for row in rows)
    ] or [INSIDE_STUDY]
    return sorted(rows, key=lambda row: (_mean(row, deciding), -(row.weight or 0.0), row.name))


def measured_by_study(model: Model) -> list[str]:
    """Return what ADEPT's study measured, in sentences; none where no study was made."""
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
    texts = [f"ADEPT's envelope: {size_one}; the average parallelism {parallelism}; {serial}."]
    if study.fluctuation:
        each = ", ".join(
            f"{part.n:g} to {part.to_n:g}: {part.r:.3g} of {2.0 - part.n / part.to_n:.3g}" for part in study.fluctuation
        )
        texts.append(f"Metric R of each step, of what perfect speed-up gives: {each}.")
    return texts


def horizons(rows: Sequence[Ranked]) -> list[str]:
    """Return the horizons at which any of the laws has been scored, the nearest first."""
    return [name for name in HORIZONS if any(name in row.errors for row in rows)]


def _ranked(member: Member) -> Ranked:
    weight = member.weight if member.role == "part" else None
    law = _MEMBERS.get(member.name, member.name.replace("_", " "))
    return Ranked(member.name, law, weight, _by_horizon(member.errors), _remark(member), member.parameters)


def _by_horizon(errors: Sequence[HorizonError]) -> dict[str, HorizonError]:
    return {error.horizon: error for error in errors}


def _remark(member: Member) -> str:
    if member.answers == "larger sizes":
        return "for larger sizes than were run"
    if member.answers == "nothing":
        return f"needs {member.sizes_min} sizes, or does not apply"
    return ""


def _mean(row: Ranked, deciding: Sequence[str]) -> float:
    parts = [row.errors[name] for name in deciding if name in row.errors]
    scored = sum(part.scored for part in parts)
    return sum(part.error * part.scored for part in parts) / scored if scored else float("inf")


class Row(msgspec.Struct, frozen=True):
    """An application in the overview."""

    id: str
    link: str
    prediction: Prediction
    verdict: str
    explained: str
    trust: Trust
    alerts: Sequence[Alert]
    largest_observed: CurvePoint | None
    error_against_truth: float | None


class Mark(msgspec.Struct, frozen=True):
    """A size that stands out of a curve, and why."""

    n: float
    run_time_s: float
    note: str


class PointRow(msgspec.Struct, frozen=True):
    """A size in the table beside the curve."""

    point: CurvePoint
    truth_s: float | None
    deviation: float | None


def rows(
    predictions: Sequence[Prediction], alerts: Sequence[Alert], truth: Truth | None, rows_max: int = 1000
) -> list[Row]:
    """Return the applications, those that need attention first, at most `rows_max`; `alerts` are the open ones."""
    by_key: dict[tuple[str | None, ...], list[Alert]] = {}
    for alert in alerts:
        by_key.setdefault(application_labels_of(alert.labels), []).append(alert)
    first = nsmallest(rows_max, predictions, key=lambda entry: _place(entry, by_key.get(_key(entry), [])))
    return [_row(entry, by_key.get(_key(entry), []), truth) for entry in first]


def named_like(predictions: Sequence[Prediction], search: str) -> Sequence[Prediction]:
    """Return the predictions with a text in their application, system, input or unit, in any case."""
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


def _row(entry: Prediction, alerts: Sequence[Alert], truth: Truth | None) -> Row:
    id_ = application_id(entry)
    observed = [point for point in entry.curve if point.source == "observed"]
    return Row(
        id=id_,
        link=f"/applications/{link(id_)}",
        prediction=entry,
        verdict=verdict_text(entry.reliability.verdict),
        explained=explained(entry.reliability.verdict),
        trust=trust_of(entry),
        alerts=alerts,
        largest_observed=max(observed, key=lambda point: point.n, default=None),
        error_against_truth=error_against_truth(entry, truth),
    )


def error_against_truth(entry: Prediction, truth: Truth | None) -> float | None:
    """Return the median relative error at the sizes that were run, None where there is no truth to compare with."""
    pairs = [(point, row.truth_s) for row in point_rows(entry, truth) if (point := row.point).source == "observed"]
    errors = [abs(point.run_time_s / true_s - 1) for point, true_s in pairs if true_s]
    return median(errors) if errors else None


def point_rows(entry: Prediction, truth: Truth | None) -> list[PointRow]:
    """Return the sizes of the curve, each with the truth where there is one."""
    id_ = application_id(entry)
    found = []
    for point in entry.curve:
        true_s = truth(id_, point.n) if truth else None
        usable = true_s is not None and isfinite(true_s) and true_s > 0
        deviation = point.run_time_s / true_s - 1 if true_s is not None and usable else None
        found.append(PointRow(point, true_s if usable else None, deviation))
    return found


def run_time_at(entry: Prediction, n: float) -> float | None:
    """Return the run time of the curve at one of its sizes, None at another."""
    point = point_at(entry, n)
    return None if point is None else point.run_time_s


def sketch(entry: Prediction, alerts: Sequence[Alert], truth: Truth | None) -> Markup:
    """Return the curve of an application as a small picture on logarithmic axes, with its band and what stands out."""
    points = [p for p in entry.curve if all(map(drawable, (p.n, p.run_time_s, p.low_s, p.high_s)))]
    truths = [(row.point.n, row.truth_s) for row in point_rows(entry, truth) if row.truth_s]
    marks = [("observed", p.n, p.run_time_s) for p in points if p.source == "observed"]
    marks += [("anomaly", mark.n, mark.run_time_s) for mark in anomalies(alerts)]
    logs = {"line": [_logs(p.n, p.run_time_s) for p in points], "truth": [_logs(*truth) for truth in truths]}
    upper, lower = [_logs(p.n, p.high_s) for p in points], [_logs(p.n, p.low_s) for p in points]
    return sparkline(
        Spark(
            title=f"Run time of {entry.application} against {entry.unit}",
            area=[*upper, *reversed(lower)],
            lines=list(logs.items()),
            dots=[
                (kind, _logs(n, run_time_s)) for kind, n, run_time_s in marks if drawable(n) and drawable(run_time_s)
            ],
        ),
        *SKETCH,
    )


def _logs(n: float, run_time_s: float) -> tuple[float, float]:
    return log(n), log(run_time_s)


def anomalies(alerts: Sequence[Alert]) -> list[Mark]:
    """Return the sizes that stand out of a curve by open alerts, with their sentences."""
    return [
        Mark(alert.evidence.n, alert.evidence.observed, alert.annotations.get("summary", ""))
        for alert in alerts
        if alert.kind == "anomaly" and alert.evidence.n and alert.evidence.observed
        and alert.evidence.expected and alert.evidence.expected > 1  # seconds: a failure rate is no point of the curve
        and TARGET not in alert.evidence.detail  # nor is a power or a counter
    ]  # fmt: skip


def jobs_of(entry: Prediction, jobs: Sequence[RunningJob]) -> list[RunningJob]:
    """Return the running jobs of an application."""
    key = _key(entry)
    return [job for job in jobs if (job.application, job.system, job.input, job.unit) == key]


def is_about(entry: Prediction, alert: Alert) -> bool:
    """Return whether an alert is about an application."""
    return application_labels_of(alert.labels) == _key(entry)


def application_labels_of(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return application, system, input and unit that labels name, None for what they do not."""
    return tuple(labels.get(name) for name in _KEY)


def change(ratio: float | None) -> str:
    """Return a signed share."""
    return "-" if ratio is None else f"{'+' if ratio > 0 else ''}{share(ratio)}"
