"""Tell what a file holds by its first lines: JSON of any kind, `sacct`, a workload log, line protocol, an NWS extract."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Final, Protocol

import msgspec
import numpy as np

from agent.decode.archive import Read, read_archive
from agent.decode.clustercockpit import FORMAT
from agent.decode.message import DecodeOne, invalid
from agent.decode.native import native_decoder
from agent.decode.opening import any_decoder, cut_json
from agent.decode.options import DecodeOptions, TelemetryFactory, TelemetryOptions
from agent.decode.sacct import PAIRS, line_text, sacct_decoder, sacct_opened
from agent.decode.slurm import slurm_decoder
from agent.decode.sonar import sonar_decoder
from agent.decode.swf import COLUMNS, read_header, swf_decoder, swf_lines
from agent.decode.telemetry.line_protocol import line_protocol_decoder, parse_line
from agent.decode.telemetry.native import load_decoder
from agent.decode.telemetry.nws import nws_decoder
from agent.decode.telemetry.sniff import FORMATS, any_telemetry_decoder, sniff_telemetry
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decode, Decoded
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, Samples, SeriesIndex

# The formats of messages, by the names that the configuration uses: job events, and telemetry.


DecoderFactory = Callable[[DecodeOptions], Decode]

DECODERS: Final[dict[str, DecoderFactory]] = {
    "auto": any_decoder,
    "native": native_decoder,
    "slurm": slurm_decoder,
    "sonar": sonar_decoder,
    "sacct": sacct_decoder,
    "swf": swf_decoder,
}

TELEMETRY: Final[dict[str, TelemetryFactory]] = {"auto": any_telemetry_decoder, **FORMATS}
"""Decoders of slices of messages into columns of samples; ``native`` takes events of jobs in the same topic too."""

ARCHIVES: Final[dict[str, Read]] = {FORMAT: read_archive}
"""Readers of folders, which stand where files may stand."""


CHUNK_BYTES: Final = 65_536
HEADER_LINES_MAX: Final = 10_000
NO_HOST: Final = frozenset({".csv", ".dat", ".gz", ".log", ".nws", ".out", ".txt"})  # ends of file names

Numbered = Iterator[tuple[bytes, int]]
"""Records of a file, each with the number of the line on which it begins, counted from 1."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NUMBERS = re.compile(rb"\s*-?[0-9.]+(?:\s+-?[0-9.]+){%d}\s*" % (COLUMNS - 1))
_EXTRACT = re.compile(rb"\s*(?:[0-9]+(?:\.[0-9]+)?\s+[0-9.eE+-]+\s+[^|]*[A-Za-z]|time\s+measurement\b)", re.IGNORECASE)


class Readable(Protocol):
    """What is asked of an open file."""

    def readline(self, bytes_max: int) -> bytes:
        """Return the next line with its end, at most `bytes_max` of it; empty at the end of the file."""

    def read(self, bytes_max: int) -> bytes:
        """Return the next bytes, at most `bytes_max`; empty at the end of the file."""


class RecordFile(msgspec.Struct):
    """A recognised file: the name of its format, the decoder of slices of its records, and the records."""

    format: str
    decode: DecodeSamples
    records: Numbered


def recognise(source: Readable, options: TelemetryOptions, name: str = "") -> RecordFile:
    """Return what a file holds; InvalidInputError where it is empty or nothing known.

    The host of an NWS extract that names none is that of the options, else the file's `name` without its ending.

    >>> import io
    >>> recognise(io.BytesIO(b"JobID|State|Start|Elapsed|NNodes"), TelemetryOptions()).format
    'sacct'
    >>> recognise(io.BytesIO(b"system,host=nid1 load1=0.5 1787217284"), TelemetryOptions()).format
    'line-protocol'
    """
    lines = _lines(source, options.decode.max_message_bytes)
    line, number = next(lines, (b"", 1))
    if not line:
        raise invalid("empty", "The file is empty.")
    line = line.removeprefix(_BYTE_ORDER_MARK)
    start = line.lstrip()[:1]
    if start in b"[{":
        return _json(source, (line, number), lines, options)
    if start == b";" or _NUMBERS.fullmatch(line):
        return _workload_log(itertools.chain([(line, number)], lines), options.decode)
    while line.lstrip().startswith(b"#"):
        line, number = next(lines, (b"", number))
    return _text((line, number), lines, options, name)


