"""Which hosts are candidates for an alert: a swarm of records of a host that is unusual as a whole."""

import numpy as np
import pytest

from processors.hosts.detectors import AnomalyCandidates, RecordTimes, Swarm
from processors.hosts.rows import NEVER_MS

MINUTE_MS = 60_000
SWARM = Swarm(10 * MINUTE_MS, resources_min=4, resources_share=0.15)


def close(fired: int, resources: int, unusual_ms: int, candidates: AnomalyCandidates | None = None) -> list[int]:
    """One host, of which so many resources have a record in minute 60, was last unusual at a time."""
    chosen = candidates or AnomalyCandidates()
    chosen.grow(1)
    fired_ms = np.full(resources, NEVER_MS)
    fired_ms[:fired] = 60 * MINUTE_MS
    records = RecordTimes(fired_ms, fired_ms, np.zeros(resources, np.bool_))
    closed = chosen.close(records, np.zeros(resources, np.int64), np.array([unusual_ms]), SWARM)
    return [int(host) for host in closed]


@pytest.mark.parametrize(
    ("fired", "resources", "found"),
    [(3, 20, False), (4, 20, True), (5, 38, False), (6, 38, True), (3, 3, True), (2, 3, False), (1, 1, False)],
)
def test_records_are_many_as_a_share_of_the_resources_and_four_at_least(
    fired: int, resources: int, *, found: bool
) -> None:
    assert (close(fired, resources, 60 * MINUTE_MS) == [0]) is found


@pytest.mark.parametrize(("unusual", "found"), [(49, False), (50, True), (60, True), (NEVER_MS, False)])
def test_records_of_a_host_that_is_as_usual_as_a_whole_are_none(unusual: int, *, found: bool) -> None:
    unusual_ms = unusual * MINUTE_MS if unusual > 0 else NEVER_MS
    assert (close(5, 20, unusual_ms) == [0]) is found


def test_records_wait_for_the_score_of_their_minute_and_are_found_once() -> None:
    candidates = AnomalyCandidates()
    assert close(5, 20, NEVER_MS, candidates) == []
    assert close(5, 20, 61 * MINUTE_MS, candidates) == [0]
    assert close(5, 20, 62 * MINUTE_MS, candidates) == []
    assert candidates.rows["since_ms"].tolist() == [60 * MINUTE_MS]


@pytest.mark.parametrize(
    ("lasting", "since"),
    [(5, 60), (4, 60), (3, 52)],
    ids=["five are still so", "four are still so", "three are too few, so what was of a moment counts"],
)
def test_a_host_is_odd_since_the_first_record_of_those_that_last(lasting: int, since: int) -> None:
    candidates = AnomalyCandidates()
    candidates.grow(1)
    minutes = np.full(8, 52)
    minutes[:lasting] = 60
    fired_ms = minutes * MINUTE_MS
    records = RecordTimes(fired_ms, fired_ms, minutes == 52)
    found = candidates.close(records, np.zeros(8, np.int64), np.array([60 * MINUTE_MS]), SWARM)
    assert found.tolist() == [0]
    assert candidates.rows["since_ms"].tolist() == [since * MINUTE_MS]
