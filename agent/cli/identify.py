"""`scalewatch identify`: what the rules make of the jobs in files."""

from collections.abc import Iterable
from typing import Final

import click
import msgspec

from agent.app.privacy import privacy
from agent.cli.errors import FAILED
from agent.cli.options import config_option, load_or_default, timezone_option
from agent.cli.output import json_option, table
from agent.cli.survey import Survey
from agent.clock import SystemClock
from agent.decode.files import read_files
from agent.decode.options import DecodeOptions
from agent.decode.records import FileRecord
from agent.identify import Identifier
from agent.words import counted

REFUSED_SHOWN: Final = 5
SIZES_SHOWN: Final = 8


@click.command(short_help="Show what the rules make of the jobs in files.")
@click.argument("files", nargs=-1, required=True)
@config_option
@click.option("--system", default="local", show_default=True, metavar="NAME", help="The system of jobs that name none.")
@timezone_option
@click.option("--top", default=40, show_default=True, type=click.IntRange(1), help="Rows of each table.")
@json_option
def command(  # noqa: PLR0917 - options
    files: tuple[str, ...],
    config: str | None,
    system: str,
    timezone: str,
    top: int,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Show applications, inputs and sizes that the rules find in FILES of any format; - is standard input.

    Jobs that nothing names follow by frequency: what a new rule would be worth. Evidence of other sources, such as
    XALT, counts for the jobs that end after it in the files. Users are hidden first, as in the running agent.
    """
    settings = load_or_default(config)
    # whatever a rule may ask for is read here: nothing of it leaves this process
    options = DecodeOptions(
        default_system=system, timezone=timezone, keep_script=True, keep_comment=True, keep_paths=True
    )
    survey = Survey(Identifier(settings.identification), privacy(settings.privacy))
    refused, samples = _survey(survey, read_files(files, SystemClock().now_ms(), options))
    click.echo(_json(survey, refused) if as_json else _text(survey, top))
    if samples and not as_json:
        click.echo(f"scalewatch: {counted(samples, 'sample')} of telemetry left out, which tell of no job.", err=True)
    if refused and not as_json:
        rest = f"; the first {REFUSED_SHOWN} are above" if refused > REFUSED_SHOWN else ""
        click.echo(f"scalewatch: {counted(refused, 'record')} could not be used{rest}.", err=True)
    if not survey.jobs:
        click.get_current_context().exit(FAILED)


def _survey(survey: Survey, records: Iterable[FileRecord]) -> tuple[int, int]:
    """Take all records in; return how many were refused, the first of them named on standard error, and the samples."""
    refused = samples = 0
    for record in records:
        rejects = [record.error] if record.error else record.decoded.rejects
        for error in rejects[: max(0, REFUSED_SHOWN - refused)]:
            click.echo(f"scalewatch: {record.place}: {error}", err=True)
        refused += len(rejects)
        samples += 0 if record.samples is None else len(record.samples.series)
        for event in record.decoded.events:
            survey.take(event)
    return refused, samples


def _text(survey: Survey, top: int) -> str:
    head = ("application", "input", "system", "unit", "source", "confidence", "jobs", "sizes")
    groups = survey.groups()
    rows = [
        (g.application, g.input, g.system, g.unit, g.source, f"{g.confidence:.2f}", str(g.jobs), _sizes(g.sizes))
        for g in groups[:top]
    ]
    lines = [f"{counted(survey.jobs, 'job')}, {survey.identified} identified, {counted(len(groups), 'application')}."]
    if rows:
        lines += ["", table(head, rows)]
    if len(groups) > top:
        lines.append(f"... and {len(groups) - top} more; --top shows them.")
    nameless = survey.nameless()
    if nameless:
        lines += ["", "Jobs that nothing names, by frequency:"]
        lines.append(table(("jobs", "job", "reason"), [(str(n), name, why) for (name, why), n in nameless[:top]]))
    if survey.started:
        lines += ["", f"Also read: {counted(survey.started, 'start')} of jobs; only jobs that ended are counted."]
    if survey.left_out:
        lines += ["", f"Names not shown, for their number is bounded: {survey.left_out}."]
    return "\n".join(lines)


def _sizes(sizes: dict[float, int]) -> str:
    text = " ".join(f"{n:g}" for n in sorted(sizes)[:SIZES_SHOWN])
    return f"{text} ... {max(sizes):g}" if len(sizes) > SIZES_SHOWN else text


def _json(survey: Survey, refused: int) -> str:
    plain = {
        "jobs": survey.jobs,
        "identified": survey.identified,
        "refused": refused,
        "applications": [
            {
                **msgspec.structs.asdict(group),
                "sizes": [{"n": n, "jobs": jobs} for n, jobs in sorted(group.sizes.items())],
            }
            for group in survey.groups()
        ],
        "unidentified": [{"jobs": n, "job": name, "reason": why} for (name, why), n in survey.nameless()],
    }
    return msgspec.json.encode(plain).decode()
