"""A piece of fuzzing: hostile records go through a whole collector, and a part of what passes through a shard."""

import atexit
import json
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from agent.app import compose
from agent.collector.collector import Collector, Routes
from agent.collector.reading import SourceDecoders as Reader
from agent.config.references import ReferenceSettings
from agent.config.roles import SchemaRegistrySettings, SchemaText
from agent.config.topics import own_topics
from agent.config.tree import Config, Source, SourceFormat, TopicNames
from agent.decode.formats import DECODERS
from agent.decode.guard import guarded
from agent.decode.message import DecodeOptions
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.errors import DECODER
from processors.contracts.events import DeadLetter, HostMinute, Refusal, Tick, decode_record
from processors.contracts.log import TopicSettings
from processors.contracts.telemetry import Keep, SeriesIndex, Telemetry
from processors.pipeline.shard import Shard
from tests.harden.corpus import CASES, corpus
from tests.harden.mutate import Mutant, mutant
from tests.kit.agent_topics import states

START_MS: Final = 1_795_219_200_000  # a little later than the newest of the records
SLICE: Final = 16
STEP_MS: Final = 10_000
RECORDS_MAX: Final = 4_000  # of a topic, kept in memory
SILENT_S: Final = 10_000.0  # then the windows of a source end
FOLDED: Final = 3  # every so manieth event goes through the shard
SLOW_MS: Final = 20.0  # slices that take less are not looked into
TIMED: Final = 3  # times that a slow record is decoded again
NODES: Final = (
    "host,system,xname,nid,component_id,aliases,cores,sockets,power_max_w\n"
    "nid001042,,x9000c3s0b0n0,1042,7,,128,2,900\nnid001043,,x9000c3s0b0n1,1043,,c1-0c0s0n3 node3,128,2,900\n"
    "login1,,x3000c0s17b0n0,,,uan01,64,2,700\nnid1,,x9c3s0b0n0,1,1,,64,1,500\nc1-10.saga,saga.sigma2.no,,,,c1-10,64,2,\n"
)


FILES_ALONE: Final = frozenset(DECODERS) - frozenset(get_args(SourceFormat))  # formats that no source may have
NOTHING: Final = Mutant(b"", "")


@dataclass
class Outcome:
    """What became of records of one format; `defects` has the smallest record of each, and what was done to it."""

    format: str
    records: int = 0
    accepted: int = 0
    folded: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    slowest_ms: float = 0.0
    slowest: Mutant = NOTHING
    defects: dict[str, Mutant] = field(default_factory=dict)
    hits: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Outcome") -> None:
        """Add what became of others."""
        self.records += other.records
        self.accepted += other.accepted
        self.folded += other.folded
        self.reasons += other.reasons
        if other.slowest_ms > self.slowest_ms:
            self.slowest_ms, self.slowest = other.slowest_ms, other.slowest
        for what, example in other.defects.items():
            self.defect(what, example, other.hits[what])

    def defect(self, what: str, example: Mutant, hits: int = 1) -> None:
        """Take note of a defect."""
        self.hits[what] += hits
        if what not in self.defects or len(example.value) < len(self.defects[what].value):
            self.defects[what] = example


def avro_schemas() -> Iterator[SchemaText]:
    """Yield the schemas of the messages in Avro."""
    for file in sorted((CASES / "ldms-avro").glob("schema-*.avsc")):
        yield SchemaText(id=int(file.stem.rpartition("-")[2]), text=file.read_text())


