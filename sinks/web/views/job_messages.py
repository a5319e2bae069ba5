"""Messages to the person who ran a job: how it went, how far to trust that, and what to ask for next time."""

import math
from collections.abc import Sequence
from typing import Final

from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import (
    RELIABLE,
    CurvePoint,
    JobPrediction,
    PredictedAtStart,
    Prediction,
    RecentRun,
    hits,
)
from sinks.web.formatting import (
    INSIDE,
    between,
    duration,
    energy,
    explained,
    moment,
    next_limit,
    rounded,
    share,
    size,
    sized,
    span,
)
from sinks.web.formatting import chance as percent

COMPLETED: Final = "COMPLETED"
SHORT_S: Final = 10.0  # starting and ending take as long
NEAR: Final = 0.1  # outside of its band by so little, a run is nothing to worry about
FAR: Final = 1000.0  # times as long: a number says no more
ALIKE: Final = 0.02  # two run times that differ by less are said to be equal
NO_CURVE: Final = frozenset({"high_error", "insufficient", "unknown"})  # verdicts on an application
SIMILAR_RUNS: Final = "similar_runs"
UNDER_LOAD: Final = "under_load"
HARDLY: Final = 0.05
MARGIN: Final = 1.1
GENEROUS: Final = 1.5  # so many times what is needed is no mistake
LITTLE: Final = 0.25  # longer with half the size
USED_UP: Final = 1.05  # beyond the largest useful size by more than rounding
ALIKE_SHARE: Final = 0.05
_ENDED: Final = {
    "FAILED": "It failed after {}",
    "OUT_OF_MEMORY": "It ran out of memory after {}",
    "NODE_FAIL": "One of its hosts failed after {}",
    "BOOT_FAIL": "Its hosts did not start; it ended after {}",
    "CANCELLED": "It was cancelled after {}",
    "DEADLINE": "It met its deadline and was ended after {}",
    "PREEMPTED": "It had to make room for another job after {}",
    "REQUEUED": "It was put back into the queue after {}",
}


def outcome(run: RecentRun, unit: str) -> str:
    """Return how a run went against what is usual, in one plain sentence."""
    if run.state == COMPLETED:
        return _completed(run, unit)
    if run.state == "TIMEOUT":
        return _timed_out(run)
    how = _ENDED.get(run.state, "It ended as {state} after {time}").replace("{}", "{time}")
    text = how.format(state=run.state or "unknown", time=rounded(run.run_time_s))
    return f"{text}{_usually(run.predicted)}."


def is_near(run_time_s: float, shown: PredictedAtStart) -> bool:
    """Return whether a run time is so near what was predicted that there is nothing to worry about, whatever its band."""
    return shown.run_time_s > 0 and abs(run_time_s / shown.run_time_s - 1) < NEAR


def _completed(run: RecentRun, unit: str) -> str:
    shown, took = run.predicted, f"It took {run_time_text(run)}"
    if shown is None or shown.run_time_s <= 0:
        return f"{took}. {_not_compared(run)}"
    if max(run.run_time_s, shown.run_time_s) < SHORT_S:
        return f"{took}. Runs this short are not compared: starting and ending take as long."
    against = _against(run.run_time_s / shown.run_time_s, _usual(shown, run.n, unit))
    most = _like_it(shown)
    if shown.holds(run.run_time_s):
        return f"{took}, {against}; {most}."
    if is_near(run.run_time_s, shown):
        return f"{took}, {against}, a little outside of the ordinary: {most}."
    return f"{took}, {against}. That is out of the ordinary: {most}."


def run_time_text(run: RecentRun) -> str:
    """Return the run time, to the second where the band is so narrow that minutes would not tell them apart."""
    ends = () if run.predicted is None else (rounded(run.predicted.low_s), rounded(run.predicted.high_s))
    narrow = len(set(ends)) == 1 or (
        run.predicted is not None and not run.predicted.holds(run.run_time_s) and rounded(run.run_time_s) in ends
    )
    return duration(run.run_time_s) if narrow else rounded(run.run_time_s)


