"""Reference files about nodes, sensors, racks, network, carbon and maintenance."""

import hashlib
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

import msgspec
from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from agent.config.yaml import InvalidConfigError, Problem, at_most, open_regular, parse
from agent.reference.nodes import (
    FAULTS_MAX,
    TableFault,
    read_intensities,
    read_nodes,
    read_racks,
    read_topology,
    read_units,
)
from processors.contracts.alerts import AlertSettings, Maintenance
from processors.contracts.nodes import NO_NODES, HostPlace, Intensity, Nodes, RackHosts
from processors.contracts.settings import MachineSettings, RunTimeSettings, Settings
from processors.contracts.telemetry import NO_SENSORS, Sensors

WINDOWS_MAX: Final = 256  # maximum number of maintenance windows per file
MAINTENANCE: Final = "MAINT"
ALL_NODES: Final = "ALL_NODES"
# a Slurm reservation with this flag never begins, because its start always lies ahead of the current time
FLOATING: Final = "TIME_FLOAT"
TIME_MAX_S: Final = 253_402_300_799  # the end of the year 9999

Windows = tuple[Maintenance, ...]


class _Calendar(Settings):
    maintenance: Windows = Field(max_length=WINDOWS_MAX)


class _Number(msgspec.Struct, frozen=True):
    """A number in Slurm's JSON since version 23.11; earlier versions write a plain number."""

    set: bool = True
    infinite: bool = False
    number: int = 0


class _Reservation(msgspec.Struct, frozen=True):
    name: str = ""
    flags: tuple[str, ...] = ()
    start_time: int | _Number = 0
    end_time: int | _Number = 0
    node_list: str | None = None


class _Controller(msgspec.Struct, frozen=True):
    cluster: str = ""


class _Meta(msgspec.Struct, frozen=True):
    slurm: _Controller = _Controller()


class _Error(msgspec.Struct, frozen=True):
    description: str | None = None
    error: str | None = None


class _Reservations(msgspec.Struct, frozen=True):
    reservations: tuple[_Reservation, ...]
    meta: _Meta = _Meta()
    errors: tuple[_Error, ...] = ()


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SLURM: Final = msgspec.json.Decoder(_Reservations)


def read_calendar(text: str, file: str, clusters: Collection[str] = ()) -> tuple[Windows, list[Problem]]:
    """Return the maintenance windows in a file, and all problems of the file.

    Slurm reservations count if they have nodes and the flag MAINT. If `clusters` is not empty, the file must be about one
    of these clusters. Otherwise only hosts are matched, because job records may use another name for the cluster.
    """
    if _is_from_slurm(text):
        return _reservations(text, file, clusters)
    document = parse(text, file)
    if document.problems:
        return (), document.problems
    try:
        return _Calendar.model_validate(document.data).maintenance, []
    except ValidationError as invalid:
        return (), [document.problem(error["loc"], _message(error)) for error in invalid.errors()]


def with_windows(settings: AlertSettings, windows: Windows, systems_by_alias: dict[str, str]) -> AlertSettings:
    """Return the settings extended by `windows`; the systems of the windows may be aliases."""
    renamed = (
        window.model_copy(update={"system": systems_by_alias.get(window.system or "", window.system)})
        for window in windows
    )
    return settings.model_copy(update={"maintenance": (*settings.maintenance, *renamed)})


def calendar_digest(text: str) -> str:
    """Return a digest of the maintenance windows in a text; the time when Slurm wrote the text does not change the digest."""
    windows, problems = read_calendar(text, "")
    content = text.encode() if problems else b"\n".join(window.model_dump_json().encode() for window in windows)
    return hashlib.sha256(content).hexdigest()


def _is_from_slurm(text: str) -> bool:
    with suppress(msgspec.MsgspecError):
        return "reservations" in _OBJECT.decode(text)
    return False


