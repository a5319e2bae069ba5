"""`scalewatch report`: the weekly reports about waste and energy, by user."""

import re
from collections.abc import Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import click

from agent.app import compose
from agent.app.compose import user_names
from agent.app.files import Remarks
from agent.app.kafka import connected
from agent.app.replay import Replay
from agent.cli.options import FileInput, finish, indented, json_option, progress, quiet_option, reads_files, table
from agent.clock import SystemClock
from agent.config.references import references
from agent.config.roles import PrivacySettings
from agent.config.tree import Config
from agent.decode.fields import zone_of
from agent.reports import energy as energy_report
from agent.reports.energy import EnergyReport, Factor, IntensitySeries
from agent.reports.page import page, text
from agent.reports.waste import WasteBounds, WeekReport, report
from agent.reports.week import Week, WeekRuns, last_whole_week, week_named, week_of
from processors import __version__
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.log import Batch, Log
from sinks.topics import Kind, record

READ: Final = ("predictions", "runs")
UNREADABLE_SHOWN: Final = 20
PSEUDONYM: Final = re.compile("u-[0-9a-f]{16}")
DEFAULTS: Final = WasteBounds()


@click.command
@click.argument("files", nargs=-1)
@click.option("--replay", is_flag=True, help="Process FILES as `scalewatch replay` does, instead of reading topics.")
@click.option("--energy", is_flag=True, help="Report energy and carbon instead of waste.")
@click.option(
    "--user",
    default=None,
    metavar="NAME",
    help="Report one user only: a user name, or its pseudonym in the agent's messages.",
)
@click.option(
    "--week", default=None, metavar="WEEK", help="ISO week, such as 2026-W47; default: the last complete week."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=None, metavar="FILE.html",
              help="Also write the report as an HTML page without scripts, fit for e-mail.")  # fmt: skip
@click.option("--efficiency-min", default=DEFAULTS.efficiency_min, show_default=True, type=click.FloatRange(0.01, 1),
              help="A run counts as too large if the parallel efficiency at its size is below this value.")  # fmt: skip
@click.option("--limit-factor", default=DEFAULTS.limit_factor, show_default=True, type=click.FloatRange(2),
              help="A time limit counts as too long if it exceeds the upper end of the predicted 90 % band by this factor.")  # fmt: skip
@click.option("--top", default=10, show_default=True, type=click.IntRange(1, 10_000), metavar="N",
              help="Number of users to show, largest loss first; --json prints all users.")  # fmt: skip
@json_option
@reads_files()
@quiet_option
def command(source: FileInput, **values: Any) -> None:
    """Report the node-hours that each user's runs wasted in a week, with advice for the next request.

    Waste is: sizes at which the application slows down or scales badly, failed and timed-out runs, and time limits far
    beyond the run time. Runs slowed by a faulty host are listed separately, because their user is not to blame. Sizes and
    limits are judged only if the prediction is reliable; the report says how many node-hours were not judged.

    \b
    scalewatch report -c agent.yaml --user mary --out mary.html
    scalewatch report --replay jobs.txt --week 2026-W47
    scalewatch report -c agent.yaml --energy --out energy.html

    Without FILES, the command reads the prediction and run topics of the agent with this configuration. A run belongs to
    the week in which it ends (Monday to Sunday in --timezone). Users appear by name or pseudonym, as `privacy.users` says.

    With --energy, the report sums energy by job, application, user, account and day, counting only the part of a run inside
    the week. Each sum states which share of the node-seconds was measured, estimated or unknown. Carbon is added if the
    configuration has `energy.carbon_g_per_kwh` or `reference.carbon`.

    The exit code is 1 if no run ended in the week.
    """  # noqa: D301 - click wants the character itself
    files: tuple[str, ...] = values["files"]
    if values["replay"] != bool(files):
        raise click.UsageError("Give both --replay and FILES, or neither to read the topics of the agent.")
    if not files and source.path is None:
        raise click.UsageError("Give the configuration of the agent with --config, or FILES with --replay.")
    if source.system is not None and not files:
        raise click.UsageError("--system works with FILES only: in the topics each run names its system.")
    config, zone = source.config, zone_of(source.timezone)
    week = week_named(values["week"], zone) if values["week"] else last_whole_week(SystemClock().now_ms(), zone)
    user = written_user(values["user"], config.privacy) if values["user"] is not None else None
    collected = WeekRuns(week, user, unit=config.identify.unit, partly=values["energy"])
    remarks = _collect(source, files, collected, quiet=values["quiet"])
    weekly: WeekReport | EnergyReport
    if values["energy"]:
        weekly = energy_report.report(week, zone, collected, _carbon(config), __version__)
        runs = weekly.total.runs
    else:
        bounds = WasteBounds(values["efficiency_min"], values["limit_factor"])
        weekly = report(week, collected, bounds, __version__)
        runs = weekly.runs
    if values["out"] is not None:
        values["out"].write_text(page(weekly, values["top"]), encoding="utf-8")
    if values["as_json"]:
        click.echo(indented(weekly))
    elif runs:
        click.echo(text(weekly, values["top"], table))
    if not runs:
        click.echo(_nothing(week, collected.newest_ms, zone, of_user=user is not None), err=True)
    finish(remarks, empty=not runs, explained=True)


