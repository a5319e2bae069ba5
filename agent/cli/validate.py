"""`scalewatch validate`: what is wrong with a configuration, what a change of it costs, and what it makes of samples."""

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from agent.app.sample_check import SampleReport, check_samples
from agent.cli.errors import WRONG
from agent.cli.options import required_config_option
from agent.cli.output import json_option
from agent.cli.sample_words import text
from agent.clock import SystemClock
from agent.config.diff import Change, changes
from agent.config.load import load
from agent.config.notes import notes
from agent.config.problems import path_text
from agent.config.tree import Config

COSTS: Final = ("restart", "rebuild")


@click.command(short_help="Check a configuration and name everything that is wrong.")
@required_config_option
@click.option("--diff", "old_path", metavar="OLD", help="Also say what changes against this one, and at what cost.")
@click.option("--no-secrets", is_flag=True, help="Do not look up secrets: for checks on another machine.")
@click.option(
    "--samples",
    multiple=True,
    metavar="[TOPIC=]FILE",
    help="Messages that producers wrote, one on a line: say what the sources make of them. May be given several times.",
)
@json_option
def command(
    config: str,
    old_path: str | None,
    no_secrets: bool,  # noqa: FBT001
    samples: tuple[str, ...],
    as_json: bool,  # noqa: FBT001 - options
) -> None:
    """Check a configuration without running it.

    Every problem is named with its line and key, and the exit code is 2; reference files are checked as well. What is
    allowed and still worth a thought comes as a note.

    With --samples, messages are decoded as the source of their topic would, or else as the one that can use most of them:
    how many samples came, which hosts the file of nodes does not list, which sensors have no known unit, and which metrics
    are not taken. No broker is asked. Where nothing of a file is of use, the exit code is 2.
    """
    settings = load(config, reveal_secrets=not no_secrets, sources_required=True)
    found = () if old_path is None else changes(_comparable(old_path), _comparable(config))
    reports = [check_samples(settings, text, SystemClock().now_ms()) for text in samples]
    click.echo(_json(settings, found, reports) if as_json else _text(config, settings, old_path, found))
    if reports and not as_json:
        click.echo("\n".join(text(report, settings) for report in reports))
    if not all(report.usable for report in reports):
        click.get_current_context().exit(WRONG)


def _comparable(path: str) -> Config:
    """Return the configuration with its secrets as references: only these can be compared with another file's."""
    return load(path, reveal_secrets=False, references=False)


def _text(path: str, config: Config, old_path: str | None, found: Sequence[Change]) -> str:
    lines = [f"{path}: the configuration is good."]
    lines += [f"note: {path_text(key)} {sentence}" for key, sentence in notes(config)]
    if old_path is not None and not found:
        lines.append(f"Nothing changes against {old_path}.")
    if found:
        dearest = max((change.cost for change in found), key=COSTS.index)
        lines += [f"Against {old_path}, all in all a {dearest}:", *(f"  {change}" for change in found)]
    return "\n".join(lines)


def _json(config: Config, found: Sequence[Change], reports: Sequence[SampleReport]) -> str:
    plain: dict[str, Any] = {
        "notes": [{"key": path_text(key), "sentence": sentence} for key, sentence in notes(config)],
        "changes": [{**msgspec.structs.asdict(change), "path": path_text(change.path)} for change in found],
    }
    if reports:
        plain["samples"] = reports
    return msgspec.json.encode(plain).decode()
