"""Local laws and the law of universal scalability on prefixes, against numbers computed independently."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.laws import local, usl

N = np.array([4.0, 8.0, 16.0, 32.0])
T = np.array([262.0, 139.0, 78.5, 63.0])
UNITS = np.array([N[-1], 1.0, 1.0 / N[-1]]) * T[-1]


@pytest.mark.parametrize(
    ("kind", "a", "b", "at_64"),
    [(0, 606.930, 43.831, 53.314), (1, 881.021, 6.2566, 63.819), (2, 1013.922, 0.9780, 78.436), (3, 783.003, 36.658, 48.893)],
)  # fmt: skip
def test_a_local_law_has_its_known_terms(kind: int, a: float, b: float, at_64: float) -> None:
    law = local.fit_local(N, T, local.KINDS[kind])
    assert (law.parallel_s, law.other_s) == pytest.approx((a, b), rel=1e-4)
    assert law.predict(np.array([64.0]))[0] == pytest.approx(at_64, rel=1e-4)


def test_three_sizes_give_the_local_law_of_three() -> None:
    law = local.fit_local(N[:3], T[:3], local.KINDS[0])
    assert (law.parallel_s, law.other_s) == pytest.approx((970.788, 17.821), rel=1e-4)


def test_prefixes_give_what_each_prefix_gives_alone() -> None:
    together = local.fit_prefixes(N / N[-1], T / T[-1])
    for m in (2, 3, 4):
        for kind, fit in zip(local.KINDS, together[:, m - 2], strict=True):
            law = local.fit_local(N[:m], T[:m], kind)
            expected = fit * T[-1] * np.array([N[-1], N[-1] ** -kind.exponent])
            assert (law.parallel_s, law.other_s) == pytest.approx(tuple(expected), rel=1e-9, abs=1e-9)


def test_the_shrunk_universal_law_has_its_known_terms_on_prefixes() -> None:
    fits = usl.fit_prefixes(N / N[-1], T / T[-1]) * UNITS
    assert fits[1] == pytest.approx([976.418, 17.382, 0.0], rel=1e-4)
    assert fits[2] == pytest.approx([1028.241, 1.51165, 0.896090], rel=1e-4)


def test_the_classic_universal_law_has_its_known_terms() -> None:
    law = usl.fit_usl(N, T)
    assert law == pytest.approx((1040.644, 0.0, 0.974523), rel=1e-4)
    assert law.predict(np.array([12.0, 64.0])) == pytest.approx([97.440, 77.655], rel=1e-4)


def test_slopes_of_the_last_two_sizes_are_clipped() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    slopes = local.last_slopes(x, np.log([100.0, 25.0, 250.0, 125.0]))
    assert slopes == pytest.approx([local.SLOPE_MIN, local.SLOPE_MAX, -1.0])


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=12))
def test_no_term_is_ever_negative(times: list[float]) -> None:
    n, t = 2.0 ** np.arange(len(times)) / 2.0 ** len(times), np.array(times)
    assert (local.fit_prefixes(n, t) >= 0).all()
    assert (usl.fit_prefixes(n, t) >= 0).all()


@settings(deadline=None)
@given(st.floats(1.0, 1e6), st.floats(0.0, 1e3))
def test_exact_amdahl_data_give_amdahls_law(a: float, b: float) -> None:
    law = local.fit_local(N, a / N + b, local.KINDS[0])
    assert law.predict(np.array([4.0, 64.0])) == pytest.approx([a / 4 + b, a / 64 + b], rel=1e-6)
