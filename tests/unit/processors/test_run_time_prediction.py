"""What is said of a whole curve: the words of the study, where the laws of scaling do not know better."""

import pytest

from processors.models.adept.study import study
from processors.models.combination.evidence import Curve
from processors.run_time.prediction import RunTimePrediction
from tests.kit.combination import combine


def forecast(n: tuple[float, ...], run_time_s: tuple[float, ...]) -> RunTimePrediction:
    return RunTimePrediction(study(n, run_time_s), combine(Curve("exa/lammps//nodes", "exa", n, run_time_s)))


def universal(n: tuple[float, ...], contention: float, coherency: float) -> tuple[float, ...]:
    return tuple(1000 * (1 + contention * (size - 1) + coherency * size * (size - 1)) / size for size in n)


@pytest.mark.parametrize(("contention", "coherency"), [(0.01, 2e-4), (0.05, 4e-3)])
def test_a_clean_curve_that_turns_up_slows_down_and_is_not_called_erroneous(
    contention: float, coherency: float
) -> None:
    sizes = tuple(2.0**i for i in range(9))
    found = forecast(sizes, universal(sizes, contention, coherency))
    assert found.study.verdict.reasons == ("high_error",), "Downey's law knows no such curve"
    prediction = found.judged
    assert (prediction.verdict, prediction.reasons) == ("reliable", ())
    assert len(prediction.advice) == 1
    assert found.study.slower_beyond is not None


def test_a_curve_that_no_law_explains_is_called_erroneous() -> None:
    found = forecast((1.0, 2.0, 4.0, 8.0, 16.0), (100.0, 80.0, 20.0, 35.0, 9.0))
    assert found.judged == found.study.verdict
    assert found.judged.verdict == "high_error"
