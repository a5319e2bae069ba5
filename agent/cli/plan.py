"""`scalewatch plan`: what a centre needs before anything is installed."""

from math import isnan
from typing import Any, Final

import click
import msgspec

from agent.app.plan import BUSY, FIGURES, ROOM, Centre, Plan, plan
from agent.cli.options import config_option, json_option, load_or_default, table
from agent.config.references import references
from agent.config.tree import Config
from processors.contracts.errors import ConfigError

DAY_S: Final = 86_400.0
CPU_MIN_M: Final = 100  # a start takes more than the work of a small centre
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


@click.command(short_help="Say what memory, processors, disk and partitions a centre needs.")
@click.option(
    "--hosts", type=click.IntRange(0, 10_000_000), help="Hosts that are measured; default: those of reference.nodes."
)
@click.option(
    "--resources",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    help="Resources of a host that have windows, such as load and memory.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="Seconds between two measurements.",
)
@click.option(
    "--jobs-per-day", type=click.FloatRange(0, 1e8), default=10_000.0, show_default=True, help="Jobs that end in a day."
)
@click.option(
    "--applications",
    type=click.IntRange(0, 10_000_000),
    default=1000,
    show_default=True,
    help="Applications, counting each of their inputs that has its own curve.",
)
@click.option(
    "--retention-days",
    type=click.FloatRange(0.1, 3650),
    help="Days that the journal is kept; default: topics.journal_retention_s.",
)
@config_option
@json_option
def command(**given: Any) -> None:
    """Say what memory, processors, disk and partitions a centre needs, from its hosts and jobs.

    \b
    scalewatch plan --hosts 5000 --interval 10 --resources 12 --jobs-per-day 20000 --applications 2000
    scalewatch plan -c agent.yaml --hosts 500 --json

    From the configuration come the copies of a topic, the shards, the rhythm of checkpoints and the bounds. Every figure follows from
    measurements, which --json lists with the commands that repeat them.
    """  # noqa: D301 - click wants the character itself
    if isnan(given["jobs_per_day"]) or isnan(given["interval_s"]) or isnan(given["retention_days"] or 0.0):
        raise click.UsageError("--jobs-per-day, --interval and --retention-days are numbers.")
    config = load_or_default(given["config"])
    centre = Centre(
        hosts=_hosts(given["hosts"], config),
        resources=given["resources"],
        interval_s=given["interval_s"],
        jobs_per_day=given["jobs_per_day"],
        applications=given["applications"],
    )
    days = given["retention_days"] or config.topics.journal_retention_s / DAY_S
    found = plan(centre, config, days)
    click.echo(_json(found, days) if given["as_json"] else "\n".join(_text(found, days, config)))


def _hosts(given: int | None, config: Config) -> int:
    if given is not None:
        return given
    listed = len(references(config.reference).nodes)
    if not listed:
        raise ConfigError("Say how many hosts are measured: --hosts, or reference.nodes in the configuration.")
    return listed


def values(found: Plan) -> dict[str, Any]:
    """Return the values of the Helm chart that fit."""
    told: dict[str, Any] = {}
    for role in found.roles:
        resources = {
            "requests": {
                "cpu": f"{max(CPU_MIN_M, round(role.cores * 1000 / BUSY / 50) * 50)}m",
                "memory": f"{role.memory_mi}Mi",
            },
            "limits": {"memory": f"{role.memory_largest_mi}Mi"},
        }
        replicas = {"replicas": role.replicas} if role.role == "collector" else {}
        told[role.role] = {**replicas, "resources": resources}
    topics = {"journal_partitions": found.shards} if found.shards > 1 else {}
    settings = {"topics": topics} if topics else {}
    for setting in found.settings:
        section, _, key = setting.key.partition(".")
        settings[section] = {**settings.get(section, {}), key: setting.wanted}
    return told | ({"config": settings} if settings else {})


def _json(found: Plan, days: float) -> str:
    content = msgspec.to_builtins(found) | {
        "journal_days": days,
        "disk_bytes": found.disk_bytes,
        "helm_values": values(found),
        "measured": msgspec.to_builtins(FIGURES),
    }
    return msgspec.json.format(msgspec.json.encode(content)).decode()


def _text(found: Plan, days: float, config: Config) -> list[str]:
    centre = found.centre
    copies = config.topics.replication
    roles = [
        (each.role, str(each.replicas), f"{each.cores:.2f}", f"{each.memory_mi} Mi", f"{each.memory_largest_mi} Mi")
        for each in found.roles
    ]
    topics = [
        (
            each.topic,
            str(each.partitions),
            size(each.written_bytes_per_day),
            size(each.kept_bytes),
            str(each.retention_bytes or "-"),
        )
        for each in found.topics
    ]
    of_centre = (
        f"{centre.hosts:,} hosts with {centre.resources} resources every {centre.interval_s:g} s: {centre.samples_s:,.0f} samples "
        f"a second; {centre.jobs_per_day:,.0f} jobs a day; {centre.applications:,} applications."
    )
    without = (
        f"Cores are an average, of which a process should use {BUSY:.0%} at most; memory has {ROOM - 1:.0%} of room. Not in it: "
        "counters that are only part of profiles, the topics of producers, what Kafka adds to a record."
    )
    return [
        of_centre,
        "",
        table(("role", "processes", "cores each", "memory", "at most"), roles),
        "",
        table(("topic", "partitions", "written a day", f"on disk, {_copies(copies)}", "retention.bytes"), topics),
        "",
        f"Disk of the brokers: {size(found.disk_bytes)}; the journal is kept for {days:g} days, runs for ever (here: a year).",
        f"Partitions of the topics that hosts write to: {found.source_partitions} or more, keyed by host.",
        *(f"Set {each.key} to {each.wanted}: it is {each.present}." for each in found.settings),
        *found.remarks,
        without,
        "",
        "values.yaml of the Helm chart:",
        *_yaml(values(found), "  "),
    ]


def _copies(count: int) -> str:
    return "one copy" if count == 1 else f"{count} copies"


def _yaml(content: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for key, value in content.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_yaml(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{key}: {value}")
    return lines


def size(count: float) -> str:
    """Return a number of bytes as people read it."""
    power = 0
    while count >= 1000 and power < len(_UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.3g} {_UNITS[power]}"
