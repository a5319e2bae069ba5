"""The average of Downey's curves has a say on short lone curves, and on no others."""

import numpy as np
import pytest

from processors.models.combination import combine as single
from processors.models.combination.evidence import PESSIMISM, Curve, scaled
from tests.kit.combination import combine

N = (4.0, 8.0, 16.0, 32.0)
BENT = Curve("a", "s", N, (262.0, 139.0, 78.5, 63.0))
NEAR = np.array([1.0])


def test_every_related_curve_takes_from_its_share() -> None:
    shares = [single.shares(scaled(BENT), doubt, NEAR)[0] for doubt in (1.0, 0.5, 0.1)]
    assert shares == pytest.approx([single.SHARE, single.SHARE / 2, single.SHARE / 10])


def test_many_sizes_a_far_target_or_perfect_speed_up_leave_it_none() -> None:
    many = Curve("a", "s", tuple(2.0 ** np.arange(8)), tuple(100 / 2.0 ** np.arange(8) + 5))
    perfect = BENT._replace(median_s=tuple(1000 / n for n in N))
    assert not single.shares(scaled(many), 1.0, NEAR).any()
    assert not single.shares(scaled(BENT), 1.0, np.array([3.0, 9.0])).any()
    assert not single.shares(scaled(perfect), 1.0, NEAR).any()


def test_it_fades_towards_the_largest_size() -> None:
    assert (np.diff(single.shares(scaled(BENT), 1.0, np.array([0.0, 0.1, 0.3, 0.5]))) > 0).all()


def test_a_forecast_moves_towards_the_average_by_its_share() -> None:
    found, target = combine(BENT), np.array([2.0])
    members = 63.0 * 2.0 ** (found.evidence.elasticities(2, target) @ np.array(list(found.weights.values())))[0]
    average = 63.0 * np.exp(single.ln_run_times(scaled(BENT), target)[0])
    moved = np.log(found.predict([64.0]).run_time_s[0] / 2.0**PESSIMISM / members) / np.log(average / members)
    assert average == pytest.approx(62.59, rel=0.01)
    assert moved == pytest.approx(single.SHARE)
