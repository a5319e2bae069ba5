import numpy as np
import pytest

from processors.models.adept.patterns import SpecialSizes, classes, find_special_sizes, members
from processors.models.downey.curve import speedup
from processors.models.downey.fit import QuickFitter
from processors.models.numerics.arrays import Floats


def find(n: Floats, t: Floats, cores_per_node: int | None = None) -> SpecialSizes | None:
    return find_special_sizes(n, np.asarray(t), 0.10, QuickFitter(n, np.asarray(t)), cores_per_node=cores_per_node)


def test_an_application_that_favours_powers_of_two() -> None:
    n = np.arange(1.0, 17.0)
    clean = 100.0 / speedup(n, 24.0, 0.6)
    found = find(n, clean * np.where(members("pow2", n), 1.0, 1.3))
    assert found is not None
    assert found.name == "pow2"
    assert found.slowdown == pytest.approx(0.30, abs=1e-3)
    assert found.members == (1.0, 2.0, 4.0, 8.0, 16.0)


def test_an_application_that_favours_squares() -> None:
    n = np.array([4.0, 9.0, 12.0, 16.0, 20.0, 25.0, 30.0, 36.0, 42.0, 49.0])
    clean = 100.0 / speedup(n, 60.0, 0.6)
    found = find(n, clean * np.where(members("square", n), 1.0, 1.25))
    assert found is not None
    assert (found.name, round(found.slowdown, 3)) == ("square", 0.25)
    assert found.is_member(np.array([64.0, 63.0])).tolist() == [True, False]


def test_an_application_that_favours_whole_nodes() -> None:
    n = np.array([12.0, 20.0, 24.0, 30.0, 36.0, 40.0, 48.0, 54.0, 60.0, 66.0, 72.0])
    clean = 100.0 / speedup(n, 90.0, 0.6)
    found = find(n, clean * np.where(np.fmod(n, 12.0) == 0, 1.0, 1.2), cores_per_node=12)
    assert found is not None
    assert (found.name, found.multiple) == ("multiple of 12", 12)


def test_a_clean_curve_favours_nothing() -> None:
    n = np.arange(1.0, 17.0)
    assert find(n, 100.0 / speedup(n, 24.0, 0.6)) is None


def test_eight_sizes_are_too_few() -> None:
    n = np.arange(1.0, 9.0)
    assert find(n, np.where(members("pow2", n), 1.0, 1.3) * 100.0 / n) is None


def test_a_slow_upper_half_is_no_class_of_sizes() -> None:
    n = np.arange(2.0, 21.0, 2.0)
    assert find(n, np.where(n >= 10, 1.4, 1.0) * 100.0 / speedup(n, 40.0, 0.4)) is None


def test_sizes_that_are_not_whole_belong_to_no_class() -> None:
    n = np.array([0.5, 2.5])
    assert not any(members(name, n, multiple).any() for name, multiple in classes(3))


def test_an_earlier_class_is_looked_for_first_and_none_twice() -> None:
    assert [name for name, _ in classes()] == ["pow2", "square", "multiple of 8", "multiple of 4", "multiple of 2"]
    assert [multiple for _, multiple in classes(8)].count(8) == 1


def test_a_single_core_per_node_makes_no_class() -> None:
    assert classes(1) == classes()
