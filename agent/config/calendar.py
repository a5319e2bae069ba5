"""Files of maintenance: the agent's own form, or what `scontrol show reservations --json` prints."""

import hashlib
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from agent.config.yaml import Problem, parse
from processors.contracts.alerts import AlertSettings, Maintenance
from processors.contracts.settings import Settings

WINDOWS_MAX: Final = 256  # of a file
MAINTENANCE: Final = "MAINT"
ALL_NODES: Final = "ALL_NODES"
FLOATING: Final = "TIME_FLOAT"  # its start stays ahead of now, so it never begins
TIME_MAX_S: Final = 253_402_300_799  # the end of the year 9999

Windows = tuple[Maintenance, ...]


class _Calendar(Settings):
    maintenance: Windows = Field(max_length=WINDOWS_MAX)


class _Number(msgspec.Struct, frozen=True):
    """A number of Slurm's JSON; versions before 23.11 write it plainly."""

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
    """Return the times of maintenance in a file, and everything that is wrong with it.

    Of Slurm's reservations those with the flag MAINT and nodes count. Where `clusters` are given, the file's has to be one of
    them. Without, hosts alone say what a reservation is about: a cluster may go by another name in records of jobs.
    """
    if _is_of_slurm(text):
        return _of_slurm(text, file, clusters)
    document = parse(text, file)
    if document.problems:
        return (), document.problems
    try:
        return _Calendar.model_validate(document.data).maintenance, []
    except ValidationError as error:
        return (), [document.problem(one["loc"], _message(one)) for one in error.errors()]


def with_windows(settings: AlertSettings, windows: Windows, systems_by_alias: dict[str, str]) -> AlertSettings:
    """Return the settings with further times of maintenance; a system's other name stands for the system."""
    named = (one.model_copy(update={"system": systems_by_alias.get(one.system or "", one.system)}) for one in windows)
    return settings.model_copy(update={"maintenance": (*settings.maintenance, *named)})


def digest(text: str) -> str:
    """Return a digest that changes with the times of maintenance in a text, not with when Slurm was asked."""
    windows, problems = read_calendar(text, "")
    content = text.encode() if problems else b"\n".join(one.model_dump_json().encode() for one in windows)
    return hashlib.sha256(content).hexdigest()


def _is_of_slurm(text: str) -> bool:
    with suppress(msgspec.MsgspecError):
        return "reservations" in _OBJECT.decode(text)
    return False


def _of_slurm(text: str, file: str, clusters: Collection[str]) -> tuple[Windows, list[Problem]]:
    try:
        found = _SLURM.decode(text)
    except msgspec.MsgspecError as error:
        return (), [Problem(file, 0, 0, (), f"is no JSON of `scontrol show reservations --json`: {error}.")]
    cluster = found.meta.slurm.cluster if clusters else ""
    if found.errors:
        reasons = "; ".join(one.description or one.error or "no reason" for one in found.errors)
        return (), [Problem(file, 0, 0, (), f"holds an error of Slurm in place of reservations: {reasons}.")]
    if cluster and cluster not in clusters:
        text = f"is of the cluster {cluster!r}: list it in systems, or as an alias of one."
        return (), [Problem(file, 0, 0, (), text)]
    windows: list[Maintenance] = []
    problems = []
    for one in found.reservations:
        if MAINTENANCE not in one.flags or FLOATING in one.flags or not one.node_list:
            continue
        try:
            windows.append(_window(one, cluster))
        except (ValidationError, ValueError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            problems.append(Problem(file, 0, 0, (), f"the reservation {one.name!r} is not understood: {reason}."))
    if len(windows) > WINDOWS_MAX:
        problems.append(Problem(file, 0, 0, (), f"has more than {WINDOWS_MAX} reservations with the flag MAINT."))
    return tuple(windows), problems


def _window(one: _Reservation, cluster: str) -> Maintenance:
    whole = bool(cluster) and ALL_NODES in one.flags  # also what is about no host
    return Maintenance(
        start=_moment(one.start_time),
        end=_moment(one.end_time),
        system=cluster or None,
        hosts=None if whole else one.node_list,
        comment=f"reservation {one.name}"[:256],
    )


def _moment(time: int | _Number) -> datetime:
    if isinstance(time, int):
        return datetime.fromtimestamp(min(max(time, 0), TIME_MAX_S), UTC)
    return _moment(TIME_MAX_S if time.infinite else time.number if time.set else 0)


def _message(error: ErrorDetails) -> str:
    known: dict[str, Any] = {
        "missing": "is missing.",
        "extra_forbidden": f"is no key here; use {', '.join(Maintenance.model_fields)}.",
        "model_type": "has to be a mapping with the key `maintenance`.",
    }
    kind = error["type"]
    text = str(error["ctx"]["error"]) if kind == "value_error" else error["msg"].lower()
    return str(known.get(kind, text if text.endswith(".") else f"{text}."))
