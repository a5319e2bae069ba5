"""`scalewatch subscribe`: what the agent says, as it says it; or a local table of predictions that stays fresh."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_when_event_set, wait_exponential_jitter

from agent.app import compose
from agent.app.subscribe import Changes, follow, newest
from agent.cli.options import required_config_option, stopped_by_signals
from agent.config.load import load
from agent.config.tree import Config
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.log import Log
from sinks.table import Row, TableWriter, write_lines

TOPICS: Final = ("predictions", "job-predictions", "answers", "alerts", "runs")
AGAIN_MAX_S: Final = 30.0


@click.command(short_help="Print what the agent says, or keep a local table of predictions fresh.")
@required_config_option
@click.argument("topic", type=click.Choice(TOPICS), default="predictions")
@click.option("--sqlite", type=click.Path(dir_okay=False, path_type=Path), help="Keep predictions in this SQLite file.")
@click.option(
    "--jsonl", type=click.Path(dir_okay=False, path_type=Path), help="Keep them in this file, a line per size."
)
@click.option("--once", is_flag=True, help="End when everything was read that is there now.")
@click.option("--new", "only_new", is_flag=True, help="Leave out what is there already.")
def command(config: str, topic: str, sqlite: Path | None, jsonl: Path | None, *, once: bool, only_new: bool) -> None:
    """Read an output topic from its beginning and go on until Ctrl-C.

    Without a file each message is printed as one line of JSON: {"key": ..., "value": ...}, the value null where the key has
    left the topic. A table is whole at any moment: whoever reads it never sees half a change.
    """
    tables = sqlite is not None or jsonl is not None
    if tables and (topic != "predictions" or only_new):
        raise ConfigError("A table is one of all predictions; leave out the other topic, and --new.")
    settings = load(config)
    stop = stopped_by_signals()
    take = Tables(sqlite, jsonl) if tables else Lines()
    name = compose.output_topics(settings)[topic.replace("-", "_")]
    attempts = Retrying(
        retry=retry_if_exception_type(UnavailableError), wait=wait_exponential_jitter(initial=1, max=AGAIN_MAX_S),
        stop=stop_when_event_set(stop), sleep=sleep_using_event(stop), before_sleep=_say, reraise=True,
    )  # fmt: skip
    try:
        attempts(_read, settings, name, take, stop, once=once, only_new=only_new)
    except UnavailableError:
        if not stop.is_set():
            raise
    finally:
        take.close()


class Lines:
    """Prints each change."""

    def begin(self) -> None:
        """Do nothing: after the broker was away all is printed again."""

    def take(self, found: Changes) -> None:
        """Print what was found."""
        for change in found.changes:
            value = msgspec.Raw(change.value) if change.value is not None else None
            click.echo(msgspec.json.encode({"key": change.key, "value": value}).decode())

    def close(self) -> None:
        """Do nothing."""


class Tables:
    """Keeps the files; nothing is written before everything was read that was there at the start."""

    def __init__(self, sqlite: Path | None, jsonl: Path | None) -> None:
        self._jsonl = jsonl
        self._writer = TableWriter(sqlite) if sqlite is not None else None
        self._waiting: dict[str, bytes | None] = {}
        self._rows: dict[str, list[Row]] = {}
        self._whole = True

    def begin(self) -> None:
        """Take note that the topic is read from its beginning: what is not there any more is no prediction."""
        self._waiting, self._whole = {}, True

    def take(self, found: Changes) -> None:
        """Take in what was found, and write when it is time."""
        self._waiting |= {change.key: change.value for change in found.changes}
        if not found.caught_up or not (self._waiting or self._whole):
            return
        changed: dict[str, list[Row] | None] = dict.fromkeys(self._waiting)
        changed |= newest({key: value for key, value in self._waiting.items() if value is not None})
        self._rows = {key: rows for key, rows in {**({} if self._whole else self._rows), **changed}.items() if rows}
        if self._writer is not None:
            self._writer.change(changed, whole=self._whole)
        if self._jsonl is not None:
            write_lines(self._jsonl, (row for _, rows in sorted(self._rows.items()) for row in rows))
        self._waiting, self._whole = {}, False

    def close(self) -> None:
        """Close the files."""
        if self._writer is not None:
            self._writer.close()


def _read(
    settings: Config, topic: str, take: Lines | Tables, stop: threading.Event, *, once: bool, only_new: bool
) -> None:
    from agent.log.kafka.log import KafkaLog  # noqa: PLC0415 - the Kafka client is loaded only where it is used

    log = KafkaLog(compose.kafka_settings(settings))
    take.begin()
    try:
        for found in _looks(log, topic, stop, only_new=only_new):
            take.take(found)
            if once and found.caught_up:
                return
    finally:
        log.close()


def _looks(log: Log, topic: str, stop: threading.Event, *, only_new: bool) -> Iterator[Changes]:
    if log.partitions(topic) is None:
        raise ConfigError(f"The topic {topic} does not exist; is this the configuration of the agent that runs?")
    group = f"scalewatch-subscribe-{socket.gethostname()}-{os.getpid()}"
    return follow(log, topic, group, stop.is_set, only_new=only_new)


def _say(state: Any) -> None:
    click.echo(f"scalewatch: {state.outcome.exception()} Trying again.", err=True)
