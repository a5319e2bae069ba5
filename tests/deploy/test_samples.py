"""What is shipped to begin with: configurations that are right as they are, and a unit that systemd takes."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from tests.kit.tools import tool

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SAMPLES = sorted((DEPLOY / "samples").glob("*.yaml"))
UNIT = DEPLOY / "systemd" / "scalewatch.service"
EXPOSED_MAX = 2.0  # of 10, by systemd's own measure


@pytest.mark.parametrize("path", [DEPLOY / "agent.yaml", *SAMPLES], ids=lambda path: path.stem)
def test_a_sample_configuration_is_right_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALEWATCH_KAFKA_PASSWORD", "of the test")
    result = CliRunner().invoke(main, ["validate", "-c", str(path)])
    assert result.exit_code == 0, result.output


def test_there_is_one_for_each_kind_of_centre() -> None:
    assert {path.stem for path in SAMPLES} == {"slurm-ldms", "cray-ex", "telegraf"}


@pytest.mark.tools
def test_systemd_takes_the_unit_and_finds_it_little_exposed(tmp_path: Path) -> None:
    program = tmp_path / "scalewatch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/scalewatch/bin/scalewatch", str(program)))
    analyse = tool("systemd-analyze")
    checked = subprocess.run([analyse, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    reported = subprocess.run(
        [analyse, "security", "--offline=true", f"--threshold={EXPOSED_MAX * 10:.0f}", unit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert reported.returncode == 0, reported.stdout[-400:]
