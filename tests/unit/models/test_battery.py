"""All laws side by side: as they were fitted, and as the combination and the literature have them."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.adept.study import study
from processors.models.battery import MEMBERS, REFERENCE, SIZES_MIN, Battery, combined, explained, knots, reference
from processors.models.combination.evidence import ENSEMBLE, Curve, evidence
from processors.models.downey.curve import speedup
from processors.models.laws import (
    GROWTH,
    NOISE,
    PRIOR_SIZE,
    SLOPE_MAX,
    SLOPE_MIN,
    fit_barnes,
    fit_family,
    log2_run_time,
    nnls,
)
from processors.models.numerics.arrays import Floats
from tests.kit.combination import elasticities
from tests.kit.effort import examples
from tests.kit.exact_two_steps import exact_two_steps

N = (4.0, 8.0, 16.0, 32.0)
T = (262.0, 139.0, 78.5, 63.0)


def battery(n: tuple[float, ...] = N, run_time_s: tuple[float, ...] = T) -> Battery:
    at = knots(n)
    members = combined(evidence(Curve("a", "s", n, run_time_s))) if len(n) > 1 else ((),) * len(ENSEMBLE)
    return Battery(n[0], n[-1], run_time_s[-1], (*members, *reference(n, run_time_s, at, study(n, run_time_s))), at)


def run_times(n: float, of: Battery | None = None) -> dict[str, float]:
    found = (of or battery()).ln_run_times(n)
    return {name: math.exp(ln) for name, ln in zip(MEMBERS, found, strict=True) if ln is not None}


@pytest.mark.parametrize(
    ("n", "known"),
    [
        (12.0, {"amdahl": 103.967, "amdahl_log": 101.861, "sup5": 99.121}),
        (64.0, {"amdahl": 45.233, "amdahl_log": 51.294, "sup5": 69.152, "barnes_linear": 34.485, "barnes_quadratic": 57.852}),
    ],
)  # fmt: skip
def test_classic_laws_give_their_known_run_times(n: float, known: dict[str, float]) -> None:
    prediction = run_times(n)
    assert {name: prediction[name] for name in known} == pytest.approx(known, rel=1e-3)


def fitted_alone(terms: Floats, t: Floats, penalty: Floats) -> Floats:
    """Return the run times of one law at its sizes: the best nonnegative sum of the terms (terms, sizes)."""
    relative = terms / t
    return nnls(relative @ relative.T, relative.sum(axis=1) - penalty * relative[:, -1]) @ terms


@given(st.lists(st.floats(1.0, 1e4), min_size=2, max_size=10, unique=True), st.integers(0, 1000))
@settings(max_examples=examples(60), deadline=None)
def test_laws_fitted_together_are_those_fitted_alone(sizes: list[float], seed: int) -> None:
    n = np.array(sorted({round(size, 2) for size in sizes}))
    if n.size < 2 or n[-1] < 1.1 * n[0]:
        return
    t = (1000.0 / n + 10.0) * np.exp(np.random.default_rng(seed).normal(0.0, 0.1, n.size))
    basis = np.stack([1.0 / n, np.ones_like(n), np.log2(n), 1.0 / np.sqrt(n), n])
    members = (([0, 1], 0.0), ([0, 1, 2], 0.0), ([0, 3, 4], 0.0), ([0, 1, 2, 3, 4], NOISE**2 / PRIOR_SIZE))
    alone = [fitted_alone(basis[terms], t, penalty * GROWTH[terms]) for terms, penalty in members]
    assert fit_family(n, t) @ basis == pytest.approx(np.array(alone), rel=1e-5)


def test_the_laws_of_the_combination_state_what_they_predict_in_it() -> None:
    found = evidence(Curve("a", "s", N, T))
    for target in (48.0, 64.0, 500.0):
        elasticity = elasticities(found, np.array([target / 32.0]))[0]
        inside = dict(zip(ENSEMBLE, 63.0 * np.exp(elasticity * np.log(target / 32.0)), strict=True))
        prediction = run_times(target)
        assert {name: prediction[name] for name in ENSEMBLE} == pytest.approx(inside, rel=1e-4)


def test_downey_is_the_average_of_his_curves_at_its_sizes() -> None:
    found = study(N, T)
    for n, expected in zip(knots(N), found.run_times(np.array(knots(N))), strict=True):
        assert run_times(n)["downey"] == pytest.approx(expected, rel=1e-5)


def test_the_quick_two_steps_of_adept_forecast_about_as_the_exact_ones() -> None:
    random = np.random.default_rng(7)
    quick, exact = [], []
    for _ in range(15):
        n = 2.0 ** np.arange(float(random.integers(4, 7)))
        truth = 1000.0 / speedup(2.0 * n[-1], parallelism := float(np.exp(random.uniform(1, 5))), 1.0)
        t = 1000.0 / speedup(n, parallelism, 1.0) * np.exp(random.normal(0.0, 0.02, n.size))
        prediction = run_times(2.0 * n[-1], battery(tuple(n.tolist()), tuple(t.tolist())))["adept"]
        quick.append(abs(math.log(prediction / truth)))
        exact.append(abs(math.log(exact_two_steps(n, t, 2.0 * n[-1]) / truth)))
    assert np.median(quick) < np.median(exact) + 0.01
    assert np.mean(quick) < np.mean(exact) + 0.02


@pytest.mark.parametrize("degree", [1, 2])
def test_barnes_at_one_size_is_barnes_at_many(degree: int) -> None:
    gamma = fit_barnes(np.array(N), np.array(T), degree=degree)
    targets = np.geomspace(0.1, 1e5, 50)
    each = [2.0 ** log2_run_time(gamma, math.log2(n), 2.0, 5.0) for n in targets]
    nearest, q = np.clip(np.log2(targets), 2.0, 5.0), np.log2(targets)
    along = nearest + (q - nearest) * np.linspace(0.0, 1.0, 33)[:, None]
    slopes = np.clip(
        np.polynomial.polynomial.polyval(along, np.polynomial.polynomial.polyder(gamma)), SLOPE_MIN, SLOPE_MAX
    )
    beyond = np.trapezoid(slopes, dx=1.0 / 32, axis=0) * (q - nearest)
    known = np.exp2(np.polynomial.polynomial.polyval(nearest, gamma) + beyond)
    assert each == pytest.approx(known.tolist(), rel=0.02)  # that one integrates in 33 steps


def test_adept_answers_for_larger_sizes_alone() -> None:
    assert "adept" not in run_times(16.0)
    assert "adept" in run_times(33.0)


def test_of_a_share_of_a_processor_laws_with_a_logarithm_report_nothing() -> None:
    assert set(REFERENCE) - set(run_times(0.5)) == {"amdahl_log", "sup5", "adept"}
    small = battery((0.5, 1.0, 2.0), (100.0, 60.0, 40.0))
    assert set(MEMBERS) - set(run_times(4.0, small)) == {"amdahl_log", "sup5", "adept", "barnes_quadratic"}


def test_one_size_is_enough_for_downey_alone() -> None:
    assert set(run_times(8.0, battery((4.0,), (100.0,)))) == {"downey"}


def test_a_law_answers_once_it_has_the_sizes_that_it_needs() -> None:
    for k in range(2, 5):
        prediction = set(run_times(64.0, battery(N[:k], T[:k])))
        assert prediction == {name for name in MEMBERS if SIZES_MIN[name] <= k}


@given(st.floats(1e-3, 1e6), st.floats(1e-2, 1e3))
@settings(max_examples=examples(30), deadline=None)
def test_seconds_may_be_counted_in_another_unit(unit: float, n: float) -> None:
    scaled = run_times(n, battery(N, tuple(value * unit for value in T)))
    plain = run_times(n)
    assert {name: value / unit for name, value in scaled.items()} == pytest.approx(plain, rel=1e-2)


def test_numbers_have_names_and_universal_scalability_those_of_gunther() -> None:
    members = dict(zip(MEMBERS, battery().parameters, strict=True))
    usl = explained("usl", members["usl"])
    n = 8.0
    prediction = usl["t1_s"] / n * (1 + usl["sigma"] * (n - 1) + usl["kappa"] * n * (n - 1))
    assert prediction == pytest.approx(run_times(n)["usl"], rel=1e-4)
    assert all(explained(name, own) for name, own in members.items() if name != "downey")
    assert explained("kazmina", ()) == {}


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e9), st.floats(1e-3, 1e9)), min_size=2, max_size=6, unique_by=lambda pair: pair[0]
    ),
    st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=4),
)
@settings(max_examples=examples(80), deadline=None)
def test_whatever_ran_the_laws_state_something_finite_or_nothing(
    runs: list[tuple[float, float]], targets: list[float]
) -> None:
    n, t = zip(*sorted(runs), strict=True)
    if min(b / a for a, b in pairwise(n)) < 1.0 + 1e-6:
        return  # the same size, as those who count sizes see it
    members = battery(n, t)
    assert all(math.isfinite(number) for own in members.parameters for number in own)
    for target in (*targets, *n):
        assert all(ln is None or math.isfinite(ln) for ln in members.ln_run_times(target))


@pytest.mark.parametrize("name", ["usl", "kazmina"])
def test_a_law_that_turns_up_reports_its_fastest_size(name: str) -> None:
    best = explained(name, dict(zip(MEMBERS, battery().parameters, strict=True))[name])["best_n"]
    inside = battery()._replace(n_max=1e9)  # as the law has it, not anchored
    least, *others = (run_times(best * factor, inside)[name] for factor in (1.0, 0.9, 1.1))
    assert least < min(others)


def test_a_law_that_only_falls_has_no_fastest_size() -> None:
    assert "best_n" not in explained("usl", (100.0, 5.0, 0.0))
    assert "best_n" not in explained("kazmina", (100.0, 5.0, 0.0))


def test_kazminas_own_law_is_found_again_with_the_size_at_which_it_is_fastest() -> None:
    n = (16.0, 32.0, 64.0, 96.0, 128.0)
    t = tuple(0.002 * q + 800.0 / q + 5.0 / math.sqrt(q) for q in n)
    own = dict(zip(MEMBERS, battery(n, t).parameters, strict=True))["kazmina"]
    assert own == pytest.approx((800.0, 5.0, 0.002), rel=1e-5)
    assert explained("kazmina", own)["best_n"] == pytest.approx(657.303, rel=1e-4)
    assert run_times(1024.0, battery(n, t)._replace(n_max=1e9))["kazmina"] == pytest.approx(2.9855, rel=1e-4)


def test_kazminas_law_gives_its_known_numbers_and_no_growth_to_more_than_perfect_speed_up() -> None:
    own = dict(zip(MEMBERS, battery().parameters, strict=True))["kazmina"]
    assert own == pytest.approx((1035.109, 0.0, 0.947418), rel=1e-5)
    n = (16.0, 32.0, 64.0, 96.0, 128.0)
    better = battery(n, tuple(1000.0 / q**1.05 for q in n))
    assert dict(zip(MEMBERS, better.parameters, strict=True))["kazmina"] == pytest.approx((818.526, 0.0, 0.0), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "bend"), [("barnes_linear", 0.0), ("barnes_quadratic", 0.0), ("barnes_quadratic", 0.05)]
)
def test_barnes_own_law_is_found_again(name: str, bend: float) -> None:
    def ln_run_time(n: float) -> float:
        return math.log(2.0) * (13.0 - 0.9 * math.log2(n) + bend * math.log2(n) ** 2)

    n = (2.0, 4.0, 8.0, 16.0, 32.0)
    members = battery(n, tuple(math.exp(ln_run_time(size)) for size in n))
    for target in (3.0, 64.0, 128.0):
        assert run_times(target, members)[name] == pytest.approx(math.exp(ln_run_time(target)), rel=1e-4)


def test_kazminas_law_is_fitted_to_the_least_of_repeats_and_the_others_to_what_is_typical() -> None:
    n, typical_s = (1.0, 2.0, 4.0, 8.0), (130.0, 65.0, 32.5, 16.25)
    at, least_s = (1.0, 8.0), tuple(time_s / 1.3 for time_s in typical_s)
    found = dict(zip(REFERENCE, reference(n, typical_s, at, study(n, typical_s), least_s), strict=True))
    assert found["kazmina"][0] == pytest.approx(100.0, rel=1e-3)
    assert found["amdahl"][0] == pytest.approx(130.0, rel=1e-3)
