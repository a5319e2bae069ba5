"""The combination as a user sees it: predictions, bands, verdicts, and what must never matter."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.combination.combine import LearnedRecord, learn, summary
from processors.models.combination.evidence import PESSIMISM, Curve, RelatedCurve
from processors.models.combination.scores import SystemScores, pooled, share
from tests.kit.combination import combine, prequential

CURVE = Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0))
TARGETS = [2.0, 4.0, 12.0, 32.0, 40.0, 64.0, 128.0, 1024.0]
TIMES = st.lists(st.floats(0.1, 1000.0), min_size=2, max_size=12)


def curve(times: list[float], key: str = "a") -> Curve:
    return Curve(key, "s", tuple(2.0 ** np.arange(len(times))), tuple(times))


def transferred(of: Curve) -> LearnedRecord:
    return learn([prequential(combine(of))])


def test_observed_sizes_are_met_to_the_bit() -> None:
    assert tuple(combine(CURVE).predict(CURVE.n).run_time_s.tolist()) == CURVE.median_s


def test_inside_the_range_the_known_values_come_out() -> None:
    prediction = combine(CURVE).predict([12.0, 24.0])
    assert prediction.run_time_s == pytest.approx([97.314, 65.724], rel=1e-4)


def test_the_order_of_targets_does_not_matter() -> None:
    forward, backward = combine(CURVE).predict(TARGETS), combine(CURVE).predict(TARGETS[::-1])
    assert forward.high_s.tolist() == backward.high_s[::-1].tolist()
    assert forward.reasons == backward.reasons[::-1]


@settings(deadline=None)
@given(TIMES, st.integers(-30, 30))
def test_another_unit_of_time_scales_all_times(times: list[float], power: int) -> None:
    factor = 2.0**power
    one, other = curve(times), curve([factor * time for time in times])
    prediction, scaled = (
        combine(one, learned=transferred(one)).predict(TARGETS),
        combine(other, learned=transferred(other)).predict(TARGETS),
    )
    assert scaled.run_time_s == pytest.approx(factor * prediction.run_time_s, rel=1e-9)
    assert scaled.high_s == pytest.approx(factor * prediction.high_s, rel=1e-9)


@settings(deadline=None)
@given(TIMES, st.integers(-6, 12))
def test_another_unit_of_size_changes_nothing(times: list[float], power: int) -> None:
    factor, one = 2.0**power, curve(times)
    other = one._replace(n=tuple(factor * n for n in one.n))
    prediction = combine(one, learned=transferred(one)).predict(TARGETS)
    cored = combine(other, learned=transferred(other)).predict([factor * n for n in TARGETS])
    assert cored.run_time_s == pytest.approx(prediction.run_time_s, rel=1e-9)
    assert cored.reasons == prediction.reasons


def test_units_of_size_that_are_no_power_of_two_change_nothing() -> None:
    other = CURVE._replace(n=tuple(24 * n for n in CURVE.n))
    prediction = combine(CURVE, learned=transferred(CURVE)).predict(TARGETS)
    cored = combine(other, learned=transferred(other)).predict([24 * n for n in TARGETS])
    assert cored.run_time_s == pytest.approx(prediction.run_time_s, rel=1e-12)


@pytest.mark.parametrize(("sizes", "doubt"), [(2, 0.26), (3, 0.016), (5, 0.01), (8, 0.007)])
def test_perfect_speed_up_goes_on_but_for_the_pessimism_and_what_the_flat_law_weighs_still(
    sizes: int, doubt: float
) -> None:
    perfect = curve([1000.0 / 2**i for i in range(sizes)])
    prediction = combine(perfect, learned=transferred(perfect)).predict([2.0**sizes, 2.0 ** (sizes + 2)])
    pessimism = np.array([2.0, 8.0]) ** PESSIMISM
    slower = prediction.run_time_s * [2.0**sizes, 2.0 ** (sizes + 2)] / 1000.0 / pessimism - 1.0
    assert (slower > -1e-9).all()
    assert (slower <= doubt).all()
    assert (prediction.low_s <= [1000.0 / 2**sizes, 1000.0 / 2 ** (sizes + 2)]).all()


@settings(deadline=None)
@given(TIMES)
def test_near_the_largest_size_the_forecast_is_what_was_observed_there(times: list[float]) -> None:
    one = curve(times)
    nearest = math.nextafter(one.n[-1], math.inf)
    assert combine(one).predict([nearest, one.n[-1] * (1 + 1e-9)]).run_time_s == pytest.approx(
        [times[-1]] * 2, rel=1e-6
    )


def test_the_order_of_curves_changes_no_bit() -> None:
    rng = np.random.default_rng(3)
    made = [combine(curve(list(100 / 2.0 ** np.arange(7) * rng.lognormal(0, 0.2, 7)), f"c{i}")) for i in range(6)]
    related_curves = tuple(summary(one.evidence) for one in made)
    rows = [prequential(combine(one.evidence.curve, related_curves)) for one in made]
    back = [prequential(combine(one.evidence.curve, related_curves[::-1])) for one in made[::-1]]
    assert plain(learn(back))[1] == plain(learn(rows))[1]
    assert plain(learn(rows[::-1])) == plain(learn(rows))


def plain(learned: LearnedRecord) -> tuple[object, ...]:
    scores = [(each.system, each.counts.tolist()) for each in learned.scores]
    return learned.offsets, scores, learned.shape_losses


def test_what_is_learned_survives_json() -> None:
    learned, reported = transferred(CURVE), summary(combine(CURVE).evidence)
    offsets, scores, shape_losses = json.loads(json.dumps(plain(learned)))
    given = tuple(SystemScores(system, np.array(counts)) for system, counts in scores)
    back = LearnedRecord(tuple(offsets), given, tuple(map(tuple, shape_losses)))
    key, system, losses, ln_n, ln_t, unit = json.loads(json.dumps(reported))
    related = RelatedCurve(key, system, tuple(map(tuple, losses)), tuple(ln_n), tuple(ln_t), unit)
    other = CURVE._replace(key="b")
    assert (
        combine(other, [related], back).predict([64.0]).high_s
        == combine(other, [reported], learned).predict([64.0]).high_s
    )


def test_related_curves_decide_between_laws() -> None:
    bent = [curve([100 / n + 2 * n for n in 2.0 ** np.arange(8)], f"b{i}") for i in range(4)]
    short = curve([100 / n + 2 * n for n in 2.0 ** np.arange(3)], "short")
    truth = 100 / 16 + 2 * 16
    alone = combine(short).predict([16.0]).run_time_s[0]
    reported = combine(short, [summary(combine(one).evidence) for one in bent]).predict([16.0]).run_time_s[0]
    assert abs(math.log(reported / truth)) < abs(math.log(alone / truth))


def test_weights_are_shares() -> None:
    weights = combine(CURVE).weights
    assert sum(weights.values()) == pytest.approx(1.0)
    assert len(weights) == 9


def test_a_band_learns_from_the_centre() -> None:
    rng = np.random.default_rng(8)
    rough = [curve(list(rng.uniform(1, 100, 8)), f"r{i}") for i in range(12)]
    smooth = [curve([100 / n + 1 for n in 2.0 ** np.arange(8)], f"s{i}") for i in range(12)]
    width = {}
    for name, centre in (("rough", rough), ("smooth", smooth)):
        pool = pooled(share(transferred(one).scores) for one in centre)
        prediction = combine(CURVE, pool=pool).predict([128.0])
        width[name] = prediction.high_s[0] / prediction.low_s[0]
    shipped = combine(CURVE).predict([128.0])
    assert width["smooth"] < shipped.high_s[0] / shipped.low_s[0] < width["rough"]


def test_a_far_target_is_named_so() -> None:
    clean = curve([1000 / n + 5 for n in 2.0 ** np.arange(7)])
    prediction = combine(clean, learned=transferred(clean)).predict([24.0, 128.0, 2.0**20])
    assert "far" in prediction.reasons[2]


def test_below_the_smallest_size_the_answer_is_unsure_and_the_band_wider() -> None:
    prediction = combine(curve([1000 / n for n in 4.0 * 2.0 ** np.arange(6)])).predict([0.25, 2.0])
    assert prediction.reasons[0] == ("below_smallest",)
    assert prediction.high_s[0] / prediction.low_s[0] > prediction.high_s[1] / prediction.low_s[1]


@pytest.mark.parametrize("size", [0.0, -1.0, math.nan, math.inf])
def test_a_size_that_is_none_is_refused(size: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        combine(CURVE).predict([8.0, size])


@pytest.mark.parametrize(
    ("sizes", "times"),
    [((4.0,), (1.0,)), ((4.0, 4.0), (1.0, 2.0)), ((4.0, 2.0), (1.0, 2.0)), ((1.0, 2.0), (1.0, 0.0)), ((1.0, 2.0), (1.0,)),
     ((1.0, 2.0), (1.0, math.nan)), ((0.0, 2.0), (1.0, 1.0))],
)  # fmt: skip
def test_a_curve_that_is_none_is_refused(sizes: tuple[float, ...], times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        combine(Curve("a", "s", sizes, times))


@settings(deadline=None)
@given(
    st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=12),
    st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=12, unique_by=lambda n: f"{n:.9g}"),
)
def test_any_positive_curve_gets_a_positive_finite_answer(times: list[float], sizes: list[float]) -> None:
    count = min(len(times), len(sizes))
    one = Curve("a", "s", tuple(sorted(float(f"{n:.9g}") for n in sizes[:count])), tuple(times[:count]))
    prediction = combine(one, learned=transferred(one)).predict([1e-300, one.n[0], one.n[-1], 1e300])
    ends = np.concatenate([prediction.low_s, prediction.run_time_s, prediction.high_s])
    assert np.isfinite(ends).all()
    assert (ends > 0).all()
    assert (prediction.low_s <= prediction.high_s).all()
