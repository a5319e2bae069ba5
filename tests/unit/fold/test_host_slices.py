"""Work on very many hosts is done in slices, between which questions are answered."""

import pytest

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.events import JournalRecord, Tick
from processors.hosts.detectors import SCORED_AT_ONCE
from processors.pipeline.host_state import SLICE_BYTES
from processors.pipeline.shard import Shard
from tests.kit.host_minutes import MINUTE_MS, means, minute

HOSTS = SCORED_AT_ONCE + 100


@pytest.fixture(scope="module")
def centre() -> Shard:
    """Return a shard whose hosts have all measured for a minute that is not scored yet."""
    shard = make_shard(Config())
    for host in range(HOSTS):
        shard.fold(JournalRecord(minute(f"nid{host:04}", 1, cpu=means(1, host), memory=means(2, host))))
    shard.fold(JournalRecord(Tick("", time_ms=2 * MINUTE_MS)))
    return shard


def test_questions_are_let_in_while_the_state_of_many_hosts_is_copied(centre: Shard) -> None:
    seen: list[int] = []
    centre.give_way_by(lambda: seen.append(1))
    unsaved = centre.unsaved(with_hosts=True)
    states = unsaved.states()
    assert sum(len(value or b"") for value in states.values()) > SLICE_BYTES * (len(seen) - 1)
    assert len(seen) >= 2


def test_questions_are_let_in_while_a_minute_of_many_hosts_is_scored(centre: Shard) -> None:
    scored: list[int] = []
    rows = centre.hosts.state.multivariate.hosts.rows
    centre.give_way_by(lambda: scored.append(int((rows["scored_ms"] == MINUTE_MS).sum())))
    centre.fold(JournalRecord(Tick("", time_ms=4 * MINUTE_MS)))
    assert {SCORED_AT_ONCE, HOSTS} <= set(scored)
