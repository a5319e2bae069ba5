"""The record of an application's curves: what stays where there are many, whatever the order and the time they came in."""

import math
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.combination.evidence import Curve, evidence
from processors.run_time.related_curves import CURVES_MAX, REPLAYED_MAX, CurveRecord, RelatedCurves
from tests.kit.effort import examples

COUNT = CURVES_MAX + 12


def record(number: int) -> CurveRecord:
    sizes = 3 + number % 7
    ln_n = tuple(math.log(2.0) * (i + number % 5) for i in range(sizes))
    return CurveRecord(f"s/app/{number:02}/nodes", "s", (), 10, ln_n, tuple(-x for x in ln_n))


def learned(numbers: Sequence[int]) -> RelatedCurves:
    found = RelatedCurves()
    for number in numbers:
        found.learn(record(number))
    return found


@settings(deadline=None, max_examples=examples(30))
@given(st.permutations(range(COUNT)))
def test_of_more_curves_than_are_retained_the_same_stay_in_whatever_order_they_ran(order: list[int]) -> None:
    one, other = learned(range(COUNT)), learned(order)
    assert one.snapshot() == other.snapshot()
    assert one.related.curves == other.related.curves
    assert one.replayed == other.replayed


def test_those_that_reach_furthest_stay() -> None:
    found = learned(range(COUNT))
    retained = {each.key for each in found.related.curves}
    assert len(retained) == CURVES_MAX
    gone = [record(i).ln_n[-1] for i in range(COUNT) if record(i).key not in retained]
    assert max(gone) <= min(each.ln_n[-1] for each in found.related.curves)


def test_those_of_most_sizes_are_replayed() -> None:
    found = learned(range(COUNT))
    sizes = {each.key: len(each.ln_n) for each in found.related.curves}
    assert len(found.replayed) == REPLAYED_MAX
    assert min(sizes[key] for key in found.replayed) >= max(sizes[key] for key in sizes if key not in found.replayed)


def test_a_curve_that_reaches_further_than_before_is_news_to_those_that_reach_less() -> None:
    found = learned([0, 1, 2])
    before = record(1)
    further = msgspec.structs.replace(before, ln_n=(*before.ln_n, 9.0), ln_t=(*before.ln_t, -9.0))
    assert found.reaching_less(before) == []
    assert found.reaching_less(further) == [record(0).key, record(2).key]
    found.learn(further)
    assert found.reaching_less(further) == []


def test_unit_and_points_are_what_the_others_read() -> None:
    (only,) = learned([3]).related.curves
    assert (only.unit, only.ln_n, only.ln_t) == ("nodes", record(3).ln_n, record(3).ln_t)


def test_what_is_read_follows_what_is_learned_and_forgotten() -> None:
    found = learned([1, 2])
    assert [each.key for each in found.related.curves] == [record(1).key, record(2).key]
    found.learn(record(3))
    assert len(found.related.curves) == 3
    assert found.forget(record(1).key)
    assert [each.key for each in found.related.curves] == [record(2).key, record(3).key]


@pytest.mark.parametrize(
    ("times", "runs", "due"),
    [((8.0, 4.0, 2.0), 20, False), ((8.0, 4.0, 2.1), 20, True), ((8.0, 4.0, 2.0), 40, True), ((8.0, 4.0), 20, True)],
)
def test_a_curve_is_taken_anew_once_it_has_changed_enough(times: tuple[float, ...], runs: int, *, due: bool) -> None:
    def curve(run_times_s: tuple[float, ...]) -> Curve:
        return Curve("s/app/1/nodes", "s", (1.0, 2.0, 4.0)[: len(run_times_s)], run_times_s)

    found, first = RelatedCurves(), evidence(curve((8.0, 4.0, 2.0)))
    ln_n, ln_t = (tuple(map(math.log, values)) for values in (first.curve.n, first.curve.median_s))
    found.learn(CurveRecord("s/app/1/nodes", "s", (), 10, ln_n, ln_t))
    assert found.due("s/app/1/nodes", evidence(curve(times)), runs=runs) is due