def _reservations(text: str, file: str, clusters: Collection[str]) -> tuple[Windows, list[Problem]]:
    try:
        answer = _SLURM.decode(text)
    except msgspec.MsgspecError as error:
        return (), [Problem(file, 0, 0, (), f"is not JSON of `scontrol show reservations --json`: {error}.")]
    cluster = answer.meta.slurm.cluster if clusters else ""
    if answer.errors:
        reasons = "; ".join(error.description or error.error or "no reason" for error in answer.errors)
        return (), [Problem(file, 0, 0, (), f"holds an error of Slurm in place of reservations: {reasons}.")]
    if cluster and cluster not in clusters:
        text = f"is of the cluster {cluster!r}: list it in systems, or as an alias of one."
        return (), [Problem(file, 0, 0, (), text)]
    windows: list[Maintenance] = []
    problems = []
    for reservation in answer.reservations:
        if MAINTENANCE not in reservation.flags or FLOATING in reservation.flags or not reservation.node_list:
            continue
        try:
            windows.append(_window(reservation, cluster))
        except (ValidationError, ValueError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            message = f"the reservation {reservation.name!r} is not understood: {reason}."
            problems.append(Problem(file, 0, 0, (), message))
    if len(windows) > WINDOWS_MAX:
        problems.append(Problem(file, 0, 0, (), f"has more than {WINDOWS_MAX} reservations with the flag MAINT."))
    return tuple(windows), problems


def _window(reservation: _Reservation, cluster: str) -> Maintenance:
    # a window for the whole cluster also applies to alerts that name no host
    whole = bool(cluster) and ALL_NODES in reservation.flags
    return Maintenance(
        start=_moment(reservation.start_time),
        end=_moment(reservation.end_time),
        system=cluster or None,
        hosts=None if whole else reservation.node_list,
        comment=f"reservation {reservation.name}"[:256],
    )


def _moment(time: int | _Number) -> datetime:
    if isinstance(time, int):
        return datetime.fromtimestamp(min(max(time, 0), TIME_MAX_S), UTC)
    return _moment(TIME_MAX_S if time.infinite else time.number if time.set else 0)


def _message(error: ErrorDetails) -> str:
    messages: dict[str, Any] = {
        "missing": "is missing.",
        "extra_forbidden": f"is not a key here; use {', '.join(Maintenance.model_fields)}.",
        "model_type": "has to be a mapping with the key `maintenance`.",
    }
    kind = error["type"]
    text = str(error["ctx"]["error"]) if kind == "value_error" else error["msg"].lower()
    return str(messages.get(kind, text if text.endswith(".") else f"{text}."))


FILE_BYTES_MAX: Final = 32 * 1024 * 1024
RETAINED_MAX: Final = 2
TABLES: Final = ("nodes", "units", "racks", "topology", "carbon")

Path = Annotated[str, Field(max_length=4096)]
CalendarFile = Annotated[str, Field(min_length=1, max_length=4096)]
Reader = Callable[[str], tuple[Any, list[TableFault]]]


class ReferenceSettings(Settings):
    """Files with facts about hosts, sensors, racks, the network, carbon and maintenance; paths are relative to the configuration."""

    nodes: Path | None = Field(
        default=None,
        description="CSV file of nodes with the columns host (as in host lists of jobs), system, xname, nid, component_id, aliases, "
        "partition, cores, sockets, power_max_w",
    )
    units: Path | None = Field(
        default=None,
        description="CSV file of sensors, which overrides the built-in knowledge; columns: message, physical_context, parental_context, "
        "sub_context, device_context, index, location, source, resource, unit",
    )
    racks: Path | None = Field(
        default=None,
        description="file of racks, which overrides guesses from host names: CSV with the columns host (or a quoted host list), rack and, "
        "for several systems, system; or Slurm's topology.conf or the output of `scontrol show topology`, where each lowest switch or "
        "block is a rack",
    )
    topology: Path | None = Field(
        default=None,
        description="file of the network topology, used for placement features of runs: CSV with the columns host (or a quoted host list), "
        "for several systems system, and either torus coordinates (any of x, y, z, a, b, c, d, e), or group and switch, or switch "
        "alone; or Slurm's topology.conf or the output of `scontrol show topology`",
    )
    carbon: Path | None = Field(
        default=None,
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
        """Return the settings with paths resolved against `folder`."""
        paths = {name: str(folder / path) for name in TABLES if (path := getattr(self, name)) is not None}
        return self.model_copy(update={**paths, "calendar": tuple(str(folder / path) for path in self.calendar)})


class References(msgspec.Struct, frozen=True):
    """The content of all reference files."""

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
    """Return the content of the reference files and all problems in them.

    If `systems` is not empty, each node, rack and network position must belong to one of these systems. If `clusters` is not
    empty, each reservation must belong to one of these clusters.
    """
    problems: list[Problem] = []

    tables: dict[str, tuple[str | None, Reader]] = {
        "nodes": (settings.nodes, partial(read_nodes, systems=systems)),
        "sensors": (settings.units, read_units),
        "racks": (settings.racks, partial(read_racks, systems=systems)),
        "topology": (settings.topology, partial(read_topology, systems=systems)),
        "carbon": (settings.carbon, read_intensities),
    }
    contents = {
        name: _content(text, path, reader, problems)
        for name, (path, reader) in tables.items()
        if path is not None and (text := _text(path, problems)) is not None
    }
    maintenance: list[Maintenance] = []
    for path in settings.calendar:
        if (text := _text(path, problems)) is not None:
            windows, wrong = read_calendar(text, path, clusters)
            maintenance += windows
            problems += wrong[:FAULTS_MAX]
    return References(**contents, maintenance=tuple(maintenance)), problems


def references(settings: ReferenceSettings) -> References:
    """Return the content of the reference files at the load of the configuration. Raise InvalidConfigError with all problems."""
    # cached, because each source calls this function, and reading the files of a large centre takes a second
    if settings not in _RETAINED:
        content, problems = read_references(settings)
        if problems:
            raise InvalidConfigError(problems)
        retain(settings, content)
    return _RETAINED[settings]


def retain(settings: ReferenceSettings, content: References) -> None:
    """Make `references` return `content` from now on, even if the files change."""
    _RETAINED.pop(settings, None)
    _RETAINED[settings] = content
    while len(_RETAINED) > RETAINED_MAX:
        del _RETAINED[next(iter(_RETAINED))]


def with_machines(settings: RunTimeSettings, nodes: Nodes) -> RunTimeSettings:
    """Return the settings with hardware from the file of nodes for each system and partition without configured hardware.

    A system with several kinds of nodes gets no hardware, because the kind of node that runs an application is unknown.
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


def _content(text: str, path: str, reader: Reader, problems: list[Problem]) -> Any:
    content, faults = reader(text)
    wrong = [Problem(path, fault.line, 1, (fault.field,) if fault.field else (), fault.message) for fault in faults]
    problems += at_most(wrong, FAULTS_MAX, path)
    return content


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
