"""`scalewatch topics` as an operator sees it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.cli.topics import show
from agent.config.load import loads
from agent.log.memory import MemoryLog


def test_missing_topics_are_shown_and_created_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    log, config = MemoryLog(), loads("topics: {prefix: hpc, journal_partitions: 2}")
    assert not show(log, config, create=False)
    before = capsys.readouterr()
    assert "hpc.journal                   2  missing  7 days" in before.out
    assert "The topic hpc.journal does not exist" in before.err
    assert show(log, config, create=True)
    after = capsys.readouterr()
    assert "created hpc.journal\n" in after.out
    assert "hpc.state                     2      2  last record of each key" in after.out
    assert after.err == ""


def test_rights_are_printed_as_commands_without_asking_a_broker(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("kafka: {bootstrap: 'nowhere.invalid:1'}\nsources: [{topics: [slurm.jobs]}]\n")
    result = CliRunner().invoke(main, ["topics", "-c", str(file), "--acls", "--principal", "User:agent"])
    assert result.exit_code == 0
    commands = [line for line in result.output.splitlines() if not line.startswith("#")]
    assert all(line.startswith("kafka-acls.sh --bootstrap-server nowhere.invalid:1 --add") for line in commands)
    assert all("--allow-principal User:agent" in line for line in commands)
    assert any(line.endswith("--operation Read --operation Describe --topic slurm.jobs") for line in commands)


def test_topics_of_sources_are_created_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    log, config = MemoryLog(), loads("sources: [{topics: [slurm.jobs, '^exa.*']}]")
    assert show(log, config, create=True)  # its own topics are made; that of a producer is the producer's
    assert "The topic slurm.jobs does not exist" in capsys.readouterr().err
    assert not show(log, config, create=False)
    capsys.readouterr()
    assert show(log, config, create=True, sources=True)
    assert capsys.readouterr().out.splitlines()[0] == "created slurm.jobs"


def test_sources_without_create_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["topics", "-c", "agent.yaml", "--sources"])
    assert result.exit_code == 2
    assert "--sources goes with --create" in result.output
