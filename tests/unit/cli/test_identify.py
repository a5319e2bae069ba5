"""`scalewatch identify` as somebody who writes rules sees it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agent.app.compose import hashed
from agent.cli import main

JOB: dict[str, Any] = {
    "type": "job.completed", "system": "exa", "n": 4, "unit": "nodes",
    "start": "2026-01-20T10:00:00Z", "end": "2026-01-20T10:01:00Z",
}  # fmt: skip
EVENTS = [
    JOB | {"job_id": 1, "job_name": "gmx_prod_01"},
    JOB | {"job_id": 2, "job_name": "gmx_prod_02", "n": 8},
    {"type": "identity", "system": "exa", "job_id": 3, "source": "xalt", "executable": "/opt/lammps/lmp"},
    JOB | {"job_id": 3, "job_name": "run7"},
    JOB | {"job_id": 4, "job_name": "bash"},
    JOB | {"job_id": 5, "user": "alice"},
    {"type": "job.started", "system": "exa", "job_id": 6, "start": "2026-01-20T10:00:00Z"},
]

ALICE = f"user {hashed('alice', b'')}"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    return path


def identify(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["identify", *arguments])


def test_applications_come_by_frequency_and_then_what_nothing_names(jobs: Path) -> None:
    result = identify(str(jobs))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "5 jobs, 3 identified, 2 applications.",
        "",
        "application  input  system  unit   source                confidence  jobs  sizes",
        "gmx_prod_#          exa     nodes  job_name                    0.50     2  4 8",
        "lmp                 exa     nodes  executable from xalt        0.90     1  4",
        "",
        "Unidentified jobs, by frequency:",
        "jobs  job                      reason",
        "   1  bash                     the job name 'bash' names no program",
        f"   1  {ALICE}  nothing in its evidence names a program",
        "",
        "Also read: 1 job start; only ended jobs are counted.",
        "",
        f"Next: scalewatch predict {jobs} 'gmx_prod_#' --n 8,16",
    ]


def test_rules_of_a_configuration_decide(jobs: Path, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(
        "identify:\n  rules:\n    - {match: {job_name: '^gmx_(?P<kind>[a-z]+)'}, application: gromacs, input: '{kind}'}\n"
    )
    output = json.loads(identify(str(jobs), "-c", str(config), "--json").stdout)
    assert output["applications"][0] == {
        "application": "gromacs", "input": "prod", "system": "exa", "unit": "nodes", "source": "rule 1",
        "confidence": 0.8, "jobs": 2, "sizes": [{"n": 4.0, "jobs": 1}, {"n": 8.0, "jobs": 1}],
    }  # fmt: skip
    assert output["jobs"] == 5
    assert {row["job"] for row in output["unidentified"]} == {"bash", ALICE}


def test_more_rows_than_asked_for_are_counted(jobs: Path) -> None:
    assert "... and 1 more; --top shows them." in identify(str(jobs), "--top", "1").stdout


def test_what_cannot_be_used_is_named_with_its_line_and_the_rest_is_shown(jobs: Path) -> None:
    jobs.write_text(jobs.read_text() + '{"type": "job.completed"}\nnot json\n')
    result = identify(str(jobs))
    assert result.exit_code == 0
    assert f"scalewatch: {jobs}:8: " in result.stderr
    assert "scalewatch: 2 records could not be used." in result.stderr
    assert "5 jobs, 3 identified" in result.stdout


def test_files_without_a_job_are_a_failure(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"type": "job.started", "system": "exa", "job_id": 6, "start": "2026-01-20T10:00:00Z"}\n')
    assert identify(str(empty)).exit_code == 1
    missing = identify(str(tmp_path / "nowhere"))
    assert missing.exit_code == 2
    assert "nowhere cannot be read: No such file or directory." in missing.stderr


def test_standard_input_is_a_file_too() -> None:
    result = CliRunner().invoke(main, ["identify", "-"], input=json.dumps(EVENTS[0]) + "\n")
    assert "1 job, 1 identified" in result.stdout
