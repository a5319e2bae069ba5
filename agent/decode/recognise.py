"""Tell what a file of events holds by its first lines: JSON lines, other JSON, `sacct`, or a workload log."""

import itertools
import re
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from agent.contracts.decoding import Decode, Decoded
from agent.decode.json_stream import cut_json
from agent.decode.message import DecodeOne
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid
from agent.decode.sacct import line_text, sacct_opened
from agent.decode.sniff import any_decoder
from agent.decode.swf import COLUMNS, read_header, swf_lines

CHUNK_BYTES: Final = 65_536
HEADER_LINES_MAX: Final = 10_000

Numbered = Iterator[tuple[bytes, int]]
"""Records of a file, each with the number of the line on which it begins, counted from 1."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NUMBERS = re.compile(rb"\s*-?[0-9.]+(?:\s+-?[0-9.]+){%d}\s*" % (COLUMNS - 1))


class Readable(Protocol):
    """What is asked of an open file."""

    def readline(self, bytes_max: int) -> bytes:
        """Return the next line with its end, at most `bytes_max` of it; empty at the end of the file."""

    def read(self, bytes_max: int) -> bytes:
        """Return the next bytes, at most `bytes_max`; empty at the end of the file."""


class RecordFile(msgspec.Struct):
    """A recognised file: the name of its format, the decoder of its records, and the records."""

    format: str
    decode: Decode
    records: Numbered


def recognise(source: Readable, options: DecodeOptions) -> RecordFile:
    """Return what a file holds; InvalidInputError where it is empty or nothing known.

    >>> import io
    >>> recognise(io.BytesIO(b"JobID|State|Start|Elapsed|NNodes"), DecodeOptions()).format
    'sacct'
    """
    lines = _lines(source, options.max_message_bytes)
    line, number = next(lines, (b"", 1))
    if not line:
        raise invalid("empty", "The file is empty.")
    line = line.removeprefix(_BYTE_ORDER_MARK)
    rest = itertools.chain([(line, number)], lines)
    start = line.lstrip()[:1]
    if start in b"[{":
        return _json(source, (line, number), lines, options)
    if start == b";" or _NUMBERS.fullmatch(line):
        return _workload_log(rest, options)
    decode_one, header = sacct_opened(line_text(line, options), options)
    return RecordFile(format="sacct", decode=_each(decode_one), records=lines if header else rest)


def _json(source: Readable, first: tuple[bytes, int], lines: Numbered, options: DecodeOptions) -> RecordFile:
    decode, (line, number) = any_decoder(options), first
    if line.lstrip().startswith(b"{"):
        ahead = [] if line.rstrip().endswith(b"}") else list(itertools.islice(lines, 1))
        if not ahead or _is_object(ahead[0][0]):  # a torn first line is no reason to mistrust the others
            return RecordFile(format="json", decode=decode, records=itertools.chain([first], ahead, lines))
        line += b"".join(value for value, _ in ahead)
    chunks = itertools.chain([line], iter(lambda: source.read(CHUNK_BYTES), b""))
    return RecordFile(format="json", decode=decode, records=cut_json(chunks, options.max_message_bytes, number))


def _is_object(line: bytes) -> bool:
    return line.startswith(b"{") and line.rstrip().endswith(b"}")


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


def _each(decode_one: DecodeOne) -> Decode:
    def decode(value: bytes, received_ms: int) -> Decoded:
        decoded = Decoded()
        decode_one(value, received_ms, decoded)
        return decoded

    return decode
