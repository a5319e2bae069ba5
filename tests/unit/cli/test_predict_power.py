"""What `scalewatch predict` prints of power and energy."""

from typing import Any

import click
import msgspec
from click.testing import CliRunner

from agent.cli.predict import show
from processors.contracts.outputs import Answer, AnswerPoint, CurvePoint, Range, UsefulSizes
from tests.kit.messages import COMMON, curve, judged, powered_curve

RELIABLE_N = Range(1.0, 64.0)


def printed(points: tuple[CurvePoint, ...], **changes: Any) -> str:
    values: dict[str, Any] = COMMON | {
        "id": "1", "request_id": "1", "known": True, "detail": "41 runs at 7 sizes are known.", "application": "lammps",
        "system": "archer2", "input": "rhodo", "unit": "nodes", "identified_by": "application", "confidence": 1.0,
        "observations": 41, "model": None, "useful_n": UsefulSizes(least_energy=1.0), "quality": None,
        "points": tuple(AnswerPoint(**msgspec.structs.asdict(point)) for point in judged(points, RELIABLE_N)),
    }  # fmt: skip
    answer = Answer(**(values | changes))
    return CliRunner().invoke(click.Command("show", callback=lambda: show(answer)), []).output


def test_power_and_energy_stand_beside_the_run_time() -> None:
    text = printed(powered_curve())
    line = next(line for line in text.splitlines() if line.lstrip().startswith("64 "))
    assert "25.6 kW" in line
    assert "652 kJ" in line
    assert "587 kJ to 717 kJ" in line


def test_the_size_of_least_energy_is_reported_against_the_fastest_that_can_be_relied_on() -> None:
    last = printed(powered_curve()).splitlines()[-1]
    assert "400 kJ, at 1 node; 64 nodes are 39 times" in last


def test_without_power_nothing_of_it_is_printed() -> None:
    text = printed(curve(), useful_n=UsefulSizes())
    assert "power" not in text
    assert "energy" not in text
