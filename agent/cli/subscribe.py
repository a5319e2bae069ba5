"""`scalewatch subscribe`: print the messages of an output topic, or keep a local table of predictions up to date."""

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Final, cast

import click
import msgspec

from agent.app import compose
from agent.app.kafka import connected, until_available
from agent.cli.options import report_retry, required_config_option, stopped_by_signals
from agent.config.load import load
from agent.config.tree import Config
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.log import Log, TopicPartition
from processors.contracts.outputs import Emission, Prediction
from sinks.table import Row, TableWriter, rows, write_lines
from sinks.topics import Kind, decoded, record

POLL_S: Final = 1.0
TOPICS: Final = ("predictions", "job-predictions", "answers", "alerts", "runs", "hosts")
AGAIN_MAX_S: Final = 30.0


class TopicRecord(msgspec.Struct, frozen=True):
    """A record of a topic: the newest message of a key (None if the key was deleted), with partition and offset."""

    key: bytes | None
    value: bytes | None
    place: str


def follow(
    log: Log, topic: str, group: str, stop: Callable[[], bool], *, only_new: bool = False
) -> Iterator[tuple[list[TopicRecord], bool]]:
    """Yield the existing records of a topic and then new ones, poll by poll, until `stop` returns true.

    The second value is True once all records present at the start have been read.

    No offset is committed: every reader uses its own group and reads the whole topic. A compacted topic holds the last
    message of each key, which is the complete current state. Raise UnavailableError if the broker is unreachable.
    """
    consumer = log.consumer(group, [topic], member="reader", from_beginning=not only_new)
    unread: dict[TopicPartition, int] = {}  # end offset at the start, for each partition not read up to it yet
    partitions, caught_up = set[TopicPartition](), False
    try:
        while not stop():
            poll = consumer.poll(POLL_S)
            for partition in set(poll.assignment.gained) - partitions:
                partitions.add(partition)
                if consumer.beginning(partition) < (end := consumer.end(partition)):
                    unread[partition] = end
            records: list[TopicRecord] = []
            for batch in poll.batches:
                if batch.next_offset >= unread.get((batch.topic, batch.partition), 0):
                    unread.pop((batch.topic, batch.partition), None)
                for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
                    records.append(TopicRecord(key, value, f"{batch.topic}/{batch.partition}/{offset}"))
            caught_up = caught_up or (bool(partitions) and len(partitions) == log.partitions(topic) and not unread)
            yield records, caught_up
    finally:
        consumer.close()


def readable(kind: Kind, records: Iterable[TopicRecord]) -> Iterator[Emission]:
    """Yield the records that can be decoded; report all other records on standard error."""
    for unchecked in records:
        try:
            yield record(kind, unchecked.key, unchecked.value)
        except InvalidInputError as error:
            click.echo(f"scalewatch: {unchecked.place} was skipped because it cannot be read: {error}", err=True)


@click.command(short_help="Print the agent's messages, or keep a local table of predictions.")
@required_config_option
@click.argument("topic", type=click.Choice(TOPICS), default="predictions")
@click.option(
    "--sqlite",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the predictions in this SQLite file up to date.",
)
@click.option(
    "--jsonl",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the predictions in this JSON-lines file up to date, one line per size.",
)
@click.option("--once", is_flag=True, help="Exit after reading the records that exist now.")
@click.option("--new", "only_new", is_flag=True, help="Skip the records that exist now; print only new ones.")
def command(config: str, topic: str, sqlite: Path | None, jsonl: Path | None, *, once: bool, only_new: bool) -> None:
    """Read an output topic from its beginning and follow it until Ctrl-C.

    Without --sqlite and --jsonl, each record is printed as one line of JSON: {"key": ..., "value": ...}. The value is null if the
    key was deleted. Files are replaced atomically, so readers never see half of a change. Records that this version
    cannot decode are reported on standard error and skipped.
    """
    tables = sqlite is not None or jsonl is not None
    if tables and (topic != "predictions" or only_new):
        raise ConfigError("--sqlite and --jsonl need the topic predictions and cannot be combined with --new.")
    settings = load(config)
    stop = stopped_by_signals()
    kind = cast("Kind", topic.replace("-", "_"))
    outputs: AbstractContextManager[Tables | None] = closing(Tables(sqlite, jsonl)) if tables else nullcontext()
    with outputs as output:
        read = partial(_read, settings, kind, output, stop, once=once, only_new=only_new)
        until_available(read, stop, AGAIN_MAX_S, report_retry)


def print_lines(kind: Kind, records: Iterable[TopicRecord]) -> None:
    """Print each change as a line of JSON."""
    for change in readable(kind, records):
        value = msgspec.Raw(change.value) if change.value is not None else None
        click.echo(msgspec.json.encode({"key": change.key, "value": value}).decode())


class Tables:
    """Keeps the SQLite file and the JSON-lines file up to date; both are written first when all records present at the start are read."""

    def __init__(self, sqlite: Path | None, jsonl: Path | None) -> None:
        self._jsonl = jsonl
        self._writer = TableWriter(sqlite) if sqlite is not None else None
        self._waiting: dict[str, bytes | None] = {}
        self._rows: dict[str, list[Row]] = {}
        self._whole = True

    def begin(self) -> None:
        """Prepare to read the topic again from its beginning; the next write then removes the rows of all keys that the topic lacks."""
        self._waiting, self._whole = {}, True

    def take(self, records: Iterable[TopicRecord], *, caught_up: bool) -> None:
        """Apply the changes, and write the files if a write is due."""
        self._waiting |= {change.key: change.value for change in readable("predictions", records)}
        if not caught_up or not (self._waiting or self._whole):
            return
        changed: dict[str, list[Row] | None] = dict.fromkeys(self._waiting)
        for key, value in self._waiting.items():
            if value is not None:
                changed[key] = list(rows(key, decoded(value, Prediction)))
        merged = {**({} if self._whole else self._rows), **changed}
        self._rows = {key: of_key for key, of_key in merged.items() if of_key}
        if self._writer is not None:
            self._writer.change(changed, whole=self._whole)
        if self._jsonl is not None:
            write_lines(self._jsonl, (row for _, rows in sorted(self._rows.items()) for row in rows))
        self._waiting, self._whole = {}, False

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _read(
    settings: Config, kind: Kind, output: Tables | None, stop: threading.Event, *, once: bool, only_new: bool
) -> None:
    if output is not None:
        output.begin()
    topic = compose.output_topics(settings)[kind]
    group = f"{settings.topics.prefix}-subscribe-{socket.gethostname()}-{os.getpid()}"
    with connected(settings) as log:
        if log.partitions(topic) is None:
            raise ConfigError(f"The topic {topic} does not exist. Is this the configuration of the running agent?")
        for records, caught_up in follow(log, topic, group, stop.is_set, only_new=only_new):
            if output is None:
                print_lines(kind, records)
            else:
                output.take(records, caught_up=caught_up)
            if once and caught_up:
                return
