"""Telemetry of HPE Cray EX: power and energy of nodes from Redfish events, and nodes that are switched on and off."""

import math
import re
from typing import Final

from agent.contracts.decoding import Decoded
from agent.contracts.errors import InvalidInputError
from agent.contracts.events import HostState
from agent.contracts.sensors import Sensor
from agent.contracts.telemetry import DecodeSamples
from agent.decode.message import checked
from agent.decode.reasons import invalid
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, in_slices
from agent.decode.telemetry.cray_messages import CrayEvent, CrayMessage, cray_messages
from agent.decode.telemetry.cray_sensors import Resolver, Target
from agent.decode.telemetry.options import TelemetryOptions
from agent.decode.telemetry.resources import VALUE_MAX
from agent.decode.telemetry.stamps import Stamps
from agent.decode.times import check_bounds, parse_time

SECONDS_MAX: Final = 16_384
POWER_STATE: Final = "ResourcePowerStateChanged"
STATES: Final = {"On": "up", "Off": "down"}
_NODE: Final = re.compile(r"/redfish/v1/Systems/(?:Node([0-9]{1,3})|Self|1)/?")
_THOUSANDTHS: Final = {f".{number:03d}": number for number in range(1000)}

_Key = tuple[str, str, str, int, str, int, str, str, int, str, str]


