"""The box "what if I ask for n": one size beside the usual one, in words that a person decides by."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.datastructures import QueryParams

from processors.contracts.errors import UnavailableError
from processors.contracts.outputs import AnswerPoint, Prediction, RecentRun
from processors.contracts.service import Service
from sinks.web import queries
from sinks.web.formatting import duration, energy, explained, share, size, sized
from sinks.web.views.job_messages import gains

SAME: Final = 0.03  # a difference below is none


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """What the box shows: `n` as it was typed, then a refusal, or sentences and the two sizes side by side."""

    n: str
    usual: float | None
    refusal: str = ""
    messages: Sequence[str] = ()
    warning: str = ""
    points: Sequence[AnswerPoint] = ()


def usual_size(entry: Prediction, runs: Sequence[RecentRun]) -> float | None:
    """Return the size most often asked for recently, the smallest of equals; None where it is not known."""
    counts = Counter(run.n for run in runs if run.n is not None)
    if counts:
        return min(counts, key=lambda n: (-counts[n], n))
    if entry.under_load is not None:
        return entry.under_load.n
    return entry.sizes[len(entry.sizes) // 2] if entry.sizes else None


def answer_view(service: Service, entry: Prediction, query: QueryParams, runs: Sequence[RecentRun]) -> AnswerView:
    """Return what the box shows for a query; whatever is wrong with it is one sentence."""
    usual = usual_size(entry, runs)
    typed = " ".join(query.getlist("n"))[: queries.TEXT_MAX].strip()
    if not typed:
        return AnswerView(n="", usual=usual)
    try:
        sizes = queries.sizes(query)
        if len(sizes) > 1:
            return AnswerView(
                n=typed, usual=usual, refusal="Ask for one size at a time; the table below the chart has all of them."
            )
        reference = [] if usual is None or usual == sizes[0] else [usual]
        answer = service.answer(queries.question(entry, [*sizes, *reference]))
    except (queries.BadParameterError, UnavailableError) as problem:
        return AnswerView(n=typed, usual=usual, refusal=str(problem))
    by_size = {point.n: point for point in answer.points}  # which come in the order of their sizes
    points = [by_size[n] for n in (sizes[0], *reference) if n in by_size]
    if not answer.known or sizes[0] not in by_size:
        return AnswerView(n=typed, usual=usual, refusal=answer.detail or "There is no prediction for this size.")
    return AnswerView(
        n=typed,
        usual=usual,
        messages=tuple(_texts(entry, points)),
        warning=_warning(entry, points[0]),
        points=points,
    )


def _texts(entry: Prediction, points: Sequence[AnswerPoint]) -> list[str]:
    point, *rest = points
    band = f"{duration(point.low_s)} to {duration(point.high_s)}"
    shown = [
        f"At {sized(point.n, entry.unit)} a run takes about {duration(point.run_time_s)}; {share(point.coverage)} of runs should take {band}.",
        "Too few runs have tested such a band yet."
        if point.coverage_measured is None
        else f"So far {share(point.coverage_measured)} of {_runs(point)} at such sizes fell inside their bands.",
    ]
    if rest:
        shown.append(_against(point, rest[0], entry.unit))
    if point.reliability.verdict != "reliable":
        shown.append(explained(point.reliability.verdict))
    return [text for text in shown if text]


def _runs(point: AnswerPoint) -> str:
    return f"{point.coverage_runs} runs" if point.coverage_runs is not None else "the runs"


def _against(point: AnswerPoint, usual: AnswerPoint, unit: str) -> str:
    speed = usual.run_time_s / point.run_time_s
    cost = point.n * point.run_time_s / (usual.n * usual.run_time_s)
    shown = (
        f"Compared with the usual {sized(usual.n, unit)}, that is {_faster(speed)}, for {_more(cost)} {_hours(unit)}"
    )
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
        return f"Runs on more than {sized(slower, entry.unit)} were slower."
    if useful is not None and n > useful:
        beyond = f"That is beyond the largest useful size, {size(useful)}"
        if gains(entry, useful, n):
            return f"{beyond}: it is faster, and {share(point.efficiency)} of what its {entry.unit} could do is used."
        return f"{beyond}: more {entry.unit} hardly help, or make it slower."
    if reliable is not None and not reliable.min <= n <= reliable.max:
        return f"Predictions can be relied on from {size(reliable.min)} to {size(reliable.max)} {entry.unit}; this is outside."
    return ""


def _hours(unit: str) -> str:
    return f"{unit.removesuffix('s')}-hours"


def cells(point: AnswerPoint, unit: str) -> list[tuple[str, str]]:
    """Return what the box shows of one size: names and values, in the order of the rows."""
    rows = [
        ("run time", duration(point.run_time_s)),
        ("band", f"{duration(point.low_s)} to {duration(point.high_s)}"),
        ("efficiency", share(point.efficiency)),
        (_hours(unit), f"{point.n * point.run_time_s / 3600:.3g}"),
    ]
    return [*rows, ("energy", energy(point.energy_j))] if point.energy_j else rows


def both(answer: AnswerView, unit: str) -> list[tuple[str, str, str]]:
    """Return the rows of the box: a name, the value at the size asked for, and at the usual size ("" where it is the same)."""
    if not answer.points:
        return []
    columns = [dict(cells(point, unit)) for point in answer.points]
    return [(name, value, columns[1].get(name, "-") if len(columns) > 1 else "") for name, value in columns[0].items()]
