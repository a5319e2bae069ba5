"""A coarse guard of the combination's quality; `python -m tests.quality` measures it on more data and in detail."""

from pathlib import Path

import pytest

from processors.models.combination.combine import SHIPPED
from tests.quality import score
from tests.quality.curves import Measured, load
from tests.quality.refit import refit
from tests.quality.synthetic import errors
from tests.quality.tables import KNOWN_TRUTH, MARGIN

DATA = Path(__file__).parent / "curves_data"

# horizon -> median error at most in %, coverage at least in %, median ln of high over low at most
MEASURED = {
    "inside": (4.7, 88.0, 0.31),
    "<=2x": (11.0, 89.0, 1.1),
    "2-4x": (22.5, 90.0, 2.3),
    ">4x": (25.0, 88.0, 4.1),
}


@pytest.fixture(scope="module")
def curves() -> list[Measured]:
    return load(DATA)


@pytest.fixture(scope="module")
def table(curves: list[Measured]) -> dict[str, score.Line]:
    return score.table(
        [each for ask in (score.inside, score.beyond) for each in ask(curves, lambda _: SHIPPED, alone=False)]
    )


@pytest.mark.parametrize("horizon", MEASURED)
def test_errors_and_bands_on_measured_curves(table: dict[str, score.Line], horizon: str) -> None:
    median, coverage, width = MEASURED[horizon]
    assert table[horizon].median <= median
    assert table[horizon].coverage >= coverage
    assert table[horizon].width <= width


def test_what_is_called_reliable_is_better_than_the_rest(table: dict[str, score.Line]) -> None:
    assert table["inside"].reliable_median * 1.5 < table["inside"].rest_median
    assert table["<=2x"].reliable_median < table["<=2x"].rest_median


@pytest.mark.parametrize("noise", KNOWN_TRUTH)
def test_errors_where_the_truth_is_known(noise: float) -> None:
    found = errors(noise)
    assert all(error <= MARGIN * bound for error, bound in zip(found, KNOWN_TRUTH[noise], strict=True)), found


def test_a_refit_punishes_losses_and_predicts_what_it_was_fitted_to(
    curves: list[Measured], table: dict[str, score.Line]
) -> None:
    fitted = refit(curves)
    assert fitted.gate.own + fitted.gate.last > 0
    assert all(list(atoms) == sorted(atoms) for atoms in fitted.atoms)
    found = score.table(score.beyond(curves, lambda _: fitted, alone=False))
    assert found["<=2x"].mean <= 1.1 * table["<=2x"].mean
    assert found["<=2x"].coverage >= 80.0
