"""A coarse guard of predictions from other inputs; `python -m tests.quality --only inputs` measures it on more data."""

from pathlib import Path

import pytest

from tests.quality.__main__ import main
from tests.quality.curves import load
from tests.quality.inputs import Sized, answers, balanced, sized

DATA = Path(__file__).parent / "inputs_data"


@pytest.fixture(scope="module")
def inputs() -> dict[str, list[Sized]]:
    return sized(load(DATA))


@pytest.mark.parametrize(("run", "error"), [(0, 30.0), (1, 28.0), (2, 14.0)])
def test_an_input_is_predicted_better_from_others_than_by_the_nearest_or_their_mean(
    inputs: dict[str, list[Sized]], run: int, error: float
) -> None:
    found = list(answers(inputs, "all", run))
    assert {answer.application for answer in found} == {"OpenSBLI", "MAESTRO-xrb"}
    assert balanced(found, "error") <= error
    assert balanced(found, "error") < min(balanced(found, "nearest"), balanced(found, "mean"))
    assert balanced(found, "inside") >= 85.0


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(DATA), "--only", "inputs"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in said if line.lstrip().startswith("all ")] == [
        ["all", "0"],
        ["all", "1"],
        ["all", "2"],
    ]
