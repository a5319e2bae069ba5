"""What the process that reads the configuration hands to the roles: the configuration in use, and how the last reload went.

Both lie in anonymous files in memory. A role that starts again gets the configuration that was accepted, whatever the file
on disk holds by then, and no secret is written to a disk.
"""

import os
import pickle
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from agent.config.references import references, retain
from agent.config.tree import Config
from processors.contracts.service import Measures

CONFIG_FD: Final = "SCALEWATCH_CONFIG_FD"
STATUS_FD: Final = "SCALEWATCH_STATUS_FD"


class Status(msgspec.Struct, frozen=True):
    """When the configuration in use was read, and of the last reload: the problems that refused it, the keys it left."""

    loaded_ms: int
    problems: int = 0
    waiting: int = 0


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
        config, known = pickle.loads(_content(self._config_fd))  # noqa: S301 - this user's own process wrote it
        retain(config.reference, known)
        return config  # type: ignore[no-any-return] # what was packed

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
    return pickle.dumps((config, references(config.reference)))


def _file(content: bytes) -> int:
    descriptor = os.memfd_create("scalewatch")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return descriptor


def _content(descriptor: int) -> bytes:
    """Return what is in a file; the place in it is shared between processes, so it is not used."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
