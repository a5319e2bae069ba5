"""`scalewatch topics`: check or create the agent's topics, and print the ACLs that it needs."""

from collections.abc import Mapping
from typing import Final

import click

from agent.app.kafka import connected
from agent.cli import FAILED
from agent.cli.options import required_config_option, table
from agent.config import topics
from agent.config.load import load
from agent.config.tree import Config
from processors.contracts.log import FoundTopic, Log, TopicSettings

DAY_MS: Final = 86_400_000


@click.command(short_help="Check or create the agent's topics, or print the ACLs that it needs.")
@required_config_option
@click.option("--create", is_flag=True, help="Create the topics that are missing.")
@click.option(
    "--sources", is_flag=True, help="With --create: also create missing source topics, with one partition each."
)
@click.option(
    "--acls", is_flag=True, help="Print kafka-acls.sh commands for the rights that the agent needs; contacts no broker."
)
@click.option(
    "--principal",
    metavar="NAME",
    help="Principal for --acls; default: User:NAME, with NAME from kafka.security.username.",
)
def command(config: str, *, create: bool, sources: bool, acls: bool, principal: str | None) -> None:
    """Compare the agent's topics on the broker with their required settings.

    The exit code is 1 if a topic is missing or has other settings. With --create, a missing source topic is reported but
    does not change the exit code, because its producer may create it.
    """
    if sources and not create:
        raise click.UsageError("--sources goes with --create.")
    settings = load(config)
    if acls:
        click.echo(rights_text(settings, principal))
        return
    with connected(settings) as log:
        good = show(log, settings, create=create, sources=sources)
    if not good:
        click.get_current_context().exit(FAILED)


def show(log: Log, config: Config, *, create: bool, sources: bool = False) -> bool:
    """Create missing topics if `create` is set, print the table and all faults; return whether the command succeeded."""
    for name in topics.create(log, config, sources=sources) if create else ():
        click.echo(f"created {name}")
    existing = topics.examine(log, config)
    rows = [_row(topic, existing.topics.get(topic.name)) for topic in topics.own_topics(config)]
    click.echo(table(("topic", "partitions", "found", "should keep", "keeps", "copies", "in sync"), rows))
    faults = topics.faults(existing, config)
    for fault in faults:
        click.echo(f"scalewatch: {fault}", err=True)
    return not (list(topics.own_faults(existing, config)) if create and not sources else faults)


def _row(topic: TopicSettings, existing: FoundTopic | None) -> tuple[str, ...]:
    expected = (topic.name, str(topic.partitions))
    if existing is None or not existing.partitions:
        return (*expected, "missing" if existing is None else "refused", _retained(topic.options()), "-", "-", "-")
    real, in_sync = existing.settings, (existing.settings or {}).get("min.insync.replicas", "?")
    keeps = "?" if real is None else _retained(real)
    return (*expected, str(existing.partitions), _retained(topic.options()), keeps, str(existing.replicas), in_sync)


def _retained(settings: Mapping[str, str]) -> str:
    policy, retention_ms = settings.get("cleanup.policy", "delete"), int(settings.get("retention.ms", -1))
    time = "all" if retention_ms < 0 else f"{retention_ms / DAY_MS:.3g} days"
    retained = {"compact": "last record of each key", "delete": time}
    return retained.get(policy, f"last record of each key, {time}")


def rights_text(config: Config, principal: str | None) -> str:
    """Return the kafka-acls.sh commands for all rights, each command below a comment with its purpose."""
    who = principal or f"User:{config.kafka.security.username or 'scalewatch'}"
    lines = []
    for right in topics.rights(config):
        lines += [f"# {right.purpose}", right.command(who, config.kafka.bootstrap)]
    lines.append("# needed only if `scalewatch topics --create` creates the topics")
    lines += [right.command(who, config.kafka.bootstrap) for right in topics.rights_to_create(config)]
    return "\n".join(lines)
