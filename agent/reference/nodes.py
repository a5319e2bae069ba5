"""Readers of reference files: node names and aliases, sensor units, racks, network positions, and carbon intensities."""

import csv
import difflib
import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from math import prod
from typing import Final

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.names import parse_rfc3339
from processors.contracts.nodes import (
    NO_HOSTS,
    PLACED_HOSTS_MAX,
    RACK_HOSTS_MAX,
    HostPlace,
    Intensity,
    Node,
    Nodes,
    RackHosts,
    expand,
)
from processors.contracts.telemetry import COMPONENTS, FACTORS, IGNORED, PEER, SensorRule, Sensors, quantity_of

ROWS_MAX: Final = 200_000
FAULTS_MAX: Final = 100
CELL_MAX: Final = 1_024


class TableFault(msgspec.Struct, frozen=True):
    """An error in a table: the line number (from 1), the column (empty for the whole line), and a sentence about the error."""

    line: int
    field: str
    message: str


class TableRow(msgspec.Struct, frozen=True):
    """A table row: its line number, and its non-empty cells by column."""

    line: int
    cells: dict[str, str]


def read_table(
    text: str, columns: Collection[str], required: Sequence[str], faults: list[TableFault]
) -> Iterator[TableRow]:
    """Yield the valid rows of a table; append errors to `faults` and skip rows with errors.

    Columns are separated by commas, and cells may be quoted. Blank lines and lines that start with ``#`` are ignored. The first
    remaining line names the columns; the `required` columns must exist and be non-empty in each row.
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
        row = TableRow(line, {name: cell.strip() for name, cell in zip(names, cells, strict=False) if cell.strip()})
        wrong = [*_row_faults(row, len(cells), names, required)]
        faults += wrong
        if not wrong:
            yield row


def _rows(text: str, faults: list[TableFault]) -> Iterator[tuple[int, list[str]]]:
    # a comment becomes a blank line, which keeps the line numbers
    reader = csv.reader(("" if line.lstrip().startswith("#") else line for line in text.splitlines()), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        faults.append(TableFault(reader.line_num, "", f"this is not CSV: {error}."))


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
            yield TableFault(line, name[:40], f"is not a column of this file; {hint}")
        elif names.count(name) > 1:
            yield TableFault(line, name, "names two columns.")
    for name in required:
        if name not in names:
            yield TableFault(line, name, "is missing among the columns.")


def _row_faults(row: TableRow, cells: int, names: list[str], required: Sequence[str]) -> Iterator[TableFault]:
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
            rules.append(msgspec.convert(row.cells, SensorRule, strict=False))
        if len(rules) > RULES_MAX:
            faults.append(TableFault(row.line, "", f"has more than {RULES_MAX} rules before it."))
            break
    return Sensors(rules), faults


def _faults(row: TableRow) -> Iterator[TableFault]:
    resource, index = row.cells["resource"], row.cells.get("index", "0")
    if not _RESOURCE.fullmatch(resource):
        message = f"{resource[:40]!r} is not a resource, such as power_w>system, or ignore."
        yield TableFault(row.line, "resource", message)
    elif resource != IGNORED:
        yield from _resource_faults(row.line, resource, row.cells.get("unit"))
    if not _INDEX.fullmatch(index):
        yield TableFault(row.line, "index", f"must be a whole number, not {index[:40]!r}.")


def _resource_faults(line: int, resource: str, unit: str | None) -> Iterator[TableFault]:
    quantity = quantity_of(resource)
    name, _, peer = resource.partition(PEER)
    units = [unit for unit, (measures, _) in FACTORS.items() if measures == quantity]
    if unit not in (*units, *([] if quantity else [None])):
        yield TableFault(line, "unit", f"must be one of {', '.join(units)} for {name}.")
    elif quantity and peer.partition(":")[0] not in COMPONENTS:
        texts = ", ".join(f"{name}>{component}" for component in COMPONENTS)
        message = f"{resource!r} names no component: use {texts}, with :INDEX for one of several."
        yield TableFault(line, "resource", message)


COLUMNS: Final = (
    "host", "system", "xname", "nid", "component_id", "aliases", "partition", "cores", "sockets", "power_max_w",
)  # fmt: skip
WHOLE_NUMBERS: Final = {
    "nid": (0, 10**12), "component_id": (0, 10**12), "cores": (1, 65_536), "sockets": (1, 65_536),
}  # fmt: skip
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
        faults += _system_faults(row.line, node.system, systems)
        names.take(node, row.line)
        nodes.append(node)
    return Nodes(nodes), faults


def _system_faults(line: int, system: str, systems: Collection[str]) -> Iterator[TableFault]:
    if systems and system and system not in systems:
        yield TableFault(line, "system", f"{system[:40]!r} is none of the systems {', '.join(systems)}.")


def _node(row: TableRow, faults: list[TableFault]) -> Node:
    cells = row.cells
    xname = cells.get("xname", "").lower()
    if xname and not _XNAME.fullmatch(xname):
        faults.append(TableFault(row.line, "xname", f"{xname[:40]!r} is not a node location, such as x9000c3s0b0n0."))
    aliases = (name for name in _ALIASES.split(cells.get("aliases", "")) if name)
    numbers = {field: _whole(row, field, low, high, faults) for field, (low, high) in WHOLE_NUMBERS.items()}
    return Node(
        host=cells["host"],
        system=cells.get("system", ""),
        xname=xname,
        aliases=tuple(dict.fromkeys(aliases)),
        partition=cells.get("partition", ""),
        power_max_w=_power_w(row, faults),
        **numbers,
    )


def _whole(row: TableRow, field: str, low: int, high: int, faults: list[TableFault]) -> int | None:
    text = row.cells.get(field)
    if text is None:
        return None
    if _WHOLE.fullmatch(text) and low <= int(text) <= high:
        return int(text)
    faults.append(TableFault(row.line, field, f"must be a whole number of {low} to {high}, not {text[:40]!r}."))
    return None


def _power_w(row: TableRow, faults: list[TableFault]) -> float | None:
    text = row.cells.get("power_max_w")
    if text is None:
        return None
    with suppress(ValueError):
        if 0.0 < (power_w := float(text)) <= POWER_MAX_W:
            return power_w
    message = f"must be a power in W of up to {POWER_MAX_W:g}, not {text[:40]!r}."
    faults.append(TableFault(row.line, "power_max_w", message))
    return None


class _Names:
    """Maps each name to its node, by system; a name of a node without a system is taken in all systems."""

    def __init__(self, faults: list[TableFault]) -> None:
        self._faults = faults
        self._owners: dict[tuple[str, str | int], dict[str, tuple[Node, int]]] = {}

    def take(self, node: Node, line: int) -> None:
        """Add the names of a node; a name of another node is an error."""
        texts = [("host", node.host), ("xname", node.xname), *(("aliases", alias) for alias in node.aliases)]
        names: list[tuple[str, str, str | int | None]] = [(field, "", text.lower()) for field, text in texts if text]
        names += [("nid", "nid", node.nid), ("component_id", "component_id", node.component_id)]
        for field, kind, name in names:
            if name is None:
                continue
            by_system = self._owners.setdefault((kind, name), {})
            owner = by_system.get(node.system) or by_system.get("")
            if owner is None and not node.system:
                owner = next(iter(by_system.values()), None)
            if owner is None:
                by_system[node.system] = (node, line)
            elif owner[0] is not node:
                message = f"{name!r} already stands for {owner[0].host} (line {owner[1]})."
                self._faults.append(TableFault(line, field, message))


RACK_COLUMNS: Final = ("host", "rack", "system")
NAME_MAX: Final = 64  # maximum characters of a rack name, which becomes a label of alerts
_TOPOLOGY: Final = re.compile(r"\s*(SwitchName|BlockName)\s*=", re.IGNORECASE)


def read_racks(text: str, systems: Collection[str] = ()) -> tuple[tuple[RackHosts, ...], list[TableFault]]:
    """Return the racks of a file, and all errors in the file; a host in two racks is an error.

    The file has one of these forms: a table of hosts (or host lists in quotes) and their racks; Slurm's topology.conf; the output of
    ``scontrol show topology``. In the last two, each block is a rack, and so is each switch that has nodes but no lower switches.
    """
    faults: list[TableFault] = []
    rows = _leaves(text) if is_topology(text) else read_table(text, RACK_COLUMNS, ("host", "rack"), faults)
    hosts, racks = _HostLines(systems, RACK_HOSTS_MAX), []
    for row in rows:
        rack = RackHosts(row.cells["rack"], row.cells["host"], row.cells.get("system", ""))
        wrong = hosts.faults(row.line, rack.hosts, rack.system, ("rack", rack.rack))
        faults += wrong
        if not wrong:
            racks.append(rack)
    return tuple(racks), faults


class _HostLines:
    """Maps each host to its rack (empty for the table of switches) and the line that lists it, by system."""

    def __init__(self, systems: Collection[str], hosts_max: int) -> None:
        self._systems, self._hosts_max = systems, hosts_max
        self._first: dict[tuple[str, str], tuple[str, int]] = {}

    def faults(self, line: int, hosts: str, system: str, *names: tuple[str, str]) -> list[TableFault]:
        """Return the errors in a line that puts `hosts` into a rack or below switches; `names` are pairs of column and name in the line.

        Two lines may list the same host only if they name the same rack.
        """
        faults = [
            TableFault(line, column, f"must be a name of at most {NAME_MAX} characters.")
            for column, name in names
            if len(name) > NAME_MAX or not name.isprintable()
        ]
        faults += _system_faults(line, system, self._systems)
        try:
            expanded = expand(hosts, self._hosts_max - len(self._first))
        except InvalidInputError as error:
            return [*faults, TableFault(line, "host", str(error))]
        rack = next((name for column, name in names if column == "rack"), "")
        for host in expanded:
            first_rack, first_line = self._first.setdefault((system, host), (rack, line))
            if first_rack != rack or (not rack and first_line != line):
                place = f"is in rack {first_rack}" if rack else "has a place"
                return [*faults, TableFault(line, "host", f"{host!r} {place} already (line {first_line}).")]
        return faults


def is_topology(text: str) -> bool:
    """Return whether a text is a Slurm topology instead of a table."""
    lines = (line for line in text.removeprefix("\ufeff").splitlines() if line.split("#")[0].strip())
    return _TOPOLOGY.match(next(lines, "")) is not None


def _leaves(text: str) -> Iterator[TableRow]:
    """Yield the leaf switches and blocks of a topology as rows of a table of racks."""
    for row in topology_rows(text):
        name, hosts = row.cells.get("switchname") or row.cells.get("blockname"), row.cells.get("nodes", "")
        if name and hosts not in NO_HOSTS and row.cells.get("switches", "") in NO_HOSTS:
            yield TableRow(row.line, {"host": hosts, "rack": name})


def topology_rows(text: str) -> Iterator[TableRow]:
    """Yield one row, with lower-case keys, for each switch or block of a topology; a backslash at the end of a line continues the line."""
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
            yield TableRow(number, cells)


INTENSITY_COLUMNS: Final = ("time", "g_per_kwh")
G_PER_KWH_MAX: Final = 10_000.0  # ten times the intensity of the dirtiest coal power


def read_intensities(text: str) -> tuple[tuple[Intensity, ...], list[TableFault]]:
    """Return the carbon intensities of a file, and all errors in the file; times must ascend."""
    faults: list[TableFault] = []
    intensities: list[Intensity] = []
    for row in read_table(text, INTENSITY_COLUMNS, INTENSITY_COLUMNS, faults):
        time_ms, g_per_kwh = None, math.nan
        with suppress(ValueError, InvalidInputError):
            # a local time is refused, because it is ambiguous for one hour per year
            if datetime.fromisoformat(row.cells["time"]).tzinfo is not None:
                time_ms = parse_rfc3339(row.cells["time"])
        with suppress(ValueError):
            g_per_kwh = float(row.cells["g_per_kwh"])
        is_intensity = 0 <= g_per_kwh <= G_PER_KWH_MAX
        if not is_intensity:
            faults.append(TableFault(row.line, "g_per_kwh", f"is not a number from 0 to {G_PER_KWH_MAX:g}."))
        if time_ms is None:
            faults.append(TableFault(row.line, "time", "is not a time with a zone, such as 2026-11-16T00:00:00Z."))
        elif is_intensity and intensities and time_ms <= intensities[-1].time_ms:
            faults.append(TableFault(row.line, "time", "is not later than the time before it."))
        elif is_intensity:
            intensities.append(Intensity(time_ms, g_per_kwh))
    return tuple(intensities), faults


COORDINATES: Final = ("x", "y", "z", "a", "b", "c", "d", "e")
SWITCHES: Final = ("group", "switch")
PLACE_COLUMNS: Final = ("host", *COORDINATES, *SWITCHES, "system")
LEVELS_MAX: Final = 16
TORUS_NODES_MAX: Final = 10**12  # limit that lets each link of the torus have a number
_COORDINATE: Final = re.compile(r"[0-9]{1,5}")


def read_topology(text: str, systems: Collection[str] = ()) -> tuple[tuple[HostPlace, ...], list[TableFault]]:
    """Return the network positions of the hosts in a file, and all errors in the file; a host with two positions is an error.

    The file has one of these forms: a table of hosts (or host lists in quotes) with torus coordinates, or with a switch and a group
    of switches; Slurm's topology.conf; the output of ``scontrol show topology``. The largest coordinate in a torus dimension sets the
    length of the ring.
    """
    faults: list[TableFault] = []
    rows = _slurm_places(text, faults) if is_topology(text) else _table_places(text, faults)
    hosts, places = _HostLines(systems, PLACED_HOSTS_MAX), []
    for line, place in rows:
        wrong = hosts.faults(line, place.hosts, place.system, *(("switch", name) for name in place.switches))
        faults += wrong
        if not wrong:
            places.append(place)
    coordinates = (place.coordinates for place in places if place.coordinates)
    if prod(max(dimension) + 1 for dimension in zip(*coordinates, strict=False)) > TORUS_NODES_MAX:
        faults.append(TableFault(1, "", f"is a torus of more than {TORUS_NODES_MAX} nodes."))
    return tuple(places), faults


def _table_places(text: str, faults: list[TableFault]) -> Iterator[tuple[int, HostPlace]]:
    columns: tuple[str, ...] | None = None
    for row in read_table(text, PLACE_COLUMNS, ("host",), faults):
        columns_of_row = tuple(name for name in row.cells if name in (*COORDINATES, *SWITCHES))
        columns = columns or columns_of_row
        wrong = next(_place_faults(row, columns_of_row, columns), None)
        if wrong is not None:
            faults.append(wrong)
            continue
        coordinates = tuple(int(row.cells[name]) for name in columns_of_row if name in COORDINATES)
        switches = tuple(row.cells[name] for name in SWITCHES if name in columns_of_row)
        yield row.line, HostPlace(row.cells["host"], coordinates, switches, row.cells.get("system", ""))


def _place_faults(row: TableRow, names: tuple[str, ...], columns: tuple[str, ...]) -> Iterator[TableFault]:
    """Yield the errors in the columns of a row that give the network position."""
    coordinates = [name for name in names if name in COORDINATES]
    if not names or (coordinates and len(coordinates) < len(names)):
        yield TableFault(row.line, "", "needs coordinates, or a switch and maybe its group, and not both.")
    elif names != columns:
        yield TableFault(row.line, "", f"needs {', '.join(columns)}, as the rows before it.")
    elif names == SWITCHES[:1]:
        yield TableFault(row.line, "switch", "is missing.")
    for name in coordinates:
        if not _COORDINATE.fullmatch(row.cells[name]):
            yield TableFault(row.line, name, f"must be a whole number of 0 to 99999, not {row.cells[name][:40]!r}.")


def _slurm_places(text: str, faults: list[TableFault]) -> Iterator[tuple[int, HostPlace]]:
    """Yield the leaf switches of a topology with the switches above them; the output of `scontrol` has several switch levels."""
    above: dict[str, str] = {}
    leaves: list[tuple[int, str, str]] = []
    for row in topology_rows(text):
        name, below = row.cells.get("switchname") or row.cells.get("blockname"), row.cells.get("switches", "")
        hosts = row.cells.get("nodes", "")
        if not name:
            continue
        if below not in NO_HOSTS:
            try:
                above |= dict.fromkeys(expand(below, PLACED_HOSTS_MAX), name)
            except InvalidInputError as error:
                faults.append(TableFault(row.line, "switches", str(error)))
        elif hosts not in NO_HOSTS:
            leaves.append((row.line, name, hosts))
    for line, name, hosts in leaves:
        path = [name]
        while (upper := above.get(path[-1])) is not None and len(path) <= LEVELS_MAX:
            path.append(upper)
        if len(path) > LEVELS_MAX:
            faults.append(TableFault(line, "switches", f"{name[:40]!r} has more than {LEVELS_MAX} switches above it."))
            continue
        yield line, HostPlace(hosts, (), tuple(reversed(path)))
