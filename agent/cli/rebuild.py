"""`scalewatch rebuild`: learn anew from the settled runs."""

import click

from agent.app import compose
from agent.app.rebuild import rebuild
from agent.cli.options import progress, required_config_option
from agent.config.load import load
from agent.config.tree import Config
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import FencedError, ScalewatchError
from processors.contracts.log import Log
from sinks.web.words import counted


@click.command
@required_config_option
@click.option("--shard", type=click.IntRange(0), multiple=True, help="This shard alone; may be repeated.")
def command(config: str, shard: tuple[int, ...]) -> None:
    """Fold all settled runs through the rules and the code of today and replace the learner's state.

    Stop the learner first. Needed after a change of the rules, of the number of journal partitions, or of the form of
    the state; jobs that run or have not settled are kept.
    """
    settings = load(config)
    log = KafkaLog(compose.kafka_settings(settings))
    try:
        for number in shard or range(settings.topics.journal_partitions):
            click.echo(_rebuilt(settings, log, number))
    except FencedError as error:
        raise ScalewatchError("A learner took the shard back while it was rebuilt; stop the learners first.") from error
    finally:
        log.close()


def _rebuilt(config: Config, log: Log, shard: int) -> str:
    with progress() as bar:
        task = bar.add_task(f"shard {shard}, runs", total=None)
        done = rebuild(config, log, shard, lambda runs: bar.update(task, completed=runs))
    told = (
        counted(done.runs, "run"),
        f"{counted(done.pending_jobs, 'job')} not settled",
        counted(done.applications, "application"),
    )
    return f"shard {shard}: {', '.join(told)}"
