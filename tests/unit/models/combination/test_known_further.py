"""Curves of the same application that are known further out: what they change beyond a curve's own sizes, and what not."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.combination.combine import NOTHING_LEARNED, CombinedForecast, LearnedRecord, learn, summary
from processors.models.combination.evidence import Curve, RelatedCurve, evidence
from tests.kit.combination import combine, prequential
from tests.kit.effort import examples

SIZES = tuple(2.0**i for i in range(9))
OWN_SIZES = 5
FAR = 128.0


def knee(n: float, t1_s: float = 1000.0, knee_n: float = 16.0) -> float:
    """Return a run time that halves with every doubling until nothing more is gained."""
    return t1_s / min(n, knee_n)


def curve(key: str, t1_s: float = 1000.0, *, knee_n: float = 16.0, sizes: Sequence[float] = SIZES) -> Curve:
    times = tuple(knee(n, t1_s, knee_n) for n in sizes)
    return Curve(f"s/app/{key}/nodes", "s", tuple(sizes), times, unit="nodes")


OWN = curve("own", sizes=SIZES[:OWN_SIZES])
TRUTH_S = knee(FAR)


def whole(count: int, knee_n: float = 16.0) -> list[RelatedCurve]:
    return [summary(evidence(curve(f"input{i}", 300.0 * (i + 1), knee_n=knee_n))) for i in range(count)]


def predicted(
    related: Sequence[RelatedCurve] = (), learned: LearnedRecord = NOTHING_LEARNED, sizes: Sequence[float] = (FAR,)
) -> CombinedForecast:
    return combine(OWN, related, learned).predict(sizes)


def off(found: CombinedForecast) -> float:
    return abs(math.log(float(found.run_time_s[0]) / TRUTH_S))


def learned_by(curves: Sequence[Curve]) -> tuple[list[RelatedCurve], LearnedRecord]:
    """Return what the curves of an application report to each other, and what all of them have learned."""
    related = [summary(evidence(each)) for each in curves]
    return related, learn([prequential(combine(each, related)) for each in curves])


def test_a_curve_that_saturates_right_after_its_sizes_is_foreseen_by_others_that_have_done_so() -> None:
    alone, carried = predicted(), predicted(whole(3))
    related, learned = learned_by([curve(f"input{i}", 300.0 * (i + 1)) for i in range(3)])
    assert off(alone) > 1.0
    assert off(carried) < 0.4 * off(alone)
    assert off(predicted(related, learned)) < 0.5 * off(carried), "they were right before"
    assert float(carried.known_further[0]) > 0.5


def test_curves_whose_slopes_disagree_on_common_sizes_carry_nothing() -> None:
    bent = whole(3, knee_n=2.0)
    assert float(predicted(bent).known_further[0]) < 0.05


def test_curves_counted_in_another_unit_carry_nothing() -> None:
    cores = [each._replace(unit="cores") for each in whole(3)]
    assert predicted(cores).known_further.tolist() == [0.0]


def test_two_sizes_in_common_show_no_agreement() -> None:
    late = [summary(evidence(curve(f"input{i}", sizes=SIZES[OWN_SIZES - 3 :]))) for i in range(3)]
    assert float(predicted(late).known_further[0]) < 0.01


def test_curves_that_end_where_the_own_sizes_end_change_no_forecast_further_out() -> None:
    short = [each._replace(ln_n=each.ln_n[:OWN_SIZES], ln_t=each.ln_t[:OWN_SIZES]) for each in whole(3)]
    unread = [each._replace(ln_n=(), ln_t=()) for each in whole(3)]
    assert predicted(short).run_time_s.tolist() == predicted(unread).run_time_s.tolist()
    assert predicted(short).high_s.tolist() == predicted(unread).high_s.tolist()


def test_a_curve_on_another_system_counts_less() -> None:
    there = [each._replace(system="elsewhere") for each in whole(1)]
    shares = [float(predicted(each).known_further[0]) for each in (whole(1), there)]
    assert 0.0 < shares[1] < shares[0]


def test_they_are_weighed_by_their_record() -> None:
    smooth, rough = (np.random.default_rng(4), np.random.default_rng(4))
    alike = [curve(f"input{i}", float(smooth.uniform(100, 1000))) for i in range(6)]
    # each saturates at a size of its own: what the others did further out was wrong every time
    apart = [curve(f"input{i}", float(rough.uniform(100, 1000)), knee_n=2.0 ** (i % 6 + 2)) for i in range(6)]
    right, wrong = (learned_by(curves)[1] for curves in (alike, apart))
    trusted, distrusted = (float(predicted(whole(3), of).known_further[0]) for of in (right, wrong))
    start = float(predicted(whole(3)).known_further[0])
    assert distrusted < start < trusted


def test_what_they_do_beyond_changes_no_forecast_inside() -> None:
    inside, known = [1.0, 2.5, 12.0, 16.0], whole(3)
    without = [each._replace(ln_n=(), ln_t=()) for each in known]
    assert predicted(known, sizes=inside).run_time_s.tolist() == predicted(without, sizes=inside).run_time_s.tolist()
    assert predicted(known, sizes=OWN.n).run_time_s.tolist() == list(OWN.median_s)


def test_near_the_largest_size_the_forecast_is_what_was_observed_there() -> None:
    nearest = math.nextafter(OWN.n[-1], math.inf)
    assert predicted(whole(3), sizes=[nearest]).run_time_s[0] == pytest.approx(OWN.median_s[-1], rel=1e-6)


def test_a_single_curve_is_not_its_own_related_curve() -> None:
    own = [summary(evidence(OWN))._replace(ln_n=tuple(np.log(SIZES)), ln_t=tuple(np.log(SIZES)))]
    alone, with_itself = predicted(), predicted(own)
    assert with_itself.run_time_s.tolist() == alone.run_time_s.tolist()
    assert with_itself.high_s.tolist() == alone.high_s.tolist()


@settings(deadline=None, max_examples=examples(20))
@given(st.permutations(range(6)))
def test_the_order_of_curves_changes_nothing(order: list[int]) -> None:
    rng = np.random.default_rng(7)
    curves = [curve(f"input{i}", float(rng.uniform(100, 1000)), knee_n=float(rng.uniform(4, 64))) for i in range(6)]
    related, learned = learned_by(curves)
    again, relearned = learned_by([curves[i] for i in order])
    assert [(each.system, each.counts.tolist()) for each in relearned.scores] == [
        (each.system, each.counts.tolist()) for each in learned.scores
    ]
    assert relearned.shape_losses == learned.shape_losses
    assert relearned.offsets == pytest.approx(learned.offsets, abs=1e-12)
    assert predicted(again, learned).run_time_s == pytest.approx(predicted(related, learned).run_time_s, rel=1e-12)


def test_other_units_of_time_and_size_scale_what_they_add() -> None:
    related = [
        each._replace(ln_n=tuple(x + math.log(24.0) for x in each.ln_n), ln_t=tuple(y + 3.0 for y in each.ln_t))
        for each in whole(3)
    ]
    other = OWN._replace(n=tuple(24.0 * n for n in OWN.n))
    scaled = combine(other, related).predict([24.0 * FAR])
    plain = predicted(whole(3))
    assert scaled.run_time_s == pytest.approx(plain.run_time_s, rel=1e-9)
    assert scaled.high_s == pytest.approx(plain.high_s, rel=1e-9)


def test_a_centre_without_scores_so_far_out_keeps_a_curve_that_saturates_at_once_within_the_band() -> None:
    found = predicted(sizes=[24.0, 32.0, 64.0, 256.0])
    assert (found.high_s >= OWN.median_s[-1] * (1 - 1e-9)).all()


def test_the_band_of_a_single_curve_closes_once_the_centre_has_scores_so_far_out() -> None:
    clean = [curve(f"input{i}", knee_n=1e9) for i in range(40)]
    learned = learn([prequential(combine(each)) for each in clean])
    high = [float(predicted((), of).high_s[0]) for of in (NOTHING_LEARNED, learned)]
    assert high[1] < 0.7 * high[0]
