"""What the process that reads the configuration hands to the roles: the configuration in use, and how the last reload went.

Both lie in anonymous files in memory. A role that starts again gets the configuration that was accepted, whatever the file
on disk holds by then, and no secret is written to a disk.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec
from pydantic import BaseModel, SecretStr

from agent.config.references import References, references, retain
from agent.config.tree import Config
from processors.contracts.alerts import Maintenance
from processors.contracts.nodes import HostPlace, Node, Nodes
from processors.contracts.racks import RackHosts
from processors.contracts.service import Measures
from processors.contracts.telemetry import SensorRule, Sensors

CONFIG_FD: Final = "SCALEWATCH_CONFIG_FD"
STATUS_FD: Final = "SCALEWATCH_STATUS_FD"


class Status(msgspec.Struct, frozen=True):
    """When the configuration in use was read, and of the last reload: the problems that refused it, the keys it left."""

    loaded_ms: int
    problems: int = 0
    waiting: int = 0


class _Packed(msgspec.Struct, frozen=True):
    """A configuration as plain data, and what is in the files that it names."""

    tree: dict[str, Any]
    nodes: tuple[Node, ...]
    sensors: tuple[SensorRule, ...]
    maintenance: tuple[dict[str, Any], ...]
    racks: tuple[RackHosts, ...]
    topology: tuple[HostPlace, ...]


class Handover:
    """The two files, by their descriptors; they live as long as a process has them open."""

    def __init__(self, config_fd: int, status_fd: int) -> None:
        self._config_fd, self._status_fd = config_fd, status_fd

    @classmethod
    def made(cls, config: Config, status: Status) -> Self:
        """Return new files with this content."""
        found = cls(_file(_packed(config)), _file(b""))
        found.write(status)
        return found

    @classmethod
    def inherited(cls) -> Self | None:
        """Return the files of the process before this one; None where there are none."""
        numbers = [os.environ.pop(name, None) for name in (CONFIG_FD, STATUS_FD)]
        if None in numbers:
            return None
        config_fd, status_fd = (int(number or "") for number in numbers)
        found = cls(config_fd, status_fd)
        found.pass_on(inheritable=False)
        return found

    def pass_on(self, *, inheritable: bool = True) -> None:
        """Let the program that this process becomes have the files; or no program that it starts."""
        for descriptor in self.descriptors:
            os.set_inheritable(descriptor, inheritable)

    @property
    def descriptors(self) -> tuple[int, int]:
        """The descriptors that a process below, or the next one, needs open."""
        return self._config_fd, self._status_fd

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which that process finds them."""
        return {CONFIG_FD: str(self._config_fd), STATUS_FD: str(self._status_fd)}

    def config(self) -> Config:
        """Return the configuration; `references` answers with the content of its files from now on."""
        packed = msgspec.json.decode(_content(self._config_fd), type=_Packed)
        config = Config.model_validate_json(msgspec.json.encode(packed.tree), strict=True)
        windows = tuple(Maintenance.model_validate(one) for one in packed.maintenance)
        known = References(Nodes(packed.nodes), Sensors(packed.sensors), windows, packed.racks, (), packed.topology)
        retain(config.reference, known)
        return config

    def replace(self, config: Config) -> None:
        """Put another configuration there, for processes that start from now on."""
        former, self._config_fd = self._config_fd, _file(_packed(config))
        os.close(former)  # a process that was started with it has its own descriptor

    def write(self, status: Status) -> None:
        """Say how the last reload went, to all processes that have the file."""
        content = msgspec.json.encode(status)
        os.pwrite(self._status_fd, content, 0)
        os.ftruncate(self._status_fd, len(content))

    def measure(self, measures: Measures) -> None:
        """Set the metrics of reloads; one that is written at this moment is left to the next look."""
        try:
            status = msgspec.json.decode(_content(self._status_fd), type=Status)
        except msgspec.DecodeError:
            return
        measures.set("scalewatch_config_loaded_timestamp_seconds", status.loaded_ms / 1000)
        measures.set("scalewatch_config_problems", status.problems)
        measures.set("scalewatch_config_keys_waiting", status.waiting)


def _packed(config: Config) -> bytes:
    known = references(config.reference)
    windows = tuple(_plain(one) for one in known.maintenance)
    packed = _Packed(_plain(config), tuple(known.nodes), known.sensors.rules, windows, known.racks, known.topology)
    return msgspec.json.encode(packed)


def _plain(value: Any) -> Any:
    """Return a part of the configuration as plain data, secrets with their values."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {name: _plain(below) for name, below in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _file(content: bytes) -> int:
    descriptor = os.memfd_create("scalewatch")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return descriptor


def _content(descriptor: int) -> bytes:
    """Return what is in a file; the place in it is shared between processes, so it is not used."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
