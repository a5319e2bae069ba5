"""What the person who ran a job is told of it, in plain sentences: how it went, and how far to trust that."""

from collections.abc import Sequence
from typing import Final

from agent.contracts.moments import parse_rfc3339
from agent.contracts.outputs import JobPrediction
from agent.contracts.recent import RecentRun, Told
from agent.http.rounded import between, rounded
from agent.words import counted, duration, explained, moment, share, sized, span

COMPLETED: Final = "COMPLETED"
SHORT_S: Final = 10.0  # starting and ending take as long
NEAR: Final = 0.1  # outside of its band by so little, a run is nothing to worry about
FAR: Final = 1000.0  # times as long: a number says no more
ALIKE: Final = 0.02  # two run times that differ by less are said to be equal
DOUBTFUL: Final = frozenset({"high_error", "insufficient", "far", "uncertain", "unknown"})  # of a size that was run
HARDLY: Final = 0.05
PROBABLY: Final = 0.5
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
    """Return how a run went against what is usual, in one plain sentence.

    >>> told = Told(run_time_s=1700.0, low_s=1620.0, high_s=2040.0, coverage=0.8, verdict="reliable", source="curve")
    >>> run = RecentRun(run_id="exa/1@0", system="exa", job_id="1", application_id=None, n=64.0, start_ms=0,
    ...                 end_ms=0, run_time_s=1860.0, state="COMPLETED", told=told)
    >>> outcome(run, "nodes")
    'It took 31 min, 9.4 % longer than usual at 64 nodes; 8 of 10 runs like it take 27 to 34 min.'
    """
    if run.state == COMPLETED:
        return _completed(run, unit)
    if run.state == "TIMEOUT":
        return _timed_out(run)
    how = _ENDED.get(run.state, "It ended as {state} after {time}").replace("{}", "{time}")
    said = how.format(state=run.state or "unknown", time=rounded(run.run_time_s))
    return f"{said}{_usually(run.told)}."


def _completed(run: RecentRun, unit: str) -> str:
    told, took = run.told, f"It took {_took(run)}"
    if told is None or told.run_time_s <= 0:
        return f"{took}. {_not_compared(run)}"
    if max(run.run_time_s, told.run_time_s) < SHORT_S:
        return f"{took}. Runs this short are not compared: to start and to end takes as long."
    against = _against(run.run_time_s / told.run_time_s, _usual(told, run.n, unit))
    most = _like_it(told)
    if told.holds(run.run_time_s):
        return f"{took}, {against}; {most}."
    if abs(run.run_time_s / told.run_time_s - 1) < NEAR:
        return f"{took}, {against}, a little outside of the ordinary: {most}."
    return f"{took}, {against}. That is out of the ordinary: {most}."


