"""Files with the positions of hosts in the network: tables of coordinates or switches, or Slurm's topology."""

import re
from collections.abc import Collection, Iterator
from math import prod
from typing import Final

from agent.reference.nodes import NAME_MAX, Row, TableFault, is_topology, read_table, topology_rows
from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import NO_HOSTS, PLACED_HOSTS_MAX, HostPlace, expand

COORDINATES: Final = ("x", "y", "z", "a", "b", "c", "d", "e")
SWITCHES: Final = ("group", "switch")
COLUMNS: Final = ("host", *COORDINATES, *SWITCHES, "system")
LEVELS_MAX: Final = 16
NODES_MAX: Final = 10**12  # of a torus, so that each of its links has a number
_COORDINATE: Final = re.compile(r"[0-9]{1,5}")


def read_topology(text: str, systems: Collection[str] = ()) -> tuple[tuple[HostPlace, ...], list[TableFault]]:
    """Return the positions of the hosts in a file, and all errors in the file; a host with two positions is an error.

    The file is a table of hosts, or host lists in quotes, with their torus coordinates, or with their switch and group of
    switches; or Slurm's topology.conf; or the output of ``scontrol show topology``. The largest coordinate of a torus dimension
    sets the length of its ring.
    """
    faults: list[TableFault] = []
    rows = _slurm_places(text, faults) if is_topology(text) else _table_places(text, faults)
    checked = _Checked(faults, systems)
    found = tuple(place for line, place in rows if checked.take(line, place))
    sides = [max(each) + 1 for each in zip(*(place.coordinates for place in found if place.coordinates), strict=False)]
    if prod(sides) > NODES_MAX:
        faults.append(TableFault(1, "", f"is a torus of more than {NODES_MAX} nodes."))
    return found, faults


def _table_places(text: str, faults: list[TableFault]) -> Iterator[tuple[int, HostPlace]]:
    columns: tuple[str, ...] | None = None
    for row in read_table(text, COLUMNS, ("host",), faults):
        given = tuple(name for name in row.cells if name in (*COORDINATES, *SWITCHES))
        columns = columns or given
        wrong = next(_row_faults(row, given, columns), None)
        if wrong is not None:
            faults.append(wrong)
            continue
        coordinates = tuple(int(row.cells[name]) for name in given if name in COORDINATES)
        switches = tuple(row.cells[name] for name in SWITCHES if name in given)
        yield row.line, HostPlace(row.cells["host"], coordinates, switches, row.cells.get("system", ""))


def _row_faults(row: Row, given: tuple[str, ...], columns: tuple[str, ...]) -> Iterator[TableFault]:
    """Yield the errors in the position of a row."""
    of_torus = [name for name in given if name in COORDINATES]
    if not given or (of_torus and len(of_torus) < len(given)):
        yield TableFault(row.line, "", "needs coordinates, or a switch and maybe its group, and not both.")
    elif given != columns:
        yield TableFault(row.line, "", f"needs {', '.join(columns)}, as the rows before it.")
    elif given == SWITCHES[:1]:
        yield TableFault(row.line, "switch", "is missing.")
    for name in of_torus:
        if not _COORDINATE.fullmatch(row.cells[name]):
            yield TableFault(row.line, name, f"must be a whole number of 0 to 99999, not {row.cells[name][:40]!r}.")


def _slurm_places(text: str, faults: list[TableFault]) -> Iterator[tuple[int, HostPlace]]:
    """Yield the leaves of a topology with the switches above them; the output of `scontrol` has several levels of switches."""
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


class _Checked:
    """The position of each host, by system; a host without a system belongs to all systems."""

    def __init__(self, faults: list[TableFault], systems: Collection[str]) -> None:
        self._faults, self._systems = faults, systems
        self._first: dict[tuple[str, str], int] = {}

    def take(self, line: int, place: HostPlace) -> bool:
        """Return whether a position is valid; its errors are added to the faults."""
        wrong = next(self._wrong(line, place), None)
        self._faults += [wrong] if wrong is not None else []
        return wrong is None

    def _wrong(self, line: int, place: HostPlace) -> Iterator[TableFault]:
        if self._systems and place.system and place.system not in self._systems:
            names = ", ".join(self._systems)
            yield TableFault(line, "system", f"{place.system[:40]!r} is none of the systems {names}.")
        if any(len(name) > NAME_MAX for name in place.switches):
            yield TableFault(line, "switch", f"must be a name of at most {NAME_MAX} characters.")
        try:
            hosts = expand(place.hosts, PLACED_HOSTS_MAX - len(self._first))
        except InvalidInputError as error:
            yield TableFault(line, "host", str(error))
            return
        for host in hosts:
            first = self._first.setdefault((place.system, host), line)
            if first != line:
                yield TableFault(line, "host", f"{host!r} has a place already (line {first}).")
                return
