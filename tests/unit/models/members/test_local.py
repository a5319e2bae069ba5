"""Local laws and the law of universal scalability on prefixes, against numbers computed independently."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models import laws

N = np.array([4.0, 8.0, 16.0, 32.0])
T = np.array([262.0, 139.0, 78.5, 63.0])
UNITS = np.array([N[-1], 1.0, 1.0 / N[-1]]) * T[-1]


def local_law(n: np.ndarray, t: np.ndarray, kind: int) -> tuple[float, float]:
    """Return the terms in seconds of the local law of all sizes."""
    first, second = laws.fit_local(n / n[-1], t / t[-1])[kind, -1]
    return float(first * n[-1] * t[-1]), float(second * t[-1] / n[-1] ** laws.KINDS[kind].exponent)


@pytest.mark.parametrize(
    ("kind", "a", "b", "at_64"),
    [(0, 606.930, 43.831, 53.314), (1, 881.021, 6.2566, 63.819), (2, 1013.922, 0.9780, 78.436), (3, 783.003, 36.658, 48.893)],
)  # fmt: skip
def test_a_local_law_has_its_known_terms(kind: int, a: float, b: float, at_64: float) -> None:
    first, second = local_law(N, T, kind)
    assert (first, second) == pytest.approx((a, b), rel=1e-4)
    assert first / 64.0 + second * 64.0 ** laws.KINDS[kind].exponent == pytest.approx(at_64, rel=1e-4)


def test_three_sizes_give_the_local_law_of_three() -> None:
    assert local_law(N[:3], T[:3], 0) == pytest.approx((970.788, 17.821), rel=1e-4)


def test_prefixes_give_what_each_prefix_gives_alone() -> None:
    joint = laws.fit_local(N / N[-1], T / T[-1])
    for m in (2, 3, 4):
        for number, (kind, fit) in enumerate(zip(laws.KINDS, joint[:, m - 2], strict=True)):
            expected = fit * T[-1] * np.array([N[-1], N[-1] ** -kind.exponent])
            assert local_law(N[:m], T[:m], number) == pytest.approx(tuple(expected), rel=1e-9, abs=1e-9)


def test_the_shrunk_universal_law_has_its_known_terms_on_prefixes() -> None:
    fits = laws.fit_universal(N / N[-1], T / T[-1]) * UNITS
    assert fits[1] == pytest.approx([976.418, 17.382, 0.0], rel=1e-4)
    assert fits[2] == pytest.approx([1028.241, 1.51165, 0.896090], rel=1e-4)


def test_slopes_of_the_last_two_sizes_are_clipped() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    slopes = laws.last_slopes(x, np.log([100.0, 25.0, 250.0, 125.0]))
    assert slopes == pytest.approx([laws.LAST_SLOPE_MIN, laws.LAST_SLOPE_MAX, -1.0])


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=12))
def test_no_term_is_ever_negative(times: list[float]) -> None:
    n, t = 2.0 ** np.arange(float(len(times))) / 2.0 ** len(times), np.array(times)
    assert (laws.fit_local(n, t) >= 0).all()
    assert (laws.fit_universal(n, t) >= 0).all()


@settings(deadline=None)
@given(st.floats(1.0, 1e6), st.floats(0.0, 1e3))
def test_exact_amdahl_data_give_amdahls_law(a: float, b: float) -> None:
    first, second = local_law(N, a / N + b, 0)
    assert [first / n + second for n in (4.0, 64.0)] == pytest.approx([a / 4 + b, a / 64 + b], rel=1e-6)
