"""Series that come together share a ring: what is held, counted and summed up of them is as if each had its own."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from processors.windows.minutes import summarise
from processors.windows.rings import WIDTH, GroupedRings, Rings
from tests.kit.effort import seeds
from tests.kit.rings import memory_bytes, plain_traits
from tests.kit.rings import retained as retained_of

KEEP_MS = 480_000
MINUTE_MS = 60_000
HOSTS, METRICS = 4, 20


@dataclass
class Pair:
    """The same samples in rings of both kinds."""

    grouped: GroupedRings = field(default_factory=lambda: GroupedRings(KEEP_MS))
    single: Rings = field(default_factory=lambda: Rings(KEEP_MS))

    def append(self, records: list[tuple[int, list[int]]], first: int = 0, floor_ms: int = 0) -> None:
        """Take records: the time of each, and its series."""
        series = np.array([number for _, numbers in records for number in numbers], np.int64)
        time_ms = np.array([at for at, numbers in records for _ in numbers], np.int64)
        record = np.array([first + nth for nth, (_, numbers) in enumerate(records) for _ in numbers], np.int64)
        value = (time_ms / 7 + series * 1_000) % 9_973
        self.grouped.append(series, time_ms, value, record, floor_ms)
        self.single.append(series, time_ms, value, floor_ms)

    def check(self, now_ms: int, count: int, floor_ms: int = 0) -> None:
        """Compare everything that can be asked."""
        assert self.grouped.counts == self.single.counts
        assert self.grouped.series_count() == self.single.series_count()
        assert self.grouped.numbers().tolist() == self.single.numbers().tolist()
        for series in range(count):
            (times, values), (own_times, own_values) = (
                retained_of(self.grouped, series),
                retained_of(self.single, series),
            )
            needed, own_needed = times >= floor_ms, own_times >= floor_ms
            assert times[needed].tolist() == own_times[own_needed].tolist()
            assert values[needed].tolist() == own_values[own_needed].tolist()
        chosen, late = np.arange(count) % 3 != 1, np.zeros(count, np.int64)
        for minute in range(now_ms // MINUTE_MS - 1, now_ms // MINUTE_MS + 1):
            rings_of_both = (self.grouped, self.single)
            one, other = (
                summarise(rings, minute * MINUTE_MS, chosen, late, traits=plain_traits(count))
                for rings in rings_of_both
            )
            one, other = (columns.take(np.argsort(columns.series)) for columns in (one, other))
            for name in one.__struct_fields__:
                assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name


def records_of(seed: int) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield polls of hosts that mostly report all their metrics, now and then others, fewer, in another order, late, or twice."""
    rng, now_ms = np.random.default_rng(seed), 100_000
    odd = rng.choice([0.0, 0.01, 0.2])
    for _ in range(120):
        poll = []
        for _ in range(int(rng.integers(1, 12))):
            now_ms += int(rng.integers(0, 1_500))
            host = int(rng.integers(HOSTS))
            numbers = [*range(host * METRICS, (host + 1) * METRICS)]
            at = now_ms - int(rng.integers(0, 60_000)) if rng.random() < 0.1 else now_ms
            if rng.random() < odd:
                kind = int(rng.integers(4))
                if kind == 0:
                    numbers = numbers[int(rng.integers(METRICS)) :]
                elif kind == 1:
                    rng.shuffle(numbers)
                elif kind == 2:
                    numbers = numbers[:12] + numbers[:10]
                else:
                    numbers = [int(number) for number in rng.integers(0, HOSTS * METRICS, 17)]
            poll.append((at, numbers))
            if rng.random() < 0.05:
                poll.append((at, numbers))
        yield poll


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_groups_hold_what_single_series_hold(seed: int) -> None:
    pair, first, count = Pair(), 0, HOSTS * METRICS
    for nth, poll in enumerate(records_of(seed)):
        now_ms = max(at for at, _ in poll)
        floor_ms = now_ms - KEEP_MS
        pair.append(poll, first, floor_ms)
        first += len(poll)
        if nth % 20 == 7:
            pair.check(now_ms, count, floor_ms)
            assert pair.grouped.clear_quiet(floor_ms) == pair.single.clear_quiet(floor_ms)
            retained = pair.single.numbers()  # others come anew, with new numbers
            pair.grouped.renumber(retained)
            pair.single.renumber(retained)
            if len(retained) < count:
                return
    pair.check(now_ms, count, floor_ms)


def test_what_comes_together_takes_less_memory_and_what_parts_takes_no_more_than_alone() -> None:
    pair = Pair()
    every = [[*range(host * METRICS, host * METRICS + 2 * WIDTH)] for host in range(500)]
    for second in range(60):
        pair.append([(second * 1_000, numbers) for numbers in every], second * len(every))
    assert pair.grouped.series_count() == 500 * 2 * WIDTH
    assert memory_bytes(pair.grouped) < 0.75 * memory_bytes(pair.single)
    pair.append([(60_000, numbers[1:]) for numbers in every], 60 * len(every))
    pair.check(60_000, 500 * METRICS)
    assert memory_bytes(pair.grouped) < 1.1 * memory_bytes(pair.single)


def test_hosts_that_go_quiet_leave_their_groups_to_others() -> None:
    pair = Pair()
    for minute, host in enumerate([0, 1, 2, 1]):
        numbers = [*range(host * WIDTH, (host + 1) * WIDTH)]
        pair.append([(minute * 600_000, numbers)], minute)
        expected = WIDTH if minute else 0
        assert pair.grouped.clear_quiet(minute * 600_000) == pair.single.clear_quiet(minute * 600_000) == expected
        assert pair.grouped.numbers().tolist() == numbers
        pair.check(minute * 600_000, 3 * WIDTH)


def test_eights_that_overlap_or_name_a_series_twice_are_no_groups() -> None:
    pair = Pair()
    pair.append([(1_000, [*range(8)]), (1_000, [*range(4, 12)]), (1_000, [20] * 8), (1_000, [*range(8)])])
    pair.check(1_000, 24)
    pair.append([(2_000, [*range(8)]), (2_000, [*range(4, 12)])], 4)
    pair.check(2_000, 24)
