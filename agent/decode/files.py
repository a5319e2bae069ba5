"""Files of events and telemetry: opened, recognised by their first lines, and read in slices of lines in constant memory.

A file may contain JSON of any format, `sacct` tables, a workload log, line protocol, an NWS extract, or Avro messages.
"""

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np

from agent.decode.archive import read_archive
from agent.decode.avro import AvroMessages, Schemas, wire_messages
from agent.decode.formats import DECODERS, FORMATS, TELEMETRY, Format, any_samples_decoder, recognised
from agent.decode.guard import guarded_samples, opened, opening_slices
from agent.decode.message import DecodeOptions, FileRecord, FileTelemetry, TelemetryOptions, invalid
from agent.decode.opening import (
    BYTE_ORDER_MARK,
    CHUNK_BYTES,
    STDERR,
    STDIN,
    Numbered,
    OpenSource,
    RecordFile,
    TextFile,
    cut_jobs,
    cut_json,
    jobs_begin,
    open_source,
)
from agent.decode.sacct_json import sacct_json_decoder
from agent.decode.telemetry.columns import each_message
from agent.decode.telemetry.ldms import ldms_names
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded
from processors.contracts.telemetry import DecodedBatch, Samples, SeriesIndex

_ADVICE: Final = "convert its finished jobs to native job.completed events or to a table with the columns of sacct"
OTHER_LOGS: Final = (
    ("accounting of LSF (lsb.acct or lsb.events)", re.compile(rb'"[A-Z_]{3,40}" "[0-9.]{1,10}" [0-9]{9,11} ')),
    (
        "accounting of Grid Engine (accounting, one job a line)",
        re.compile(
            rb"[^:\s]{1,256}:[^:\s]{1,256}:(?:[^:]{0,1024}:){3}[0-9]{1,10}:(?:[^:]{0,4096}:){2,4}[0-9]{1,14}:[0-9]{1,14}:"
        ),
    ),
    ("output of qacct of Grid Engine", re.compile(rb"(?:={20,}\s*$|qname\s{2,}\S)")),
    ("a log in the Grid Workloads Format (GWF)", re.compile(rb"\s*-?[0-9.]+(?:[ \t,]+[^\s,]+){28}\s*$")),
    ("output of qstat -f of PBS", re.compile(rb"Job Id: \S")),
    ("a log of the PBS server", re.compile(rb"[0-9/]{10} [0-9:]{8}(?:\.[0-9]{1,9})?;[0-9a-f]{4};")),
)
"""Accounting logs that the agent does not read: a name, and a pattern for the first line.

Sources: lsb.acct(5), accounting(5) of Grid Engine, and the documentation of the Grid Workloads Format (GWF).
"""


def refuse_other_logs(line: bytes) -> None:
    """Raise InvalidInputError (``unknown-format``) if `line` begins an accounting log that the agent does not read."""
    for name, begins in OTHER_LOGS:
        if begins.match(line):
            raise invalid("unknown-format", f"This is {name}, which is not read: {_ADVICE}.")


# fallback for unknown text, because `sacct` tables have no fixed form; its error names the missing columns
OTHER_TEXT: Final = "sacct"
JOB_BYTES_MAX: Final = 64 * 1024 * 1024  # maximum length of a job with its job steps
BINARY_BYTES_MAX: Final = 64 * 1024 * 1024
# the pattern does not match a shell prompt: [root@login1 ~]$
_JSON: Final = re.compile(rb'\s*(?:\{|\[\s*(?:[\[{"\]\d-]|true|false|null|$))')


class Readable(Protocol):
    """The methods of an open file that the readers use."""

    def readline(self, bytes_max: int) -> bytes: ...

    def read(self, bytes_max: int) -> bytes: ...


class _Begun:
    """An open file whose first bytes were already read: reads return these bytes again before the rest of the file."""

    def __init__(self, begun: bytes, rest: Readable) -> None:
        self._begun, self._rest = io.BytesIO(begun), rest

    def readline(self, bytes_max: int) -> bytes:
        line = self._begun.readline(bytes_max)
        return line if line.endswith(b"\n") else line + self._rest.readline(bytes_max - len(line))

    def read(self, bytes_max: int) -> bytes:
        return self._begun.read(bytes_max) or self._rest.read(bytes_max)


