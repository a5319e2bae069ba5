"""Hosts against their peers, minute by minute."""

import re

import numpy as np

from processors.hosts.detectors import Difference, PeerComparison
from processors.hosts.windows import MinuteBatch

MINUTE_MS = 60_000
HOSTS = 20
ROWS = np.arange(HOSTS)


def minute(
    deviating: PeerComparison, number: int, values: np.ndarray, names: str = "cpu_available", group: object = None
) -> None:
    deviating.grow(HOSTS)
    deviating.take(MinuteBatch(ROWS, ROWS, np.full(HOSTS, number * MINUTE_MS), np.repeat(values[:, None], 6, axis=1)))
    groups = np.zeros(HOSTS, int) if group is None else np.asarray(group)
    deviating.judge((number + 1) * MINUTE_MS, [names] * HOSTS, ROWS, groups)


def cpu(**slow: float) -> np.ndarray:
    values = 0.9 + 0.01 * np.sin(ROWS)
    for host, value in slow.items():
        values[int(host[1:])] = value
    return values


def new() -> PeerComparison:
    return PeerComparison(re.compile("^cpu"))


def test_it_is_unlike_since_the_first_minute_and_not_any_more_when_it_is_like_the_others() -> None:
    deviating = new()
    for number in range(3):
        minute(deviating, number, cpu(h3=0.3))
    assert deviating.difference(3) == Difference(MINUTE_MS, 0.3, deviating.difference(3).usual)  # type: ignore[union-attr]  # it is unlike
    assert np.flatnonzero(deviating.rows["since_ms"] >= 0).tolist() == [3]
    minute(deviating, 3, cpu())
    assert deviating.difference(3) is None


def test_groups_of_two_kinds_are_shown_nothing_of() -> None:
    deviating = new()
    minute(deviating, 0, cpu(h3=0.3, h4=0.3, h5=0.3))
    assert not (deviating.rows["since_ms"] >= 0).any()


def test_other_resources_other_groups_and_old_minutes_are_not_compared() -> None:
    deviating = new()
    minute(deviating, 0, cpu(h3=0.3), names="memory_free")
    assert not (deviating.rows["since_ms"] >= 0).any()
    minute(deviating, 1, cpu(h3=0.3), group=np.where(ROWS == 3, -1, 0))
    assert not (deviating.rows["since_ms"] >= 0).any()
    deviating.judge(9 * MINUTE_MS, ["cpu_available"] * HOSTS, ROWS, np.zeros(HOSTS, int))
    assert not (deviating.rows["since_ms"] >= 0).any()


def test_a_small_difference_is_none_however_alike_the_others_are() -> None:
    deviating = new()
    minute(deviating, 0, np.where(ROWS == 3, 0.8, 0.9))
    assert not (deviating.rows["since_ms"] >= 0).any()
