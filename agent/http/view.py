"""What the pages show, worked out from the service: plain data without HTML, but for the finished pictures."""

from collections.abc import Sequence
from heapq import nsmallest
from math import isfinite
from statistics import median
from typing import Final

import msgspec
from markupsafe import Markup

from agent.contracts.outputs import Alert, CurvePoint, JobPrediction, Prediction
from agent.http.curves import Drawing, Mark, curve_svg, small_curve_svg
from agent.http.lookup import Truth, application_id, link
from agent.words import attention, duration, explained, share, size, verdict_words

TARGET: Final = "target"  # evidence that has one is of that, in its own unit
SEVERITIES: Final = ("critical", "warning", "info")
_KEY: Final = ("application", "system", "input", "unit")


class Row(msgspec.Struct, frozen=True):
    """An application in the overview."""

    id: str
    link: str
    prediction: Prediction
    picture: Markup
    verdict: str
    explained: str
    alerts: Sequence[Alert]
    largest_observed: CurvePoint | None
    error_against_truth: float | None


class PointRow(msgspec.Struct, frozen=True):
    """A size in the table beside the curve."""

    point: CurvePoint
    truth_s: float | None
    deviation: float | None


def rows(
    predictions: Sequence[Prediction], alerts: Sequence[Alert], truth: Truth | None, rows_max: int = 1000
) -> list[Row]:
    """Return the applications, those that need attention first, at most `rows_max`.

    >>> rows([], [], None)
    []
    """
    by_key: dict[tuple[str | None, ...], list[Alert]] = {}
    for alert in alerts:
        if alert.status != "resolved":
            by_key.setdefault(tuple(alert.labels.get(name) for name in _KEY), []).append(alert)
    # pictures are dear: only of what is shown
    first = nsmallest(rows_max, predictions, key=lambda entry: _place(entry, by_key.get(_key(entry), [])))
    return [_row(entry, by_key.get(_key(entry), []), truth) for entry in first]


def named_like(predictions: Sequence[Prediction], search: str) -> Sequence[Prediction]:
    """Return the predictions with a text in their application, system, input or unit, in any case.

    >>> named_like([], "lammps")
    []
    """
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
        picture=picture(entry, alerts, truth, small=True),
        verdict=verdict_words(entry.reliability.verdict),
        explained=explained(entry.reliability.verdict),
        alerts=alerts,
        largest_observed=max(observed, key=lambda point: point.n, default=None),
        error_against_truth=error_against_truth(entry, truth),
    )


def error_against_truth(entry: Prediction, truth: Truth | None) -> float | None:
    """Return the median relative error at the sizes that were run, None where there is no truth to compare with.

    >>> from types import SimpleNamespace
    >>> point = SimpleNamespace(n=8.0, run_time_s=110.0, source="observed")
    >>> entry = SimpleNamespace(application="qcd", system="exa", input="", unit="nodes", curve=(point,))
    >>> round(error_against_truth(entry, lambda _id, n: 800.0 / n), 3)
    0.1
    """
    pairs = [(point, row.truth_s) for row in point_rows(entry, truth) if (point := row.point).source == "observed"]
    errors = [abs(point.run_time_s / true_s - 1) for point, true_s in pairs if true_s]
    return median(errors) if errors else None


def point_rows(entry: Prediction, truth: Truth | None) -> list[PointRow]:
    """Return the sizes of the curve, each with the truth where there is one.

    >>> from types import SimpleNamespace
    >>> point = SimpleNamespace(n=8.0, run_time_s=125.0)
    >>> entry = SimpleNamespace(application="qcd", system="exa", input="", unit="nodes", curve=(point,))
    >>> [(row.truth_s, row.deviation) for row in point_rows(entry, lambda _id, n: 800.0 / n)]
    [(100.0, 0.25)]
    """
    id_ = application_id(entry)
    found = []
    for point in entry.curve:
        true_s = truth(id_, point.n) if truth else None
        usable = true_s is not None and isfinite(true_s) and true_s > 0
        deviation = point.run_time_s / true_s - 1 if true_s is not None and usable else None
        found.append(PointRow(point, true_s if usable else None, deviation))
    return found


