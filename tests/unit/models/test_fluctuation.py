import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.models.adept.patterns import excess_over_chord, fluctuation, tolerance, violation
from processors.models.downey.curve import speedup
from processors.models.numerics.arrays import Floats

POWERS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def clean_times() -> Floats:
    return np.asarray(100.0 / speedup(POWERS, 40.0, 0.4))


def test_r_of_a_clean_curve_falls_slowly() -> None:
    expected = [1.492537, 1.485222, 1.471014, 1.444186, 1.396104]
    assert fluctuation(POWERS, clean_times()).tolist() == pytest.approx(expected, abs=1e-6)


def test_a_slow_point_makes_the_r_before_it_small_and_the_r_after_it_large() -> None:
    t = clean_times()
    t[3] *= 1.5
    expected = [1.492537, 1.485222, 0.980676, 2.166279, 1.396104]
    assert fluctuation(POWERS, t).tolist() == pytest.approx(expected, abs=1e-6)
    rise = np.diff(np.log(fluctuation(POWERS, t)))
    assert np.exp(rise).tolist() == pytest.approx([0.9951, 0.6603, 2.2090, 0.6445], abs=5e-5)
    assert np.flatnonzero(violation(rise, 0.10)).tolist() == [2], (
        "the one violation is shared by n = 8, the third triple's middle"
    )


def test_four_points_with_a_slow_one() -> None:
    r = fluctuation(POWERS[:4], np.array([100.0, 52.0, 40.0, 15.0]))
    assert r.tolist() == pytest.approx([1.442308, 0.975, 2.0], abs=1e-6)


def test_perfect_speedup_gives_two_less_the_ratio_of_sizes_and_no_speedup_gives_the_rest_of_a_square() -> None:
    n = np.array([3.0, 7.0])
    assert fluctuation(n, 100.0 / n)[0] == pytest.approx(2.0 - 3.0 / 7.0)
    assert fluctuation(n, np.array([5.0, 5.0]))[0] == pytest.approx(1.0 - (1.0 - 3.0 / 7.0) ** 2)


def test_r_is_fooled_by_uneven_spacing_where_the_chord_rule_is_not() -> None:
    n = np.array([4.0, 5.0, 10.0])
    r = fluctuation(n, 100.0 / n)
    assert r.tolist() == pytest.approx([1.2, 1.5])
    assert violation(np.diff(np.log(r)), 0.10).sum() > 0
    assert violation(excess_over_chord(n, 100.0 / n), 0.10).sum() == 0


def test_the_tolerance_follows_the_noise() -> None:
    assert tolerance(0.0) == pytest.approx(0.10)
    assert tolerance(0.2) == pytest.approx(0.6)


def test_no_clean_curve_violates_the_chord_rule_whatever_the_spacing() -> None:
    rng = np.random.default_rng(5)
    for _ in range(3000):
        n = np.sort(rng.choice(np.arange(1.0, 129.0), rng.integers(3, 13), replace=False))
        t = 1000.0 / speedup(n, np.exp(rng.uniform(0.0, 6.0)), abs(rng.normal(1.0, 1.0)))
        assert excess_over_chord(n, np.asarray(t)).max() < 1e-12


@given(st.lists(st.floats(1e-300, 1e300), min_size=3, max_size=12))
def test_any_times_give_finite_numbers(times: list[float]) -> None:
    n = np.arange(1.0, len(times) + 1.0)
    t = np.array(times)
    assert np.isfinite(fluctuation(n, t)).all()
    assert np.isfinite(excess_over_chord(n, t)).all()


@given(st.integers(-200, 200))
def test_the_scale_of_the_times_does_not_matter(power: int) -> None:
    t = clean_times()
    assert fluctuation(POWERS, t * 2.0**power).tolist() == fluctuation(POWERS, t).tolist()
