"""`scalewatch backfill`: history into the running system."""

import click

from agent.app import compose
from agent.app.backfill import PROFILES, WRITTEN, backfill
from agent.cli.options import progress, required_config_option, timezone_option
from agent.clock import SystemClock
from agent.config.load import load
from agent.log.kafka.log import KafkaLog
from sinks.web.words import counted


@click.command
@click.argument("files", nargs=-1, required=True)
@required_config_option
@timezone_option
def command(files: tuple[str, ...], config: str, timezone: str) -> None:
    """Write the ended runs of event FILES into the journal, oldest first, so that day one has models.

    Takes every file and folder that replay takes; runs of archives come with the profile of what their hosts measured. The agent may be running. Doing it twice changes nothing. Old runs raise no alerts.
    """
    settings = load(config)
    log = KafkaLog(compose.kafka_settings(settings))
    try:
        with progress() as bar:
            task = bar.add_task("runs", total=None)
            counts = backfill(
                settings,
                log,
                files,
                timezone=timezone,
                now_ms=SystemClock().now_ms(),
                on_progress=lambda written: bar.update(task, completed=written),
            )
    finally:
        log.close()
    rest = ", ".join(
        f"{count} {reason}" for reason, count in sorted(counts.items()) if reason not in {WRITTEN, PROFILES}
    )
    told = f", {counted(counts[PROFILES], 'profile')}" if counts[PROFILES] else ""
    click.echo(f"{counted(counts[WRITTEN], 'run')}{told} written" + (f"; left out: {rest}" if rest else ""))
