"""Output of `nws_extract` from the Network Weather Service: measurements with their forecasts, with or without a header."""

import re
from pathlib import PurePath
from typing import Final

import msgspec

from agent.decode.message import TelemetryOptions, invalid, refusals, shown, utf8
from agent.decode.opening import RecordFile, TextFile
from agent.decode.telemetry.columns import Columns, epoch_ms, in_slices
from agent.decode.telemetry.metric import Metric, mebibytes, megabits, thousandths
from agent.decode.telemetry.plans import NOTHING, Plans, take
from processors.contracts.telemetry import DecodeSamples

NWS: Final = (
    Metric("nws", "availableCpu", "cpu_available"),
    Metric("nws", "currentCpu", "cpu_current"),
    Metric("nws", "freeMemory", "memory_free", mebibytes),
    Metric("nws", "freeDisk", "disk_free", mebibytes),
    Metric("nws", "bandwidthTcp", "bandwidth", megabits, instance="destination"),
    Metric("nws", "latencyTcp", "latency", thousandths, instance="destination"),
    Metric("nws", "connectTimeTcp", "connect_time", thousandths, instance="destination"),
)
"""Resources of the Network Weather Service; for a resource between two hosts, the peer is the destination."""

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
"""The default columns of `nws_extract`."""
_CHOSEN: Final = frozenset((*COLUMNS, "mse_method", "mae_method", "option"))
_NEEDED: Final = frozenset(("time", "measurement", "resource"))
_EXTRACT = re.compile(rb"\s*(?:[0-9]+(?:\.[0-9]+)?\s+[0-9.eE+-]+\s[^|]*[A-Za-z]|time\s+measurement\b)", re.IGNORECASE)
# file name suffixes that are removed if the file name serves as host name
NO_HOST: Final = frozenset({".csv", ".dat", ".gz", ".log", ".nws", ".out", ".txt"})
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def nws_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of extracts: a line is a sample, ``#`` begins a comment, a header names the columns.

    A header applies to all following lines, even in later messages, because a file is read line by line. If there is no column
    for the source, the host is that of the options.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = nws_decoder(TelemetryOptions(decode=DecodeOptions(default_system="ufo")))
    >>> line = b"1093555200 0.91 0.90 0.02 0.90 0.001 green.ufo.edu:8060 green.ufo.edu:8060 availableCpu"
    >>> index = SeriesIndex(9)
    >>> decode([line], [-1], index).samples.value.tolist(), index[0].host
    ([0.91], 'green.ufo.edu')
    """
    plans = Plans(NWS, options)
    names: tuple[str, ...] = COLUMNS

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        lines = [line.split() for line in utf8(value).splitlines()]
        options.decode.check_count(len(lines), "lines")
        for error in refusals(lines, lambda words: take_line(words, message, columns), "line {}", first=1):
            columns.refuse(message, error)

    def take_line(words: list[str], message: int, columns: Columns) -> None:
        nonlocal names
        if not words or words[0].startswith("#"):
            return
        header = tuple(word.lower() for word in words)
        if set(header) >= _NEEDED and set(header) <= _CHOSEN and len(set(header)) == len(header):
            names = header
            return
        if len(words) != len(names):
            raise invalid("columns", f"The line has {len(words)} columns instead of {len(names)}.")
        row = dict(zip(names, words, strict=True))
        resource, source, destination = key = row["resource"], row.get("source", ""), row.get("destination", "")
        plan = plans.of(columns.index).get(key)
        if plan is None:
            tags = {"destination": destination.partition(":")[0]} if destination else {}
            plan = plans.add(key, MEASUREMENT, source.partition(":")[0], tags)
        if plan is NOTHING:
            columns.ignore("metric")
            return
        take({resource: _number(row["measurement"])}, plan, epoch_ms(_number(row["time"])), message, columns)

    return in_slices(decode_message, options)


def is_extract(line: bytes) -> bool:
    """Return whether a file with this first line is an NWS extract."""
    return _EXTRACT.match(line) is not None


def nws_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the lines of an open extract.

    If the lines name no host, the host is that of the options, else the file's name without its suffixes.
    """
    path = PurePath(text.name)
    while path.suffix in NO_HOST:
        path = path.with_suffix("")
    named = msgspec.structs.replace(options, host=options.host or path.name)
    return RecordFile("nws", nws_decoder(named), text.lines)


def _number(text: str) -> float:
    if len(text) > 64 or not _NUMBER.fullmatch(text):
        raise invalid("columns", f"{shown(text)} is no number.")
    return float(text)
