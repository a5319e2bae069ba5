"""`scalewatch report`: what a week's runs cost beyond what was needed, per user, and what to ask for next time."""

import re
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
from agent.cli.options import (
    columns_option,
    config_option,
    file_options,
    finish,
    json_option,
    load_or_default,
    progress,
    system_option,
    table,
    timezone_option,
)
from agent.clock import SystemClock
from agent.config.references import references
from agent.config.roles import PrivacySettings
from agent.config.tree import Config
from agent.decode.fields import zone_of
from agent.reports import energy as energy_report
from agent.reports import energy_page
from agent.reports.energy import EnergyRuns, Factor, Series
from agent.reports.waste import encoded, report
from agent.reports.waste_judgement import Bounds
from agent.reports.waste_page import page, text
from agent.reports.waste_runs import WeekRuns
from agent.reports.week import Week, last_whole_week, week_named, week_of
from processors import __version__
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.log import Batch, Log
from sinks.topics import Kind, record

READ: Final = ("predictions", "runs")
UNREADABLE_SHOWN: Final = 20
PSEUDONYM: Final = re.compile("u-[0-9a-f]{16}")
DEFAULTS: Final = Bounds()
Collected = WeekRuns | EnergyRuns


@click.command
@click.argument("files", nargs=-1)
@click.option("--replay", is_flag=True, help="Play FILES through the agent, as `scalewatch replay` does.")
@click.option("--energy", is_flag=True, help="Report energy and carbon in place of waste, and how much was measured.")
@click.option(
    "--user", default=None, metavar="NAME", help="One user: a name, or its pseudonym in the agent's messages."
)
@click.option(
    "--week", default=None, metavar="WEEK", help="ISO week, such as 2026-W47; default: the last that is over."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=None, metavar="FILE.html",
              help="Write the report as a page, too: one file without scripts, which a mail may carry.")  # fmt: skip
@click.option("--efficiency-min", default=DEFAULTS.efficiency_min, show_default=True, type=click.FloatRange(0.01, 1),
              help="Runs of less efficiency on the published curve are on more than the useful size.")  # fmt: skip
@click.option("--limit-factor", default=DEFAULTS.limit_factor, show_default=True, type=click.FloatRange(2),
              help="A time limit is too long from so many times the upper end of the predicted band.")  # fmt: skip
@click.option("--top", default=10, show_default=True, type=click.IntRange(1, 10_000), metavar="N",
              help="How many users are shown, those first who lost most; JSON has all.")  # fmt: skip
@json_option
@config_option
@system_option
@timezone_option
@columns_option
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(**given: Any) -> None:
    """Report what the runs of a week cost beyond what was needed, per user, with what to ask for next time.

    Counted are runs on sizes that slow their application down or use too little of what they have, failed and timed-out
    runs, and time limits far too long; runs that an odd host slowed are listed to the credit of their user. Sizes and
    limits count only where the prediction may be relied on; how much could not be judged is part of the report.

    \b
    scalewatch report -c agent.yaml --user mary --out mary.html
    scalewatch report --replay jobs.txt --week 2026-W47
    scalewatch report -c agent.yaml --energy --out energy.html

    Without FILES it reads the topics of predictions and runs of the agent that runs with this configuration. Runs belong to
    the week in which they end, Monday to Sunday in the zone of --timezone. With --energy each run counts for the part of it
    that lies in the week and in a day; energy is summed up by job, application, user, account and day, each with the share
    of node-seconds that was measured, estimated or is unknown, and carbon where the configuration has a factor
    (energy.carbon_g_per_kwh) or a series (reference.carbon). Names of people are written as the
    configuration's `privacy` has it. The exit code is 1 where no run ended in the week.
    """  # noqa: D301 - click wants the character itself
    files: tuple[str, ...] = given["files"]
    if given["replay"] != bool(files):
        raise click.UsageError("Name FILES with --replay, or neither to read the topics of the agent.")
    if not files and given["config"] is None:
        raise click.UsageError("Name the configuration of the agent with --config, or FILES with --replay.")
    if given["system"] is not None and not files:
        raise click.UsageError("--system is for FILES: the topics of the agent name the system of each run.")
    config, zone = load_or_default(given["config"]), zone_of(given["timezone"])
    week = week_named(given["week"], zone) if given["week"] else last_whole_week(SystemClock().now_ms(), zone)
    user = written_user(given["user"], config.privacy) if given["user"] is not None else None
    if given["energy"]:
        used = EnergyRuns(week, user)
        remarks = _collect(config, given, used)
        runs = _show_energy(given, week, used, zone, config)
    else:
        collected = WeekRuns(week, user, config.identification.unit)
        remarks = _collect(config, given, collected)
        runs = _show(given, week, collected, zone)
    finish(remarks, empty=not runs, explained=True)


