"""However minutes are cut into batches, repeated and put in another order before they are closed: the profile is the same."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from processors.contracts.events import HostMinute, JournalEvent
from tests.kit.effort import examples
from tests.kit.profiled_hosts import at, ended, folded, grew, level, minute, of_run, started, tick, total

HOSTS, MINUTES = 3, 6


def predicted(host: int, number: int) -> HostMinute:
    resources = {
        "power_w>system": level(300.0 + 10.0 * host + number),
        "counter_delta>cycles": grew(1e10 * (1 + host) + number),
        "counter_total>misses": total(1e6 * (number + 1) * (host + 1)),
        "nic_total>cxi0:xmit_data": total(1e9 * (number + 1) * (1 + (host + number) % HOSTS)),
        "energy_total>cpu:0": total((250_000.0 + 6000.0 * number) % 262_143.328850),
    }
    return minute(f"nid{host}", number, resources)


REPORTED = [predicted(host, number) for number in range(-1, MINUTES) for host in range(HOSTS)]
STARTED, ENDED = started("1", 0, "nid[0-2]"), ended("1", 0, MINUTES)
STRAIGHT = of_run(folded(STARTED, *REPORTED, ENDED, tick(MINUTES + 3)))


@given(st.permutations([*REPORTED, *REPORTED[::3], STARTED]), st.lists(st.integers(0, len(REPORTED)), max_size=4))
@settings(max_examples=examples(40), deadline=None)
def test_order_repeats_and_ticks_between_change_nothing(events: Sequence[JournalEvent], cuts: list[int]) -> None:
    mixed = list(events)
    for number, place in enumerate(sorted(cuts)):
        mixed.insert(place + number, tick(number / 10))  # before anything is closed
    found = of_run(folded(*mixed, ENDED, tick(MINUTES + 3)))
    assert found == STRAIGHT


@given(st.lists(st.tuples(st.integers(0, HOSTS - 1), st.integers(0, MINUTES - 1)), max_size=12))
@settings(max_examples=examples(40), deadline=None)
def test_minutes_that_are_missing_lower_the_coverage_and_nothing_else(missing: list[tuple[int, int]]) -> None:
    gone = {(f"nid{host}", at(number)) for host, number in missing}
    rest = [each for each in REPORTED if (each.host, each.minute_ms) not in gone]
    plain = [minute(each.host, 0, {"counter_delta>cycles": grew(6e10)}) for each in rest]
    same = [
        HostMinute(each.system, each.source, each.host, like.minute_ms, each.resources)
        for each, like in zip(plain, rest, strict=True)
    ]
    found = of_run(folded(STARTED, *same, ENDED, tick(MINUTES + 3)))
    assert (found.minutes, found.counters) == (HOSTS * MINUTES - len(gone), {"cycles": 1e9} if found.minutes else {})
