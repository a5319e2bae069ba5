"""The file of units: what the readings of sensors are, by the message that tells them and where the sensor sits."""

import re
from typing import Final

from agent.contracts.sensors import FACTORS, IGNORED, SensorRule, Sensors, quantity_of
from agent.contracts.telemetry import COMPONENTS, PEER
from agent.reference.tables import Fault, Row, read_table

COLUMNS: Final = (
    "message", "physical_context", "parental_context", "sub_context", "device_context", "index", "location", "source",
    "resource", "unit",
)  # fmt: skip
RULES_MAX: Final = 1_000
_RESOURCE = re.compile(r"[a-z][a-z0-9_]{0,63}(?:>[^>#\s]{1,64})?")
_INDEX = re.compile(r"[0-9]{1,5}")


def read_units(text: str) -> tuple[Sensors, list[Fault]]:
    r"""Return the rules of a file in their order, and everything that is wrong with it.

    >>> sensors, faults = read_units("message,sub_context,resource,unit\nPower,Input,power_w>system,kW\nEnergy,,power_w,J\n")
    >>> len(sensors.rules), [(fault.field, fault.sentence) for fault in faults]
    (1, [('unit', 'must be one of W, mW, kW for power_w.')])
    """
    faults: list[Fault] = []
    rules = []
    for row in read_table(text, COLUMNS, ("message", "resource"), faults):
        wrong = [*_faults(row)]
        faults += wrong
        if not wrong:
            rules.append(_rule(row.cells))
        if len(rules) > RULES_MAX:
            faults.append(Fault(row.line, "", f"has more than {RULES_MAX} rules before it."))
            break
    return Sensors(rules), faults


def _rule(cells: dict[str, str]) -> SensorRule:
    return SensorRule(
        message=cells["message"],
        resource=cells["resource"],
        unit=cells.get("unit", "1"),
        parental_context=cells.get("parental_context", ""),
        physical_context=cells.get("physical_context", ""),
        sub_context=cells.get("sub_context", ""),
        device_context=cells.get("device_context", ""),
        index=int(cells["index"]) if "index" in cells else None,
        location=cells.get("location", ""),
        source=cells.get("source", ""),
    )


def _faults(row: Row) -> list[Fault]:
    resource, unit = row.cells["resource"], row.cells.get("unit")
    wrong = []
    if not _RESOURCE.fullmatch(resource):
        wrong.append(
            Fault(row.line, "resource", f"{resource[:40]!r} is no resource, such as power_w>system, or ignore.")
        )
    elif resource != IGNORED:
        wrong += _resource_faults(row.line, resource, unit)
    if "index" in row.cells and not _INDEX.fullmatch(row.cells["index"]):
        wrong.append(Fault(row.line, "index", f"must be a whole number, not {row.cells['index'][:40]!r}."))
    return wrong


def _resource_faults(line: int, resource: str, unit: str | None) -> list[Fault]:
    quantity = quantity_of(resource)
    name, _, peer = resource.partition(PEER)
    units = [unit for unit, (measures, _) in FACTORS.items() if measures == quantity]
    if unit not in (*units, *([] if quantity else [None])):
        return [Fault(line, "unit", f"must be one of {', '.join(units)} for {name}.")]
    if quantity and peer.partition(":")[0] not in COMPONENTS:
        texts = ", ".join(f"{name}>{component}" for component in COMPONENTS)
        return [
            Fault(line, "resource", f"{resource!r} names no component: use {texts}, with :INDEX for one of several.")
        ]
    return []