def written_user(name: str, settings: PrivacySettings) -> str:
    """Return a user as the agent writes it: the pseudonym of a plain name, a pseudonym as it is; ConfigError where users are dropped."""
    if settings.users == "hash" and PSEUDONYM.fullmatch(name):
        return name
    written = user_names(settings)(name)
    if written is None:
        raise ConfigError("privacy.users is drop: no run has a user, so there is no report of one.")
    return written


def _collect(config: Config, given: dict[str, Any], into: Collected) -> Remarks:
    if not given["files"]:
        with connected(config) as log:
            collect_topics(config, log, into)
        return Remarks(config)
    options = file_options(config, given["timezone"], given["system"])
    with progress("records", quiet=given["quiet"]) as on_progress:
        played = Replay(config, into)
        played.run(given["files"], options, on_progress)
        played.agent.close()
    return played.remarks


def collect_topics(config: Config, log: Log, into: Collected) -> None:
    """Read what the topics hold now; a record that nobody can read is named on standard error and left out."""
    unreadable: list[str] = []
    for kind in cast("tuple[Kind, ...]", READ):
        topic = compose.output_topics(config)[kind]
        partitions = log.partitions(topic)
        if partitions is None:
            raise ConfigError(f"The topic {topic} does not exist; is this the configuration of the agent that runs?")
        for partition in range(partitions):
            log.read(topic, partition, partial(_take, kind, into, unreadable))
    for fault in unreadable[:UNREADABLE_SHOWN]:
        click.echo(f"scalewatch: {fault}", err=True)
    if len(unreadable) > UNREADABLE_SHOWN:
        click.echo(f"scalewatch: {len(unreadable)} records in all cannot be read.", err=True)


def _take(kind: Kind, into: Collected, unreadable: list[str], batch: Batch) -> None:
    for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
        try:
            into.write([record(kind, key, value)])
        except InvalidInputError as error:
            unreadable.append(f"{batch.topic}/{batch.partition}/{offset} cannot be read and is left out: {error}")


def _show(given: dict[str, Any], week: Week, collected: WeekRuns, zone: tzinfo) -> int:
    """Print and write the report; return how many runs it is about."""
    found = report(week, collected, Bounds(given["efficiency_min"], given["limit_factor"]), __version__)
    out: Path | None = given["out"]
    if out is not None:
        out.write_text(page(found, given["top"]), encoding="utf-8")
    if given["as_json"]:
        click.echo(encoded(found).decode(), nl=False)
    elif found.runs:
        click.echo(text(found, given["top"], table, one_user=given["user"] is not None))
    if not found.runs:
        click.echo(_nothing(week, collected, zone, of_user=given["user"] is not None), err=True)
    return found.runs


def _show_energy(given: dict[str, Any], week: Week, collected: EnergyRuns, zone: tzinfo, config: Config) -> int:
    """Print and write the report of energy; return how many runs it is about."""
    found = energy_report.report(week, zone, collected, _carbon(config), __version__)
    out: Path | None = given["out"]
    if out is not None:
        out.write_text(energy_page.page(found, given["top"]), encoding="utf-8")
    if given["as_json"]:
        click.echo(energy_report.encoded(found).decode(), nl=False)
    elif found.total.runs:
        click.echo(energy_page.text(found, given["top"], table))
    if not found.total.runs:
        click.echo(_nothing(week, collected, zone, of_user=given["user"] is not None), err=True)
    return found.total.runs


def _carbon(config: Config) -> Factor | Series | None:
    if config.reference.carbon is not None:
        return Series(references(config.reference).carbon, config.energy.carbon_hold_s)
    factor = config.energy.carbon_g_per_kwh
    return None if factor is None else Factor(factor)


def _nothing(week: Week, collected: Collected, zone: tzinfo, *, of_user: bool) -> str:
    whose = " of this user" if of_user else ""
    newest = collected.newest_ms
    last = f" The newest run is of {week_of(newest, zone).name}; --week chooses." if newest is not None else ""
    return f"scalewatch: No run{whose} ended in {week.name}.{last}"
