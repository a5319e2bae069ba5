"""The shape of nodes: cores of a memory domain, a socket and a node, and the sizes at which a curve may bend.

Threads and processes on a node share its memory: run times often stop falling at the size that fills a memory domain, a socket or a
node. A curve sized in nodes is beyond all of these bends at its first size. Configured core counts take precedence over core counts
from the allocations of jobs.
"""

from collections import Counter
from typing import ClassVar, Final, NamedTuple

import msgspec

from processors.contracts.events import JobCompleted
from processors.contracts.settings import RunTimeSettings
from processors.store import PlainProcessor, digest64

INSIDE_NODE: Final = frozenset({"threads", "cores", "processes"})
RUNS_MAX: Final = 16  # runs of an application
RUNS_MIN: Final = 3  # runs with the same number of cores per node before that number counts as the node's
PARTITIONS_MAX: Final = 64
COUNTS_MAX: Final = 16  # distinct core counts of a partition
NAME_BYTES_MAX: Final = 256
CORES_MAX: Final = 65_536


class Machine(NamedTuple):
    """The shape of the nodes that an application runs on; an unknown number is None."""

    cores_per_node: int | None = None
    sockets_per_node: int | None = None
    memory_domains_per_node: int | None = None

    def bends(self, unit: str, cores_each: int = 1) -> tuple[float, ...]:
        """Return the sizes that fill a memory domain, a socket and a node, ascending; empty if n counts whole nodes.

        `cores_each` is the number of cores of one thread or process. Size 1 is never a bend, because every curve begins there.
        """
        if self.cores_per_node is None or not counts_inside_a_node(unit):
            return ()
        parts = (self.memory_domains_per_node, self.sockets_per_node, 1)
        full = {self.cores_per_node / (part * cores_each) for part in parts if part is not None}
        return tuple(sorted(n for n in full if n > 1.0))


def counts_inside_a_node(unit: str) -> bool:
    """Return whether a unit counts parts of a node, such as cores."""
    return unit in INSIDE_NODE


class RunAllocation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The allocation of a run: partition, cores on each of its nodes, cores of each process; 0 if unknown."""

    end_ms: int
    run: int
    partition: str = ""
    cores_per_node: int = 0
    cores_each: int = 0


def allocation(event: JobCompleted) -> RunAllocation:
    """Return the allocation of a run; the cores per node are 0 if the nodes have unequal shares."""
    evidence = event.evidence
    cores, nodes = evidence.sizes.get("cores", 0.0), evidence.sizes.get("nodes", 0.0)
    share = cores / nodes if nodes >= 1.0 else 0.0
    whole = int(share) if share.is_integer() and share <= CORES_MAX else 0
    cpus_per_task = evidence.attributes.get("cpus_per_task")
    cores_each = cpus_per_task if isinstance(cpus_per_task, int) and 1 <= cpus_per_task <= CORES_MAX else 0
    partition = evidence.partition or ""
    partition_name = partition if len(partition.encode()) <= NAME_BYTES_MAX else ""
    return RunAllocation(event.end_ms, digest64(event.run_id), partition_name, whole, cores_each)


class Allocations(PlainProcessor, omit_defaults=True):
    """The allocations of the newest runs of an application, oldest first."""

    name: ClassVar[str] = "allocations"
    version: ClassVar[int] = 1

    runs: list[RunAllocation] = msgspec.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def partition(self) -> str | None:
        counts = Counter(run.partition for run in self.runs)
        return max(counts, key=lambda name: (counts[name], name), default=None)

    @property
    def cores_each(self) -> int:
        counts = Counter(run.cores_each for run in self.runs if run.cores_each)
        return max(counts, key=lambda cores: (counts[cores], -cores), default=1)

    def score(self, fact: RunAllocation) -> bool:
        """Return whether a run used the usual partition."""
        return fact.partition == self.partition

    def learn(self, fact: RunAllocation) -> None:
        """Learn a run; a corrected report replaces the earlier report of the run, and beyond the limit the oldest run is evicted."""
        self.forget(fact.run)
        self.runs = sorted([*self.runs, fact], key=lambda run: (run.end_ms, run.run))[-RUNS_MAX:]

    def forget(self, run: int) -> None:
        self.runs = [allocation for allocation in self.runs if allocation.run != run]


class NodeShapes(PlainProcessor, omit_defaults=True):
    """The number of cores per node of each partition, learned from the allocations of runs; the order of the runs does not matter.

    `runs` has the digests of at most RUNS_MIN runs, by partition and cores per node.
    """

    name: ClassVar[str] = "node_shapes"
    version: ClassVar[int] = 1

    runs: dict[str, dict[int, list[int]]] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.runs)

    def score(self, fact: str) -> int | None:
        """Return the cores per node of a partition: the largest number seen in enough runs; None without enough runs."""
        runs_by_cores = self.runs.get(fact, {})
        return max((cores for cores, runs in runs_by_cores.items() if len(runs) >= RUNS_MIN), default=None)

    def learn(self, fact: RunAllocation) -> None:
        """Learn a run. Beyond the limit the smallest core count is evicted, because jobs on shared nodes have few cores."""
        if not fact.cores_per_node or (fact.partition not in self.runs and len(self.runs) >= PARTITIONS_MAX):
            return
        runs_by_cores = dict(self.runs.get(fact.partition, {}))
        runs_by_cores[fact.cores_per_node] = sorted({*runs_by_cores.get(fact.cores_per_node, ()), fact.run})[:RUNS_MIN]
        if len(runs_by_cores) > COUNTS_MAX:
            del runs_by_cores[min(runs_by_cores)]
        partitions = self.runs | {fact.partition: dict(sorted(runs_by_cores.items()))}
        self.runs = dict(sorted(partitions.items()))

    def forget(self, run: int) -> None:
        retained = {
            name: {cores: left for cores, runs in by_cores.items() if (left := [held for held in runs if held != run])}
            for name, by_cores in self.runs.items()
        }
        self.runs = {name: by_cores for name, by_cores in retained.items() if by_cores}


class HostNodeShapes(NodeShapes):
    """The same as `NodeShapes`, but part of the host state, which has checkpoints of its own."""

    name: ClassVar[str] = "host_node_shapes"


def machine_of(
    settings: RunTimeSettings, system: str, shown: NodeShapes | None = None, partition: str | None = None
) -> Machine:
    """Return the node shape of a system by the settings; unconfigured cores come from the runs in a partition.

    Settings of a partition override the settings of its system, and settings of a system override the global ones. If the nodes of
    a partition have another number of cores than the system's nodes, the system's memory domains and sockets do not apply to the
    partition.
    """
    configured = [settings.machines.get(name) for name in (f"{system}/{partition}", system)]
    machines = [each for each in configured if each is not None]
    if len({each.cores_per_node for each in machines} - {None}) > 1:
        machines = machines[:1]
    shown_cores = shown.score(partition) if shown is not None and partition is not None else None
    return Machine(
        _first(*(each.cores_per_node for each in machines), settings.cores_per_node, shown_cores),
        _first(*(each.sockets_per_node for each in machines)),
        _first(*(each.memory_domains_per_node for each in machines)),
    )


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