def written_user(name: str, settings: PrivacySettings) -> str:
    """Return the pseudonym or plain name under which the agent stores a user; raise ConfigError if the agent drops user names."""
    if settings.users == "hash" and PSEUDONYM.fullmatch(name):
        return name
    written = user_names(settings)(name)
    if written is None:
        raise ConfigError("privacy.users is drop, so runs have no user and --user cannot select one.")
    return written


def _collect(source: FileInput, files: Sequence[str], into: WeekRuns, *, quiet: bool) -> Remarks:
    if not files:
        with connected(source.config) as log:
            collect_topics(source.config, log, into)
        return Remarks(source.config)
    with progress("records", quiet=quiet) as on_progress:
        played = Replay(source.config, into)
        played.run(files, source.options(), on_progress)
        played.agent.close()
    return played.remarks


def collect_topics(config: Config, log: Log, into: WeekRuns) -> None:
    """Read the topics in READ into `into`; print and skip unreadable records. Raise ConfigError if a topic does not exist."""
    unreadable: list[str] = []
    for kind in cast("tuple[Kind, ...]", READ):
        topic = compose.output_topics(config)[kind]
        partitions = log.partitions(topic)
        if partitions is None:
            raise ConfigError(f"The topic {topic} does not exist. Is this the configuration of the running agent?")
        for partition in range(partitions):
            log.read(topic, partition, partial(_take, kind, into, unreadable))
    for fault in unreadable[:UNREADABLE_SHOWN]:
        click.echo(f"scalewatch: {fault}", err=True)
    if len(unreadable) > UNREADABLE_SHOWN:
        click.echo(f"scalewatch: {len(unreadable)} records in total cannot be read.", err=True)


def _take(kind: Kind, into: WeekRuns, unreadable: list[str], batch: Batch) -> None:
    for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
        try:
            into.write([record(kind, key, value)])
        except InvalidInputError as error:
            unreadable.append(
                f"{batch.topic}/{batch.partition}/{offset} was skipped because it cannot be read: {error}"
            )


def _carbon(config: Config) -> Factor | IntensitySeries | None:
    if config.reference.carbon is not None:
        return IntensitySeries(references(config.reference).carbon, config.energy.carbon_hold_s)
    factor = config.energy.carbon_g_per_kwh
    return None if factor is None else Factor(factor)


def _nothing(week: Week, newest_ms: int | None, zone: tzinfo, *, of_user: bool) -> str:
    text = f"scalewatch: No run{' of this user' if of_user else ''} ended in {week.name}."
    if newest_ms is None:
        return text
    newest = week_of(newest_ms, zone).name
    if newest == week.name:
        return f"{text} Other users have runs in this week; names are as `privacy.users` says."
    return f"{text} The newest run ended in {newest}; select that week with --week."
