"""Reference files: node names and aliases, sensor units, racks, and the carbon intensity of electricity."""

import csv
import difflib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.names import parse_rfc3339
from processors.contracts.nodes import NO_HOSTS, RACK_HOSTS_MAX, Intensity, Node, Nodes, RackHosts, expand
from processors.contracts.telemetry import COMPONENTS, FACTORS, IGNORED, PEER, SensorRule, Sensors, quantity_of

ROWS_MAX: Final = 200_000
FAULTS_MAX: Final = 100
CELL_MAX: Final = 1_024


class TableFault(msgspec.Struct, frozen=True):
    """One error in a table: the line (from 1), the column's name (empty: the whole line), and a sentence."""

    line: int
    field: str
    message: str


class Row(msgspec.Struct, frozen=True):
    """A line of the table: its number, and its non-empty cells by column."""

    line: int
    cells: dict[str, str]


def read_table(text: str, columns: Collection[str], required: Sequence[str], faults: list[TableFault]) -> Iterator[Row]:
    """Yield the valid rows of a table; append errors to `faults` and skip their rows.

    Columns are separated by commas, cells may be quoted; blank lines and lines that start with ``#`` are ignored. The first
    other line names the columns; the `required` columns must exist and be non-empty in each row.
    """
    rows = _rows(text.removeprefix("\ufeff"), faults)
    line, head = next(rows, (1, []))
    names = [name.strip().lower() for name in head]
    wrong = [*_head_faults(line, names, columns, required)]
    faults += wrong
    if wrong:
        return
    for count, (line, cells) in enumerate(rows):
        if count == ROWS_MAX:
            faults.append(TableFault(line, "", f"has more than {ROWS_MAX} rows before it."))
            return
        row = Row(line, {name: cell.strip() for name, cell in zip(names, cells, strict=False) if cell.strip()})
        wrong = [*_row_faults(row, len(cells), names, required)]
        faults += wrong
        if not wrong:
            yield row


