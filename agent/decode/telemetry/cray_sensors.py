"""What the sensors of Cray EX are, and of which host: found out once for each sensor."""

import re
from typing import Final

import msgspec

from agent.contracts.sensors import IGNORED, Sensor, SensorRule, Sensors
from agent.contracts.telemetry import ENERGY_TOTAL, PEER, POWER_W, SeriesIndex
from agent.decode.telemetry.columns import number_of
from agent.decode.telemetry.options import TelemetryOptions

_OF_NODE: Final = re.compile(r"x[0-9]+c[0-9]+s[0-9]+b[0-9]+(?:n[0-9]+)?")
_SYSTEM, _CPU = f"{POWER_W}{PEER}system", f"{POWER_W}{PEER}cpu:{{parent}}"
_REGULATOR: Final = "VoltageRegulator"

CRAY: Final = Sensors(
    [
        SensorRule("Power", _SYSTEM, "W", "Chassis", _REGULATOR, "Input"),
        SensorRule("Power", _SYSTEM, "W", "Chassis", _REGULATOR, "Output"),
        SensorRule("Power", _SYSTEM, "W", physical_context="PowerControlIntake"),
        SensorRule("Power", _SYSTEM, "W", "-", "Chassis"),
        SensorRule("Power", _CPU, "W", "CPU", _REGULATOR, "Input"),
        SensorRule("Power", _CPU, "W", "CPU", _REGULATOR, "Output"),
        SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}system", "J", "Chassis", _REGULATOR, "Input"),
        SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}system", "J", "Chassis", _REGULATOR, "Output"),
        SensorRule("Energy", f"{ENERGY_TOTAL}{PEER}cpu:{{parent}}", "J", "CPU", _REGULATOR),
    ]
)
"""The power of a node is what goes into its voltage regulator, else what comes out of it, else what a River server tells.

Which of them a site's nodes have, and which is the one that is billed, a site may say in its own file, which goes before.
"""


class Target(msgspec.Struct, gc=False):
    """What readings of one sensor are: samples of a series, times a factor, or (`series` -1) left out for a reason.

    >>> Target(reason="shared").series
    -1
    """

    series: int = -1
    factor: float = 1.0
    reason: str = ""
    order: tuple[int, Sensor] = (0, Sensor("", ""))


class Resolver:
    """Finds the target of each sensor, for one index of series.

    Of several sensors that are the same resource of a host only one counts, that of the earliest rule: to add or to mix
    what goes into a node and what comes out of it would be wrong.

    >>> from agent.contracts.nodes import Node, Nodes
    >>> options = TelemetryOptions(nodes=Nodes([Node("nid1", xname="x9c3s0b0n0")]))
    >>> resolver, index = Resolver(options), SeriesIndex(9)
    >>> sensor = Sensor("CrayTelemetry.Power", "x9c3s0b0n0", "Chassis", -1, "VoltageRegulator", 0, "Output")
    >>> target = resolver.target(sensor, "exa", index)
    >>> target.series, index[0].resource, resolver.target(sensor._replace(location="x9c3"), "exa", index).reason
    (0, 'power_w>system', 'shared')
    >>> resolver.target(sensor._replace(sub_context="Input"), "exa", index).series, target.reason
    (0, 'second-sensor')
    """

    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._sensors = options.sensors + CRAY
        self._index: SeriesIndex | None = None
        self._owners: dict[int, Target] = {}

    def told(self, message: str) -> bool:
        """Tell whether readings of messages of this name can be anything."""
        return self._sensors.told(message)

    def target(self, sensor: Sensor, system: str, index: SeriesIndex) -> Target:
        """Return what a sensor's readings are; InvalidInputError where its names are none that could be shown."""
        if index is not self._index:
            self._index, self._owners = index, {}
        node = self._options.nodes.controlled(sensor.location, system)
        if node is None:
            return self._nowhere(sensor.location, system)
        found = self._sensors.find(sensor)
        if found is None:
            self._options.missed.note("units", _shown(sensor))
            return Target(reason="unit")
        if found.rule.resource == IGNORED:
            return Target(reason="metric")
        resource, _, peer = found.rule.named(sensor).partition(PEER)
        series = number_of(system, node.host, resource, peer or None, index)
        if series is None:
            return Target(reason="series")
        return self._owned(Target(series, found.rule.factor, order=(found.rank, sensor)))

    def _nowhere(self, location: str, system: str) -> Target:
        """Tell why a place has no host: several nodes share it, or its node is not listed."""
        if not _OF_NODE.fullmatch(location.lower()) or self._options.nodes.shared(location, system):
            self._options.missed.note("shared", location)
            return Target(reason="shared")
        self._options.missed.note("hosts", location)
        return Target(reason="unknown-host")

    def _owned(self, target: Target) -> Target:
        """Let the better one of two sensors that are one resource keep it."""
        owner = self._owners.setdefault(target.series, target)
        if owner.order == target.order:  # the same, forgotten meanwhile
            return owner
        better, other = sorted((owner, target), key=lambda one: one.order)
        self._owners[target.series] = better
        self._options.missed.note("second", _shown(other.order[1]))
        other.series, other.reason = -1, "second-sensor"
        return target


def _shown(sensor: Sensor) -> str:
    """Return a sensor without its place, as an operator would look for it in the file of units."""
    inner = f"{sensor.parental_context}/{sensor.physical_context}".strip("/")
    return " ".join(part for part in (sensor.message, inner, sensor.sub_context, sensor.device_context) if part)
