"""A coarse guard of the predictions' quality; `python -m tests.quality` measures it on more data and in detail."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from processors.models.combination.combine import Coefficients
from processors.pipeline.state import CoefficientsOf, shipped
from tests.quality import score
from tests.quality.curves import Measured, load
from tests.quality.product import answers, messages
from tests.quality.refit import refit
from tests.quality.synthetic import errors
from tests.quality.tables import KNOWN_TRUTH, MARGIN
from tests.quality.worlds import World, worlds

DATA = Path(__file__).parent / "curves_data"
WORLDS = ("first4", "minus1", "minus2", "loo1", "loo3", "loo5")

# horizon -> median error at most in %, coverage at least in %, median ln of high over low at most: a twentieth beside what
# was measured when they were set, for each is the median of a few dozen points
MEASURED = {
    "inside": (4.2, 89.0, 0.31),
    "<=2x": (9.7, 88.0, 0.91),
    "2-4x": (21.9, 90.0, 1.79),
    ">4x": (28.9, 90.0, 3.64),
}


@pytest.fixture(scope="module")
def curves() -> list[Measured]:
    return load(DATA)


@pytest.fixture(scope="module")
def centres(curves: list[Measured]) -> dict[str, World]:
    return worlds(curves, WORLDS)


@pytest.fixture(scope="module")
def found(centres: dict[str, World]) -> dict[str, list[score.Answer]]:
    return requested(centres.values())


def requested(centres: Iterable[World], coefficients_of: CoefficientsOf = shipped) -> dict[str, list[score.Answer]]:
    return score.by_horizon(score.scored(*each) for world in centres for each in answers(world, coefficients_of))


@pytest.mark.parametrize("horizon", MEASURED)
def test_errors_and_bands_on_measured_curves(found: dict[str, list[score.Answer]], horizon: str) -> None:
    median, coverage, width = MEASURED[horizon]
    line = score.accuracy(found[horizon])
    assert line.median <= median
    assert line.coverage >= coverage
    assert line.width <= width


def test_what_is_called_reliable_is_better_than_the_rest(found: dict[str, list[score.Answer]]) -> None:
    inside = score.trust(found["inside"])
    assert inside.reliable_share > 15.0
    assert inside.reliable_median * 1.2 < inside.rest_median


@pytest.mark.parametrize("horizon", ["<=2x", "2-4x"])
def test_what_is_called_reliable_beyond_the_sizes_is_never_far_off(
    found: dict[str, list[score.Answer]], horizon: str
) -> None:
    trust = score.trust(found[horizon])
    assert trust.reliable_share == 0.0 or trust.off_far == 0.0


def test_nothing_far_beyond_the_sizes_is_called_reliable(found: dict[str, list[score.Answer]]) -> None:
    assert score.trust(found[">4x"]).reliable_share == 0.0


@pytest.mark.parametrize(
    "noise", [0.03, *(pytest.param(noise, marks=pytest.mark.thorough) for noise in KNOWN_TRUTH if noise != 0.03)]
)
def test_errors_where_the_truth_is_known(noise: float) -> None:
    found = errors(noise)
    assert all(error <= MARGIN * bound for error, bound in zip(found, KNOWN_TRUTH[noise], strict=True)), found


def test_a_refit_punishes_losses_and_predicts_what_it_was_fitted_to(
    curves: list[Measured], centres: dict[str, World], found: dict[str, list[score.Answer]]
) -> None:
    fitted: Coefficients = refit(curves)
    assert fitted.gate.own + fitted.gate.last > 0
    assert all(list(atoms) == sorted(atoms) for atoms in fitted.atoms)
    beyond = [world for name, world in centres.items() if not name.startswith("loo")]
    refitted = score.accuracy(requested(beyond, lambda _: fitted)["<=2x"])
    # the guard has a tenth of the curves that the shipped ones were fitted to, and none that were made up
    assert refitted.mean <= 1.2 * score.accuracy(found["<=2x"]).mean
    assert refitted.coverage >= 80.0


def test_what_is_scored_is_what_the_command_answers(centres: dict[str, World], tmp_path: Path) -> None:
    world = centres["first4"]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(messages(world)))
    lines = [
        {
            "id": f"{i}",
            "application": request.curve.application,
            "system": request.curve.system,
            "input": request.curve.input,
            "unit": request.curve.unit,
            "n": request.n,
        }
        for i, request in enumerate(world.requests)
    ]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = ["predict", "--events", "events.jsonl", "--requests", "requests.jsonl", "--out", "answers.jsonl"]
    chosen = [str(tmp_path / part) if part.endswith("jsonl") else part for part in command]
    result = CliRunner().invoke(main, chosen)
    assert result.exit_code == 0, result.output
    published = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    predicted = [
        (answer["run_time_s"], answer["low_s"], answer["high_s"], answer["reliability"]) for answer in published
    ]
    points = [point for _, point in answers(world) if point is not None]
    assert [(point.run_time_s, point.low_s, point.high_s) for point in points] == [each[:3] for each in predicted]
    assert [point.reliability.verdict for point in points] == [each[3]["verdict"] for each in predicted]
