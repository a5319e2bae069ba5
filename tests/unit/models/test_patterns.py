import numpy as np
import pytest

from processors.models.adept.patterns import find_patterns
from processors.models.downey.curve import speedup

DENSE, EVEN, POWERS = np.arange(1.0, 17.0), np.arange(2.0, 17.0, 2.0), 2.0 ** np.arange(6.0)


def test_a_clean_curve_has_no_pattern() -> None:
    found = find_patterns(DENSE, np.asarray(100.0 / speedup(DENSE, 24.0, 0.6)), 0.10)
    assert (found.special, found.anomalies, found.phases) == (None, (), None)
    assert found.retained.all()


def test_favoured_sizes_come_first_and_the_others_are_left_out() -> None:
    favoured = np.isin(DENSE, [1, 2, 4, 8, 16])
    found = find_patterns(DENSE, 100.0 / speedup(DENSE, 24.0, 0.6) * np.where(favoured, 1.0, 1.3), 0.10)
    assert found.special is not None
    assert found.special.name == "pow2"
    assert found.retained.tolist() == favoured.tolist()
    assert (found.anomalies, found.phases) == ((), None)


@pytest.mark.parametrize("slow", [EVEN >= 10, EVEN <= 8])
def test_a_step_is_no_row_of_anomalies(slow: np.ndarray) -> None:
    found = find_patterns(EVEN, 100.0 / speedup(EVEN, 40.0, 0.4) * np.where(slow, 1.4, 1.0), 0.10)
    assert found.phases is not None
    assert [(phase.first_n, phase.last_n) for phase in found.phases.phases] == [(2.0, 8.0), (10.0, 16.0)]
    assert found.anomalies == ()
    assert found.retained.all()


def test_a_single_slow_size_is_no_step() -> None:
    found = find_patterns(POWERS, 100.0 / speedup(POWERS, 40.0, 0.4) * np.where(POWERS == 8, 1.5, 1.0), 0.10)
    assert [(size.n, round(size.deviation, 2)) for size in found.anomalies] == [(8.0, 0.5)]
    assert found.phases is None


def test_noise_of_two_per_cent_makes_at_most_one_pattern_in_150_curves() -> None:
    rng = np.random.default_rng(21)
    found = 0
    for _ in range(150):
        n = np.sort(rng.choice(np.arange(1.0, 129.0), rng.integers(4, 15), replace=False))
        t = (
            1000.0
            / speedup(n, np.exp(rng.uniform(2.0, 5.5)), abs(rng.normal(1.0, 0.8)))
            * np.exp(rng.normal(0, 0.02, n.size))
        )
        patterns = find_patterns(n, t, 0.10)
        found += bool(patterns.special or patterns.anomalies or patterns.phases)
    assert found <= 1