def run_time_at(entry: Prediction, n: float) -> float | None:
    """Return the run time that the curve tells at one of its sizes, None at another.

    >>> from types import SimpleNamespace
    >>> run_time_at(SimpleNamespace(curve=(SimpleNamespace(n=8.0, run_time_s=125.0),)), 8.0)
    125.0
    """
    return next((point.run_time_s for point in entry.curve if point.n == n), None)


def picture(
    entry: Prediction,
    alerts: Sequence[Alert],
    truth: Truth | None,
    *,
    small: bool,
    runs: Sequence[Mark] = (),
    uprights: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Return the picture of an application's curve; the text in it is escaped where the picture is made.

    >>> from types import SimpleNamespace
    >>> entry = SimpleNamespace(application="<qcd>", system="exa", input="", unit="nodes", curve=())
    >>> "&lt;qcd&gt;" in picture(entry, [], None, small=True)
    True
    """
    drawing = Drawing(
        title=f"Run time of {entry.application} against {entry.unit}",
        description=_described(entry),
        unit=entry.unit,
        points=entry.curve,
        marks=[*runs, *anomalies(alerts)],
        uprights=uprights,
        truth=[(row.point.n, row.truth_s) for row in point_rows(entry, truth) if row.truth_s],
    )
    return Markup(small_curve_svg(drawing) if small else curve_svg(drawing))  # noqa: S704 -- curves.py escapes


def _described(entry: Prediction) -> str:
    if not entry.curve:
        return "There is no curve yet."
    first, last = entry.curve[0], entry.curve[-1]
    return (
        f"From {duration(first.run_time_s)} at {size(first.n)} to {duration(last.run_time_s)} at {size(last.n)}"
        f" {entry.unit}, on logarithmic axes; the table has every value."
    )


def anomalies(alerts: Sequence[Alert]) -> list[Mark]:
    """Return the sizes that stand out of a curve by open alerts, with what they say.

    >>> anomalies([])
    []
    """
    return [
        Mark(alert.evidence.n, alert.evidence.observed, "anomaly", alert.annotations.get("summary", ""))
        for alert in alerts
        if alert.kind == "anomaly" and alert.evidence.n and alert.evidence.observed
        and alert.evidence.expected and alert.evidence.expected > 1  # seconds: a failure rate is no point of the curve
        and TARGET not in alert.evidence.detail  # nor is a power or a counter
    ]  # fmt: skip


def jobs_of(entry: Prediction, jobs: Sequence[JobPrediction]) -> list[JobPrediction]:
    """Return the running jobs of an application.

    >>> from types import SimpleNamespace
    >>> entry = SimpleNamespace(application="qcd", system="exa", input="", unit="nodes")
    >>> jobs_of(entry, [SimpleNamespace(application="cfd", system="exa", input="", unit="nodes")])
    []
    """
    key = _key(entry)
    return [job for job in jobs if (job.application, job.system, job.input, job.unit) == key]


def alerts_of(entry: Prediction, alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts of an application, resolved ones too.

    >>> from types import SimpleNamespace
    >>> entry = SimpleNamespace(application="qcd", system="exa", input="", unit="nodes")
    >>> labels = {"application": "qcd", "system": "exa", "input": "", "unit": "nodes", "alertname": "SlowSize"}
    >>> len(alerts_of(entry, [SimpleNamespace(labels=labels), SimpleNamespace(labels={})]))
    1
    """
    return [alert for alert in alerts if tuple(alert.labels.get(name) for name in _KEY) == _key(entry)]


def worst_first(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts that are not resolved: firing before pending, then the worst, else in the order given.

    >>> worst_first([])
    []
    """
    is_open = [alert for alert in alerts if alert.status != "resolved"]
    return sorted(is_open, key=lambda alert: (alert.status != "firing", SEVERITIES.index(alert.severity)))


def band(low_s: float | None, high_s: float | None) -> str:
    """Return a band of run times.

    >>> band(930.0, 1120.0), band(None, 2.0)
    ('15 min 30 s to 18 min 40 s', '-')
    """
    return "-" if low_s is None or high_s is None else f"{duration(low_s)} to {duration(high_s)}"


def change(ratio: float | None) -> str:
    """Return a signed share.

    >>> change(0.123), change(-0.04), change(None)
    ('+12 %', '-4.0 %', '-')
    """
    return "-" if ratio is None else f"{'+' if ratio > 0 else ''}{share(ratio)}"