def _json(source: Readable, first: tuple[bytes, int], lines: Numbered, options: TelemetryOptions) -> RecordFile:
    line, number = first
    if line.lstrip().startswith(b"{"):
        ahead = [] if line.rstrip().endswith(b"}") else list(itertools.islice(lines, 1))
        if not ahead or _is_object(ahead[0][0]):  # a torn first line is no reason to mistrust the others
            told_by = ahead[0][0] if ahead else line
            return _json_of(sniff_telemetry(told_by), itertools.chain([first], ahead, lines), options)
        line += b"".join(value for value, _ in ahead)
    elif sniff_telemetry(line) == "collectd" and line.rstrip().endswith(b"]"):  # an array is a message
        return _json_of("collectd", itertools.chain([first], lines), options)
    chunks = itertools.chain([line], iter(lambda: source.read(CHUNK_BYTES), b""))
    values = cut_json(chunks, options.decode.max_message_bytes, number)
    value = next(values, (b"", number))
    return _json_of(sniff_telemetry(value[0]), itertools.chain([value], values), options)


def _json_of(format_name: str, records: Numbered, options: TelemetryOptions) -> RecordFile:
    if format_name == "native":  # load samples and events of jobs from any producer, also mixed
        return RecordFile("json", load_decoder(options, any_decoder(options.decode)), records)
    if format_name == "sonar":  # as well
        return RecordFile("json", any_telemetry_decoder(options), records)
    return RecordFile(format_name, FORMATS[format_name](options), records)


def _is_object(line: bytes) -> bool:
    return line.startswith(b"{") and line.rstrip().endswith(b"}")


def _text(first: tuple[bytes, int], lines: Numbered, options: TelemetryOptions, name: str) -> RecordFile:
    line, rest = first[0], itertools.chain([first], lines)
    if _EXTRACT.match(line):
        named = msgspec.structs.replace(options, host=options.host or _host_of(name))
        return RecordFile("nws", nws_decoder(named), rest)
    if _is_line_protocol(line):
        return RecordFile("line-protocol", _without_received(line_protocol_decoder(options)), rest)
    decode_one, header = sacct_opened(line_text(line, options.decode), options.decode)
    return RecordFile("sacct", _each(decode_one), lines if header else rest)


def _is_line_protocol(line: bytes) -> bool:
    try:
        parse_line(line.strip())
        return not PAIRS.match(line.decode())
    except (InvalidInputError, UnicodeDecodeError):
        return False


def _host_of(name: str) -> str:
    path = PurePath(name)
    while path.suffix in NO_HOST:
        path = path.with_suffix("")
    return path.name


def _workload_log(lines: Numbered, options: DecodeOptions) -> RecordFile:
    comments: list[str] = []
    for line, number in lines:
        if not line.startswith(b";") or len(comments) == HEADER_LINES_MAX:
            lines = itertools.chain([(line, number)], lines)
            break
        comments.append(line[:1000].decode(errors="replace"))
    decode_one = swf_lines(read_header(comments, options), options)
    return RecordFile(format="swf", decode=_each(decode_one), records=lines)


def _lines(source: Readable, bytes_max: int) -> Numbered:
    # a line that is too long comes cut to one byte too many, so that its decoder refuses it
    for number in itertools.count(1):
        line = source.readline(bytes_max + 1)
        if not line:
            return
        if line.strip():
            yield line, number
        while len(line) == bytes_max + 1 and not line.endswith(b"\n"):
            line = source.readline(bytes_max + 1)


def _each(decode_one: DecodeOne) -> DecodeSamples:
    """Return the decoder of slices of lines that are a job each."""

    def decode(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        del index
        others = []
        for message, (value, moment_ms) in enumerate(zip(values, received_ms, strict=True)):
            decoded = Decoded()
            try:
                decode_one(value or b"", moment_ms, decoded)
            except InvalidInputError as error:
                decoded = Decoded(rejects=[error])
            others.append((message, decoded))
        none = Samples(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64))
        return DecodedBatch(none, np.empty(0, np.int32), others)

    return decode


def _without_received(decode: DecodeSamples) -> DecodeSamples:
    """Return a decoder of lines for which the time at which a file is read says nothing of a line without a time."""

    def decode_lines(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        return decode([(value or b"").rstrip(b"\r\n") for value in values], [0] * len(received_ms), index)

    return decode_lines
