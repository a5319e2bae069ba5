"""Files into the journal: in the order of time, with ticks made from it."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.app import feed
from agent.app.feed import GAP_MAX_MS, TICK_MS, Feed, TimedEvent, in_order, ticks, told_ms
from agent.contracts.errors import ConfigError, InvalidInputError
from agent.contracts.events import Identity, JobCompleted, JobEvent, JobStarted, Origin, PredictionRequested
from agent.decode.files import FileRecord, read_files
from agent.decode.options import DecodeOptions
from tests.kit.scenario import SYSTEM, completed, evidence, moment_ms

NINE_MS = moment_ms("09:00")
SACCT = """JobID|JobName|State|Start|End|Elapsed|AllocNodes|Cluster
3|c|COMPLETED|2026-11-20T09:02:00|2026-11-20T09:03:00|00:01:00|4|exa
1|a|COMPLETED|2026-11-20T09:00:00|2026-11-20T09:04:00|00:04:00|4|exa
2|b|COMPLETED|2026-11-20T09:01:00|2026-11-20T09:02:00|00:01:00|4|exa
"""


class Written:
    """A journal that keeps what is written, as texts."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, event: JobEvent, origin: Origin) -> None:
        if event.system == "unlisted":
            raise InvalidInputError("unknown-system", "The system is not listed.")
        self.lines.append(f"{event.identity} from {origin.topic}:{origin.offset}")

    def tick(self, time_ms: int) -> None:
        self.lines.append(f"tick {(time_ms - NINE_MS) // 1000}")


def started(job: str, second: int, system: str = SYSTEM) -> JobStarted:
    time_ms = NINE_MS + second * 1000
    return JobStarted(system, job, f"{system}/{job}", time_ms, evidence("lammps", 4))


def timed(event: JobEvent) -> TimedEvent:
    return TimedEvent(told_ms(event), event, "events.jsonl:7")


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


def test_events_without_a_time_of_their_own_are_told_where_they_stand() -> None:
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


def test_a_completion_is_told_at_its_end_and_a_start_when_it_happens() -> None:
    assert told_ms(completed("1", NINE_MS, 60.0)) == NINE_MS + 60_000
    assert told_ms(started("1", 5)) == NINE_MS + 5000
    assert told_ms(PredictionRequested(SYSTEM, "r1", (4.0,), evidence("lammps"))) is None


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
    assert len(made) <= 2 * GAP_MAX_MS / feed.LONG_MS
    assert made[0] == (now_ms + TICK_MS if target_ms - now_ms <= GAP_MAX_MS else target_ms)


def records(folder: Path, **texts: str) -> list[FileRecord]:
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.write_text(text)
        paths.append(str(path))
    return list(read_files(paths, NINE_MS * 2, DecodeOptions(default_system=SYSTEM)))


def jobs(items: list[TimedEvent | FileRecord]) -> list[str]:
    return [
        item.event.job_id for item in items if isinstance(item, TimedEvent) and isinstance(item.event, JobCompleted)
    ]


def test_a_table_of_jobs_is_put_in_the_order_of_their_ends(tmp_path: Path) -> None:
    assert jobs(list(in_order(records(tmp_path, table=SACCT)))) == ["2", "3", "1"]


def test_tables_of_several_files_become_one_order(tmp_path: Path) -> None:
    head, *rows = SACCT.splitlines()
    texts = {f"file{i}": f"{head}\n{row}\n" for i, row in enumerate(rows)}
    assert jobs(list(in_order(records(tmp_path, **texts)))) == ["2", "3", "1"]


def test_a_stream_keeps_its_order_and_what_was_refused_comes_along(tmp_path: Path) -> None:
    line = (
        '{"type": "job.completed", "system": "exa", "job_id": "%s", "application": "a", "n": 1, "unit": "nodes",'
        ' "start": "2026-11-20T%s:00:00Z", "run_time_s": 60}'
    )
    lines = [line % ("9", "10"), "not an event", line % ("8", "09")]
    items = list(in_order(records(tmp_path, stream="\n".join(lines))))
    assert jobs(items) == ["9", "8"]
    assert [type(item) for item in items] == [TimedEvent, FileRecord, TimedEvent]
    assert [error.reason for error in feed.refused(items[1])] == ["not-json"]  # type: ignore[arg-type] # by the line above


def test_more_jobs_than_can_be_sorted_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "JOBS_MAX", 2)
    with pytest.raises(ConfigError, match=r"^The files list more than 2 jobs; split them\.$"):
        list(in_order(records(tmp_path, table=SACCT)))