def cray_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Cray EX telemetry, as hmcollector, SMA's API, HPCM and dftf write it; hosts by the file of nodes.

    >>> from agent.contracts.nodes import Node, Nodes
    >>> from agent.contracts.telemetry import SeriesIndex
    >>> from agent.decode.options import DecodeOptions
    >>> nodes = Nodes([Node("nid1", xname="x9c3s0b0n0")])
    >>> decode = cray_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa"), nodes=nodes))
    >>> sensor = b'{"Timestamp":"2026-11-20T10:00:00.5Z","Location":"x9c3s0b0n0","PhysicalContext":"Chassis","Value":"258"}'
    >>> event = b'{"MessageId":"CrayTelemetry.Power","Oem":{"Sensors":[' + sensor + b"]}}"
    >>> index = SeriesIndex(9)
    >>> batch = decode([b'{"Context":"x9c3s0b0","Events":[' + event + b"]}"], [1795168801000], index)
    >>> index[0], batch.samples.value.tolist()
    (Series(system='exa', host='nid1', resource='power_w>system'), [258.0])
    """
    return in_slices(_Decoder(options).decode, options)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._resolver = Resolver(options)
        self._known = Known[_Key, Target]()
        self._times = RedfishTimes()

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        value = checked(value, self._options.decode)
        for one in cray_messages(value, self._options.decode.elements_max):
            for event in one.events:
                if event.readings:
                    self._take(event, one, message, columns)
                elif not self._take_state(event, one, message, columns):
                    columns.ignore("event")
            for error in one.refused:
                columns.refuse(message, error)

    def _take(self, event: CrayEvent, one: CrayMessage, message: int, columns: Columns) -> None:
        name, readings = event.message_id, event.readings
        if not self._resolver.told(name):
            self._options.missed.note("metrics", name[:KEY_BYTES_MAX])
            columns.ignore("metric", len(readings))
            return
        source, system, known = event.oem.telemetry_source, one.system, self._known.of(columns.index)
        keys: list[_Key] = [
            (
                name, r.location, r.parental_context, r.parental_index, r.physical_context, r.index,
                r.physical_sub_context, r.device_specific_context, r.sub_index, source, system,
            )
            for r in readings
        ]  # fmt: skip
        targets = [known.get(key) for key in keys]
        if None in targets:  # all before the first is taken, which the last may outdo
            targets = [known.get(key) or self._target(key, columns, known) for key in keys]
        self._add(event, targets, message, columns)

    def _add(self, event: CrayEvent, targets: list[Target | None], message: int, columns: Columns) -> None:
        series, values, times, times_of = columns.series, columns.values, columns.time_ms, self._times.time_ms
        before = len(series)
        for reading, target in zip(event.oem.sensors, targets, strict=True):
            if target is None or target.series < 0:
                columns.ignore("text" if target is None else target.reason)
                continue
            amount = number(reading.value)
            if amount is None:
                columns.ignore("null")
                continue
            try:
                times.append(times_of(reading.timestamp or event.event_timestamp))
            except InvalidInputError as error:
                columns.refuse(message, error)
                continue
            series.append(target.series)
            values.append(amount * target.factor)
        count = len(series) - before
        columns.messages += [message] * count
        columns.counts += [1] * count

    def _target(self, key: _Key, columns: Columns, known: dict[_Key, Target]) -> Target | None:
        """Return what a sensor is, and remember it; None where its names cannot be those of a sensor."""
        system = key[-1] or self._options.decode.default_system
        if not system:
            raise invalid("missing-field", "The message names no system, and its source has none in the configuration.")
        try:
            target = self._resolver.target(Sensor(*key[:-1]), system, columns.index)
        except InvalidInputError:
            return None
        if sum(len(text) for text in key if isinstance(text, str)) <= KEY_BYTES_MAX:
            known[key] = target
        return target

    def _take_state(self, event: CrayEvent, one: CrayMessage, message: int, columns: Columns) -> bool:
        """Take the event of a node that was switched on or off; tell whether it was one."""
        if not event.message_id.endswith(POWER_STATE) or not event.message_args:
            return False
        place = _NODE.fullmatch(event.origin_of_condition.path or event.message_args[0])
        state = STATES.get(event.message_args[-1])
        system = one.system or self._options.decode.default_system
        if place is None or state is None or not system:
            return False
        location = f"{one.context}n{place[1]}" if place[1] else one.context
        node = self._options.nodes.controlled(location, system)
        if node is None:
            self._options.missed.note("hosts", location)
            return False
        time_ms = self._times.time_ms(event.event_timestamp)
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)
        found = HostState(system=system, host=node.host, state=state, time_ms=time_ms)
        columns.others.append((message, Decoded(events=[found])))
        return True


def number(text: str | float | None) -> float | None:
    """Return the number in a text; None where there is none that could be measured.

    >>> number("473.000"), number(473), number("NaN"), number("1_0"), number("")
    (473.0, 473.0, None, None, None)
    """
    try:
        amount = math.nan if text is None else float(text)
    except ValueError:
        return None
    return amount if -VALUE_MAX <= amount <= VALUE_MAX and not (isinstance(text, str) and "_" in text) else None


class RedfishTimes:
    """Times of readings: RFC 3339 to the nanosecond, or a number of ms; many share their second. Bounded.

    >>> RedfishTimes().time_ms("2021-04-28T18:36:11.951742109Z"), RedfishTimes().time_ms(1755683564000)
    (1619634971951, 1755683564000)
    """

    def __init__(self) -> None:
        self._seconds: dict[str, int] = {}
        self._stamps = Stamps("auto")

    def time_ms(self, stamp: str | float) -> int:
        """Return the time in ms; InvalidInputError (``time``) where it is none."""
        if not isinstance(stamp, str):
            return self._stamps.time_ms(stamp)
        second_ms, rest = self._seconds.get(stamp[:19]), stamp[23:]
        if second_ms is not None and (rest == "Z" or (rest[-1:] == "Z" and rest[:-1].isdigit() and rest.isascii())):
            thousandths = _THOUSANDTHS.get(stamp[19:23])
            if thousandths is not None:
                return second_ms + thousandths
        if not stamp:
            raise invalid("time", "A reading has no time.")
        time_ms = parse_time(stamp)
        if stamp.endswith("Z") and len(stamp) > len("2026-11-20T10:00:00"):
            if len(self._seconds) >= SECONDS_MAX:
                self._seconds.clear()
            self._seconds[stamp[:19]] = parse_time(stamp[:19] + "Z")
        return time_ms
