"""The page of an application besides its curve: newest runs, prediction quality, power, load, and the prediction form."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import exp, log
from statistics import fmean, median
from typing import Final

import msgspec
from starlette.datastructures import QueryParams

from processors.advice import gains
from processors.alerts.rules import STRANGE_RUN
from processors.contracts.errors import UnavailableError
from processors.contracts.events import SUCCESS, Evidence
from processors.contracts.load import UnderLoad
from processors.contracts.outputs import Alert, AnswerPoint, Prediction, UsefulSizes
from processors.contracts.service import RecentRun, Service
from sinks.web import queries
from sinks.web.access import Reader
from sinks.web.charts import (
    Chart,
    bars,
    curve_chart,
    histogram_chart,
    log_axis,
    round_ticks,
    share_axis,
    size_axis,
    time_axis,
)
from sinks.web.formatting import View, band, duration, energy, energy_advice, explained, power, share, size, sized
from sinks.web.views.lines import alert_marks
from sinks.web.views.overview import SizeMark

RUNS_SHOWN: Final = 120
ROLLING: Final = 20  # number of newest runs over which error and coverage are computed
ROLLING_MIN: Final = 5


class Upright(msgspec.Struct, frozen=True):
    """A marked size in the chart, with its label."""

    n: float
    label: str


def scaling_chart(entry: Prediction, anomalies: Sequence[SizeMark] = (), runs: Sequence[View] = ()) -> Chart:
    dots = [(row["run"].n, row["run"].run_time_s) for row in runs if row["kind"] and row["run"].n]
    dots += [(mark.n, mark.run_time_s) for mark in anomalies]
    title, marked = f"Run time of {entry.application} against {entry.unit}", uprights(entry.useful_n)
    chart = curve_chart(title, entry.curve, entry.unit, dots, [mark.n for mark in marked])
    return msgspec.structs.replace(chart, ratio=0.6)


def uprights(useful: UsefulSizes) -> list[Upright]:
    """Return the sizes to mark with a vertical line: the knee and the largest useful size, as one mark if they are equal."""
    if useful.knee is not None and useful.knee == useful.max:
        return [Upright(useful.knee, f"knee, useful up to {size(useful.knee)}")]
    marks = [(useful.knee, "knee"), (useful.max, "useful up to")]
    return [Upright(n, f"{name} {size(n)}") for n, name in marks if n is not None]


def run_rows(runs: Sequence[RecentRun], reader: Reader) -> list[View]:
    return [_row(run, is_hidden=not reader.sees(run.user)) for run in runs[:RUNS_SHOWN]]


def _row(run: RecentRun, *, is_hidden: bool) -> View:
    """Return a run as a table row. `kind` is the style of its dot in the chart, empty without a dot. The job of a hidden run is not named."""
    predicted, verdict = run.predicted, _verdict(run)
    holds = predicted is None or predicted.holds(run.run_time_s)
    kind = "" if run.state != SUCCESS or run.n is None else "run" if holds else "outside"
    text = f"{'a run' if is_hidden else f'job {run.job_id}'}: {duration(run.run_time_s)}"
    text += f"{f' at {size(run.n)}' if run.n is not None else ''}, {verdict}"
    text += f" {band(predicted.low_s, predicted.high_s)}" if predicted is not None and run.state == SUCCESS else ""
    return View(run=run, is_hidden=is_hidden, kind=kind, verdict=verdict, text=text)


def _verdict(run: RecentRun) -> str:
    if run.state != SUCCESS:
        return run.state.lower().replace("_", " ")
    if run.predicted is None:
        return "not predicted"
    if run.predicted.holds(run.run_time_s):
        return "inside"
    return "longer than" if run.run_time_s > run.predicted.high_s else "shorter than"


def history(name: str, runs: Sequence[RecentRun], alerts: Sequence[Alert] = ()) -> View | None:
    """Return the quality of past predictions; None if no run had a prediction.

    The view has three charts, a row for each run, oldest first, and the alerts of that time. The chart `observed` shows run
    time divided by predicted run time, so that runs of all sizes share one axis.
    """
    anomalous = {run_id for alert in alerts if alert.name == STRANGE_RUN.name for run_id in alert.evidence.runs}
    rows = scored(runs, anomalous)
    if not rows:
        return None
    first_ms, last_ms = rows[0]["run"].end_ms, rows[-1]["run"].end_ms
    times = time_axis(first_ms, last_ms, "end of the run (UTC)")
    ends = [end for row in rows for end in row["ratios"]]
    errors = share_axis(max(0.1, *(row["error"] for row in rows)), "error")
    ratios = log_axis(ends, round_ticks, lambda ratio: f"{ratio:.3g}", "observed / predicted")
    title = f"Share of the runs of {name} inside their band, over the newest {ROLLING}"
    return View(
        observed=Chart(f"Run times of {name} as multiples of the predicted run times", times, ratios, ratio=0.32),
        error=Chart(f"Error of the predictions of {name}, run by run", times, errors, ratio=0.42),
        coverage=Chart(title, times, share_axis(1.0, "runs inside their band"), ratio=0.42),
        rows=rows,
        alerts=list(alert_marks(alerts, first_ms, last_ms)),
        jobs=(),
    )


def scored(runs: Sequence[RecentRun], anomalous: Collection[str] = ()) -> list[View]:
    """Return the completed runs that had a prediction, oldest first, with rolling error and coverage.

    `ratios` has the run time and both ends of the band, each divided by the predicted run time; `kind` is the style of the
    run's dot.

    An error is exp(|ln(observed / predicted)|) - 1: 100 % for a run twice as long and for a run half as long.
    """
    rows: list[View] = []
    logs: list[float] = []
    inside: list[bool] = []
    for run in sorted(runs, key=lambda run: (run.end_ms, run.run_id)):
        predicted = run.predicted
        if predicted is None or run.state != SUCCESS or min(run.run_time_s, predicted.run_time_s) <= 0:
            continue
        logs.append(abs(log(run.run_time_s / predicted.run_time_s)))
        inside.append(predicted.holds(run.run_time_s))
        enough = len(logs) >= ROLLING_MIN
        rows.append(
            View(
                run=run,
                predicted=predicted,
                ratios=[end_s / predicted.run_time_s for end_s in (run.run_time_s, predicted.low_s, predicted.high_s)],
                error=exp(min(logs[-1], 5.0)) - 1,
                inside=inside[-1],
                rolling_error=exp(min(median(logs[-ROLLING:]), 5.0)) - 1 if enough else None,
                rolling_inside=fmean(inside[-ROLLING:]) if enough else None,
                kind="anomaly" if run.run_id in anomalous else "run" if inside[-1] else "outside",
            )
        )
    return rows


def power_view(entry: Prediction) -> View | None:
    """Return power and energy by size: two charts, their points, and a sentence of advice; None if the power was never measured."""
    points = [point for point in entry.curve if point.power_w is not None]
    if not points:
        return None
    sizes = size_axis((point.n for point in points), entry.unit)
    powers = [end for point in points for end in (point.power_low_w, point.power_high_w) if end is not None]
    energies = [end for point in points for end in (point.energy_low_j, point.energy_high_j) if end is not None]
    up = log_axis(powers, round_ticks, power, "power of all hosts")
    energy_up = log_axis(energies, round_ticks, energy, "energy of a run")
    return View(
        power=Chart(f"Power of {entry.application} against {entry.unit}", sizes, up),
        energy=Chart(f"Energy of a run of {entry.application} against {entry.unit}", sizes, energy_up),
        points=points,
        advice=energy_advice([point for point in entry.curve if point.reliable], entry.useful_n, entry.unit),
        quality=entry.power,
    )


def load_view(name: str, shown: UnderLoad | None, plain_s: float | None = None) -> View | None:
    """Return the run time under load beside `plain_s`, the one without load; None if the load is unknown. `chart` is None without a histogram."""
    if shown is None:
        return None
    edges, shares = (shown.histogram.edges_s, shown.histogram.probabilities) if shown.histogram else ((), ())
    certain = bool(edges) and edges[0] == edges[-1]  # the edges are equal if there is only one value
    shown_bars = bars(edges[:1], (1.0,), duration) if certain else bars(edges, shares, duration)
    markers = [] if shown.q50_s is None else [(shown.q50_s, f"median {duration(shown.q50_s)}")]
    markers += [] if plain_s is None else [(plain_s, f"without load {duration(plain_s)}")]
    title = f"Run time of {name} under the load of {shown.hosts}"
    chart = histogram_chart(title, shown_bars, duration, ratio=0.42, across="run time") if shown.histogram else None
    return View(predicted=shown, chart=chart, bars=shown_bars, markers=markers)


SAME: Final = 0.03  # smaller relative differences are ignored


def usual_size(entry: Prediction, runs: Sequence[RecentRun]) -> float | None:
    """Return the most frequent size of recent runs (the smallest if several are equally frequent); None if it is unknown."""
    counts = Counter(run.n for run in runs if run.n is not None)
    if counts:
        return min(counts, key=lambda n: (-counts[n], n))
    if entry.under_load is not None:
        return entry.under_load.n
    return entry.sizes[len(entry.sizes) // 2] if entry.sizes else None


def answer_view(service: Service, entry: Prediction, query: QueryParams, runs: Sequence[RecentRun]) -> View:
    """Return the prediction for the size `n` typed by the user, in sentences that compare it with the usual size, or a refusal."""
    usual = usual_size(entry, runs)
    typed = " ".join(query.getlist("n"))[: queries.TEXT_MAX].strip()
    view = View(n=typed, usual=usual, refusal="", messages=(), warning="", points=())
    if not typed:
        return view

    try:
        sizes = queries.sizes(query)
        if len(sizes) > 1:
            return view | {"refusal": "Enter one size at a time; the table below the chart has all sizes."}
        reference = [] if usual is None or usual == sizes[0] else [usual]
        answer = service.answer(queries.question(entry, [*sizes, *reference], Evidence(), {}))
    except (queries.BadParameterError, UnavailableError) as problem:
        return view | {"refusal": str(problem)}
    by_size = {point.n: point for point in answer.points}
    if not answer.known or sizes[0] not in by_size:
        return view | {"refusal": answer.detail or "There is no prediction for this size."}
    points = [by_size[n] for n in (sizes[0], *reference) if n in by_size]
    messages, warning = tuple(_texts(entry, points)), _warning(entry, points[0])
    return view | {"messages": messages, "warning": warning, "points": points}


def _texts(entry: Prediction, points: Sequence[AnswerPoint]) -> Iterator[str]:
    point, unit = points[0], entry.unit
    yield (
        f"At {sized(point.n, unit)} a run takes about {duration(point.run_time_s)}; "
        f"{share(point.coverage)} of such runs take {band(point.low_s, point.high_s)}."
    )
    if point.coverage_measured is None:
        yield "This band has not been tested by enough runs yet."
    else:
        runs = f"{point.coverage_runs} runs" if point.coverage_runs is not None else "the runs"
        yield f"So far {share(point.coverage_measured)} of {runs} at similar sizes fell inside their bands."
    if len(points) > 1:
        yield _against(point, points[1], unit)
    if not point.reliable and (meaning := explained(point.reliability.verdict)):
        yield meaning


def _against(point: AnswerPoint, usual: AnswerPoint, unit: str) -> str:
    speed = usual.run_time_s / point.run_time_s
    cost = point.n * point.run_time_s / (usual.n * usual.run_time_s)
    shown = f"Compared with the usual {sized(usual.n, unit)}, the run is {_faster(speed)} and uses {_more(cost)} {_hours(unit)}"
    if point.energy_j and usual.energy_j:
        shown += f" and {_more(point.energy_j / usual.energy_j)} energy"
    return f"{shown}."


def _faster(ratio: float) -> str:
    if abs(ratio - 1) < SAME:
        return "as fast"
    return f"{ratio:.2g} times as fast" if ratio > 1 else f"{1 / ratio:.2g} times as slow"


def _more(ratio: float) -> str:
    if abs(ratio - 1) < SAME:
        return "the same"
    return f"{share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}" if ratio < 2 else f"{ratio:.2g} times the"


def _warning(entry: Prediction, point: AnswerPoint) -> str:
    n, useful, reliable = point.n, entry.useful_n.max, entry.reliable_n
    slower = entry.useful_n.slower_beyond
    if slower is not None and n > slower:
        return f"Runs get slower beyond {sized(slower, entry.unit)}."
    if useful is not None and n > useful:
        beyond = f"{size(n)} is beyond the largest useful size, {size(useful)}"
        if gains(entry, useful, n):
            return f"{beyond}: the run is faster, but its efficiency is only {share(point.efficiency)}."
        return f"{beyond}: more {entry.unit} hardly make the run faster, or make it slower."
    if reliable is not None and not point.reliable:
        return f"Predictions are reliable from {size(reliable.min)} to {size(reliable.max)} {entry.unit}."
    return ""


def _hours(unit: str) -> str:
    return f"{unit.removesuffix('s')}-hours"


def both(answer: View, unit: str) -> list[tuple[str, str, str]]:
    """Return the rows that compare two sizes: name, value at the requested size, and value at the usual size (empty if equal)."""
    columns = [dict(_cells(point, unit)) for point in answer["points"]]
    if not columns:
        return []
    return [(name, value, columns[1].get(name, "-") if len(columns) > 1 else "") for name, value in columns[0].items()]


def _cells(point: AnswerPoint, unit: str) -> Iterator[tuple[str, str]]:
    yield "run time", duration(point.run_time_s)
    yield "band", band(point.low_s, point.high_s)
    yield "efficiency", share(point.efficiency)
    yield _hours(unit), f"{point.n * point.run_time_s / 3600:.3g}"
    if point.energy_j:
        yield "energy", energy(point.energy_j)
