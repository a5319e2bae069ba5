"""The handover from the parent process to the roles: the current configuration, and the result of the last reload.

Both are stored in anonymous files in memory. So a role that restarts gets the accepted configuration, even if the file on
disk has changed since, and secrets never reach a disk.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec
from pydantic import BaseModel, SecretStr

from agent.config.references import References, references, retain
from agent.config.tree import Config
from processors.contracts.alerts import Maintenance
from processors.contracts.nodes import HostPlace, Node, Nodes, RackHosts
from processors.contracts.service import Measures
from processors.contracts.telemetry import SensorRule, Sensors

CONFIG_FD: Final = "SCALEWATCH_CONFIG_FD"
STATUS_FD: Final = "SCALEWATCH_STATUS_FD"


class Status(msgspec.Struct, frozen=True):
    """Status of the configuration: the time when it was read, and the numbers of errors and of keys that wait for a restart."""

    loaded_ms: int
    problems: int = 0
    waiting: int = 0


class _Packed(msgspec.Struct, frozen=True):
    """A configuration as plain data, with the content of its reference files."""

    tree: dict[str, Any]
    nodes: tuple[Node, ...]
    sensors: tuple[SensorRule, ...]
    maintenance: tuple[dict[str, Any], ...]
    racks: tuple[RackHosts, ...]
    topology: tuple[HostPlace, ...]


class Handover:
    """The file descriptors of the configuration and the status; a file exists as long as any process has it open."""

    def __init__(self, config_fd: int, status_fd: int) -> None:
        self._config_fd, self._status_fd = config_fd, status_fd

    @classmethod
    def made(cls, config: Config, status: Status) -> Self:
        handover = cls(_file(_packed(config)), _file(b""))
        handover.write(status)
        return handover

    @classmethod
    def inherited(cls) -> Self | None:
        """Return the files of the parent process; None without a parent."""
        numbers = [os.environ.pop(name, None) for name in (CONFIG_FD, STATUS_FD)]
        if None in numbers:
            return None
        config_fd, status_fd = (int(number or "") for number in numbers)
        handover = cls(config_fd, status_fd)
        handover.pass_on(inheritable=False)
        return handover

    def pass_on(self, *, inheritable: bool = True) -> None:
        """Set whether child processes, and the program that this process executes next, inherit the files."""
        for descriptor in self.descriptors:
            os.set_inheritable(descriptor, inheritable)

    @property
    def descriptors(self) -> tuple[int, int]:
        return self._config_fd, self._status_fd

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables in which a child process finds the file descriptors."""
        return {CONFIG_FD: str(self._config_fd), STATUS_FD: str(self._status_fd)}

    def config(self) -> Config:
        """Return the configuration, and serve `references` from the files that the parent handed over."""
        packed = msgspec.json.decode(_content(self._config_fd), type=_Packed)
        config = Config.model_validate_json(msgspec.json.encode(packed.tree), strict=True)
        windows = tuple(map(Maintenance.model_validate, packed.maintenance))
        content = References(Nodes(packed.nodes), Sensors(packed.sensors), windows, packed.racks, (), packed.topology)
        retain(config.reference, content)
        return config

    def replace(self, config: Config) -> None:
        """Replace the configuration for processes that start from now on."""
        former, self._config_fd = self._config_fd, _file(_packed(config))
        os.close(former)  # a process that started with the former file has its own descriptor

    def write(self, status: Status) -> None:
        """Store the outcome of the last reload for all processes."""
        content = msgspec.json.encode(status)
        os.pwrite(self._status_fd, content, 0)
        os.ftruncate(self._status_fd, len(content))

    def measure(self, measures: Measures) -> None:
        """Set the metrics about reloads from the stored status; leave the metrics unchanged while the status is being written."""
        try:
            status = msgspec.json.decode(_content(self._status_fd), type=Status)
        except msgspec.DecodeError:
            return
        measures.set("scalewatch_config_loaded_timestamp_seconds", status.loaded_ms / 1000)
        measures.set("scalewatch_config_problems", status.problems)
        measures.set("scalewatch_config_keys_waiting", status.waiting)


def _packed(config: Config) -> bytes:
    files = references(config.reference)
    windows = tuple(map(_plain, files.maintenance))
    packed = _Packed(_plain(config), tuple(files.nodes), files.sensors.rules, windows, files.racks, files.topology)
    return msgspec.json.encode(packed)


def _plain(value: Any) -> Any:
    """Return a part of the configuration as plain data, including the plain text of secrets."""
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
    """Return the content of a file. The shared read position is not used, because other processes would move it."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
