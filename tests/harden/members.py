"""The processes that are killed: two collectors and two learners of one configuration, each started again when it has ended."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from agent.log.kafka.client import ClientName
from tests.harden.traffic import SYSTEMS
from tests.kit.agent_process import AgentProcess, write_config
from tests.kit.ports import free_ports

PREFIX: Final = "kills"
SOURCE: Final = "kills-raw"
EACH: Final = 2
LOOK_S: Final = 0.02
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "kafka": {"session_timeout_s": 3.0},  # a successor waits as long for the partitions of the dead
    "collector": {"tick_s": 0.5},
    "learner": {"checkpoint_interval_s": 1.0},
    "jobs": {"settle_max_s": 5.0},
    "systems": {system: {"partition": number} for number, system in enumerate(SYSTEMS)},
    "topics": {"prefix": PREFIX, "journal_partitions": len(SYSTEMS)},
}


class Members:
    """All roles as processes; `look` starts again what has ended by itself."""

    def __init__(self, folder: Path, bootstrap: str, client: ClientName) -> None:
        self.client = client
        self.by_role: dict[str, list[AgentProcess]] = {"collector": [], "learner": []}
        self.kills: Counter[str] = Counter()
        for number in range(EACH):
            for role, members in self.by_role.items():
                own = folder / f"{role}-{number}"
                own.mkdir()
                sources = [{"topics": [SOURCE], "format": "native"}]
                path = write_config(own, bootstrap, PREFIX, sources, client, **SETTINGS)
                _own_port(path)
                members.append(AgentProcess(path, role))
        self.config = self.by_role["learner"][0].config

    @property
    def all(self) -> list[AgentProcess]:
        """Every member."""
        return [member for members in self.by_role.values() for member in members]

    def ready(self) -> bool:
        """Return whether every member is."""
        return all(member.ready(str(member.role)) for member in self.all)

    def look(self) -> None:
        """Start what is not running."""
        for member in self.all:
            if not member.running():
                member.start()

    def kill(self, member: AgentProcess, when: str) -> None:
        """Kill a process and start it again at once."""
        member.kill()
        self.kills[f"{member.role}, {when}"] += 1
        member.start()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.until(lambda: False, seconds)

    def until(self, true: Callable[[], object], timeout_s: float) -> bool:
        """Wait until something is so, and start meanwhile what ends by itself; return whether it came to be."""
        deadline = time.monotonic() + timeout_s
        while not true():
            if time.monotonic() > deadline:
                return False
            self.look()
            time.sleep(LOOK_S)
        return True

    def owner(self, shard: int) -> AgentProcess | None:
        """Return the learner that has a shard, as it says itself."""
        for member in self.by_role["learner"]:
            answer = member.get("learner", "/readyz")
            if answer is not None and any(shard in role["partitions"] for role in answer.json().get("roles", ())):
                return member
        return None

    def ended_by_themselves(self) -> int:
        """Return how often a process ended that nobody had killed."""
        return sum(member.starts for member in self.all) - len(self.all) - self.kills.total()

    def leave(self, role: str) -> None:
        """Let the processes of a role leave in order."""
        for member in self.by_role[role]:
            if member.running():
                member.stop()

    def end(self) -> None:
        """End everything."""
        for member in self.all:
            with suppress(OSError):
                member.__exit__()


def _own_port(path: Path) -> None:
    """Give a configuration a port of its own; everything else is that of all others."""
    settings = yaml.safe_load(path.read_text())
    settings["http"]["port"] = free_ports(2).start
    path.write_text(yaml.safe_dump(settings))
