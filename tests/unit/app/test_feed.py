"""Files into the journal: in the order of time, with ticks made from it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.app import embedded
from agent.app.embedded import GAP_MAX_MS, TICK_MS, Feed, ticks
from agent.app.files import ReportedEvent, reported_ms
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import (
    HostMinute,
    Identity,
    JobEvent,
    JobStarted,
    Origin,
    PredictionRequested,
)
from tests.kit.scenario import SYSTEM, completed, evidence, moment_ms

NINE_MS = moment_ms("09:00")


class Written:
    """A journal that keeps what is written, as texts."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        if event.system == "unlisted":
            raise InvalidInputError("unknown-system", "The system is not listed.")
        self.lines.append(f"{event.identity} from {origin.topic}:{origin.offset}")

    def tick(self, time_ms: int) -> None:
        self.lines.append(f"tick {(time_ms - NINE_MS) // 1000}")


def started(job: str, second: int, system: str = SYSTEM) -> JobStarted:
    time_ms = NINE_MS + second * 1000
    return JobStarted(system, job, f"{system}/{job}", time_ms, evidence("lammps", 4))


def timed(event: JobEvent) -> ReportedEvent:
    return ReportedEvent(reported_ms(event), event, "events.jsonl:7")


def test_an_event_comes_after_the_ticks_up_to_its_time() -> None:
    journal = Written()
    feeding = Feed(journal)
    for event in (started("1", 0), started("2", 25), started("3", 30)):
        feeding.take(timed(event))
    assert journal.lines == [
        "tick 0", "started:exa/1 from events.jsonl:0", "tick 10", "tick 20", "started:exa/2 from events.jsonl:1",
        "tick 30", "started:exa/3 from events.jsonl:2",
    ]  # fmt: skip


def test_time_never_goes_backwards() -> None:
    journal = Written()
    feeding = Feed(journal)
    for event in (started("1", 60), started("2", 0)):
        feeding.take(timed(event))
    assert [line for line in journal.lines if line.startswith("tick")] == ["tick 60"]


def test_events_without_a_time_of_their_own_are_reported_where_they_stand() -> None:
    journal = Written()
    feeding = Feed(journal)
    request = PredictionRequested(SYSTEM, "r1", (4.0,), evidence("lammps"))
    identity = Identity(SYSTEM, job_id="1", source="xalt", evidence=evidence("lammps"))
    for event in (started("1", 0), request, identity, started("2", 10)):
        feeding.take(timed(event))
    assert [line.split(" from")[0] for line in journal.lines] == [
        "tick 0", "started:exa/1", "request:exa:r1", "identity:exa/1:xalt", "tick 10", "started:exa/2",
    ]  # fmt: skip


def test_a_refused_event_takes_no_place_in_the_journal() -> None:
    journal = Written()
    feeding = Feed(journal)
    with pytest.raises(InvalidInputError):
        feeding.take(timed(started("1", 0, system="unlisted")))
    feeding.take(timed(started("2", 0)))
    assert journal.lines[-1] == "started:exa/2 from events.jsonl:0"


def test_at_the_end_time_passes_on_so_that_runs_settle() -> None:
    journal = Written()
    feeding = Feed(journal)
    feeding.take(timed(started("1", 0)))
    feeding.finish(7_200_000)
    assert journal.lines[-1] == "tick 7200"


def test_a_file_without_times_makes_no_time() -> None:
    journal = Written()
    feeding = Feed(journal)
    feeding.take(timed(PredictionRequested(SYSTEM, "r1", (4.0,), evidence("lammps"))))
    feeding.finish(7_200_000)
    assert [line for line in journal.lines if line.startswith("tick")] == []


def test_a_completion_is_reported_at_its_end_and_a_start_when_it_happens() -> None:
    assert reported_ms(completed("1", NINE_MS, 60.0)) == NINE_MS + 60_000
    assert reported_ms(started("1", 5)) == NINE_MS + 5000
    assert reported_ms(PredictionRequested(SYSTEM, "r1", (4.0,), evidence("lammps"))) is None


@given(st.integers(0, 10**6), st.integers(-(10**6), 10**6))
def test_ticks_rise_to_their_target_and_are_few_in_a_gap(now: int, steps: int) -> None:
    now_ms, target_ms = now * TICK_MS, (now + steps) * TICK_MS
    made = list(ticks(now_ms, target_ms))
    if steps <= 0:
        assert made == []
        return
    assert made[-1] == target_ms
    assert all(a < b for a, b in pairwise([now_ms, *made]))
    assert all(time_ms % TICK_MS == 0 for time_ms in made)
    assert len(made) <= 2 * GAP_MAX_MS / embedded.LONG_MS
    assert made[0] == (now_ms + TICK_MS if target_ms - now_ms <= GAP_MAX_MS else target_ms)
