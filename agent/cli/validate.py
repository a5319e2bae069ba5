"""`scalewatch validate`: check a configuration, the consequences of a change, and the decoding of sample messages."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from agent.app import compose
from agent.cli import WRONG
from agent.cli.options import counted, json_option, required_config_option
from agent.clock import SystemClock
from agent.config.changes import KeyChange, changes
from agent.config.checks import notes
from agent.config.load import load
from agent.config.tree import Config, Source
from agent.config.yaml import path_text
from agent.decode.files import recognise
from agent.decode.message import Missed
from agent.decode.opening import open_source
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import Decode, Decoded
from processors.contracts.telemetry import SeriesIndex, named

RECORDS_MAX: Final = 20_000  # maximum number of records read from a file
SLICE_RECORDS: Final = 1_000
REFUSED_SHOWN: Final = 5
NAMES_SHOWN: Final = 20
_UNPLACED: Final = {
    "hosts": "hosts missing from the file of nodes",
    "shared": "ignored, because several hosts share the location",
    "units": "ignored sensors without a known unit",
    "second": "ignored sensors, because another sensor reports the same resource",
    "metrics": "ignored metrics",
}
COSTS: Final = ("reload", "restart", "rebuild")


class SampleReport(msgspec.Struct):
    """The result of decoding one file: `source` is the index of the source that decoded it, `format` its format.

    `samples` are counted by resource, `events` by type, `ignored` by reason; `refused` has the first refusals with their
    positions. Five fields list names: `hosts` that the file of nodes lacks, names that several hosts share (`shared`), sensors
    without a known unit (`units`), sensors that duplicate the resource of another sensor (`second`), and unused `metrics`.
    """

    file: str
    source: int = -1
    format: str = ""
    records: int = 0
    samples: Counter[str] = msgspec.field(default_factory=Counter)
    hosts_found: int = 0
    events: Counter[str] = msgspec.field(default_factory=Counter)
    ignored: Counter[str] = msgspec.field(default_factory=Counter)
    refusals: int = 0
    refused: list[str] = []
    hosts: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def usable(self) -> int:
        return self.samples.total() + self.events.total()


def check_samples(config: Config, text: str, received_ms: int) -> SampleReport:
    """Return the result of decoding a file with the sources of a configuration; `text` is `TOPIC=FILE` or `FILE`.

    The source of the topic decodes the messages. Without a topic, the source that can use the largest part of the file does.
    At most 20,000 messages are read, up to the first damaged part.
    Raise ConfigError if no source has the topic, or if the file cannot be read.
    """
    topic, equals, path = text.partition("=")
    numbers: Sequence[int] = range(len(config.sources))
    if not equals or Path(text).exists():  # a file name may contain an equals sign
        path = text
    else:
        numbers = [number for number, source in enumerate(config.sources) if _reads(source, topic)][:1]
        if not numbers:
            raise ConfigError(f"No source of the configuration reads the topic {topic!r} of {text!r}.")
    records: list[tuple[bytes, str]] = []
    damage, line = [], 0
    with open_source(path) as file:
        try:
            lines = recognise(file, compose.telemetry_options(config), path).records
            for value, line in itertools.islice(lines, RECORDS_MAX):
                records.append((value, f"{path}:{line}"))
        except InvalidInputError as error:
            damage.append(f"{path}:{line + 1}: {error}")
    reports = [_tried(config, number, path, records, received_ms) for number in numbers]
    best = max(reports, key=lambda report: (report.usable, -report.refusals))
    best.refusals += len(damage)
    best.refused += damage
    return best


def _reads(source: Source, topic: str) -> bool:
    return any(compose.matches(pattern, topic) for pattern in source.topics)


def _tried(
    config: Config, number: int, path: str, records: Sequence[tuple[bytes, str]], received_ms: int
) -> SampleReport:
    source, missed = config.sources[number], Missed()
    decoders, index = compose.source_decoders(config, source, missed=missed), SeriesIndex(config.collector.series_max)
    decode, jobs = decoders.telemetry and decoders.telemetry(), decoders.decode
    report = SampleReport(path, number, source.format, len(records))
    samples: Counter[int] = Counter()
    for first in range(0, len(records), SLICE_RECORDS):
        part = records[first : first + SLICE_RECORDS]
        decoded: Iterable[tuple[int, Decoded]] = ()
        if decode is not None:
            batch = decode([value for value, _ in part], [received_ms] * len(part), index)
            samples.update(batch.samples.series.tolist())
            decoded = batch.others
        elif jobs is not None:
            decoded = enumerate(_decoded(jobs, value, received_ms) for value, _ in part)
        for place, result in decoded:
            _count(report, result, part[place][1])
    for series, count in samples.items():
        report.samples[named(index[series].resource).resource] += count
    report.hosts_found = len({index[series].host for series in samples})
    return msgspec.structs.replace(report, **{kind: missed.names(kind) for kind in _UNPLACED})


def _decoded(decode: Decode, value: bytes, received_ms: int) -> Decoded:
    try:
        return decode(value, received_ms)
    except InvalidInputError as error:
        return Decoded(rejects=[error])


def _count(report: SampleReport, result: Decoded, place: str) -> None:
    report.events.update(str(event.__struct_config__.tag) for event in result.events)
    report.ignored.update(result.ignored)
    report.refusals += len(result.rejects)
    for error in result.rejects[: max(0, REFUSED_SHOWN - len(report.refused))]:
        report.refused.append(f"{place}: {error}")


def report_text(report: SampleReport, config: Config) -> str:
    """Return the report as lines: first the decoded messages, then the names of unusable parts."""
    topics = ", ".join(config.sources[report.source].topics)
    samples, events = report.samples.total(), report.events.total()
    content = [f"{counted(samples, 'sample')} of {counted(report.hosts_found, 'host')}"] if samples else []
    content += [counted(events, "event")] if events else []
    head = (
        f"{report.file}: {counted(report.records, 'message')}, decoded as {report.format} (topic {topics}): "
        f"{' and '.join(content) or 'nothing usable'}."
    )
    return "\n".join([head, *(f"  {line}" for line in _lines(report))])


def _lines(report: SampleReport) -> Iterator[str]:
    amounts = sorted({**report.samples, **report.events}.items())
    if amounts:
        yield ", ".join(f"{name}: {count}" for name, count in amounts)
    for kind, meaning in _UNPLACED.items():
        names = getattr(report, kind)
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        if names:
            yield f"{meaning}: {', '.join(names[:NAMES_SHOWN])}{more}"
    if report.ignored:
        yield "ignored: " + ", ".join(f"{reason} {count}" for reason, count in sorted(report.ignored.items()))
    if report.refusals:
        yield f"rejected: {report.refusals}"
    yield from (f"  {message}" for message in report.refused)


@click.command(short_help="Check a configuration and list every problem.")
@required_config_option
@click.option(
    "--diff",
    "old_path",
    metavar="OLD",
    help="Also list the changes since this older file, and whether each needs a reload, a restart or a rebuild.",
)
@click.option(
    "--no-secrets",
    is_flag=True,
    help="Do not resolve secrets: for checking a file on a machine that does not have them.",
)
@click.option(
    "--samples",
    multiple=True,
    metavar="[TOPIC=]FILE",
    help="Show how the sources decode the messages in this file: one message per line, or Avro as written by kcat -f '%R%s'. May be repeated.",
)
@json_option
def command(config: str, old_path: str | None, samples: tuple[str, ...], *, no_secrets: bool, as_json: bool) -> None:
    """Check a configuration and its reference files without running the agent.

    Each problem is printed with its line and key, and the exit code is 2. Notes name settings that are valid but risky.

    With --samples, the messages are decoded as the source of TOPIC would do; without TOPIC, as the source that can decode
    most of them.
    The output lists the number of samples, hosts missing from the file of nodes, sensors without a unit and ignored
    metrics. No broker or schema registry is contacted. If a file has no usable message, the exit code is 2.
    """
    settings = load(config, reveal_secrets=not no_secrets, sources_required=True)
    differences = () if old_path is None else changes(_comparable(old_path), _comparable(config))
    reports = [check_samples(settings, text, SystemClock().now_ms()) for text in samples]
    click.echo(_json(settings, differences, reports) if as_json else _text(config, settings, old_path, differences))
    if reports and not as_json:
        click.echo("\n".join(report_text(report, settings) for report in reports))
    if not all(report.usable for report in reports):
        click.get_current_context().exit(WRONG)


def _comparable(path: str) -> Config:
    """Return the configuration in a form that can be compared between files: without the values of secrets and reference files."""
    return load(path, reveal_secrets=False, references=False)


def _text(path: str, config: Config, old_path: str | None, differences: Sequence[KeyChange]) -> str:
    lines = [f"{path}: the configuration is valid."]
    lines += [f"note: {path_text(key)} {message}" for key, message in notes(config)]
    if old_path is not None and not differences:
        lines.append(f"No changes since {old_path}.")
    if differences:
        dearest = max((change.cost for change in differences), key=COSTS.index)
        lines += [f"Changes since {old_path} need a {dearest}:", *(f"  {change}" for change in differences)]
    return "\n".join(lines)


def _json(config: Config, differences: Sequence[KeyChange], reports: Sequence[SampleReport]) -> str:
    plain: dict[str, Any] = {
        "notes": [{"key": path_text(key), "sentence": message} for key, message in notes(config)],
        "changes": [{**msgspec.structs.asdict(change), "path": path_text(change.path)} for change in differences],
    }
    if reports:
        plain["samples"] = reports
    return msgspec.json.encode(plain).decode()
