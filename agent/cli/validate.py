"""`scalewatch validate`: what is wrong with a configuration, what a change of it costs, and what it makes of samples."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from agent.app.sample_check import SampleReport, check_samples
from agent.cli.errors import WRONG
from agent.cli.options import json_option, required_config_option
from agent.clock import SystemClock
from agent.config.changes import Change, changes
from agent.config.checks import notes
from agent.config.load import load
from agent.config.tree import Config
from agent.config.yaml import path_text
from sinks.web.words import counted

# What a configuration makes of samples, in words.


NAMES_SHOWN: Final = 20
_UNPLACED: Final = {
    "hosts": "not in the file of nodes",
    "shared": "places that several hosts share, left out",
    "units": "sensors without a known unit, left out",
    "second": "sensors beside another one of the same resource, left out",
    "metrics": "not taken",
}


def text(report: SampleReport, config: Config) -> str:
    """Return a report as lines: what came first, then what could not be used, by name."""
    return "\n".join([_head(report, config), *(f"  {line}" for line in _lines(report))])


def _head(report: SampleReport, config: Config) -> str:
    topics = ", ".join(config.sources[report.source].topics)
    what = f"{report.file}: {counted(report.records, 'message')} as of the topic {topics} ({report.format})"
    samples, events = sum(report.samples.values()), sum(report.events.values())
    came = [f"{counted(samples, 'sample')} of {counted(report.hosts_seen, 'host')}"] if samples else []
    came += [counted(events, "event")] if events else []
    return f"{what}: {' and '.join(came) or 'nothing of use'}."


def _lines(report: SampleReport) -> Iterator[str]:
    amounts = sorted({**report.samples, **report.events}.items())
    if amounts:
        yield ", ".join(f"{name}: {count}" for name, count in amounts)
    for kind, meaning in _UNPLACED.items():
        names = getattr(report, kind)
        if names:
            yield f"{meaning}: {_some(names)}"
    if report.ignored:
        yield "left out: " + ", ".join(f"{reason} {count}" for reason, count in sorted(report.ignored.items()))
    if report.refusals:
        yield f"refused: {report.refusals}"
    yield from (f"  {sentence}" for sentence in report.refused)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown} and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else shown


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
