"""`--columns` names the columns of a table on every command that reads files."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main

TABLE = "run;program;result;began;ended;used\n" + "".join(
    f"{number};lammps;COMPLETED;2026-03-02T10:00:00;2026-03-02T11:00:00;{number}\n" for number in range(1, 9)
)
COLUMNS = "job_id=run,job_name=program,state=result,start=began,end=ended,nodes=used"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    return path


def test_a_table_is_read_once_its_columns_are_named(jobs: Path) -> None:
    refused = run("identify", jobs)
    assert refused.exit_code == 1
    assert "--columns" in refused.output
    named = run("identify", jobs, "--columns", COLUMNS)
    assert named.exit_code == 0, named.output
    assert "lammps" in named.output


@pytest.mark.parametrize("command", ["alerts", "backfill", "backtest", "identify", "predict", "replay", "report"])
def test_every_command_that_reads_files_takes_the_option(command: str) -> None:
    assert "--columns" in run(command, "--help").output


@pytest.mark.parametrize("pairs", ["job_id", "=run", "job_id=", "colour=red"])
def test_a_pair_that_names_no_column_is_refused(jobs: Path, pairs: str) -> None:
    refused = run("identify", jobs, "--columns", pairs)
    assert refused.exit_code == 2
    assert "is not COLUMN=NAME" in refused.output or "no column colour is read" in refused.output
