import numpy as np
import pytest

from processors.models.adept.patterns import Phases, find_phases
from processors.models.downey.curve import speedup
from processors.models.downey.fit import fit_downey
from processors.models.numerics.arrays import Floats

EVEN = np.arange(2.0, 17.0, 2.0)


def find(n: Floats, t: Floats) -> Phases | None:
    return find_phases(n, t, 0.10, rms_of_one=fit_downey(n, t).rms)


def stepped(factors: Floats) -> Floats:
    return np.asarray(factors * 100.0 / speedup(EVEN, 40.0, 0.4))


def test_a_slow_upper_half_is_a_phase_of_its_own() -> None:
    found = find(EVEN, stepped(np.where(EVEN >= 10, 1.4, 1.0)))
    assert found is not None
    assert [(phase.first_n, phase.last_n) for phase in found.phases] == [(2.0, 8.0), (10.0, 16.0)]
    assert found.phases[1].jump == pytest.approx(0.40, abs=0.01)


def test_a_slow_lower_half_is_a_phase_of_its_own() -> None:
    found = find(EVEN, stepped(np.where(EVEN <= 8, 1.4, 1.0)))
    assert found is not None
    assert found.phases[1].jump == pytest.approx(-0.2857, abs=0.005)


def test_three_phases_are_distinguished() -> None:
    n = np.arange(1.0, 13.0)
    t = 100.0 / n * np.where(n > 8, 2.4, np.where(n > 4, 1.5, 1.0))
    found = find(n, t)
    assert found is not None
    assert [(phase.first_n, phase.last_n) for phase in found.phases] == [(1.0, 4.0), (5.0, 8.0), (9.0, 12.0)]


def test_a_size_belongs_to_the_phase_of_its_closest_neighbour_and_beyond_the_last_to_the_last() -> None:
    found = find(EVEN, stepped(np.where(EVEN >= 10, 1.4, 1.0)))
    assert found is not None
    assert found.index(np.array([1.0, 8.0, 8.9, 9.0, 100.0])).tolist() == [0, 0, 0, 1, 1]


def test_a_phase_of_two_sizes_has_a_law() -> None:
    n = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    found = find(n, 100.0 / n * np.where(n >= 16, 2.0, 1.0))
    assert found is not None
    assert found.phases[-1].first_n == 16.0
    assert found.phases[-1].parallel_s == pytest.approx(200.0)


def test_a_clean_curve_has_no_phases() -> None:
    n = np.arange(1.0, 17.0)
    assert find(n, np.asarray(100.0 / speedup(n, 24.0, 0.6))) is None


def test_four_sizes_are_too_few() -> None:
    assert find(np.array([1.0, 2.0, 4.0, 8.0]), np.array([100.0, 50.0, 100.0, 50.0])) is None
