"""What the machine is: how many cores make up a memory domain, a socket and a node, and at which sizes a curve may bend.

Threads and processes share the memory of what they fill: run times often stop falling where a memory domain, a socket or a
node is full. A curve that is sized in nodes has passed all of these at its first size. What is configured counts first;
what is not is taken from jobs, whose allocation tells cores and nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

import msgspec

from processors.contracts.settings import RunTimeSettings
from processors.store import Untimed

INSIDE_NODE: Final = frozenset({"threads", "cores", "processes"})
RUNS_MIN: Final = 3  # that had as many cores on a node, before it is believed to have them
PARTITIONS_MAX: Final = 64
COUNTS_MAX: Final = 16  # counts of cores that are told apart
NAME_BYTES_MAX: Final = 256
CORES_MAX: Final = 65_536


class Machine(NamedTuple):
    """The nodes that an application runs on; None where that is not known."""

    cores_per_node: int | None = None
    sockets_per_node: int | None = None
    memory_domains_per_node: int | None = None

    def bends(self, unit: str, cores_each: int = 1) -> tuple[float, ...]:
        """Return the sizes at which a memory domain, a socket and a node are full, rising; none where n counts whole nodes.

        `cores_each` is how many cores one thread or process has. A size of one is no bend: every curve begins there.
        """
        if self.cores_per_node is None or not counts_inside_a_node(unit):
            return ()
        parts = (self.memory_domains_per_node, self.sockets_per_node, 1)
        full = {self.cores_per_node / (part * cores_each) for part in parts if part is not None}
        return tuple(sorted(n for n in full if n > 1.0))


def counts_inside_a_node(unit: str) -> bool:
    """Return whether sizes in a unit count what shares a node, at least at first."""
    return unit in INSIDE_NODE


class JobShape(msgspec.Struct, frozen=True):
    """What the allocation of a job shows: its partition, cores on each of its nodes, and cores of each process."""

    partition: str = ""
    cores_per_node: int | None = None
    cores_each: int | None = None

    @classmethod
    def of(cls, sizes: Mapping[str, float], partition: str | None, cores_each: object) -> "JobShape":
        """Return the shape of a job from its sizes by unit; unequal shares of nodes say nothing about a node."""
        cores, nodes = sizes.get("cores", 0.0), sizes.get("nodes", 0.0)
        share = cores / nodes if nodes >= 1.0 else 0.0
        whole = int(share) if share.is_integer() and 1.0 <= share <= CORES_MAX else None
        each = cores_each if isinstance(cores_each, int) and 1 <= cores_each <= CORES_MAX else None
        known = partition if partition and len(partition.encode()) <= NAME_BYTES_MAX else ""
        return cls(known, whole, each)


class AllocationsState(msgspec.Struct, omit_defaults=True):
    """Stored form: runs by partition and by cores on a node (0: not known), and runs by cores of a process."""

    nodes: dict[str, dict[int, int]] = {}
    cores_each: dict[int, int] = {}


class Allocations(Untimed):
    """What jobs of an application, or of a whole system, were given. The order in which they ran does not matter."""

    name: ClassVar[str] = "allocations"
    version: ClassVar[int] = 1

    def __init__(self, state: AllocationsState) -> None:
        self._nodes = {partition: dict(runs) for partition, runs in state.nodes.items()}
        self._cores_each = dict(state.cores_each)

    @classmethod
    def build(cls, state: AllocationsState | None = None) -> "Allocations":
        """Return the allocations of a stored state, or none."""
        return cls(state or AllocationsState())

    @property
    def partition(self) -> str | None:
        """The partition of most runs."""
        return max(self._nodes, key=lambda name: (sum(self._nodes[name].values()), name), default=None)

    @property
    def cores_each(self) -> int:
        """The cores that a process has in most runs; 1 where no run tells."""
        return max(self._cores_each, key=lambda cores: (self._cores_each[cores], -cores), default=1)

    def score(self, fact: str) -> int | None:
        """Return how many cores a node of a partition has: the most that some runs had; None where too few tell."""
        return max(
            (cores for cores, runs in self._nodes.get(fact, {}).items() if cores and runs >= RUNS_MIN), default=None
        )

    def learn(self, fact: JobShape) -> None:
        """Take the allocation of a run in; each run once."""
        runs = self._nodes.setdefault(fact.partition, {})
        _count(runs, fact.cores_per_node or 0, min)  # jobs that share nodes have few cores of many
        if len(self._nodes) > PARTITIONS_MAX:
            del self._nodes[min(self._nodes, key=lambda name: (sum(self._nodes[name].values()), name))]
        if fact.cores_each is not None:
            _count(self._cores_each, fact.cores_each, max)

    def snapshot(self) -> AllocationsState:
        """Return the stored form."""
        return AllocationsState({name: dict(runs) for name, runs in self._nodes.items()}, dict(self._cores_each))


def _count(counts: dict[int, int], cores: int, least: Callable[[Iterable[int]], int]) -> None:
    """Count a run; of too many counts of cores the one that tells least is forgotten, whatever the order of runs."""
    counts[cores] = counts.get(cores, 0) + 1
    if len(counts) > COUNTS_MAX:
        del counts[least(counts)]


def machine_of(
    settings: RunTimeSettings, system: str, shown: Allocations | None = None, partition: str | None = None
) -> Machine:
    """Return what the nodes of a system are, as configured; cores that are not come from the runs in a partition of it.

    What is configured of the partition goes before what is of its system, and both before what is of all. Nodes of a
    partition that have other cores than those of the system have other parts too.
    """
    given = [settings.machines.get(name) for name in (f"{system}/{partition}", system)]
    known = [each for each in given if each is not None]
    if len({each.cores_per_node for each in known} - {None}) > 1:
        known = known[:1]
    shown_cores = shown.score(partition) if shown is not None and partition is not None else None
    return Machine(
        _first(*(each.cores_per_node for each in known), settings.cores_per_node, shown_cores),
        _first(*(each.sockets_per_node for each in known)),
        _first(*(each.memory_domains_per_node for each in known)),
    )


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