def _against(ratio: float, usual: str) -> str:
    if abs(ratio - 1) < ALIKE:
        return f"as long as {usual}"
    if ratio >= FAR:
        return f"far longer than {usual}"
    if ratio >= 2:
        return f"{ratio:.2g} times as long as {usual}" if ratio < 99 else f"{ratio:.0f} times as long as {usual}"
    return f"{share(abs(ratio - 1))} {'longer' if ratio > 1 else 'shorter'} than {usual}"


def _usual(shown: PredictedAtStart, n: float | None, unit: str) -> str:
    if shown.source == SIMILAR_RUNS:
        return "similar runs do"
    at = "" if n is None else f" at {sized(n, unit)}"
    if shown.source == UNDER_LOAD:  # what is usual takes no account of the load
        return f"expected{at} under the load of its hosts"
    return f"usual at its settings{at.replace(' at ', ' and ', 1)}" if shown.source == "features" else f"usual{at}"


def _like_it(shown: PredictedAtStart) -> str:
    alike = "under such a load" if shown.source == UNDER_LOAD else "like it"
    return f"{of_runs(shown.coverage)} {alike} take {between(shown.low_s, shown.high_s)}"


def of_runs(coverage: float) -> str:
    """Return how many runs a band is to hold."""
    tenths = coverage * 10
    return f"{tenths:.0f} of 10 runs" if _is_whole(tenths) else f"{share(coverage)} of runs"


def _is_whole(count: float) -> bool:
    """Return whether a count is a whole number but for rounding; no figure of a record is too large to ask."""
    return math.isfinite(count) and abs(count - round(count)) < 0.01


def _timed_out(run: RecentRun) -> str:
    shown, limit_s = run.predicted, run.time_limit_s
    text = (
        f"Its time limit of {rounded(limit_s)} ended it"
        if limit_s
        else f"Its time limit ended it after {rounded(run.run_time_s)}"
    )
    if run.session:
        return f"{text}, as is usual for an interactive session."
    if shown is None or limit_s is None:
        return f"{text}{_usually(shown)}."
    if limit_s < shown.high_s:
        return f"{text}; that was too short, for {_like_it(shown)}."
    return f"{text}, though {_like_it(shown)}: something held it up, or it had more to do than others."


def _usually(shown: PredictedAtStart | None) -> str:
    return "" if shown is None else f"; {_like_it(shown)}"


def _not_compared(run: RecentRun) -> str:
    if run.session:
        return "It was an interactive session, so it is not compared with other runs."
    if run.n is None:
        return "Its size was not reported, or changed while it ran, so it is not compared with other runs."
    if run.application_id is None:
        return "Its application could not be identified, so it is not compared with other runs."
    return "It had not been predicted before it ended, as with the first runs of an application or a size."


def trust(verdict: str, source: str = "curve") -> str:
    """Return in one sentence how far to trust a prediction."""
    if source == SIMILAR_RUNS:
        return (
            "Take this with care. It rests on runs of the same user, name or kind, not on a model of the application."
        )
    if verdict == RELIABLE:
        return "You can rely on this."
    return f"Take this with care. {explained(verdict)}".rstrip()


def record(runs: Sequence[RecentRun]) -> str:
    """Return how often runs fell inside their bands, in one sentence; empty where none had been predicted."""
    known = [(run, run.predicted) for run in runs if run.predicted is not None and run.state == COMPLETED]
    if not known:
        return ""
    covered = sum(shown.holds(run.run_time_s) for run, shown in known)
    last = "the last run that was predicted" if len(known) == 1 else f"the last {len(known)} runs that were predicted"
    return f"Of {last}, {covered} fell inside {'its band' if len(known) == 1 else 'their bands'}."


