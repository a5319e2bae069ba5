"""The ways to run it that deploy/README.md reports: every file that a command names is there, and scalewatch understands its own."""

import re
import shlex
from pathlib import Path

import click
import pytest

from agent.cli import main
from tests.kit.image import DOCKERFILE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "deploy" / "README.md"
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
INSTALLED = "/etc/scalewatch/agent.yaml"
TAG = "scalewatch:local"


def own_arguments(command: str) -> list[str] | None:
    """Return what scalewatch is told by a command, directly or as the entry point of the image."""
    text = shlex.split(command.replace("$PWD", str(ROOT)))
    if text[:2] == ["docker", "run"]:
        return text[text.index(TAG) + 1 :]
    return text[1:] if Path(text[0]).name == "scalewatch" else None


OWN = [arguments for command in COMMANDS if (arguments := own_arguments(command)) is not None]


@pytest.mark.parametrize("arguments", OWN, ids=" ".join)
def test_scalewatch_understands_what_the_page_reports_it(arguments: list[str]) -> None:
    name, *rest = [str(ROOT / "deploy" / "agent.yaml") if word == INSTALLED else word for word in arguments]
    found = main.get_command(click.Context(main), name)
    assert found is not None
    found.make_context(name, rest)


def test_every_way_is_reported_with_its_commands() -> None:
    assert [
        name
        for name in ("systemctl", "docker build", "docker compose", "helm install")
        if name not in "\n".join(COMMANDS)
    ] == []
    assert {arguments[0] for arguments in OWN} >= {"validate", "topics", "demo", "run", "simulate"}


def test_files_of_the_sources_that_a_command_names_are_there() -> None:
    named = {word for command in COMMANDS for word in re.findall(r"(?<![\w/])(?:deploy|helm)/[\w./-]+", command)}
    assert {str(DOCKERFILE.relative_to(ROOT)), "deploy/systemd/scalewatch.service", "deploy/compose"} <= named
    assert [word for word in named if not (ROOT / word).exists()] == []
