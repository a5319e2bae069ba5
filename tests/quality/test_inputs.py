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


# sizes that were run of the input itself -> median error at most in %, coverage at least in %, what it has to beat
MEASURED = {0: (45.0, 75.0, "nearest"), 1: (25.0, 88.0, "alone"), 2: (15.0, 85.0, "nearest")}


@pytest.mark.parametrize("run", MEASURED)
def test_an_input_is_predicted_from_others_as_well_as_measured(inputs: dict[str, list[Sized]], run: int) -> None:
    error, coverage, baseline = MEASURED[run]
    found = list(answers(inputs, "all", run))
    assert {answer.application for answer in found} == {"OpenSBLI", "MAESTRO-xrb"}
    assert balanced(found, "error") <= error
    assert balanced(found, "error") < balanced(found, baseline)
    assert balanced(found, "inside") >= coverage


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(DATA), "--only", "inputs"]) == 0
    prediction = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in prediction if line.lstrip().startswith("all ")] == [
        ["all", "0"],
        ["all", "1"],
        ["all", "2"],
    ]
