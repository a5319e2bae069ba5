import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.adept.study import study
from processors.models.adept.verdict import (
    FitEvidence,
    ObservedCurve,
    gather_many,
    judge,
)
from processors.models.downey.curve import speedup
from processors.models.numerics.arrays import Floats
from tests.kit.cases import each
from tests.kit.effort import examples

EVEN = np.arange(2.0, 33.0, 2.0)


def downey(n: Floats, parallelism: float, sigma: float, t1_s: float = 1000.0) -> Floats:
    return np.asarray(t1_s / speedup(n, parallelism, sigma))


@each(
    ("n", "t", "verdict"),
    [
        ([1, 2, 4, 8], downey(np.array([1.0, 2.0, 4.0, 8.0]), 64.0, 0.5), "linear"),
        ([4, 8, 16, 32, 64], downey(np.array([4.0, 8.0, 16.0, 32.0, 64.0]), 16.0, 0.5), "reliable"),
        ([2, 6, 16, 24], [51.246, 19.594, 9.225, 7.762], "runner_up"),
        ([1, 4, 128], [101.267, 24.874, 1.817], "runner_up"),
        ([1, 2, 4, 8, 16], [100, 80, 20, 35, 9], "high_error"),
        ([1, 2, 4, 8, 16, 32], [100, 52, 28, 17, 15, 19], "reliable"),
        ([1, 2, 4, 8], [100, 44, 20, 9.8], "superlinear"),
        ([4, 8], [100, 52], "insufficient"),
        ([8], [100], "insufficient"),
    ],
)
def test_the_verdicts_of_the_reference_curves(n: list[float], t: list[float], verdict: str) -> None:
    found = study(n, t).verdict
    assert found.verdict == verdict
    assert len(found.advice) >= len(found.reasons)
    assert (found.reasons == ()) == (verdict == "reliable")


def test_the_next_size_of_a_linear_curve_is_twice_the_largest() -> None:
    assert study([1, 2, 4, 8], downey(np.array([1.0, 2.0, 4.0, 8.0]), 64.0, 0.5)).verdict.next_n == 16.0


def test_the_next_size_is_one_of_those_that_the_centre_allows() -> None:
    found = study([1, 2, 4, 8], downey(np.array([1.0, 2.0, 4.0, 8.0]), 64.0, 0.5), allowed_sizes=[8, 12, 200]).verdict
    assert found.next_n == 12.0


def test_reliable_extrapolations_are_good_and_the_others_worse() -> None:
    rng = np.random.default_rng(9)
    errors: dict[str, list[float]] = {}
    for _ in range(200):
        n = 2.0 ** np.arange(rng.integers(3, 6)) * rng.choice([1.0, 2.0, 4.0])
        parallelism, sigma = np.exp(rng.uniform(np.log(4.0), np.log(256.0))), abs(rng.normal(1.0, 0.8))
        found = study(n, downey(n, parallelism, sigma) * np.exp(rng.normal(0.0, 0.01, n.size)))
        target = 2.0 * n[-1:]
        error = found.predict(target).run_time_s[0] / downey(target, parallelism, sigma)[0] - 1.0
        errors.setdefault(found.verdict.verdict, []).append(abs(float(error)))
    assert len(errors["reliable"]) >= 20
    assert np.mean(errors["reliable"]) < 0.035
    assert np.median(errors["reliable"]) < 0.02
    assert np.median(errors["linear"]) > 1.5 * np.median(errors["reliable"])


@st.composite
def points(draw: st.DrawFn) -> ObservedCurve:
    sizes = sorted(draw(st.sets(st.integers(1, 512), min_size=1, max_size=9)))
    times = draw(st.lists(st.floats(0.5, 1e4), min_size=len(sizes), max_size=len(sizes)))
    return ObservedCurve(np.array(sizes, dtype=float), np.array(times), draw(st.floats(0.0, 0.3)))


def numbers(found: FitEvidence) -> list[object]:
    known = (
        found.rms,
        found.rms_ideal,
        found.superlinear,
        found.worst_n,
        found.misfit,
    )
    return [*known, *(each.tolist() for each in found.acceptable), judge(found)]


@given(st.lists(points(), min_size=1, max_size=6))
@settings(max_examples=examples(60))
def test_the_evidence_of_many_studies_is_that_of_each_alone(several: list[ObservedCurve]) -> None:
    alone = [gather_many([each])[0] for each in several]
    assert [numbers(each) for each in gather_many(several)] == [numbers(each) for each in alone]
