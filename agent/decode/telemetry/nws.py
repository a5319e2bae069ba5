"""Text of `nws_extract` of the Network Weather Service: measurements with their forecasts, with or without a header."""

import re
from pathlib import PurePath
from typing import Final

import msgspec

from agent.decode.message import TelemetryOptions, checked, invalid, shown
from agent.decode.opening import RecordFile, TextFile
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, epoch_ms, in_slices
from agent.decode.telemetry.metric import NWS
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodeSamples

MEASUREMENT: Final = "nws"
COLUMNS: Final = (
    "time",
    "measurement",
    "mae_forecast",
    "mae_error",
    "mse_forecast",
    "mse_error",
    "source",
    "destination",
    "resource",
)
"""The columns of `nws_extract` where nobody has chosen others."""
_CHOSEN: Final = frozenset((*COLUMNS, "mse_method", "mae_method", "option"))
_NEEDED: Final = frozenset(("time", "measurement", "resource"))
_EXTRACT = re.compile(rb"\s*(?:[0-9]+(?:\.[0-9]+)?\s+[0-9.eE+-]+\s[^|]*[A-Za-z]|time\s+measurement\b)", re.IGNORECASE)
NO_HOST: Final = frozenset({".csv", ".dat", ".gz", ".log", ".nws", ".out", ".txt"})  # endings of file names
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def nws_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of extracts: a line is a sample, ``#`` begins a comment, a header names the columns.

    A header applies to the lines after it, also in later messages, because a file is read line by line. If the columns
    have no source, the host is that of the options.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = nws_decoder(TelemetryOptions(decode=DecodeOptions(default_system="ufo")))
    >>> line = b"1093555200 0.91 0.90 0.02 0.90 0.001 green.ufo.edu:8060 green.ufo.edu:8060 availableCpu"
    >>> index = SeriesIndex(9)
    >>> decode([line], [-1], index).samples.value.tolist(), index[0].host
    ([0.91], 'green.ufo.edu')
    """
    planner, known = Planner(NWS, options), Known[tuple[str, ...], Plan]()
    header: list[tuple[str, ...]] = [COLUMNS]

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        lines = [line.split() for line in _text(checked(value, options.decode)).splitlines()]
        if len(lines) > options.decode.elements_max:
            raise invalid("array-bomb", f"The message has more lines than {options.decode.elements_max}.")
        for number, fields in enumerate(lines, 1):
            try:
                if fields and not fields[0].startswith("#"):
                    take_fields(fields, message, columns)
            except InvalidInputError as error:
                columns.refuse(message, error.at(f"line {number}"))

    def take_fields(fields: list[str], message: int, columns: Columns) -> None:
        named = _header(fields)
        if named is not None:
            header[0] = named
            return
        if len(fields) != len(header[0]):
            raise invalid("columns", f"The line has {len(fields)} columns instead of {len(header[0])}.")
        row = dict(zip(header[0], fields, strict=True))
        plans, key = known.of(columns.index), (row["resource"], row.get("source", ""), row.get("destination", ""))
        plan = plans.get(key)
        if plan is None:
            tags = {"destination": _machine(key[2])} if key[2] else {}
            plan = planner.plan(MEASUREMENT, _machine(key[1]), tags)
            if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                plans[key] = plan
        if plan is NOTHING:
            columns.ignore("metric")
            return
        take({row["resource"]: _number(row["measurement"])}, plan, epoch_ms(_number(row["time"])), message, columns)

    return in_slices(decode_message, options)


def is_extract(line: bytes) -> bool:
    """Return whether a file with this first line is an extract.

    >>> is_extract(b"Time Measurement Resource"), is_extract(b"1 0 10 3600")
    (True, False)
    """
    return _EXTRACT.match(line) is not None


def nws_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the lines of an open extract. If they name no host, the host is that of the options, else the file's name without its suffixes.

    >>> nws_file(TextFile("green.ufo.edu.txt", b"", iter([])), TelemetryOptions()).format
    'nws'
    """
    path = PurePath(text.name)
    while path.suffix in NO_HOST:
        path = path.with_suffix("")
    named = msgspec.structs.replace(options, host=options.host or path.name)
    return RecordFile("nws", nws_decoder(named), text.lines)


def _header(fields: list[str]) -> tuple[str, ...] | None:
    """Return the columns that a line names; None if the line is no header."""
    names = tuple(word.lower() for word in fields)
    return names if _NEEDED <= set(names) <= _CHOSEN and len(set(names)) == len(names) else None


def _machine(name: str) -> str:
    return name.partition(":")[0]


def _number(text: str) -> float:
    if len(text) > 64 or not _NUMBER.fullmatch(text):
        raise invalid("columns", f"{shown(text)} is no number.")
    return float(text)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise invalid("encoding", "The message holds text that is not UTF-8.") from None
