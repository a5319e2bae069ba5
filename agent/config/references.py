"""Reference files about nodes, sensors, racks, network, carbon and maintenance, and their content."""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Final, TypeVar

import msgspec
from pydantic import Field

from agent.config.calendar import Windows, read_calendar
from agent.config.yaml import InvalidConfigError, Problem, open_regular
from agent.reference.nodes import FAULTS_MAX, TableFault, read_intensities, read_nodes, read_racks, read_units
from agent.reference.topology import read_topology
from processors.contracts.alerts import Maintenance
from processors.contracts.nodes import NO_NODES, HostPlace, Intensity, Nodes
from processors.contracts.racks import RackHosts
from processors.contracts.settings import MachineSettings, RunTimeSettings, Settings
from processors.contracts.telemetry import NO_SENSORS, Sensors

FILE_BYTES_MAX: Final = 32 * 1024 * 1024
RETAINED_MAX: Final = 2
TABLES: Final = ("nodes", "units", "racks", "topology", "carbon")

CalendarFile = Annotated[str, Field(min_length=1, max_length=4096)]
Content = TypeVar("Content")
Reader = Callable[[str], tuple[Content, list[TableFault]]]


class ReferenceSettings(Settings):
    """Files with facts about hosts, sensors, racks, the network, carbon and maintenance; paths are relative to the configuration."""

    nodes: str | None = Field(
        default=None,
        max_length=4096,
        description="CSV file of nodes with the columns host (as in host lists of jobs), system, xname, nid, component_id, aliases, "
        "partition, cores, sockets, power_max_w",
    )
    units: str | None = Field(
        default=None,
        max_length=4096,
        description="CSV file of sensors, which overrides the built-in knowledge; columns: message, physical_context, parental_context, "
        "sub_context, device_context, index, location, source, resource, unit",
    )
    racks: str | None = Field(
        default=None,
        max_length=4096,
        description="file of racks, which overrides guesses from host names: CSV with the columns host (or a quoted host list), rack and, "
        "for several systems, system; or Slurm's topology.conf or the output of `scontrol show topology`, where each lowest switch or "
        "block is a rack",
    )
    topology: str | None = Field(
        default=None,
        max_length=4096,
        description="file of the network topology, used for placement features of runs: CSV with the columns host (or a quoted host list), "
        "for several systems system, and either torus coordinates (any of x, y, z, a, b, c, d, e), or group and switch, or switch "
        "alone; or Slurm's topology.conf or the output of `scontrol show topology`",
    )
    carbon: str | None = Field(
        default=None,
        max_length=4096,
        description="CSV file of carbon intensity over time for `scalewatch report --energy`; columns: time (RFC 3339 with a zone, "
        "ascending) and g_per_kwh. A value holds until the next one, at most for `energy.carbon_hold_s`",
    )

    calendar: tuple[CalendarFile, ...] = Field(
        default=(),
        max_length=64,
        description="files with maintenance windows in addition to alerts.maintenance: the output of `scontrol show reservations --json`, "
        "where reservations with the flag MAINT count, or YAML with the key maintenance as in alerts",
    )

    def below(self, folder: FilePath) -> "ReferenceSettings":
        """Return the settings with paths resolved against a folder."""
        paths = {name: str(folder / path) for name in TABLES if (path := getattr(self, name)) is not None}
        return self.model_copy(update={**paths, "calendar": tuple(str(folder / path) for path in self.calendar)})


class References(msgspec.Struct, frozen=True):
    """Content of the reference files."""

    nodes: Nodes = NO_NODES
    sensors: Sensors = NO_SENSORS
    maintenance: Windows = ()
    racks: tuple[RackHosts, ...] = ()
    carbon: tuple[Intensity, ...] = ()
    topology: tuple[HostPlace, ...] = ()


_RETAINED: Final[dict[ReferenceSettings, References]] = {}