def _rows(text: str, faults: list[TableFault]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(_lines(text), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        faults.append(TableFault(reader.line_num, "", f"this is not CSV: {error}."))


def _lines(text: str) -> Iterable[str]:
    """Return the lines with comments blanked, which keeps the line numbers."""
    return ("" if line.lstrip().startswith("#") else line for line in text.splitlines())


def _head_faults(
    line: int, names: list[str], columns: Collection[str], required: Sequence[str]
) -> Iterator[TableFault]:
    if not names:
        yield TableFault(line, "", f"the file is empty; its first line names the columns: {', '.join(columns)}.")
        return
    for name in dict.fromkeys(names):
        if name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            hint = f"did you mean {close[0]}?" if close else f"use {', '.join(columns)}."
            yield TableFault(line, name[:40], f"is no column of this file; {hint}")
        elif names.count(name) > 1:
            yield TableFault(line, name, "names two columns.")
    for name in required:
        if name not in names:
            yield TableFault(line, name, "is missing among the columns.")


def _row_faults(row: Row, cells: int, names: list[str], required: Sequence[str]) -> Iterator[TableFault]:
    if cells > len(names):
        yield TableFault(row.line, "", f"has {cells} cells, but there are {len(names)} columns.")
    for name, cell in row.cells.items():
        if len(cell) > CELL_MAX or not cell.isprintable():
            yield TableFault(row.line, name, f"is longer than {CELL_MAX} characters, or has control characters.")
    for name in required:
        if name not in row.cells:
            yield TableFault(row.line, name, "is missing.")


UNIT_COLUMNS: Final = (
    "message", "physical_context", "parental_context", "sub_context", "device_context", "index", "location", "source",
    "resource", "unit",
)  # fmt: skip
RULES_MAX: Final = 1_000
_RESOURCE = re.compile(r"[a-z][a-z0-9_]{0,63}(?:>[^>#\s]{1,64})?")
_INDEX = re.compile(r"[0-9]{1,5}")


def read_units(text: str) -> tuple[Sensors, list[TableFault]]:
    """Return the sensor rules of a file in their order, and all errors in the file."""
    faults: list[TableFault] = []
    rules = []
    for row in read_table(text, UNIT_COLUMNS, ("message", "resource"), faults):
        wrong = [*_faults(row)]
        faults += wrong
        if not wrong:
            rules.append(_rule(row.cells))
        if len(rules) > RULES_MAX:
            faults.append(TableFault(row.line, "", f"has more than {RULES_MAX} rules before it."))
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


def _faults(row: Row) -> list[TableFault]:
    resource, unit = row.cells["resource"], row.cells.get("unit")
    wrong = []
    if not _RESOURCE.fullmatch(resource):
        wrong.append(
            TableFault(row.line, "resource", f"{resource[:40]!r} is no resource, such as power_w>system, or ignore.")
        )
    elif resource != IGNORED:
        wrong += _resource_faults(row.line, resource, unit)
    if "index" in row.cells and not _INDEX.fullmatch(row.cells["index"]):
        wrong.append(TableFault(row.line, "index", f"must be a whole number, not {row.cells['index'][:40]!r}."))
    return wrong


def _resource_faults(line: int, resource: str, unit: str | None) -> list[TableFault]:
    quantity = quantity_of(resource)
    name, _, peer = resource.partition(PEER)
    units = [unit for unit, (measures, _) in FACTORS.items() if measures == quantity]
    if unit not in (*units, *([] if quantity else [None])):
        return [TableFault(line, "unit", f"must be one of {', '.join(units)} for {name}.")]
    if quantity and peer.partition(":")[0] not in COMPONENTS:
        texts = ", ".join(f"{name}>{component}" for component in COMPONENTS)
        return [
            TableFault(
                line, "resource", f"{resource!r} names no component: use {texts}, with :INDEX for one of several."
            )
        ]
    return []


COLUMNS: Final = (
    "host", "system", "xname", "nid", "component_id", "aliases", "partition", "cores", "sockets", "power_max_w",
)  # fmt: skip
NUMBER_MAX: Final = 10**12
COUNT_MAX: Final = 65_536
POWER_MAX_W: Final = 1e7
_ALIASES = re.compile(r"[\s,;]+")
_XNAME = re.compile(r"x[0-9]+c[0-9]+s[0-9]+b[0-9]+n[0-9]+")
_WHOLE = re.compile(r"[0-9]{1,18}")


def read_nodes(text: str, systems: Collection[str] = ()) -> tuple[Nodes, list[TableFault]]:
    """Return the nodes of a file, and all errors in the file; two nodes with the same name are an error.

    Aliases are separated by blanks, semicolons or, in a quoted cell, commas. If `systems` is not empty, it must list each node's
    system.
    """
    faults: list[TableFault] = []
    names = _Names(faults)
    nodes = []
    for row in read_table(text, COLUMNS, ("host",), faults):
        node = _node(row, faults)
        if systems and node.system and node.system not in systems:
            faults.append(
                TableFault(row.line, "system", f"{node.system[:40]!r} is none of the systems {', '.join(systems)}.")
            )
        names.take(node, row.line)
        nodes.append(node)
    return Nodes(nodes), faults


def _node(row: Row, faults: list[TableFault]) -> Node:
    cells = row.cells
    xname = cells.get("xname", "").lower()
    if xname and not _XNAME.fullmatch(xname):
        faults.append(TableFault(row.line, "xname", f"{xname[:40]!r} is no place of a node, such as x9000c3s0b0n0."))
    aliases = (name for name in _ALIASES.split(cells.get("aliases", "")) if name)
    return Node(
        host=cells["host"],
        system=cells.get("system", ""),
        xname=xname,
        nid=_whole(row, "nid", NUMBER_MAX, faults),
        component_id=_whole(row, "component_id", NUMBER_MAX, faults),
        aliases=tuple(dict.fromkeys(aliases)),
        partition=cells.get("partition", ""),
        cores=_whole(row, "cores", COUNT_MAX, faults, low=1),
        sockets=_whole(row, "sockets", COUNT_MAX, faults, low=1),
        power_max_w=_power_w(row, faults),
    )


def _whole(row: Row, field: str, high: int, faults: list[TableFault], low: int = 0) -> int | None:
    text = row.cells.get(field)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        faults.append(TableFault(row.line, field, f"must be a whole number of {low} to {high}, not {text[:40]!r}."))
        return None
    return int(text)


def _power_w(row: Row, faults: list[TableFault]) -> float | None:
    text = row.cells.get("power_max_w")
    if text is None:
        return None
    try:
        power_w = float(text)
    except ValueError:
        power_w = math.nan
    if not 0.0 < power_w <= POWER_MAX_W:
        faults.append(
            TableFault(row.line, "power_max_w", f"must be a power in W of up to {POWER_MAX_W:g}, not {text[:40]!r}.")
        )
        return None
    return power_w


class _Names:
    """The node of each name, by system; a node without a system belongs to all systems."""

    def __init__(self, faults: list[TableFault]) -> None:
        self._faults = faults
        self._first: dict[tuple[str, str, str | int], dict[str, tuple[Node, int]]] = {}

    def take(self, node: Node, line: int) -> None:
        """Add the names of a node; a name that another node already has is an error."""
        for field, name in _named(node):
            taken = self._first.setdefault(("", _kind(field), name), {})
            other = (
                taken.get(node.system)
                or taken.get("")
                or (next(iter(taken.values()), None) if not node.system else None)
            )
            if other is None:
                taken[node.system] = (node, line)
            elif other[0] is not node:
                message = f"{name!r} already stands for {other[0].host} (line {other[1]})."
                self._faults.append(TableFault(line, field, message))


def _named(node: Node) -> list[tuple[str, str | int]]:
    texts = [("host", node.host), ("xname", node.xname), *(("aliases", alias) for alias in node.aliases)]
    names: list[tuple[str, str | int]] = [(field, text.lower()) for field, text in texts if text]
    names += [("nid", node.nid)] if node.nid is not None else []
    return names + ([("component_id", node.component_id)] if node.component_id is not None else [])


def _kind(field: str) -> str:
    return field if field in ("nid", "component_id") else "name"


RACK_COLUMNS: Final = ("host", "rack", "system")
NAME_MAX: Final = 64  # characters of a rack: it is a label of alerts
_TOPOLOGY: Final = re.compile(r"\s*(SwitchName|BlockName)\s*=", re.IGNORECASE)


def read_racks(text: str, systems: Collection[str] = ()) -> tuple[tuple[RackHosts, ...], list[TableFault]]:
    """Return the racks of a file, and all errors in the file; a host in two racks is an error.

    The file is a table of hosts, or host lists in quotes, and their racks; or Slurm's topology.conf; or the output of ``scontrol
    show topology``. In the last two, each block and each switch with nodes and without lower switches is a rack.
    """
    faults: list[TableFault] = []
    rows = _topology_rows(text) if is_topology(text) else read_table(text, RACK_COLUMNS, ("host", "rack"), faults)
    racks = _RackNames(faults, systems)
    return tuple(found for row in rows if (found := racks.take(row)) is not None), faults


def is_topology(text: str) -> bool:
    """Return whether a text is a Slurm topology rather than a table."""
    lines = (line for line in text.removeprefix("\ufeff").splitlines() if line.split("#")[0].strip())
    return _TOPOLOGY.match(next(lines, "")) is not None


def _topology_rows(text: str) -> Iterator[Row]:
    """Yield the leaf switches and blocks of a topology as rows of a table of racks."""
    for row in topology_rows(text):
        name, hosts = row.cells.get("switchname") or row.cells.get("blockname"), row.cells.get("nodes", "")
        if name and hosts not in NO_HOSTS and row.cells.get("switches", "") in NO_HOSTS:
            yield Row(row.line, {"host": hosts, "rack": name})


def topology_rows(text: str) -> Iterator[Row]:
    """Yield the switches and blocks of a topology with lower-case keys; a backslash at the end of a line continues the line."""
    number, whole = 0, ""
    for last, line in enumerate([*text.removeprefix("\ufeff").splitlines(), ""], 1):
        number = number if whole else last
        whole += line.split("#")[0].rstrip()
        if whole.endswith("\\"):
            whole = whole[:-1] + " "
            continue
        pairs = dict(part.split("=", 1) for part in whole.split() if "=" in part)
        cells, whole = {name.lower(): value for name, value in pairs.items()}, ""
        if cells:
            yield Row(number, cells)


class _RackNames:
    """The rack of each host, by system; a host without a system belongs to all systems."""

    def __init__(self, faults: list[TableFault], systems: Collection[str]) -> None:
        self._faults, self._systems = faults, systems
        self._first: dict[tuple[str, str], tuple[str, int]] = {}

    def take(self, row: Row) -> RackHosts | None:
        """Return the rack in a row; None if the row has an error, which is added to the faults."""
        found = RackHosts(row.cells["rack"], row.cells["host"], row.cells.get("system", ""))
        wrong = [*self._wrong(row.line, found)]
        self._faults += wrong
        return None if wrong else found

    def _wrong(self, line: int, found: RackHosts) -> Iterator[TableFault]:
        if len(found.rack) > NAME_MAX or not found.rack.isprintable():
            yield TableFault(line, "rack", f"must be a name of at most {NAME_MAX} characters.")
        if self._systems and found.system and found.system not in self._systems:
            yield TableFault(
                line, "system", f"{found.system[:40]!r} is none of the systems {', '.join(self._systems)}."
            )
        try:
            hosts = expand(found.hosts, RACK_HOSTS_MAX - len(self._first))
        except InvalidInputError as error:
            yield TableFault(line, "host", str(error))
            return
        for host in hosts:
            rack, first = self._first.setdefault((found.system, host), (found.rack, line))
            if rack != found.rack:
                yield TableFault(line, "host", f"{host!r} is in rack {rack} already (line {first}).")
                return


INTENSITY_COLUMNS: Final = ("time", "g_per_kwh")
G_PER_KWH_MAX: Final = 10_000.0  # ten times that of the worst coal


def read_intensities(text: str) -> tuple[tuple[Intensity, ...], list[TableFault]]:
    """Return the carbon intensities of a file, and all errors in the file; times must ascend."""
    faults: list[TableFault] = []
    found: list[Intensity] = []
    for row in read_table(text, INTENSITY_COLUMNS, INTENSITY_COLUMNS, faults):
        intensity = _intensity(row, faults)
        if intensity is None:
            continue
        if found and intensity.time_ms <= found[-1].time_ms:
            faults.append(TableFault(row.line, "time", "is not later than the one before it."))
            continue
        found.append(intensity)
    return tuple(found), faults


def _intensity(row: Row, faults: list[TableFault]) -> Intensity | None:
    """Return the carbon intensity in a row; None if the row has an error, which is added to `faults`."""
    time_ms, g_per_kwh = None, math.nan
    with suppress(ValueError, InvalidInputError):
        if datetime.fromisoformat(row.cells["time"]).tzinfo is not None:  # local times say an hour twice
            time_ms = parse_rfc3339(row.cells["time"])
    with suppress(ValueError):
        g_per_kwh = float(row.cells["g_per_kwh"])
    if time_ms is None:
        faults.append(TableFault(row.line, "time", "is no time with a zone, such as 2026-11-16T00:00:00Z."))
    if not 0 <= g_per_kwh <= G_PER_KWH_MAX:
        faults.append(TableFault(row.line, "g_per_kwh", f"is no number from 0 to {G_PER_KWH_MAX:g}."))
        return None
    return Intensity(time_ms, g_per_kwh) if time_ms is not None else None
