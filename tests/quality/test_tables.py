"""The program that prints the tables, on the few curves that the guard has."""

from pathlib import Path

import pytest

from tests.quality.__main__ import main

DATA = Path(__file__).parent / "curves_data"


def test_a_table_is_printed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(DATA), "--only", "inside", "--by-set", "--shipped", "--worlds", "loo1"]) == 0
    prediction, progress = capsys.readouterr()
    assert [line.split()[-1] for line in prediction.splitlines() if line.startswith("inside  ")][1:] == [
        "archer_benchmarks",
        "maestro",
        "ofi_ucx",
    ]
    assert progress.startswith("[1/1] inside, at most")


def test_a_table_that_runs_out_of_time_reports_it_and_the_program_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chosen = ["--data", str(DATA), "--cache", str(tmp_path), "--seconds", "1e-9", "--only", "beyond"]
    assert main(chosen) == 1
    assert "stopped after 0 s" in capsys.readouterr().out


def test_a_table_without_its_data_reports_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(DATA), "--only", "job_logs"]) == 0
    assert "no data for it" in capsys.readouterr().out


def test_a_folder_without_curves_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path)])
    assert "holds no CSV files of curves" in capsys.readouterr().err