def expected_end(job: JobPrediction) -> str:
    """Return when a running job will end, in one sentence."""
    if not job.known or job.end is None or job.run_time_s is None or job.coverage is None:
        return f"Its end cannot be predicted yet. {explained(job.reliability.verdict)}".rstrip()
    often = of_runs(job.coverage).replace("runs", "such jobs")
    end = moment(job.end)[-5:] if job.end[:10] == job.as_of[:10] else moment(job.end)
    after_s = (parse_rfc3339(job.end) - parse_rfc3339(job.start)) / 1000  # its limit may end it before its run time
    return (
        f"It should end about {end} UTC, {rounded(after_s)} after its start; "
        f"{often} end {_between(job.end_low, job.end_high)}."
    )


def _between(low: str | None, high: str | None) -> str:
    if low is None or high is None:
        return "at times that are not known"
    alike = moment(low)[:10] == moment(high)[:10]
    text = f"{moment(low)[-5:]} and {moment(high)[-5:]}" if alike else span(low, high).replace(" to ", " and ")
    return f"between {text}"


def limit_chance(job: JobPrediction) -> str:
    """Return how a running job stands to its time limit, in one sentence; empty where it has none."""
    limit_s, chance = job.time_limit_s, job.probability_exceeds_limit
    if limit_s is None:
        return ""
    limit = f"its time limit of {duration(limit_s)}"
    if job.session:
        return f"It is an interactive session: it ends when its user leaves, or at {limit}."
    if chance is None:
        return f"The chance that it reaches {limit} is not known."
    if chance < HARDLY:
        return f"It will hardly reach {limit}: the chance is {percent(chance)}."
    if not hits(chance, session=job.session):
        return f"It may reach {limit}: the chance is {percent(chance)}."
    return (
        f"{limit.capitalize()} will probably end it, with a chance of {percent(chance)}: "
        "let it save its work, or ask the centre for more time."
    )


def settling(ended: JobPrediction, runs: Sequence[RecentRun]) -> str:
    """Return the sentence about a job whose run has ended and not settled yet; nothing where the run is among those known."""
    start_ms = parse_rfc3339(ended.start)
    if any(run.start_ms >= start_ms for run in runs):
        return ""
    return "Its run is over. Its outcome is shown here once it has settled, some minutes after its end."


def current_prediction(point: CurvePoint) -> PredictedAtStart:
    """Return a point of the current curve in the form of a prediction at the start of a run."""
    return PredictedAtStart(
        run_time_s=point.run_time_s,
        low_s=point.low_s,
        high_s=point.high_s,
        coverage=point.coverage,
        verdict=point.reliability.verdict,
        source="curve",
    )


def enough_limit(high_s: float) -> float:
    """Return the time limit to ask for, by the upper end of the band: with a tenth to spare, rounded up."""
    return next_limit(high_s * MARGIN)


def limit_advice(usual: PredictedAtStart | None, had_s: float | None) -> str:
    """Return the time limit to ask for next time: the upper end of the band with a tenth to spare, rounded up.

    `had_s` is the limit that the run had. Empty where nothing is known of such runs.
    """
    if usual is None or not 0 < usual.high_s < math.inf:
        return ""
    limit_s = enough_limit(usual.high_s)
    why = f"{_within(usual.coverage)} end within {rounded(usual.high_s)}"
    if usual.verdict != RELIABLE or usual.source == SIMILAR_RUNS:
        requested = f"ask for no less than {rounded(limit_s)}"
        return f"Stay generous and {requested}: {why}, as far as is known."
    if had_s is not None and limit_s <= had_s <= GENEROUS * limit_s:
        return f"Your limit of {rounded(had_s)} fits: {why}."
    return f"Ask for {rounded(limit_s)}: {why}.{_about(had_s, limit_s)}"


def _within(coverage: float) -> str:
    """Return how many runs stay below the upper end of a band that holds so many."""
    below = (1 + coverage) / 2
    twentieths = below * 20
    return f"{twentieths:.0f} of 20 runs like it" if _is_whole(twentieths) else f"{share(below)} of runs like it"


