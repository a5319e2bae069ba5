"""Files of events and telemetry: opened, recognised by what they hold, and read in slices of lines in constant memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from agent.decode.archive import read_archive
from agent.decode.message import FileRecord, Telemetry
from agent.decode.opening import STDIN, Source, open_source
from agent.decode.options import DecodeOptions, TelemetryOptions
from agent.decode.recognise import Numbered, RecordFile, recognise
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded
from processors.contracts.telemetry import DecodedBatch, Samples, SeriesIndex

SLICE_RECORDS: Final = 2_048
SLICE_BYTES: Final = 1_048_576
SERIES_MAX: Final = 120_000


def read_files(
    paths: Iterable[str], received_ms: int, options: DecodeOptions, telemetry: Telemetry | None = None
) -> Iterator[FileRecord]:
    """Return the records of files, one after the other; see `read_file`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
    ...     _ = file.write(b'{"type": "identity", "system": "exa", "job_id": 8, "source": "xalt"}')
    ...     file.flush()
    ...     [record.decoded.events[0].job_id for record in read_files([file.name], 1795170700000, DecodeOptions())]
    ['8']
    """
    telemetry = telemetry or _telemetry(options)
    for path in paths:
        yield from read_file(path, received_ms, telemetry)


def read_each(paths: Iterable[str], received_ms: int, telemetry: Telemetry) -> list[Iterator[FileRecord]]:
    """Return the records of each file, to be read side by side; see `read_file`.

    >>> len(read_each(["a.jsonl", "b.jsonl"], 0, Telemetry(TelemetryOptions(), SeriesIndex(9))))
    2
    """
    return [read_file(path, received_ms, telemetry) for path in paths]


def read_file(path: str, received_ms: int, telemetry: Telemetry) -> Iterator[FileRecord]:
    """Return the records of a file, decoded; `-` is standard input. What is refused comes with its place as well.

    A folder is an archive of jobs. Raises ConfigError where the file cannot be opened. One that is damaged, or of an unknown format, gives one record
    with the error and ends there.

    >>> next(read_file("no/such/file", 0, Telemetry(TelemetryOptions(), SeriesIndex(9))))
    Traceback (most recent call last):
    processors.contracts.errors.ConfigError: The file no/such/file cannot be read: No such file or directory.
    """
    if path != STDIN and Path(path).is_dir():
        yield from read_archive(path, received_ms, telemetry)
        return
    with open_source(path) as source:
        yield from read_source(path, source, received_ms, telemetry.options.decode, telemetry)


def read_source(
    name: str, source: Source, received_ms: int, options: DecodeOptions, telemetry: Telemetry | None = None
) -> Iterator[FileRecord]:
    """Return the records of one open file, called `name` in their places.

    >>> import io
    >>> [(record.place, record.error.reason) for record in read_source("in", Source(io.BytesIO(b"{}")), 0, DecodeOptions())]
    [('in:1', 'unknown-format')]
    """
    telemetry = telemetry or _telemetry(options)
    line, format_name = 0, ""
    try:
        opened = recognise(source, telemetry.options, name)
        format_name = opened.format
        for part in _slices(opened.records):
            line = part[-1][1]
            yield from _decoded(name, opened, part, received_ms, telemetry.index)
    except InvalidInputError as error:  # of reading; a decoder's errors are in the records
        yield FileRecord(place=f"{name}:{line + 1}", format=format_name, value=b"", decoded=Decoded(), error=error)


def _slices(records: Numbered) -> Iterator[list[tuple[bytes, int]]]:
    part: list[tuple[bytes, int]] = []
    size = 0
    try:
        for value, line in records:
            part.append((value, line))
            size += len(value)
            if len(part) == SLICE_RECORDS or size >= SLICE_BYTES:
                yield part
                part, size = [], 0
    except InvalidInputError:  # what was read before the damage counts
        if part:
            yield part
        raise
    if part:
        yield part


def _decoded(
    name: str, opened: RecordFile, part: list[tuple[bytes, int]], received_ms: int, index: SeriesIndex
) -> Iterator[FileRecord]:
    """Decode a slice; yield its records in order, those that hold samples alone together."""
    batch = opened.decode([value for value, _ in part], [received_ms] * len(part), index)
    others = _by_message(batch)
    first = 0
    for message, decoded in sorted(others.items()):
        yield from _plain(name, opened, part, batch, slice(first, message))
        value, line = part[message]
        yield _record(f"{name}:{line}", opened.format, value, decoded, _between(batch, message, message + 1))
        first = message + 1
    yield from _plain(name, opened, part, batch, slice(first, len(part)))


def _by_message(batch: DecodedBatch) -> dict[int, Decoded]:
    others: dict[int, Decoded] = {}
    for message, decoded in batch.others:
        known = others.get(message)
        others[message] = decoded if known is None else _joined(known, decoded)
    return others


def _joined(first: Decoded, second: Decoded) -> Decoded:
    ignored = {
        what: first.ignored.get(what, 0) + second.ignored.get(what, 0) for what in {**first.ignored, **second.ignored}
    }
    unknown_fields = first.unknown_fields + second.unknown_fields
    return Decoded(first.events + second.events, first.rejects + second.rejects, ignored, unknown_fields)


def _plain(
    name: str, opened: RecordFile, part: list[tuple[bytes, int]], batch: DecodedBatch, records: slice
) -> Iterator[FileRecord]:
    samples = _between(batch, records.start, records.stop)
    if samples is not None:
        place, count = f"{name}:{part[records.start][1]}", records.stop - records.start
        yield FileRecord(place, opened.format, b"", Decoded(), samples=samples, records=count)


def _between(batch: DecodedBatch, first: int, stop: int) -> Samples | None:
    """Return the samples of these messages, which are in order; None without any."""
    start, end = np.searchsorted(batch.sample_message, (first, stop))
    if start == end:
        return None
    every = batch.samples
    return Samples(every.series[start:end], every.time_ms[start:end], every.value[start:end])


def _record(place: str, format_name: str, value: bytes, decoded: Decoded, samples: Samples | None) -> FileRecord:
    if len(decoded.rejects) == 1 and samples is None and not decoded.events:  # nothing of it is of use
        rest = Decoded(ignored=decoded.ignored, unknown_fields=decoded.unknown_fields)
        return FileRecord(place, format_name, value, rest, error=decoded.rejects[0])
    return FileRecord(place, format_name, value, decoded, samples=samples)


def _telemetry(options: DecodeOptions) -> Telemetry:
    return Telemetry(TelemetryOptions(decode=options), SeriesIndex(SERIES_MAX))
