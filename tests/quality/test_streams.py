"""How anomalies are scored, by hand; and that a planted one is found."""

import numpy as np
import pytest

from tests.quality.streams import average_precision, f1, nab_points


def test_a_window_counts_once_from_its_first_detection_and_an_alarm_before_it_in_full() -> None:
    fired = np.zeros(1000, bool)
    fired[[10, 300, 500, 550, 900]] = True  # probation, false, hit, the same window again, long after
    good, hit, bad = nab_points(fired, [(500, 599)], 1.0)
    assert good == pytest.approx(1.0)
    assert hit == 1
    assert bad == pytest.approx(2.0)


def test_a_late_detection_is_worth_less() -> None:
    fired = np.zeros(1000, bool)
    fired[599] = True
    assert nab_points(fired, [(500, 599)], 1.0)[0] == pytest.approx(0.0253, abs=1e-3)


def test_average_precision_and_f1_of_a_small_example() -> None:
    truth = np.array([True, False, True, False])
    assert average_precision(truth, np.array([0.9, 0.8, 0.7, 0.1])) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(truth, np.zeros(4)) == 0.5
    assert f1(truth, np.array([True, True, False, False])) == 0.5