def _about(had_s: float | None, limit_s: float) -> str:
    if had_s is None:
        return ""
    if had_s < limit_s:
        return f" Your limit of {rounded(had_s)} is tight."
    return f" You asked for {rounded(had_s)}; a shorter limit may let it start sooner."


def time_at(points: Sequence[CurvePoint], n: float) -> float | None:
    """Return the run time at a size between those that were run, in seconds; None outside of them.

    Between two points a straight line on logarithmic axes.
    """
    known = sorted((point.n, point.run_time_s) for point in points if point.source in INSIDE and point.run_time_s > 0)
    for (low, low_s), (high, high_s) in zip(known, known[1:] or known, strict=False):
        if low == n:
            return low_s
        if low <= n <= high:
            part = 0.0 if high == low else math.log(n / low) / math.log(high / low)
            return math.exp(math.log(low_s) * (1 - part) + math.log(high_s) * part)
    return known[0][1] if known and known[0][0] == n else None


def size_advice(entry: Prediction | None, n: float | None) -> str:
    """Return what to know of the size: whether it helped, and what half of it would have cost; empty where nobody knows."""
    if entry is None or n is None:
        return ""
    if entry.reliability.verdict in NO_CURVE or entry.model.name == SIMILAR_RUNS:
        return f"The best size is not known yet. {explained(entry.reliability.verdict)}"
    most = entry.useful_n.max
    took_s, half_s = time_at(entry.curve, n), time_at(entry.curve, n / 2)
    if most is not None and n > most * USED_UP and not gains(entry, most, n):
        return _too_many(entry, n, most)
    if took_s is None or half_s is None or n < 2:
        return "" if most is None or n >= most else f"More {entry.unit} help up to {size(most)}."
    return _against_half(sized(n / 2, entry.unit), took_s, half_s, alone=n == 2)


def gains(entry: Prediction, fewer: float, n: float) -> bool:
    """Return whether a size is faster than a smaller one, by the curve; False where it does not reach both.

    What is useful is told by efficiency, too: a size at which half of each node is lost may be the fastest all the same.
    """
    of = {point.n: point.run_time_s for point in entry.curve}
    fewer_s, took_s = (of.get(size) or time_at(entry.curve, size) for size in (fewer, n))
    return fewer_s is not None and took_s is not None and took_s * (1.0 + ALIKE) < fewer_s


def _against_half(half: str, took_s: float, half_s: float, *, alone: bool) -> str:
    longer = half_s / took_s - 1
    shown = f"{half} {'takes' if alone else 'take'} about {rounded(half_s)}"
    if longer < ALIKE_SHARE:
        return f"Half the size is as good: {shown}."
    if longer <= LITTLE:
        return f"Half the size costs little: {shown}, {share(longer)} longer, and leave{'s' if alone else ''} the rest to others."
    return f"The size is well used: {shown}, {share(longer)} longer."


def _too_many(entry: Prediction, n: float, most: float) -> str:
    at_most_s = time_at(entry.curve, most)
    instead = f", and {sized(most, entry.unit)} take about {rounded(at_most_s)}" if at_most_s else ""
    return f"Ask for {sized(most, entry.unit)}: more hardly help{instead}. You asked for {sized(n, entry.unit)}."


def energy_text(run: RecentRun, point: CurvePoint | None) -> str:
    """Return what a run used in energy against what is usual; empty where it was not measured."""
    used_j = run.energy_j
    if used_j is None:
        return ""
    text = f"It used {kilowatt_hours(used_j)} ({energy(used_j)})"
    usual_j = point.energy_j if point is not None else None
    if not usual_j or run.state != "COMPLETED":
        return f"{text}."
    ratio = used_j / usual_j
    if abs(ratio - 1) < ALIKE_SHARE:
        return f"{text}, as much as usual."
    return f"{text}, {share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} than usual."


def kilowatt_hours(joules: float) -> str:
    """Return an energy in the unit of bills."""
    amount = joules / 3.6e6
    return f"{amount:.0f} kWh" if amount >= 100 else f"{amount:.3g} kWh"
