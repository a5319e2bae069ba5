"""`scalewatch validate` as an operator sees it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main

GOOD = "sources: [{topics: [slurm.jobs]}]\nprivacy: {salt: '${env:SALT}'}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(GOOD)
    return path


def validate(*arguments: str, salt: str = "pepper") -> Result:
    return CliRunner(env={"SALT": salt}).invoke(main, ["validate", *arguments])


def test_a_good_configuration_is_called_good_with_what_is_worth_a_thought(file: Path) -> None:
    result = validate("-c", str(file))
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{file}: the configuration is valid.",
        "note: topics.replication is 1: a topic that the agent creates is lost with its one broker.",
    ]


def test_every_problem_of_a_bad_one_comes_on_a_line_of_its_own(file: Path) -> None:
    file.write_text("http: {port: x}\nlog: {level: loud}\n")
    result = validate("-c", str(file))
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"scalewatch: {file}:1:1: sources: is missing: the agent would read nothing.",
        f"scalewatch: {file}:1:8: http.port: must be a whole number, not 'x'.",
        f"scalewatch: {file}:2:7: log.level: must be debug, info, warning or error, not 'loud'.",
    ]


def test_secrets_need_not_be_there_to_check_a_file_elsewhere(file: Path) -> None:
    assert validate("-c", str(file), salt="").exit_code == 2
    assert validate("-c", str(file), "--no-secrets", salt="").exit_code == 0


def test_a_diff_names_each_change_and_the_dearest_cost(file: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(GOOD + "identify: {unit: cores}\nlog: {level: debug}\n")
    result = validate("-c", str(new), "--diff", str(file))
    assert result.exit_code == 0
    assert f"Changes since {file} need a rebuild:" in result.output
    assert '  identify.unit: "nodes" -> "cores" [rebuild: ' in result.output
    assert '  log.level: "info" -> "debug" [reload: ' in result.output
    assert f"No changes since {file}." in validate("-c", str(file), "--diff", str(file)).output


def test_a_diff_works_where_the_old_secrets_are_gone_and_never_shows_any(file: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(GOOD.replace("SALT", "OLD_SALT"))
    result = validate("-c", str(file), "--diff", str(old))
    assert "privacy.salt: (secret) -> (secret) [reload" in result.output
    assert "pepper" not in result.output


def test_programs_get_json(file: Path) -> None:
    output = json.loads(validate("-c", str(file), "--diff", str(file), "--json").output)
    assert output == {
        "notes": [
            {
                "key": "topics.replication",
                "sentence": "is 1: a topic that the agent creates is lost with its one broker.",
            }
        ],
        "changes": [],
    }
