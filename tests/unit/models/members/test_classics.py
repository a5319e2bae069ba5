"""Laws of the literature against numbers computed independently."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.laws import (
    amdahl,
    barnes,
    kazmina,
    local,
    usl,
)
from processors.models.laws.amdahl import fit_amdahl, fit_amdahl_log, fit_sup5
from processors.models.laws.barnes import fit_barnes
from processors.models.laws.kazmina import SHRINKAGE, KazminaLaw, fit_kazmina
from processors.models.laws.usl import fit_usl

N = np.array([4.0, 8.0, 16.0, 32.0])
T = np.array([262.0, 139.0, 78.5, 63.0])
ASKED = np.array([12.0, 64.0])
BIG = np.array([16.0, 32.0, 64.0, 96.0, 128.0])
ALL = (fit_amdahl, fit_amdahl_log, fit_usl, fit_kazmina, fit_sup5)


@pytest.mark.parametrize(
    ("fit", "terms", "times"),
    [
        (fit_amdahl, (867.448, 31.679, 0), (103.967, 45.233)),
        (fit_amdahl_log, (962.373, 0, 6.04276), (101.861, 51.294)),
        (fit_usl, (1040.644, 0, 0.974523), (97.440, 77.655)),
        (fit_kazmina, (0.947418, 1035.109, 0), (97.628, 76.808)),
        (fit_sup5, (996.969, 7.37892, 0, 0, 0.721809), (99.121, 69.152)),
    ],
)
def test_a_law_has_its_known_terms_and_predictions(fit, terms, times) -> None:  # noqa: ANN001 - five kinds of laws
    law = fit(N, T)
    assert tuple(law) == pytest.approx(terms, rel=2e-5, abs=1e-9)
    assert law.predict(ASKED) == pytest.approx(times, rel=1e-5)


def test_kazmina_recovers_exact_data_and_their_optimum_size() -> None:
    law = fit_kazmina(BIG, 0.002 * BIG + 800 / BIG + 5 / np.sqrt(BIG))
    assert tuple(law) == pytest.approx((0.002, 800.0, 5.0), rel=1e-6)
    assert law.predict(np.array([1024.0]))[0] == pytest.approx(2.9855, rel=1e-4)
    assert law.best_size() == pytest.approx(657.303, rel=1e-5)
    assert law.predict(np.array([law.best_size()]))[0] == pytest.approx(2.726724, rel=1e-6)
    assert law.best_whole_size() == 657


def test_superlinear_data_leave_kazmina_the_parallel_term_alone() -> None:
    law = fit_kazmina(BIG, 1000 / BIG**1.05)
    assert tuple(law) == pytest.approx((0.0, 818.526, 0.0), rel=1e-5)
    assert law.best_size() is None
    assert law.best_whole_size() is None


@pytest.mark.parametrize("terms", [(1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1e-300, 1e300, 0.0)])
def test_a_curve_without_a_minimum_has_no_best_size(terms: tuple[float, float, float]) -> None:
    assert KazminaLaw(*terms).best_size() is None


def test_two_sizes_are_met_exactly_by_kazmina() -> None:
    assert fit_kazmina(N[:2], T[:2]).predict(N[:2]) == pytest.approx(T[:2], rel=1e-6)


def test_shrinkage_holds_the_growing_term_back() -> None:
    assert fit_kazmina(N, T, shrinkage=SHRINKAGE).growth_s < fit_kazmina(N, T).growth_s


def test_a_size_without_weight_says_nothing() -> None:
    wrong = np.append(T, 1.0)
    trusted = fit_kazmina(np.append(N, 64.0), wrong, np.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    assert tuple(trusted) == pytest.approx(tuple(fit_kazmina(N, T)), rel=1e-9)


def test_barnes_recovers_inputs_and_sizes() -> None:
    x, q = (each.ravel() for each in np.meshgrid([2.0, 4.0, 8.0], [2.0, 4.0, 8.0, 16.0]))
    law = fit_barnes(q, 2 ** (3 + 2 * np.log2(x) - 0.9 * np.log2(q)), x[:, None])
    assert law.beta == pytest.approx((2.0,))
    assert law.gamma == pytest.approx((3.0, -0.9))
    assert law.predict(np.array([64.0]), np.array([[16.0]]))[0] == pytest.approx(48.50293, rel=1e-6)


def test_barnes_linear_and_quadratic_at_twice_the_largest_size() -> None:
    assert fit_barnes(N, T, degree=1).predict(ASKED)[1] == pytest.approx(34.485, rel=1e-4)
    assert fit_barnes(N, T, degree=2).predict(ASKED)[1] == pytest.approx(57.852, rel=1e-4)


def test_outside_the_sizes_the_slope_of_barnes_stays_within_bounds() -> None:
    far = fit_barnes(N, T, degree=2).predict(np.array([2.0**20, 2.0**21]))
    assert far[1] / far[0] == pytest.approx(2**barnes.SLOPE_MAX, rel=0.01)
    steep = fit_barnes(N, 1000.0 / N**2).predict(np.array([64.0, 128.0]))
    assert steep[1] / steep[0] == pytest.approx(2**barnes.SLOPE_MIN)


def test_a_cubic_is_refused() -> None:
    with pytest.raises(ValueError, match="1 or 2"):
        fit_barnes(N, T, degree=3)


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=12), st.sampled_from(ALL))
def test_terms_are_never_negative_and_predictions_positive(times: list[float], fit) -> None:  # noqa: ANN001
    law = fit(2.0 ** np.arange(len(times)), np.array(times))
    assert min(law) >= 0
    assert (law.predict(np.array([1.0, 3.0, 1e4])) >= 0).all()


@settings(deadline=None)
@given(st.sampled_from(ALL), st.floats(1e-6, 1e6))
def test_another_unit_of_time_scales_the_law(fit, factor: float) -> None:  # noqa: ANN001
    assert fit(N, factor * T).predict(ASKED) == pytest.approx(factor * fit(N, T).predict(ASKED), rel=1e-9)


def test_every_law_says_what_it_can_answer() -> None:
    told = [
        usl.ABILITY, kazmina.ABILITY, amdahl.ABILITY, *amdahl.ABILITIES, *barnes.ABILITIES, *local.ABILITIES,
    ]  # fmt: skip
    assert len({ability.name for ability in told}) == len(told)
    assert all(ability.sizes_min >= 1 for ability in told)
