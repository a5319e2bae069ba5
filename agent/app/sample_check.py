"""What a configuration makes of messages that producers wrote: decoded as its sources would, without a broker."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from agent.app import compose
from agent.config.tree import Config
from agent.decode.files import DECODERS, TELEMETRY, recognise
from agent.decode.message import Missed
from agent.decode.opening import open_source
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import Decode, Decoded
from processors.contracts.telemetry import SeriesIndex, named

RECORDS_MAX: Final = 20_000  # of a file that are looked at
SLICE_RECORDS: Final = 1_000
REFUSED_SHOWN: Final = 5
KINDS: Final = ("hosts", "shared", "units", "second", "metrics")


class SampleReport(msgspec.Struct):
    """What came of one file: `source` is the number of the source in the configuration that read it, `format` its format.

    `samples` are by resource, `events` by type, `ignored` by reason; `refused` holds the first refusals with their places.
    The others are names: of hosts that are not in the file of nodes, of places that several hosts share, of sensors without
    a known unit, of those beside another one that is the same resource, and of metrics that are not taken.
    """

    file: str
    source: int = -1
    format: str = ""
    records: int = 0
    samples: dict[str, int] = {}
    hosts_seen: int = 0
    events: dict[str, int] = {}
    ignored: dict[str, int] = {}
    refusals: int = 0
    refused: list[str] = []
    hosts: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def usable(self) -> int:
        """How many samples and events came."""
        return sum(self.samples.values()) + sum(self.events.values())


class _Records(NamedTuple):
    values: list[bytes]
    places: list[str]
    damage: list[str]


def check_samples(config: Config, text: str, received_ms: int) -> SampleReport:
    """Return what the sources of a configuration make of a file, `TOPIC=FILE` or `FILE` alone.

    A topic's messages are read as its source would; without a topic each source tries, and the one that can use most of
    the file counts. At most 20,000 messages are looked at.
    ConfigError where no source has the topic, or the file cannot be read.
    """
    number, path = _parted(config, text)
    records = _read(config, path)
    numbers = range(len(config.sources)) if number is None else [number]
    reports = [_tried(config, number, path, records, received_ms) for number in numbers]
    best = max(reports, key=lambda report: (report.usable, -report.refusals))
    best.refusals += len(records.damage)
    best.refused += records.damage
    return best


def _parted(config: Config, text: str) -> tuple[int | None, str]:
    """Part a topic from a file, as the number of its source; the name of a file may hold an equals sign, too."""
    topic, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        return None, text
    for number, source in enumerate(config.sources):
        if any(compose.matches(pattern, topic) for pattern in source.topics):
            return number, path
    raise ConfigError(f"No source of the configuration reads the topic {topic!r} of {text!r}.")


def _read(config: Config, path: str) -> _Records:
    """Return the messages of a file: lines, or JSON over several lines; what is damaged ends them."""
    records = _Records([], [], [])
    line = 0
    with open_source(path) as source:
        try:
            for value, line in itertools.islice(
                recognise(source, compose.telemetry_options(config), path).records, RECORDS_MAX
            ):
                records.values.append(value)
                records.places.append(f"{path}:{line}")
        except InvalidInputError as error:
            records.damage.append(f"{path}:{line + 1}: {error}")
    return records


def _tried(config: Config, number: int, path: str, records: _Records, received_ms: int) -> SampleReport:
    source, missed = config.sources[number], Missed()
    options = msgspec.structs.replace(compose.telemetry_options(config, source), missed=missed)
    telemetry, index = TELEMETRY.get(source.format), SeriesIndex(config.collector.series_max)
    decode = None if telemetry is None else telemetry(options)
    jobs = DECODERS[source.format](options.decode) if decode is None else None
    report = SampleReport(path, number, source.format, len(records.values))
    samples: Counter[int] = Counter()
    for first in range(0, len(records.values), SLICE_RECORDS):
        part = records.values[first : first + SLICE_RECORDS]
        if decode is not None:
            batch = decode(part, [received_ms] * len(part), index)
            samples.update(batch.samples.series.tolist())
            others = batch.others
        elif jobs is not None:
            others = [(at, _decoded(jobs, value, received_ms)) for at, value in enumerate(part)]
        for at, other in others:
            _count(report, other, records.places[first + at])
    for series, count in samples.items():
        resource = named(index[series].resource).resource
        report.samples[resource] = report.samples.get(resource, 0) + count
    report.hosts_seen = len({index[series].host for series in samples})
    return msgspec.structs.replace(report, **{kind: missed.names(kind) for kind in KINDS})


def _decoded(decode: Decode, value: bytes, received_ms: int) -> Decoded:
    try:
        return decode(value, received_ms)
    except InvalidInputError as error:
        return Decoded(rejects=[error])


def _count(report: SampleReport, other: Decoded, place: str) -> None:
    for event in other.events:
        kind = event.__struct_config__.tag
        report.events[str(kind)] = report.events.get(str(kind), 0) + 1
    for reason, count in other.ignored.items():
        report.ignored[reason] = report.ignored.get(reason, 0) + count
    report.refusals += len(other.rejects)
    for error in other.rejects[: max(0, REFUSED_SHOWN - len(report.refused))]:
        report.refused.append(f"{place}: {error}")