def recognise(source: Readable, options: TelemetryOptions, name: str = "") -> RecordFile:
    """Return the format and the records of a file. Raise InvalidInputError if the file is empty or its format is unknown.

    If an NWS extract names no host, the host comes from the options, else from the file's `name` without the suffix.

    >>> recognise(io.BytesIO(b"system,host=nid1 load1=0.5 1787217284"), TelemetryOptions()).format
    'line-protocol'
    """
    bytes_max = options.decode.max_message_bytes
    begun = source.readline(1)
    if begun == b"\n":  # a line feed is either a blank line, or the first byte of a protobuf message
        begun += source.read(bytes_max)
        if recognised(begun) == "otlp":
            return RecordFile("otlp", TELEMETRY["otlp"](options), iter([(begun, 1)]))
        source, begun = _Begun(begun, source), b""
    if begun == b"\0":
        return _avro(begun, source, options)
    lines = _lines(source, bytes_max, begun)
    line, number = next(lines, (b"", 1))
    if not line:
        raise invalid("empty", "The file is empty.")
    while STDERR.match(line):
        line, number = next(lines, (b"", number))
    line = line.removeprefix(BYTE_ORDER_MARK)
    if not line.strip() or _JSON.match(line):
        return _json(source, (line, number), lines, options)
    while line.lstrip().startswith(b"#"):
        line, number = next(lines, (b"", number))
    return _text(TextFile(name, line, itertools.chain([(line, number)], lines)), options)


def _json(source: Readable, first: tuple[bytes, int], lines: Numbered, options: TelemetryOptions) -> RecordFile:
    line, number = first
    begin = jobs_begin(line)
    if begin is None and line.lstrip().startswith(b"{"):
        ahead = [] if line.rstrip().endswith(b"}") else list(itertools.islice(lines, 1))
        # a truncated first line does not change the format of later lines
        if not ahead or (ahead[0][0].startswith(b"{") and ahead[0][0].rstrip().endswith(b"}")):
            prediction_of = ahead[0][0] if ahead else line
            return _json_of(_format_of(prediction_of), itertools.chain([first], ahead, lines), options)
        line += b"".join(value for value, _ in ahead) + source.read(CHUNK_BYTES)
        begin = jobs_begin(line)
    # an array on one line is a whole message
    elif begin is None and _format_of(line) == "collectd" and line.rstrip().endswith(b"]"):
        return _json_of("collectd", itertools.chain([first], lines), options)
    rest = iter(lambda: source.read(CHUNK_BYTES), b"")
    if begin is not None:
        of_job = msgspec.structs.replace(options.decode, max_message_bytes=JOB_BYTES_MAX)
        jobs = cut_jobs(line[begin:], rest, JOB_BYTES_MAX, number + line.count(b"\n", 0, begin))
        return RecordFile("sacct-json", each_message(sacct_json_decoder(of_job)), jobs)
    values = cut_json(itertools.chain([line], rest), options.decode.max_message_bytes, number)
    value = next(values, (b"", number))
    return _json_of(_format_of(value[0]), itertools.chain([value], values), options)


def _avro(begun: bytes, source: Readable, options: TelemetryOptions) -> RecordFile:
    values = wire_messages(begun + _whole(source))
    messages = AvroMessages(Schemas(options.schemas), ldms_names(options))
    return RecordFile(
        "avro", opening_slices(any_samples_decoder(options), messages.opened), zip(values, itertools.count(1))
    )


def _whole(source: Readable) -> bytes:
    parts = list[bytes]()
    while part := source.read(CHUNK_BYTES):
        parts.append(part)
        if len(parts) * CHUNK_BYTES > BINARY_BYTES_MAX:
            raise invalid("too-large", f"A file of messages in Avro may have {BINARY_BYTES_MAX} bytes.")
    return b"".join(parts)


def _format_of(value: bytes) -> str | None:
    try:
        return recognised(opened(value))
    except InvalidInputError:  # the decoder reports the problem with the envelope
        return recognised(value)


def _json_of(name: str | None, records: Numbered, options: TelemetryOptions) -> RecordFile:
    if name is None or name in DECODERS:  # files with job events may also hold messages of other formats
        return RecordFile("json", any_samples_decoder(options), records)
    return RecordFile(name, TELEMETRY[name](options), records)


def _text(text: TextFile, options: TelemetryOptions) -> RecordFile:
    refuse_other_logs(text.first)
    name = next((name for name, form in FORMATS.items() if _begins(form, text.first)), OTHER_TEXT)
    form = FORMATS[name]
    if form.open_text is not None:
        return form.open_text(text, options)
    return RecordFile(name, TELEMETRY[name](options), text.lines)


def _begins(form: Format, line: bytes) -> bool:
    is_line = form.is_line or form.is_text
    return is_line is not None and is_line(line)


