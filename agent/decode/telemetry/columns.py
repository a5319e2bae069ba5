"""Columns of the samples of a slice of messages, together with the refused messages."""

import re
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from typing import Final, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from agent.decode.fields import TEXT_MAX, number_in, parse_stamp, refuse_control
from agent.decode.message import (
    DecodeOne,
    DecodeOptions,
    P,
    Reason,
    TelemetryOptions,
    checked,
    invalid,
    refusals,
    shown,
)
from agent.decode.telemetry.metric import BoundsTable
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decode, Decoded
from processors.contracts.names import EARLIEST_MS, LATEST_MS, rfc3339
from processors.contracts.telemetry import (
    JOB,
    PEER,
    DecodedBatch,
    DecodeSamples,
    Samples,
    Series,
    SeriesIndex,
    TimeUnit,
)

# Some producers write ``nan``, ``NaN`` or ``-inf`` for a missing number, which JSON does not allow.
_TEXT_OR_NONE: Final = re.compile(rb'"(?:[^"\\]|\\.?)*(?:"|\Z)|-?\b(?:nan|inf(?:inity)?)\b', re.DOTALL | re.IGNORECASE)
_NONE: Final = re.compile(rb"\b(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


def without_nan(value: bytes) -> bytes | None:
    """Return the message with null for NaN and infinity outside strings; None if the message contains neither word."""
    if not _NONE.search(value):
        return None
    return _TEXT_OR_NONE.sub(lambda match: match[0] if match[0].startswith(b'"') else b"null", value)


STAMPS_KNOWN_MAX: Final = 16_384
STAMP_CHARACTERS_MAX: Final = 64
_STAMP: Final = re.compile(rb"-?[0-9]{1,20}")
_PER_MS: Final[dict[str, float]] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}


class Stamps:
    """A cache of parsed timestamps. Hosts with synchronous clocks share entries; the number of entries is bounded.

    >>> Stamps("auto").time_ms(1787217284), Stamps("auto").time_ms("2026-08-20T09:14:44Z")
    (1787217284000, 1787217284000)
    """

    def __init__(self, unit: TimeUnit) -> None:
        self._unit = unit
        self._times: dict[float | str | bytes, int] = {}

    def time_ms(self, stamp: float | str) -> int:
        """Return the time in ms of a number (see `stamp_ms`) or of a text: digits, or a form that `parse_stamp` reads."""
        time_ms = self._times.get(stamp)
        if time_ms is None:
            time_ms = _text_ms(stamp, self._unit) if isinstance(stamp, str) else stamp_ms(stamp, self._unit)
            self._keep(stamp, time_ms)
        return time_ms

    def time_of(self, text: bytes) -> int | None:
        """Return the time in ms of a text that is an integer of at most twenty digits; None for other texts."""
        time_ms = self._times.get(text)
        if time_ms is None and _STAMP.fullmatch(text):
            time_ms = stamp_ms(int(text), self._unit)
            self._keep(text, time_ms)
        return time_ms

    def _keep(self, stamp: float | str | bytes, time_ms: int) -> None:
        if len(self._times) >= STAMPS_KNOWN_MAX:
            self._times.clear()
        self._times[stamp] = time_ms


def stamp_ms(stamp: float, unit: TimeUnit) -> int:
    """Return the time in ms of a number in `unit`. Raise InvalidInputError (``time``) for a time outside the calendar.

    Between 1990 and 2100 the units cannot be confused: a time in ms is at least 6e11, a time in s at most 5e9, and so on.

    >>> stamp_ms(1787217284, "auto"), stamp_ms(1787217284000000000, "auto"), stamp_ms(1787217284001, "ms")
    (1787217284000, 1787217284000, 1787217284001)
    """
    if unit == "auto":
        unit = "s" if stamp < 1e11 else "ms" if stamp < 1e14 else "us" if stamp < 1e17 else "ns"
    per_ms = _PER_MS[unit]
    if not EARLIEST_MS <= stamp / per_ms <= LATEST_MS:
        raise invalid("time", "The time is outside 1990 to 2100.")
    if isinstance(stamp, int) and per_ms >= 1.0:
        return stamp // int(per_ms)
    return round(stamp / per_ms)


