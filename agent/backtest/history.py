"""Past events in the order in which the agent would have heard of them, with the starts that a log does not list."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agent.contracts.events import HostMinute, JobCompleted, JobEvent, JobStarted

PERIODS: Final = 40
RUNS_OF_PERIOD: Final = 20  # fewer say little of a share
MINUTE_MS: Final = 60_000
TOLD_AFTER_MS: Final = 10_000
_END, _START, _OTHER, _INSTANT = range(4)  # order at one time: what ended is known to what starts then


class Moment(NamedTuple):
    """An event and when it is told; `order` sorts events of one time, `number` keeps the order of the files."""

    time_ms: int
    order: int
    number: int
    event: JobEvent | HostMinute


def ran(event: JobCompleted) -> bool:
    """Tell whether a completed job ran at all: one that was cancelled while it waited did not.

    >>> from agent.contracts.events import Evidence
    >>> ran(JobCompleted("exa", "1", "exa/1@5", 5, 5, 0.0, "CANCELLED", Evidence()))
    False
    """
    return event.run_time_s > 0


def moments(events: Sequence[JobEvent]) -> list[Moment]:
    """Return the events in order of time; a run whose start is not told starts when its completion says.

    Ends come before starts of the same time. Other evidence of a job has no time of its own and keeps its place behind
    the event that it follows.

    >>> from agent.contracts.events import Evidence
    >>> first = JobCompleted("exa", "1", "exa/1@0", 0, 60_000, 60.0, "COMPLETED", Evidence())
    >>> second = JobCompleted("exa", "2", "exa/2@60000", 60_000, 90_000, 30.0, "COMPLETED", Evidence())
    >>> [(moment.time_ms, moment.event.identity) for moment in moments([second, first])][:3]
    [(0, 'started:exa/1@0'), (60000, 'completed:exa/1@0'), (60000, 'started:exa/2@60000')]
    """
    told = {event.run_id for event in events if isinstance(event, JobStarted)}
    found: list[Moment] = []
    now_ms = 0
    for number, event in enumerate(events):
        if isinstance(event, JobCompleted):
            now_ms = event.end_ms
            found.append(Moment(now_ms, _INSTANT if event.end_ms <= event.start_ms else _END, number, event))
            if ran(event) and event.run_id not in told:
                told.add(event.run_id)
                found.append(Moment(event.start_ms, _START, number, _start_of(event)))
        elif isinstance(event, JobStarted):
            now_ms = event.start_ms
            found.append(Moment(now_ms, _START, number, event))
        else:
            found.append(Moment(now_ms, _OTHER, number, event))
    found.sort(key=lambda moment: moment[:3])
    return found


def minute_moments(minutes: Iterable[HostMinute]) -> list[Moment]:
    """Return the minutes of hosts, each when it would have been told: ten seconds after its end.

    >>> [moment.time_ms for moment in minute_moments([HostMinute("exa", "load/0", "nid1", 60_000, {})])]
    [130000]
    """
    return [
        Moment(minute.minute_ms + MINUTE_MS + TOLD_AFTER_MS, _OTHER, number, minute)
        for number, minute in enumerate(minutes)
    ]


def span(told: Iterable[Moment]) -> tuple[int, int]:
    """Return the time of the first and of the last start in ms; zeros without any.

    >>> span([])
    (0, 0)
    """
    starts = [moment.time_ms for moment in told if isinstance(moment.event, JobStarted)]
    return (min(starts), max(starts)) if starts else (0, 0)


def period_edges(told: Iterable[Moment], since_ms: int | None = None) -> list[int]:
    """Return the starts of periods that hold equally many starts of runs, and the end of the last one, in ms.

    There are at most PERIODS, of RUNS_OF_PERIOD runs or more; only starts from `since_ms` on count.

    >>> period_edges([], since_ms=5)
    [5, 6]
    """
    starts = [moment.time_ms for moment in told if isinstance(moment.event, JobStarted)]
    if since_ms is not None:
        starts = [start_ms for start_ms in starts if start_ms >= since_ms]
    first_ms = min(starts, default=since_ms or 0)
    count = max(1, min(PERIODS, len(starts) // RUNS_OF_PERIOD))
    inner = {starts[len(starts) * place // count] for place in range(1, count)}
    last_ms = max(starts, default=first_ms) + 1
    return sorted({first_ms, *inner, last_ms} if last_ms > first_ms else {first_ms, first_ms + 1})


def _start_of(event: JobCompleted) -> JobStarted:
    return JobStarted(
        event.system, job_id=event.job_id, run_id=event.run_id, start_ms=event.start_ms, evidence=event.evidence
    )