def _took(run: RecentRun) -> str:
    """Return the run time, to the second where the band is so narrow that minutes would not tell them apart."""
    ends = () if run.told is None else (rounded(run.told.low_s), rounded(run.told.high_s))
    narrow = len(set(ends)) == 1 or (
        run.told is not None and not run.told.holds(run.run_time_s) and rounded(run.run_time_s) in ends
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


def _usual(told: Told, n: float | None, unit: str) -> str:
    if told.source == "similar_runs":
        return "similar runs do"
    at = "" if n is None else f" at {sized(n, unit)}"
    return f"usual at its settings{at.replace(' at ', ' and ', 1)}" if told.source == "features" else f"usual{at}"


def _like_it(told: Told) -> str:
    return f"{of_runs(told.coverage)} like it take {between(told.low_s, told.high_s)}"


def of_runs(coverage: float) -> str:
    """Return how many runs a band is to hold.

    >>> of_runs(0.9), of_runs(0.85)
    ('9 of 10 runs', '85 % of runs')
    """
    tenths = coverage * 10
    return f"{tenths:.0f} of 10 runs" if abs(tenths - round(tenths)) < 0.01 else f"{share(coverage)} of runs"


def _timed_out(run: RecentRun) -> str:
    told, limit_s = run.told, run.time_limit_s
    said = (
        f"Its time limit of {rounded(limit_s)} ended it"
        if limit_s
        else f"Its time limit ended it after {rounded(run.run_time_s)}"
    )
    if told is None or limit_s is None:
        return f"{said}{_usually(told)}."
    if limit_s < told.high_s:
        return f"{said}; that was too short, for {_like_it(told)}."
    return f"{said}, though {_like_it(told)}: something held it up, or it had more to do than others."


def _usually(told: Told | None) -> str:
    return "" if told is None else f"; {_like_it(told)}"


def _not_compared(run: RecentRun) -> str:
    if run.n is None:
        return "Its size was not told, or changed while it ran, so it is compared with no other run."
    if run.application_id is None:
        return "Nobody knows which application it was, so it is compared with no other run."
    return "Nothing had been predicted of it before it ended, as for the first runs of an application or a size."


def trust(verdict: str, source: str = "curve") -> str:
    """Return in one sentence how far to trust what is said to be usual.

    >>> trust("reliable"), trust("high_error")[:41], trust("uncertain", "similar_runs")[:32]
    ('You can rely on this.', 'Take this with care. The runs do not lie ', 'Take this with care. It rests on')
    """
    if source == "similar_runs":
        return (
            "Take this with care. It rests on runs of the same user, name or kind, not on a model of the application."
        )
    if verdict == "reliable":
        return "You can rely on this."
    if verdict in DOUBTFUL:
        return f"Take this with care. {explained(verdict)}"
    return f"At sizes that were run you can rely on this. {explained(verdict)}".rstrip()


def record(runs: Sequence[RecentRun]) -> str:
    """Return how often runs lay inside the bands that were told of them; empty where none was told.

    >>> told = Told(run_time_s=100.0, low_s=90.0, high_s=110.0, coverage=0.9, verdict="reliable", source="curve")
    >>> run = RecentRun(run_id="exa/1@0", system="exa", job_id="1", application_id=None, n=8.0, start_ms=0, end_ms=0,
    ...                 run_time_s=95.0, state="COMPLETED", told=told)
    >>> record([run, run]), record([])
    ('Of the last 2 runs of which something was said before they ended, 2 were inside.', '')
    """
    known = [(run, run.told) for run in runs if run.told is not None and run.state == COMPLETED]
    if not known:
        return ""
    held = sum(told.holds(run.run_time_s) for run, told in known)
    last = "the last run" if len(known) == 1 else f"the last {counted(len(known), 'run')}"
    before = "it ended" if len(known) == 1 else "they ended"
    return f"Of {last} of which something was said before {before}, {held} {'was' if held == 1 else 'were'} inside."


def expected_end(job: JobPrediction) -> str:
    """Return when a running job will end, in one sentence.

    >>> from types import SimpleNamespace
    >>> expected_end(SimpleNamespace(known=False, reliability=SimpleNamespace(verdict="unknown", advice=())))
    'When it will end can not be said yet. Nothing is known of this application.'
    """
    if not job.known or job.end is None or job.run_time_s is None or job.coverage is None:
        return f"When it will end can not be said yet. {explained(job.reliability.verdict)}".rstrip()
    often = of_runs(job.coverage).replace("runs", "such jobs")
    end = moment(job.end)[-5:] if job.end[:10] == job.as_of[:10] else moment(job.end)
    return (
        f"It should end about {end} UTC, {rounded(job.run_time_s)} after its start; "
        f"{often} end {_between(job.end_low, job.end_high)}."
    )


def _between(low: str | None, high: str | None) -> str:
    if low is None or high is None:
        return "at times that are not known"
    alike = moment(low)[:10] == moment(high)[:10]
    said = f"{moment(low)[-5:]} and {moment(high)[-5:]}" if alike else span(low, high).replace(" to ", " and ")
    return f"between {said}"


def limit_chance(job: JobPrediction) -> str:
    """Return how a running job stands to its time limit, in one sentence; empty where it has none.

    >>> from types import SimpleNamespace
    >>> limit_chance(SimpleNamespace(time_limit_s=7200.0, probability_exceeds_limit=0.01))
    'It will hardly reach its time limit of 2 h: the chance is 1.0 %.'
    >>> limit_chance(SimpleNamespace(time_limit_s=1800.0, probability_exceeds_limit=0.8))[:53]
    'Its time limit of 30 min will probably end it, with a'
    """
    limit_s, chance = job.time_limit_s, job.probability_exceeds_limit
    if limit_s is None:
        return ""
    limit = f"its time limit of {duration(limit_s)}"
    if chance is None:
        return f"How it stands to {limit} can not be said."
    if chance < HARDLY:
        return f"It will hardly reach {limit}: the chance is {share(chance)}."
    if chance < PROBABLY:
        return f"It may reach {limit}: the chance is {share(chance)}."
    return (
        f"{limit.capitalize()} will probably end it, with a chance of {share(chance)}: "
        "let it save its work, or ask the centre for more time."
    )


def settling(ended: JobPrediction, runs: Sequence[RecentRun]) -> str:
    """Return what is said of a job whose run has ended and not settled yet; nothing where the run is among those known.

    >>> from types import SimpleNamespace
    >>> ended = SimpleNamespace(start="2026-11-20T10:00:00Z")
    >>> settling(ended, []).partition(".")[0]
    'Its run is over'
    >>> settling(ended, [SimpleNamespace(start_ms=1_795_168_800_000)])
    ''
    """
    start_ms = parse_rfc3339(ended.start)
    if any(run.start_ms >= start_ms for run in runs):
        return ""
    return "Its run is over. How it went is told here when it has settled, some minutes after its end."
