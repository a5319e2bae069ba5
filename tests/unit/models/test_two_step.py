"""ADEPT's two steps: the weights, and the exhaustive search that the quick ones are compared with."""

import numpy as np
import pytest

from processors.models.downey.two_step import target_weights
from tests.kit.exact_two_steps import exact_two_steps

SIZES, TIMES = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])


@pytest.mark.parametrize(("target", "run_time_s"), [(12.0, 98.48), (24.0, 67.66), (64.0, 63.01)])
def test_the_reference_predictions(target: float, run_time_s: float) -> None:
    assert exact_two_steps(SIZES, TIMES, target) == pytest.approx(run_time_s, rel=0.01)


def test_the_closest_size_weighs_most() -> None:
    weights = target_weights(SIZES, 20.0)
    assert weights.max() == 1.0
    assert weights.argmax() == 2
