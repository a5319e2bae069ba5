"""A simulated centre with a past that continues in real time: its jobs and measurements from any time on.

Timestamps are simulated times: the past can be written quickly, but no message is written before its time.
"""

import heapq
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from agent.simulation.centre import SYSTEM, Centre, TimedEvent
from agent.simulation.load import HOUR_MS, SharedNodes
from agent.simulation.meters import MINUTE_MS, MeasuredJobs, Meters

CHANGED_BEFORE_MS: Final = 2 * HOUR_MS  # the opening: an application becomes slower then, another fails more often
Kind = Literal["jobs", "load", "energy"]


class TimedMessage(NamedTuple):
    """A message and its time in ms since the epoch: a native event, or energy in line protocol."""

    time_ms: int
    kind: Kind
    value: bytes


class LivingCentre:
    """A centre whose whole-node partition has run jobs since `began_ms`, and whose measured shared nodes open at `opened_ms`.

    The same seed and times give the same job events, independent of the time at which reading starts.
    """

    def __init__(self, seed: int, began_ms: int, opened_ms: int, system: str = SYSTEM) -> None:
        self.seed, self.began_ms, self.opened_ms = seed, began_ms, opened_ms
        changed_ms = max(opened_ms - CHANGED_BEFORE_MS, began_ms)
        self._whole = Centre(seed, began_ms, horizon_s=(changed_ms - began_ms) / 500, system=system)
        self._shared = SharedNodes(seed, opened_ms, system=system)

    def truth(self, application_id: str, n: float, time_ms: int) -> float | None:
        """Return the true run time in seconds at a time; on shared nodes the run time under the usual load."""
        return self._whole.truth(application_id, n, time_ms) or self._shared.truth(application_id, n)

    def jobs(self, from_ms: int) -> Iterator[TimedMessage]:
        """Yield job messages from a time on, without end."""
        events = heapq.merge(self._whole.events(), self._shared.events(), key=_time)
        return (TimedMessage(event.time_ms, "jobs", event.value) for event in events if event.time_ms >= from_ms)

    def measured(self, from_ms: int) -> Iterator[TimedMessage]:
        """Yield host measurements from a full minute on, without end.

        Raise ValueError if `from_ms` is before the opening of the shared nodes.
        """
        if from_ms % MINUTE_MS or from_ms < self.opened_ms:
            raise ValueError(f"{from_ms} is no full minute since {self.opened_ms}.")
        load = (TimedMessage(time_ms, "load", value) for time_ms, value in self._shared.samples(from_ms))
        whole = MeasuredJobs(self._whole).meters(start_ms=from_ms)
        meters = (
            _metered(self._shared.meters(start_ms=from_ms), running(self._shared.events(), from_ms)),
            _metered(whole, running(self._whole.events(), from_ms)),
        )
        return heapq.merge(load, *meters, key=_time)


def running(events: Iterator[TimedEvent], from_ms: int) -> Iterator[TimedEvent]:
    """Yield the starts of the jobs that run at `from_ms`, and then all later events, without end."""
    begun: dict[str, TimedEvent] = {}
    for event in events:
        if event.time_ms > from_ms:
            yield from begun.values()
            yield event
            break
        job_id = event.event["job_id"]
        if event.event["type"] == "job.started":
            begun[job_id] = event
        else:
            del begun[job_id]
    yield from events


def _metered(meters: Meters, events: Iterator[TimedEvent]) -> Iterator[TimedMessage]:
    for reported in meters.messages(events):
        yield TimedMessage(reported.time_ms, "load", reported.events)
        if reported.lines:
            yield TimedMessage(reported.time_ms, "energy", reported.lines)


def _time(entry: TimedEvent | TimedMessage) -> int:
    return entry.time_ms
