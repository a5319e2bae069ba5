"""What the readings of a centre's sensors are: from a message's name and where its sensor sits to a resource and a unit."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import msgspec

from agent.contracts.telemetry import ENERGY_TOTAL, PEER, POWER_W

IGNORED: Final = "ignore"
NONE: Final = "-"
INDEX: Final = "{index}"
PARENT: Final = "{parent}"

FACTORS: Final[dict[str, tuple[str, float]]] = {
    "W": ("power", 1.0),
    "mW": ("power", 1e-3),
    "kW": ("power", 1e3),
    "J": ("energy", 1.0),
    "mJ": ("energy", 1e-3),
    "kJ": ("energy", 1e3),
    "MJ": ("energy", 1e6),
    "Wh": ("energy", 3.6e3),
    "kWh": ("energy", 3.6e6),
    "1": ("", 1.0),
}
"""What a unit measures, and what of W or J one of it is; ``1`` leaves a value as it is."""


def quantity_of(resource: str) -> str:
    """Return what a resource measures, as its unit must: ``power``, ``energy``, or nothing that has a unit here.

    >>> quantity_of("power_w>cpu:0"), quantity_of("energy_total>system"), quantity_of("inlet_temperature")
    ('power', 'energy', '')
    """
    return {POWER_W: "power", ENERGY_TOTAL: "energy"}.get(resource.partition(PEER)[0], "")


class Sensor(NamedTuple):
    """The identity of a sensor: the message that tells it (``CrayTelemetry.Power``) and its place, as Redfish has it.

    Texts are empty and numbers -1 where the message has none.
    """

    message: str
    location: str
    parental_context: str = ""
    parental_index: int = -1
    physical_context: str = ""
    number: int = -1
    sub_context: str = ""
    device_context: str = ""
    sub_index: int = -1
    source: str = ""


class SensorRule(msgspec.Struct, frozen=True):
    """Sensors whose fields are as given are the resource `resource`, in `unit`.

    An empty text or None stands for anything, ``-`` for none. `message` may leave out what stands before the last dot,
    `location` may hold ``*`` and ``?``. ``{index}`` and ``{parent}`` in the resource stand for the sensor's own number and
    that of what it sits on; a sensor without one leaves out the colon before it. ``ignore`` is no resource: such sensors
    are left out.

    >>> rule = SensorRule("Power", "power_w>cpu:{parent}", "W", parental_context="CPU")
    >>> sensor = Sensor("CrayTelemetry.Power", "x9000c3s0b0n0", "CPU", 1, "VoltageRegulator")
    >>> rule.matches(sensor), rule.named(sensor)
    (True, 'power_w>cpu:1')
    """

    message: str
    resource: str
    unit: str = "1"
    parental_context: str = ""
    physical_context: str = ""
    sub_context: str = ""
    device_context: str = ""
    index: int | None = None
    location: str = ""
    source: str = ""

    def matches(self, sensor: Sensor) -> bool:
        """Tell whether a sensor is meant."""
        texts = (
            (self.parental_context, sensor.parental_context),
            (self.physical_context, sensor.physical_context),
            (self.sub_context, sensor.sub_context),
            (self.device_context, sensor.device_context),
            (self.source, sensor.source),
        )
        return (
            self.is_of(sensor.message)
            and all(not wanted or found == ("" if wanted == NONE else wanted) for wanted, found in texts)
            and (self.index is None or self.index == sensor.number)
            and (not self.location or fnmatchcase(sensor.location.lower(), self.location.lower()))
        )

    def is_of(self, message: str) -> bool:
        """Tell whether messages of this name are meant."""
        return self.message in (message, message.rpartition(".")[2])

    def named(self, sensor: Sensor) -> str:
        """Return the name of the resource of one sensor."""
        name = self.resource
        for part, number in ((INDEX, sensor.number), (PARENT, sensor.parental_index)):
            name = name.replace(f":{part}", f":{number}" if number >= 0 else "").replace(part, str(max(number, 0)))
        return name

    @property
    def factor(self) -> float:
        """What one of the unit is in that of the resource."""
        return FACTORS[self.unit][1]


class Sensors:
    """Rules in the order in which they are tried: of sensors that are one resource of a host, the earliest rule's counts.

    >>> sensors = Sensors([SensorRule("Power", "power_w>system", "kW", sub_context="Input")])
    >>> sensors.find(Sensor("Power", "x1", sub_context="Input")).rank, sensors.find(Sensor("Power", "x1"))
    (0, None)
    """

    def __init__(self, rules: Iterable[SensorRule] = ()) -> None:
        self.rules = tuple(rules)

    def __add__(self, others: "Sensors") -> "Sensors":
        """Return these rules with others after them."""
        return Sensors(self.rules + others.rules)

    def find(self, sensor: Sensor) -> "Found | None":
        """Return the first rule for a sensor; None without one."""
        for rank, rule in enumerate(self.rules):
            if rule.matches(sensor):
                return Found(rank, rule)
        return None

    def told(self, message: str) -> bool:
        """Tell whether any rule is about messages of this name."""
        return any(rule.is_of(message) for rule in self.rules)


class Found(NamedTuple):
    """A rule and its place among all."""

    rank: int
    rule: SensorRule


NO_SENSORS: Final = Sensors()
