import numpy as np
import pytest

from processors.models.downey.bayes import anchored_curve, parallel_curve

SIZES, TIMES = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])


def test_at_an_observed_size_the_prediction_is_nearly_the_observation() -> None:
    superlinear = np.array([262.0, 110.0, 50.0, 30.0])
    curve = anchored_curve(SIZES, superlinear, np.full(4, 1.0), 0.03)
    assert np.exp(curve.predict(SIZES).middle) == pytest.approx(superlinear, rel=0.03)


def test_the_surer_an_observation_the_closer_the_prediction() -> None:
    bumpy = TIMES * np.array([1.0, 1.1, 1.0, 1.0])
    few = anchored_curve(SIZES, bumpy, np.ones(4), 0.06)
    many = anchored_curve(SIZES, bumpy, np.full(4, 8.0), 0.06)
    at = np.array([8.0])
    assert abs(many.predict(at).middle[0] - np.log(bumpy[1])) < abs(few.predict(at).middle[0] - np.log(bumpy[1]))


def test_the_band_widens_with_the_distance_from_the_sizes() -> None:
    predicted = anchored_curve(SIZES, TIMES, np.ones(4), 0.03).predict(np.array([20.0, 64.0, 128.0, 256.0]))
    assert (np.diff(predicted.high - predicted.low) > 0).all()
    assert (predicted.low < predicted.middle).all()
    assert (predicted.middle < predicted.high).all()


def test_one_size_gives_a_prediction_with_a_wide_band() -> None:
    predicted = anchored_curve(np.array([8.0]), np.array([100.0]), np.ones(1), 0.03).predict(np.array([8.0, 16.0]))
    assert np.exp(predicted.middle) == pytest.approx([100.0, 62.495], rel=2e-3)
    assert predicted.high[1] - predicted.low[1] > np.log(2.0)


def test_the_run_time_alone_is_that_of_the_full_prediction() -> None:
    curve, targets = anchored_curve(SIZES, TIMES, np.ones(4), 0.03), np.array([1.0, 5.0, 64.0])
    assert curve.ln_run_time(targets) == pytest.approx(curve.predict(targets).middle, abs=1e-12)


def test_a_parallel_curve_is_slower_everywhere_by_its_slowdown() -> None:
    curve = anchored_curve(SIZES, TIMES, np.ones(4), 0.03)
    far = np.array([64.0])
    slow = parallel_curve(curve, np.array([12.0, 24.0]), np.array([130.0, 90.0]), np.ones(2), noise=0.03, slowdown=0.3)
    assert slow.predict(np.array([12.0])).middle[0] == pytest.approx(np.log(130.0), abs=0.05)
    assert slow.predict(far).middle[0] > curve.predict(far).middle[0]
