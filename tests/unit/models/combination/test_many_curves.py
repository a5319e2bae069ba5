"""What curves get together, each gets alone, to the last bit: a replay may fit them in other company."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.combination.combine import Combination, foretell, learn, summary
from processors.models.combination.evidence import GATE, NO_RELATED, Curve, Related, evidence, evidence_of
from processors.models.combination.replay import rows
from processors.models.combination.scores import NO_SCORES
from tests.kit.combination import combine
from tests.kit.effort import examples

TARGETS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 4.0)  # of the largest size


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """Return curves of two to twelve sizes that lie anywhere."""
    steps = draw(st.lists(st.floats(0.05, 3.0), min_size=2, max_size=12))
    n = tuple(float(size) for size in draw(st.floats(1.0, 64.0)) * 2.0 ** np.cumsum(steps))
    times = draw(st.lists(st.floats(1e-2, 1e5), min_size=len(n), max_size=len(n)))
    return Curve("a", draw(st.sampled_from(["s", "elsewhere"])), n, tuple(times))


def numbers(found: Any) -> list[Any]:
    """Return all arrays of what was found, as lists."""
    if isinstance(found, np.ndarray):
        return list(found.tolist())
    if isinstance(found, tuple):
        return [numbers(each) for each in found]
    return [numbers(each) for each in vars(found).values()] if hasattr(found, "losses") else []


def targets(found: Combination) -> list[float]:
    sizes = found.evidence.curve.n
    return [*(share * sizes[-1] for share in TARGETS), *sizes]


def predicted(found: Combination) -> list[Any]:
    columns = found.predict(targets(found))
    return [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]


def combinations(several: Sequence[Curve]) -> list[Combination]:
    """Return what is known of curves: some alone, some beside another, with scores of their own and some of the centre."""
    found = []
    for place, curve in enumerate(several):
        own = evidence(curve._replace(key=f"curve{place}"))
        related = Related((summary(evidence(several[0])),)) if place % 2 else NO_RELATED
        learned = learn([rows(GATE, own, related)])
        pool = learned.scores[0].counts if place % 3 else NO_SCORES
        found.append(combine(own.curve, related.curves, learned, pool))
    return found


@given(st.lists(curves(), min_size=1, max_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_the_evidence_of_many_curves_is_that_of_each_alone(several: list[Curve]) -> None:
    found = evidence_of(several)
    assert [numbers(each) for each in found] == [numbers(evidence(curve)) for curve in several]
    assert [each.curve for each in found] == several


@given(st.lists(curves(), min_size=1, max_size=6))
@settings(max_examples=examples(40), deadline=None)
def test_many_curves_predict_what_each_predicts_alone(several: list[Curve]) -> None:
    found = combinations(several)
    foretell([(each, targets(each)) for each in found])
    assert [predicted(each) for each in found] == [predicted(each) for each in combinations(several)]


@given(curves(), st.sampled_from(TARGETS))
@settings(max_examples=examples(40), deadline=None)
def test_the_forecast_of_a_size_does_not_depend_on_the_other_targets(curve: Curve, share: float) -> None:
    target = share * curve.n[-1]
    among = combine(curve).predict([target, *curve.n, 3.0 * curve.n[-1]])
    alone = combine(curve).predict([target])
    # a product with one row is summed in another order than one with many: the last of sixteen digits may differ
    assert [ends[0] for ends in alone[:3]] == pytest.approx([ends[0] for ends in among[:3]], rel=1e-12)


def test_a_curve_that_is_not_valid_is_refused() -> None:
    valid = Curve("a", "s", (1.0, 2.0), (2.0, 1.0))
    with pytest.raises(ValueError, match="positive"):
        evidence_of([valid, valid._replace(median_s=(1.0, -1.0))])