def _text_ms(text: str, unit: TimeUnit) -> int:
    if len(text) > STAMP_CHARACTERS_MAX:
        raise invalid("time", f"The time {shown(text)} is longer than any time.")
    number = int(text) if text.isascii() and text.isdigit() else number_in(text)
    return parse_stamp(text) if number is None else stamp_ms(number, unit)


Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")

KNOWN_MAX: Final = 262_144
KEY_BYTES_MAX: Final = 1_024  # maximum length of a cached name
JOB_IN_PEER: Final = "%23"


class Known(Generic[Key, Entry]):
    """A cache of lookup results by name; it belongs to one index of series, and is cleared when it is full."""

    def __init__(self) -> None:
        self._index: SeriesIndex | None = None
        self._entries: dict[Key, Entry] = {}

    def of(self, index: SeriesIndex) -> dict[Key, Entry]:
        """Return the cached entries for `index`; the cache is cleared if `index` has changed or if the cache is full."""
        if index is not self._index or len(self._entries) > KNOWN_MAX:
            self._index, self._entries = index, {}
        return self._entries


class Columns:
    """The decoded samples, refused messages and counts of one slice of messages.

    Samples that share a message and a time form a record. `series` and `values` hold one entry for each sample; `time_ms` and
    `messages` one for each record. `counts` holds the number of samples of the leading records; all later records have one
    sample.
    """

    def __init__(self, received_ms: Sequence[int], index: SeriesIndex) -> None:
        self.received_ms = received_ms
        self.index = index
        self.series = array("i")
        self.values: list[float | None] = []
        self.time_ms = array("q")
        self.messages = array("q")
        self.counts = array("i")
        self.others: list[tuple[int, Decoded]] = []
        self.ignored: dict[str, int] = {}
        self.unknown_fields = 0

    def add(
        self, series: "Sequence[int] | array[int]", values: Iterable[float | None], time_ms: int, message: int
    ) -> None:
        """Add a record: the numbers of its series, their values (None if missing), its time, and the index of its message."""
        self.series.extend(series)
        self.values += values
        self.count(time_ms, message, len(series))

    def count(self, time_ms: int, message: int, count: int) -> None:
        """Add a record without its samples; the caller adds its `count` series and values."""
        single = len(self.time_ms) - len(self.counts)
        self.time_ms.append(time_ms)
        self.messages.append(message)
        if count != 1:
            self.counts.extend(repeat(1, single))
            self.counts.append(count)

    def refuse(self, message: int, error: InvalidInputError) -> None:
        """Refuse a message, or a part of a message."""
        self.others.append((message, Decoded(rejects=[error])))

    def refuse_each(self, parts: Iterable[P], take: Callable[[P], None], place: str, message: int) -> None:
        """Call `take` with each part of a message, and record the errors of the bad parts; `place` is a template, see `refusals`."""
        for error in refusals(parts, take, place):
            self.refuse(message, error)

    def other(self, message: int, decoded: Decoded) -> None:
        """Add the part of a message that contains no samples."""
        self.others.append((message, decoded))

    def ignore(self, name: str, count: int = 1) -> None:
        """Count well-formed input that the agent does not use, under `name`."""
        self.ignored[name] = self.ignored.get(name, 0) + count

    def batch(self, bounds: BoundsTable, options: TelemetryOptions) -> DecodedBatch:
        """Return the collected samples as a batch, without samples that have an invalid value or time.

        Impossible values of power and counters are counted and skipped, because their producers are known to send such values.
        Counts of ignored and unknown input in the slice are attached to its last message.
        """
        series, value = np.array(self.series, dtype=np.int32), _floats(self.values)
        record_ms, record_message = np.array(self.time_ms, dtype=np.int64), np.array(self.messages, dtype=np.int64)
        received_ms = np.array(self.received_ms, dtype=np.int64)
        latest_ms = np.where(received_ms > 0, received_ms + options.decode.future_ms, LATEST_MS)[record_message]
        early, late = record_ms < options.decode.earliest_ms, record_ms > latest_ms
        time_ms, message, right = record_ms, record_message, ~(early | late)
        if self.counts:
            counts = np.array([*self.counts, *repeat(1, len(time_ms) - len(self.counts))])
            time_ms, message, right = np.repeat(time_ms, counts), np.repeat(message, counts), np.repeat(right, counts)
        right &= self._take_into_bounds(series, value, message, bounds)
        if early.any() or late.any():
            self._refuse_times(early, "time", "earlier than samples may be", record_ms, record_message)
            self._refuse_times(late & ~early, "future", "in the future of the message", record_ms, record_message)
        if not right.all():
            series, time_ms, value, message = series[right], time_ms[right], value[right], message[right]
        if self.ignored or self.unknown_fields:
            whole_slice = Decoded(ignored=self.ignored, unknown_fields=self.unknown_fields)
            self.others.append((len(self.received_ms) - 1, whole_slice))
        samples = Samples(series=series, time_ms=time_ms, value=value)
        return DecodedBatch(samples=samples, sample_message=message.astype(np.int32), others=self.others)

    def _take_into_bounds(
        self,
        series: npt.NDArray[np.int32],
        value: npt.NDArray[np.float64],
        message: npt.NDArray[np.int64],
        bounds: BoundsTable,
    ) -> npt.NDArray[np.bool_]:
        """Clip values that exceed their bounds by at most the slack; return a mask (n,) of valid values.

        A value further outside is counted if its resource is lenient; otherwise its message is refused.
        """
        right = np.ones(len(series), np.bool_)
        every = bounds.of(self.index, series)
        # negated so that NaN is found, too; usually only a few values
        edge = np.flatnonzero(~((value > every[0]) & (value < every[1])))
        if not len(edge):
            return right
        low, high, slack, lenient = every[:, edge]
        reported = value[edge]
        outside = ~((reported >= low - slack) & (reported <= high + slack))
        value[edge] = np.clip(reported, low, high)
        right[edge] = ~outside
        ignored = outside & (lenient > 0)
        for name, is_so in (("null", np.isnan(reported)), ("negative", reported < 0.0), ("too_large", reported > high)):
            if count := np.count_nonzero(ignored & is_so):
                self.ignore(name, int(count))
        for place in edge[outside & (lenient == 0)].tolist():
            _, host, resource = self.index[int(series[place])]
            error = invalid("out-of-range", f"A value of {shown(resource)} is out of its range.")
            self.other(int(message[place]), Decoded(rejects=[error.at(f"{host} {resource}")]))
        return right

    def _refuse_times(
        self,
        wrong: npt.NDArray[np.bool_],
        reason: Reason,
        fault: str,
        time_ms: npt.NDArray[np.int64],
        message: npt.NDArray[np.int64],
    ) -> None:
        for place, moment_ms in dict.fromkeys(zip(message[wrong].tolist(), time_ms[wrong].tolist(), strict=True)):
            error = invalid(reason, f"The time {rfc3339(moment_ms)} is {fault}.").at(rfc3339(moment_ms))
            self.other(place, Decoded(rejects=[error]))


