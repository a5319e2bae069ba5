"""The average of Downey's curves has a say on short lone curves, and on no others."""

import numpy as np
import pytest

from processors.models.combination import combine as lone
from processors.models.combination.evidence import Curve, scaled
from tests.kit.combination import combine

N = (4.0, 8.0, 16.0, 32.0)
BENT = Curve("a", "s", N, (262.0, 139.0, 78.5, 63.0))
NEAR = np.array([1.0])


def test_every_sibling_takes_from_its_share() -> None:
    shares = [lone.shares(scaled(BENT), doubt, NEAR)[0] for doubt in (1.0, 0.5, 0.1)]
    assert shares == pytest.approx([lone.SHARE, lone.SHARE / 2, lone.SHARE / 10])


def test_many_sizes_a_far_target_or_perfect_speed_up_leave_it_none() -> None:
    many = Curve("a", "s", tuple(2.0 ** np.arange(8)), tuple(100 / 2.0 ** np.arange(8) + 5))
    perfect = BENT._replace(median_s=tuple(1000 / n for n in N))
    assert not lone.shares(scaled(many), 1.0, NEAR).any()
    assert not lone.shares(scaled(BENT), 1.0, np.array([3.0, 9.0])).any()
    assert not lone.shares(scaled(perfect), 1.0, NEAR).any()


def test_it_fades_towards_the_largest_size() -> None:
    assert (np.diff(lone.shares(scaled(BENT), 1.0, np.array([0.0, 0.1, 0.3, 0.5]))) > 0).all()


def test_a_forecast_moves_towards_the_average_by_its_share() -> None:
    found, target = combine(BENT), np.array([2.0])
    laws = 63.0 * 2.0 ** (found.evidence.elasticities(2, target) @ np.array(list(found.weights.values())))[0]
    average = 63.0 * np.exp(lone.ln_run_times(scaled(BENT), target)[0])
    moved = np.log(found.predict([64.0]).run_time_s[0] / laws) / np.log(average / laws)
    assert average == pytest.approx(62.59, rel=0.01)
    assert moved == pytest.approx(lone.SHARE)