def read_references(
    settings: ReferenceSettings, systems: Collection[str] = (), clusters: Collection[str] = ()
) -> tuple[References, list[Problem]]:
    """Return the content of the files and all problems in them.

    If `systems` are listed, nodes, racks and places must belong to one of them; likewise reservations and `clusters`.
    """
    problems: list[Problem] = []
    nodes = (
        NO_NODES
        if settings.nodes is None
        else _read(settings.nodes, partial(read_nodes, systems=systems), NO_NODES, problems)
    )
    sensors = NO_SENSORS if settings.units is None else _read(settings.units, read_units, NO_SENSORS, problems)
    of_systems = partial(read_racks, systems=systems)
    racks: tuple[RackHosts, ...] = () if settings.racks is None else _read(settings.racks, of_systems, (), problems)
    topology: tuple[HostPlace, ...] = ()
    if settings.topology is not None:
        topology = _read(settings.topology, partial(read_topology, systems=systems), (), problems)
    carbon: tuple[Intensity, ...] = ()
    if settings.carbon is not None:
        carbon = _read(settings.carbon, read_intensities, (), problems)
    maintenance: list[Maintenance] = []
    for path in settings.calendar:
        if (text := _text(path, problems)) is not None:
            windows, wrong = read_calendar(text, path, clusters)
            maintenance += windows
            problems += wrong[:FAULTS_MAX]
    return References(nodes, sensors, tuple(maintenance), racks, carbon, topology), problems


def references(settings: ReferenceSettings) -> References:
    """Return the content of the files at the load of the configuration; InvalidConfigError lists all problems."""
    if settings not in _RETAINED:  # every source asks, and reading the files of a large centre takes a second
        content, problems = read_references(settings)
        if problems:
            raise InvalidConfigError(problems)
        retain(settings, content)
    return _RETAINED[settings]


def retain(settings: ReferenceSettings, content: References) -> None:
    """Make `references` return this content from now on, even if the files change."""
    _RETAINED.pop(settings, None)
    _RETAINED[settings] = content
    while len(_RETAINED) > RETAINED_MAX:
        del _RETAINED[next(iter(_RETAINED))]


def with_machines(settings: RunTimeSettings, nodes: Nodes) -> RunTimeSettings:
    """Return the settings with hardware from the file of nodes for each system and partition that does not configure it.

    A system with several kinds of nodes gets none, because the kind that an application runs on is unknown.
    """
    listed: dict[str, set[tuple[int | None, int | None]]] = {}
    for node in nodes:
        for name in {node.system, f"{node.system}/{node.partition}"} if node.system else ():
            listed.setdefault(name, set()).add((node.cores, node.sockets))
    alike = {name: next(iter(kinds)) for name, kinds in listed.items() if len(kinds) == 1}
    machines = {
        name: MachineSettings(cores_per_node=cores, sockets_per_node=sockets)
        for name, (cores, sockets) in alike.items()
    }
    configured = {
        name: machines.get(name, machine).model_copy(update=machine.model_dump(exclude_none=True))
        for name, machine in settings.machines.items()
    }
    return settings.model_copy(update={"machines": machines | configured})


def _read(path: str, read: Reader[Content], nothing: Content, problems: list[Problem]) -> Content:
    text = _text(path, problems)
    if text is None:
        return nothing
    content, faults = read(text)
    problems += [_problem(path, fault) for fault in faults[:FAULTS_MAX]]
    if len(faults) > FAULTS_MAX:
        problems.append(Problem(path, 0, 0, (), f"and {len(faults) - FAULTS_MAX} more problems."))
    return content


def _problem(path: str, fault: TableFault) -> Problem:
    return Problem(path, fault.line, 1, (fault.field,) if fault.field else (), fault.message)


def _text(path: str, problems: list[Problem]) -> str | None:
    try:
        with open_regular(FilePath(path)) as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            problems.append(Problem(path, 0, 0, (), f"is longer than {FILE_BYTES_MAX} bytes."))
            return None
        return content.decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        problems.append(Problem(path, 0, 0, (), f"cannot be read: {reason}."))
        return None
