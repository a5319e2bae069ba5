"""A tick is trusted as far as the time at which the broker took it."""

import pytest

from agent.learner.learner import AHEAD_MAX_MS, at_broker_time, is_ahead
from processors.contracts.events import HostState, JournalRecord, Tick

NOW_MS = 1_700_000_000_400


@pytest.mark.parametrize(
    ("time_ms", "written_ms", "ahead"),
    [
        (NOW_MS, NOW_MS, False),
        (NOW_MS - 3_600_000, NOW_MS, False),
        (NOW_MS + AHEAD_MAX_MS, NOW_MS, False),
        (NOW_MS + AHEAD_MAX_MS + 1, NOW_MS, True),
        (NOW_MS, 0, False),
        (NOW_MS, -1, False),
    ],
)
def test_only_a_tick_well_ahead_of_the_brokers_time_is_refused(time_ms: int, written_ms: int, ahead: bool) -> None:  # noqa: FBT001  a column of the table
    assert is_ahead(JournalRecord(Tick("", time_ms=time_ms)), written_ms) == ahead


def test_times_of_producers_are_never_refused() -> None:
    assert not is_ahead(JournalRecord(HostState("exa", "nid1", "drain", NOW_MS + 3_600_000)), NOW_MS)


def test_the_brokers_time_counts_in_whole_seconds() -> None:
    late = at_broker_time(JournalRecord(Tick("", time_ms=NOW_MS + 3_600_000)), NOW_MS)
    assert late == JournalRecord(Tick("", time_ms=1_700_000_000_000))
