"""What the machine is: how many cores make up a memory domain, a socket and a node, and at which sizes a curve may bend.

Threads and processes share the memory of what they fill: run times often stop falling where a memory domain, a socket or a
node is full. A curve that is sized in nodes has passed all of these at its first size. What is configured counts first;
what is not is taken from jobs, whose allocation tells cores and nodes.
"""

from bisect import insort
from collections import Counter
from typing import ClassVar, Final, NamedTuple

import msgspec

from processors.contracts.events import JobCompleted
from processors.contracts.settings import RunTimeSettings
from processors.store import Untimed, digest64

INSIDE_NODE: Final = frozenset({"threads", "cores", "processes"})
RUNS_MAX: Final = 16  # of an application that are remembered
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


class Allocation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a run was given: its partition, cores on each of its nodes, cores of each process; 0 where it does not say."""

    end_ms: int
    run: int
    partition: str = ""
    cores_per_node: int = 0
    cores_each: int = 0


def allocation(event: JobCompleted) -> Allocation:
    """Return what a run was given; shares of nodes that are not equal say nothing about a node."""
    evidence = event.evidence
    cores, nodes = evidence.sizes.get("cores", 0.0), evidence.sizes.get("nodes", 0.0)
    share = cores / nodes if nodes >= 1.0 else 0.0
    whole = int(share) if share.is_integer() and share <= CORES_MAX else 0
    each = evidence.attributes.get("cpus_per_task")
    known = each if isinstance(each, int) and 1 <= each <= CORES_MAX else 0
    partition = evidence.partition or ""
    named = partition if len(partition.encode()) <= NAME_BYTES_MAX else ""
    return Allocation(event.end_ms, digest64(event.run_id), named, whole, known)


class AllocationsState(msgspec.Struct, omit_defaults=True):
    """Stored form: the newest runs, the oldest first."""

    runs: list[Allocation] = []


class Allocations(Untimed):
    """What the newest runs of an application were given."""

    name: ClassVar[str] = "allocations"
    version: ClassVar[int] = 1

    def __init__(self, state: AllocationsState) -> None:
        self._runs = {run.run: run for run in state.runs}
        self._rising = sorted([(run.end_ms, run.run) for run in self._runs.values()])

    @classmethod
    def build(cls, state: AllocationsState | None = None) -> "Allocations":
        """Return the allocations of a stored state, or none."""
        return cls(state or AllocationsState())

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def partition(self) -> str | None:
        """The partition of most runs."""
        found = Counter(run.partition for run in self._runs.values())
        return max(found, key=lambda name: (found[name], name), default=None)

    @property
    def cores_each(self) -> int:
        """The cores that a process has in most runs; 1 where no run tells."""
        found = Counter(run.cores_each for run in self._runs.values() if run.cores_each)
        return max(found, key=lambda cores: (found[cores], -cores), default=1)

    def score(self, fact: Allocation) -> bool:
        """Return whether a run is of the usual partition."""
        return fact.partition == self.partition

    def learn(self, fact: Allocation) -> None:
        """Take a run in; of too many the oldest is forgotten. A corrected report replaces the former."""
        self.forget(fact.run)
        self._runs[fact.run] = fact
        insort(self._rising, (fact.end_ms, fact.run))
        if len(self._runs) > RUNS_MAX:
            del self._runs[self._rising.pop(0)[1]]

    def forget(self, run: int) -> None:
        """Take a run away."""
        known = self._runs.pop(run, None)
        if known is not None:
            self._rising.remove((known.end_ms, run))

    def snapshot(self) -> AllocationsState:
        """Return the stored form."""
        return AllocationsState([self._runs[run] for _, run in self._rising])


class NodeShapesState(msgspec.Struct, omit_defaults=True):
    """Stored form: by partition, and by the cores that runs had on a node, the digests of some of them."""

    runs: dict[str, dict[int, list[int]]] = {}


class NodeShapes(Untimed):
    """How many cores the nodes of a system have, by what runs were given. Their order does not matter."""

    name: ClassVar[str] = "node_shapes"
    version: ClassVar[int] = 1

    def __init__(self, state: NodeShapesState) -> None:
        self._runs = {name: {cores: list(runs) for cores, runs in found.items()} for name, found in state.runs.items()}

    @classmethod
    def build(cls, state: NodeShapesState | None = None) -> "NodeShapes":
        """Return the nodes of a stored state, or none."""
        return cls(state or NodeShapesState())

    def __len__(self) -> int:
        return len(self._runs)

    def score(self, fact: str) -> int | None:
        """Return how many cores a node of a partition has: the most that some runs had; None where too few tell."""
        found = self._runs.get(fact, {})
        return max((cores for cores, runs in found.items() if len(runs) >= RUNS_MIN), default=None)

    def learn(self, fact: Allocation) -> None:
        """Take a run in. Jobs that share nodes have few cores of many: of too many counts the least is forgotten."""
        if not fact.cores_per_node or (fact.partition not in self._runs and len(self._runs) >= PARTITIONS_MAX):
            return
        found = self._runs.setdefault(fact.partition, {})
        found[fact.cores_per_node] = sorted({*found.get(fact.cores_per_node, ()), fact.run})[:RUNS_MIN]
        if len(found) > COUNTS_MAX:
            del found[min(found)]

    def forget(self, run: int) -> None:
        """Take a run away."""
        retained = {
            name: {cores: left for cores, runs in found.items() if (left := [each for each in runs if each != run])}
            for name, found in self._runs.items()
        }
        self._runs = {name: found for name, found in retained.items() if found}

    def snapshot(self) -> NodeShapesState:
        """Return the stored form."""
        return NodeShapesState({name: dict(sorted(found.items())) for name, found in sorted(self._runs.items())})


class HostNodeShapes(NodeShapes):
    """The same, as the fold of hosts learns it: its checkpoints are not those of the runs."""

    name: ClassVar[str] = "host_node_shapes"


def machine_of(
    settings: RunTimeSettings, system: str, shown: NodeShapes | None = None, partition: str | None = None
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
