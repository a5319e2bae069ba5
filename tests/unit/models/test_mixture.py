"""Quantiles of mixtures, compared with sorting every point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.numerics.statistics import mixture_quantiles
from tests.kit.effort import examples

LEVELS = (0.05, 0.5, 0.95)


def by_sorting(values: np.ndarray, mass: np.ndarray, noise: float) -> list[float]:
    """Return, for each level, the first point with noise at which the sorted cumulative mass reaches it."""
    nodes, node_mass = np.polynomial.hermite_e.hermegauss(7)
    points = (values[:, None] + noise * nodes).ravel()
    weights = (mass[:, None] * node_mass / np.sqrt(2 * np.pi)).ravel()
    order = np.argsort(points)
    cumulative = np.cumsum(weights[order])
    return [float(points[order][np.searchsorted(cumulative, level)]) for level in LEVELS]


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.5), st.floats(0.01, 2))
@settings(max_examples=examples(60), deadline=None)
def test_sorting_every_point_gives_the_same_quantiles(seed: int, noise: float, spread: float) -> None:
    generator = np.random.default_rng(seed)
    values = np.minimum(generator.normal(3, spread, (3, 2000)), 3 + spread)
    mass = generator.exponential(1, 2000)
    mass /= mass.sum()
    found = mixture_quantiles(values, mass, noise, LEVELS)
    for row, line in zip(found, values, strict=True):
        assert row == pytest.approx(by_sorting(line, mass, noise), abs=0.002 * spread * 8 / 2)


def test_quantiles_rise_with_their_level() -> None:
    values = np.random.default_rng(2).normal(0, 1, (2, 500))
    found = mixture_quantiles(values, np.full(500, 0.002), 0.1, tuple(np.linspace(0, 1, 21)))
    assert (np.diff(found, axis=1) >= 0).all()


def test_equal_points_leave_the_noise_alone() -> None:
    found = mixture_quantiles(np.full((1, 4), 2.0), np.full(4, 0.25), 0.1, (0.5,))
    assert found[0, 0] == pytest.approx(2.0, abs=1e-4)


def test_no_level_is_no_work() -> None:
    assert mixture_quantiles(np.zeros((3, 4)), np.full(4, 0.25), 0.1, ()).shape == (3, 0)