_PACK: Final = msgspec.msgpack.Encoder()
_PACKED: Final = np.dtype([("kind", "u1"), ("value", ">f8")])
_FLOAT: Final = 0xCB  # the MessagePack code of a 64-bit float; values with other codes are shorter


def _floats(values: list[float | None]) -> npt.NDArray[np.float64]:
    """Return numbers as an array, with NaN for None. Conversion through MessagePack takes a third of numpy's time."""
    packed = _PACK.encode(values)
    head_bytes = 1 if len(values) < 16 else 3 if len(values) < 65_536 else 5
    if len(packed) == head_bytes + len(values) * _PACKED.itemsize:
        numbers = np.frombuffer(packed, _PACKED, offset=head_bytes)
        if (numbers["kind"] == _FLOAT).all():
            return numbers["value"].astype(np.float64)
    return np.array(values, dtype=np.float64)


def nothing(others: list[tuple[int, Decoded]]) -> DecodedBatch:
    """Return a batch without samples that holds only `others`."""
    samples = Samples(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64))
    return DecodedBatch(samples, np.empty(0, np.int32), others)


def each_message(decode: Decode) -> DecodeSamples:
    """Return a decoder of slices from `decode`, which decodes one message of job events."""

    def decode_slice(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        del index
        others = []
        for message, (value, moment_ms) in enumerate(zip(values, received_ms, strict=True)):
            try:
                others.append((message, decode(value or b"", moment_ms)))
            except InvalidInputError as error:
                others.append((message, Decoded(rejects=[error])))
        return nothing(others)

    return decode_slice


def each_line(decode_one: DecodeOne) -> DecodeSamples:
    """Return the decoder of slices of a file in which each line describes one job; `decode_one` decodes a line."""

    def decode(value: bytes, received_ms: int) -> Decoded:
        decoded = Decoded()
        decode_one(value, received_ms, decoded)
        return decoded

    return each_message(decode)


def joined(batches: list[tuple[list[int], DecodedBatch]]) -> DecodedBatch:
    """Return the batches merged in message order; the list of each batch maps its message indices to those of the merged batch."""
    empty = nothing([])
    parts = [empty.samples, *(batch.samples for _, batch in batches)]
    message = np.concatenate(
        [empty.sample_message, *(np.array(at, np.int32)[batch.sample_message] for at, batch in batches)]
    )
    order = np.argsort(message, kind="stable")
    samples = Samples(
        series=np.concatenate([part.series for part in parts])[order],
        time_ms=np.concatenate([part.time_ms for part in parts])[order],
        value=np.concatenate([part.value for part in parts])[order],
    )
    others = sorted(((at[i], other) for at, batch in batches for i, other in batch.others), key=lambda other: other[0])
    return DecodedBatch(samples, message[order], others)


DecodeRecord = Callable[[bytes, int, Columns], None]
"""Decodes message `n` of a slice into columns. If the whole message is invalid, adds nothing and raises InvalidInputError."""


def in_slices(
    decode_message: DecodeRecord, options: TelemetryOptions, check: Callable[[bytes, DecodeOptions], bytes] = checked
) -> DecodeSamples:
    """Return the decoder of slices that passes each message to `decode_message`; a bad message does not affect other messages.

    `check` refuses a message that is empty or too large.
    """
    bounds = BoundsTable()

    def decode(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        columns = Columns(received_ms, index)
        for message, value in enumerate(values):
            try:
                decode_message(check(value or b"", options.decode), message, columns)
            except InvalidInputError as error:
                columns.refuse(message, error)
        return columns.batch(bounds, options)

    return decode


def number_of(  # noqa: PLR0917  a name has many parts
    system: str, host: str, resource: str, peer: str | None, index: SeriesIndex, job_id: str | None = None
) -> int | None:
    """Return the number of a series after a check of its names; None if there are too many series.

    A resource may include its peer, as on the web pages: ``power_w>system``. If a job id is appended to the peer, a ``#`` in
    the peer is escaped as %23. Raise InvalidInputError (``text``) for a name that is empty, too long, has control characters,
    or contains a separator of the other parts.

    >>> index = SeriesIndex(9)
    >>> numbers = [number_of("exa", "nid1", "bandwidth", peer, index, job) for peer, job in (("group3", None), ("a#b", "812"))]
    >>> [index[number].resource for number in numbers]
    ['bandwidth>group3', 'bandwidth>a%23b#812']
    """
    for text, name in ((system, "system"), (host, "host"), (resource, "resource"), (peer, "peer"), (job_id, "job id")):
        if text is None:
            continue
        if not text or len(text) > TEXT_MAX:
            raise invalid("text", f"The {name} has {len(text)} characters; it needs 1 to {TEXT_MAX}.")
        refuse_control(text, name)
    if JOB in resource:
        raise invalid("text", f"The resource {shown(resource)} has a {JOB}, which is reserved for the id of a job.")
    base, sign, named_peer = resource.partition(PEER)
    if sign and (peer is not None or not base or not named_peer):
        raise invalid("text", f"The resource {shown(resource)} has a {PEER}, which separates a resource from its peer.")
    name = resource if peer is None else f"{resource}{PEER}{peer.replace(JOB, JOB_IN_PEER)}"
    return index.number(Series(system, host, name if job_id is None else f"{name}{JOB}{job_id}"))


def epoch_ms(seconds: float) -> int:
    """Return seconds since the epoch in ms. Raise InvalidInputError (``time``) for a time outside the calendar."""
    if not EARLIEST_MS <= seconds * 1000.0 <= LATEST_MS:
        raise invalid("time", "The time is outside 1990 to 2100.")
    return round(seconds * 1000.0)
