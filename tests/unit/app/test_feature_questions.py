"""Questions that tell what is known of a job besides its size, from files and the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli.predict import command
from tests.kit.scenario import SYSTEM

ATOMS = (1000, 2000, 4000, 8000)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return a configuration that names an attribute, and a file of runs whose times follow it, at two sizes alike."""
    folder = tmp_path_factory.mktemp("features")
    lines = [
        json.dumps({
            "type": "job.completed", "system": SYSTEM, "job_id": str(i), "application": "lammps", "n": 2 ** (i % 2),
            "unit": "nodes", "start": f"2026-11-{1 + i // 20:02d}T{i % 20:02d}:00:00Z", "state": "COMPLETED",
            "run_time_s": ATOMS[i // 2 % 4] / 10 / 2 ** (i % 2) * (1 + 0.01 * (i % 3)), "attributes": {"atoms": ATOMS[i // 2 % 4]},
        })
        for i in range(100)
    ]  # fmt: skip
    (folder / "runs.jsonl").write_text("\n".join(lines))
    (folder / "agent.yaml").write_text("features:\n  attributes: [atoms]\n")
    (folder / "requests.jsonl").write_text(
        json.dumps({"id": "r", "application": "lammps", "n": 2, "attributes": {"atoms": 4000}})
    )
    return str(folder / "agent.yaml"), str(folder / "runs.jsonl")


def test_a_person_reports_attributes_on_the_command_line(files: tuple[str, str]) -> None:
    prediction = CliRunner().invoke(
        command, ["-c", files[0], files[1], "lammps", "--n", "2", "--attribute", "atoms=8000", "--members"]
    )
    assert prediction.exit_code == 0, prediction.output
    assert "Features of the run contribute: attributes" in prediction.output
    row = next(line for line in prediction.output.splitlines() if line.strip().startswith("2 "))
    assert float(row.split()[1]) == pytest.approx(404.0, rel=0.05)
    assert any(line.strip().startswith("attributes") for line in prediction.output.splitlines())


def test_a_line_of_requests_reports_attributes(files: tuple[str, str]) -> None:
    requests = str(Path(files[0]).with_name("requests.jsonl"))
    prediction = CliRunner().invoke(command, ["-c", files[0], "--events", files[1], "--requests", requests])
    assert prediction.exit_code == 0, prediction.output
    answer = json.loads(prediction.output)
    assert answer["run_time_s"] == pytest.approx(202.0, rel=0.05)
    assert answer["model"]["name"] == "features"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (["--attribute", "atoms"], "write NAME=VALUE"),
        (["--feature", "max_fifo=many"], "features are numbers"),
        (["--feature", "max_fifo=inf"], "features are finite"),
    ],
)
def test_what_is_reported_wrongly_is_refused_with_a_message(option: list[str], why: str) -> None:
    prediction = CliRunner().invoke(command, ["runs.jsonl", "lammps", *option])
    assert prediction.exit_code == 2
    assert why in prediction.output
