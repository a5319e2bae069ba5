"""Between observed sizes: what other curves had in common there, and bands that learn how rough curves are."""

from collections.abc import Sequence

import numpy as np

from processors.models.combination.combine import SHIPPED, LearnedRecord, learn
from processors.models.combination.evidence import NO_OFFSETS, Curve
from processors.models.combination.scores import (
    NO_SCORES,
    SIGNED,
    Counts,
    ForecastScores,
    SystemScores,
    pooled,
    share,
    tally,
)
from tests.kit.combination import combine, prequential, quantiles_inside

SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def curve(key: str, factors: dict[float, float], sizes: tuple[float, ...] = SIZES) -> Curve:
    return Curve(key, "s", sizes, tuple(100.0 / n * factors.get(n, 1.0) for n in sizes))


def scored(score: float, count: int) -> SystemScores:
    return SystemScores("s", tally([ForecastScores(np.zeros(count), np.full(count, score), np.ones(count))]))


def upper(own: Sequence[SystemScores], pool: Counts = NO_SCORES) -> float:
    return quantiles_inside(SHIPPED.inside_atoms, "s", own, pool)[1]


def test_the_band_is_widest_near_the_sizes_that_lie_on_no_smooth_curve() -> None:
    rough = curve("a", {2.0: 1.3}, tuple(2.0**i for i in range(10)))
    found = combine(rough).predict([3.0, 200.0])
    widths = np.log(found.high_s / found.low_s)
    assert widths[0] > 1.5 * widths[1]


def test_bands_inside_follow_the_scores_of_the_application_and_of_the_centre() -> None:
    start = upper(())
    assert upper([scored(0.1, 1000)]) < 0.5 * start
    rough = pooled(share([scored(10.0, 50)]) for _ in range(60))
    assert upper((), rough) > 2.0 * start
    assert upper((), NO_SCORES) == start


def test_scores_inside_leave_the_bands_beyond_alone() -> None:
    own = curve("a", {})
    rough = LearnedRecord(NO_OFFSETS, (scored(30.0, 500),))
    before, after = (combine(own, (), learned).predict([64.0]) for learned in (LearnedRecord(NO_OFFSETS, ()), rough))
    assert before.high_s.tolist() == after.high_s.tolist()


def test_an_application_scores_each_inner_size_that_was_left_out() -> None:
    reported = learn([prequential(combine(curve("a", {})))]).scores[0]
    inside = tally([ForecastScores(np.zeros(4), np.zeros(4), np.ones(4))])
    assert sum(reported.counts[-SIGNED:]) == sum(inside)