@cache
def configured() -> Config:
    """Return the configuration: a source for each format, that keeps everything."""
    folder = Path(tempfile.mkdtemp(prefix="scalewatch-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # each bench reads the files again
    nodes, units = folder / "nodes.csv", folder / "units.csv"
    nodes.write_text(NODES)
    units.write_text((CASES / "cray-other-forms" / "units.csv").read_text())
    sources = tuple(
        Source(
            topics=(f"fuzz-{name}",), format=name, system="exa",
            keep=Keep(script=True, comment=True, paths=True), telemetry=Telemetry(short_hosts=name == "telegraf"),
            encoding="avro" if name == "ldms" else "plain",  # what is JSON is read as it is
        )
        for name in corpus()
        if name not in FILES_ALONE
    )  # fmt: skip
    return Config(
        sources=sources,
        schema_registry=SchemaRegistrySettings(schemas=tuple(avro_schemas())),
        topics=TopicNames(prefix="fuzz"),
        reference=ReferenceSettings(nodes=str(nodes), units=str(units)),
    )


class Bench:
    """A collector of one format on a log in memory, and the shard behind it; both as the roles make them."""

    def __init__(self, format_name: str) -> None:
        config = configured()
        self._format, self.topic, self.refusals = format_name, f"fuzz-{format_name}", list[Refusal]()
        self.now_ms, self._now_s = START_MS, 0.0
        broker = MemoryBroker(records_max=RECORDS_MAX)
        log = MemoryLog(broker, state_topic=config.topics.state)
        log.create([*own_topics(config), TopicSettings(self.topic, 1, compacted=False)])
        routes = self._watched(compose.routes(config))
        self._collector = Collector(log, routes, _metrics(), "fuzz", monotonic_s=lambda: self._now_s)
        self._append: Callable[[bytes], object] = lambda value: broker.append(self.topic, value, None, 0, self.now_ms)
        self._journal = log.consumer("fuzz-journal", [config.topics.journal], member="fuzz")
        self.shard = compose.make_shard(config)
        self.source = routes.source(self.topic)

    def _watched(self, routes: Routes) -> Routes:
        def dead_letter(refusal: Refusal) -> DeadLetter:
            self.refusals.append(refusal)
            return routes.dead_letter(refusal)

        return msgspec.structs.replace(
            routes,
            topics=(self.topic,),
            source=_of_file if self._format in FILES_ALONE else routes.source,
            dead_letter=dead_letter,
            deadletter_bytes_per_s_max=1e15,
            partition_idle_s=SILENT_S / 2,
        )

    def take(self, values: Sequence[bytes]) -> list[Refusal]:
        """Let the collector take messages; return what it refused of them."""
        self.refusals.clear()
        for value in values:
            self._append(value)
        self.now_ms += STEP_MS
        self._collector.step(self.now_ms, 0.0)
        while self._collector.lag() or self._collector.reporting():
            self._collector.step(self.now_ms, 0.0)
        return self.refusals

    def journal(self) -> list[bytes]:
        """Return what the collector has written since the last call."""
        found = list[bytes]()
        while batches := self._journal.poll(0.0).batches:
            found += [value for batch in batches for value in batch.values if value is not None]
        return found

    def silence(self) -> None:
        """Let so much time pass that the windows of the source end."""
        self._now_s += SILENT_S
        self.now_ms += round(SILENT_S * 1000)
        self.take([])

    def decode_ms(self, value: bytes) -> float:
        """Return how much of a processor's time the decoders of the source need for a message."""
        telemetry = None if self.source.telemetry is None else self.source.telemetry()
        least_ms = float("inf")
        for _ in range(TIMED):  # what is slow once may be slow because of something else
            began_s = time.process_time()
            if self.source.decode is not None:
                _silently(self.source.decode, value, self.now_ms)
            if telemetry is not None:
                telemetry([value], [self.now_ms], SeriesIndex(100_000))
            least_ms = min(least_ms, (time.process_time() - began_s) * 1000)
        return least_ms


def _of_file(topic: str) -> Reader:
    """Return the decoder of a format that only files may have."""
    name = topic.removeprefix("fuzz-")
    return Reader(name, guarded(DECODERS[name](DecodeOptions(default_system="exa"))), None)


@cache
def _metrics() -> Any:
    return compose.metrics()


def _silently(decode: Callable[[bytes, int], object], value: bytes, received_ms: int) -> None:
    with suppress(Exception):  # only its time is wanted
        decode(value, received_ms)


def fuzz(format_name: str, seed: int, count: int) -> Outcome:
    """Make so many hostile records of a format and let them through collector and shard."""
    dice = random.Random(f"{format_name}/{seed}")  # noqa: S311 - the same records for the same seed
    records = corpus()[format_name]
    outcome, bench = Outcome(format_name), Bench(format_name)
    for _ in range(0, count, SLICE):
        made = [mutant(dice.choice(records), records, dice) for _ in range(min(SLICE, count - outcome.records))]
        _take(bench, made, outcome)
        _fold(bench, outcome, dice)
    bench.silence()
    _fold(bench, outcome, dice)
    _check_restore(bench.shard, outcome)
    return outcome


def _take(bench: Bench, made: Sequence[Mutant], outcome: Outcome) -> None:
    began_s = time.process_time()
    try:
        refused = bench.take([each.value for each in made])
    except Exception as error:  # nothing may end a collector
        smallest = min(made, key=lambda each: len(each.value))
        outcome.defect(f"the collector ends: {_where(error)}", smallest)
        raise
    took_ms = (time.process_time() - began_s) * 1000
    by_offset: dict[int, set[str]] = defaultdict(set)
    first = min((refusal.origin.offset for refusal in refused), default=0)
    first -= first % SLICE
    for refusal in refused:
        by_offset[refusal.origin.offset].add(refusal.refused.error.reason)
        if refusal.refused.error.reason == DECODER:
            outcome.defect(f"decoder: {refusal.refused.error}", made[refusal.origin.offset - first])
    outcome.records += len(made)
    outcome.accepted += len(made) - len(by_offset)
    outcome.reasons.update(reason for reasons in by_offset.values() for reason in reasons)
    if took_ms > max(outcome.slowest_ms, SLOW_MS):
        for each in made:
            alone_ms = bench.decode_ms(each.value)
            if alone_ms > outcome.slowest_ms:
                outcome.slowest_ms, outcome.slowest = alone_ms, each


def _fold(bench: Bench, outcome: Outcome, dice: random.Random) -> None:
    """Fold ticks and what is of hosts, and some of the other records; a fault of any processor is a defect."""
    for value in bench.journal():
        try:
            record = None
            record = decode_record(value)
            if not isinstance(record.event, Tick | HostMinute) and dice.randrange(FOLDED):
                continue  # a shard needs ten times as long as a collector
            messages = [compose.encode(message) for message in bench.shard.fold(record)]
        except Exception as error:  # noqa: BLE001 - the learner makes a dead letter of it
            kind = type(record.event).__name__ if record else "a record of the journal that cannot be decoded"
            outcome.defect(f"the shard refuses: {_where(error)}", Mutant(value, kind))
            continue
        outcome.folded += not isinstance(record.event, Tick)
        _check(
            bench.shard, [message.value for message in messages], Mutant(value, type(record.event).__name__), outcome
        )


def _check(shard: Shard, values: Sequence[bytes | None], example: Mutant, outcome: Outcome) -> None:
    for what, name in shard.tallied():
        if what == "fault":
            outcome.defect(f"a fault of {name}", example)
    for value in values:
        if value is not None:
            try:
                json.loads(value, parse_constant=_refuse)
            except ValueError as error:
                outcome.defect(f"a message is no JSON: {error}", example)


def _refuse(constant: str) -> None:
    raise ValueError(f"It holds {constant}.")


def _check_restore(shard: Shard, outcome: Outcome) -> None:
    """Compare a restored shard with the one it is of."""
    saved = states(shard)
    again = compose.make_shard(configured())
    try:
        again.restore(saved, shard.now_ms, shard.hosts.state.now_ms)
    except Exception as error:  # noqa: BLE001 - a learner could never start again
        outcome.defect(f"a checkpoint cannot be read: {_where(error)}", NOTHING)
        return
    if again.sizes() != shard.sizes():
        outcome.defect("a restored shard differs", Mutant(b"", f"{shard.sizes()} became {again.sizes()}"))


def _where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.name} ({Path(last.filename).name}:{last.lineno})"
