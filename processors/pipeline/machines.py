"""Machines: what the nodes of a system are, by the configuration and by the allocations of the jobs that ran there."""

from processors.contracts.names import ApplicationKey, escaped
from processors.pipeline.stage import CompletionWork
from processors.pipeline.state import ShardState
from processors.run_time.machine import JobShape, Machine, machine_of


class Machines:
    """Learns from the jobs of one shard what their nodes are, and tells at which sizes a curve may bend."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def observe(self, work: CompletionWork) -> None:
        """Take in what a run was given, for its application and for its system; a corrected report says nothing new."""
        application_id = work.placement.application_id
        if not work.first or work.fact is None or application_id is None:
            return
        evidence = work.event.evidence
        shape = JobShape.of(evidence.sizes, evidence.partition, evidence.attributes.get("cpus_per_task"))
        for key in (application_id, _of_system(ApplicationKey.parse(application_id).system)):
            shown = self._state.allocations.open(key)
            shown.learn(shape)
            self._state.allocations.changed(key, shown, self._state.now_ms)

    def of(self, key: ApplicationKey) -> Machine:
        """Return what an application runs on: the nodes of the partition of most of its runs."""
        own = self._state.allocations.get(key.id)
        return self.of_partition(key.system, own.partition if own is not None else None)

    def of_partition(self, system: str, partition: str | None) -> Machine:
        """Return what the nodes of a partition are; without one what is configured for the system."""
        return machine_of(
            self._state.settings.run_time, system, self._state.allocations.get(_of_system(system)), partition
        )

    def bends(self, key: ApplicationKey) -> tuple[float, ...]:
        """Return the sizes at which an application fills a memory domain, a socket or a node, in its own unit."""
        own = self._state.allocations.get(key.id)
        each = own.cores_each if own is not None and key.unit == "processes" else 1
        return self.of(key).bends(key.unit, each)


def _of_system(system: str) -> str:
    """Return the key of all runs of a system; ids of applications have more parts."""
    return f"system/{escaped(system)}"