def _lines(source: Readable, bytes_max: int, begun: bytes) -> Numbered:
    """Yield the lines of a file that are not blank, with their numbers; `begun` is the part of the first line that was already read."""
    # cut an overlong line to one byte more than allowed, so that the decoder refuses it
    for number, start in enumerate(itertools.chain([begun], itertools.repeat(b"")), 1):
        line = start + source.readline(bytes_max + 1 - len(start))
        if not line:
            return
        if line.strip():
            yield line, number
        while len(line) == bytes_max + 1 and not line.endswith(b"\n"):
            line = source.readline(bytes_max + 1)


SLICE_RECORDS: Final = 2_048
SLICE_BYTES: Final = 1_048_576
SERIES_MAX: Final = 120_000


def read_files(paths: Iterable[str], received_ms: int, options: DecodeOptions) -> Iterator[FileRecord]:
    """Yield the records of all files in `paths`, one file after the other; see `read_file`."""
    telemetry = default_telemetry(options)
    for path in paths:
        yield from read_file(path, received_ms, telemetry)


def read_file(path: str, received_ms: int, telemetry: FileTelemetry) -> Iterator[FileRecord]:
    """Yield the decoded records of a file; `-` is standard input. A refused record is yielded with its position.

    A folder is read as a job archive. Raise ConfigError if the file cannot be opened. For a damaged file or an unknown format,
    the last record yielded holds the error.
    """
    if path != STDIN and Path(path).is_dir():
        yield from read_archive(path, received_ms, telemetry)  # the archive is the only format that is a folder
        return
    with open_source(path) as source:
        yield from read_source(path, source, received_ms, telemetry)


def read_source(name: str, source: OpenSource, received_ms: int, telemetry: FileTelemetry) -> Iterator[FileRecord]:
    """Yield the records of an open file; the positions of its records contain `name`."""
    line, format_name = 0, ""
    try:
        opened = recognise(source, telemetry.options, name)
        decode = opened.decode
        opened.decode = guarded_samples(lambda: decode)
        format_name = opened.format
        if opened.remark is not None:
            yield FileRecord(name, format_name, b"", Decoded(), records=0, remark=opened.remark)
        for part in _slices(opened.records):
            line = part[-1][1]
            yield from _decoded(name, opened, part, received_ms, telemetry.index)
    except InvalidInputError as error:  # reading the file failed; errors of decoders are part of the records
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
    except InvalidInputError:  # keep the records that were read before the damaged part
        if part:
            yield part
        raise
    if part:
        yield part


def _decoded(
    name: str, opened: RecordFile, part: list[tuple[bytes, int]], received_ms: int, index: SeriesIndex
) -> Iterator[FileRecord]:
    """Decode `part`, lines or messages with their line numbers, and yield the records in order.

    Consecutive records that hold only samples are yielded as one record.
    """
    batch = opened.decode([value for value, _ in part], [received_ms] * len(part), index)
    others, first = batch.others_by_message(), 0
    for message in (*sorted(others), len(part)):
        samples = _between(batch, first, message)
        if samples is not None:
            place = f"{name}:{part[first][1]}"
            yield FileRecord(place, opened.format, b"", Decoded(), samples=samples, records=message - first)
        if message < len(part):
            value, line = part[message]
            samples = _between(batch, message, message + 1)
            yield _record(f"{name}:{line}", opened.format, value, others[message], samples)
        first = message + 1


def _between(batch: DecodedBatch, first: int, stop: int) -> Samples | None:
    """Return the samples of the messages with the indices `first` to `stop` - 1; None if they have no samples."""
    start, end = np.searchsorted(batch.sample_message, (first, stop))
    if start == end:
        return None
    return batch.samples.take(slice(start, end))


def _record(place: str, format_name: str, value: bytes, decoded: Decoded, samples: Samples | None) -> FileRecord:
    if len(decoded.rejects) == 1 and samples is None and not decoded.events:  # the whole record was refused
        rest = Decoded(ignored=decoded.ignored, unknown_fields=decoded.unknown_fields)
        return FileRecord(place, format_name, value, rest, error=decoded.rejects[0])
    return FileRecord(place, format_name, value, decoded, samples=samples)


def default_telemetry(options: DecodeOptions) -> FileTelemetry:
    """Return the options for samples in files of jobs: the built-in metrics, without a file of nodes."""
    return FileTelemetry(TelemetryOptions(decode=options), SeriesIndex(SERIES_MAX))
