"""Machines: what the nodes of a system are, by the configuration and by the allocations of the jobs that ran there."""

from typing import TypeVar

from processors.contracts.events import JobCompleted
from processors.contracts.names import ApplicationKey, escaped
from processors.pipeline.state import ShardState
from processors.run_time.machine import Allocations, Machine, NodeShapes, allocation, machine_of
from processors.store import Store

P = TypeVar("P", Allocations, NodeShapes)


class Machines:
    """Learns from the jobs of one shard what their nodes are, and at which sizes a curve may bend."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def learn(self, application_id: str, event: JobCompleted) -> None:
        """Take in what a run was given, for its application and for its system."""
        given = allocation(event)
        if not (given.partition or given.cores_per_node or given.cores_each):
            return  # it says nothing
        own = self._state.allocations.open(application_id)
        own.learn(given)
        self._state.allocations.changed(application_id, own, self._state.now_ms)
        system = application_id.partition("/")[0]
        if not given.cores_per_node and system not in self._state.node_shapes:
            return
        nodes = self._state.node_shapes.open(system)
        nodes.learn(given)
        if len(nodes):
            self._state.node_shapes.changed(system, nodes, self._state.now_ms)

    def forget(self, application_id: str, event: JobCompleted) -> None:
        """Take away what a run was given: it is another application's, or no run to learn from."""
        run, system = allocation(event).run, escaped(ApplicationKey.parse(application_id).system)
        self._forget(self._state.allocations, application_id, run)
        self._forget(self._state.node_shapes, system, run)

    def _forget(self, store: Store[P], key: str, run: int) -> None:
        known = store.get(key)
        if known is None:
            return
        known.forget(run)
        if len(known):
            store.changed(key, known, self._state.now_ms)
        else:
            store.remove(key)

    def of_partition(self, system: str, partition: str | None) -> Machine:
        """Return what the nodes of a partition are; without one what is configured for the system."""
        nodes = self._state.node_shapes.get(escaped(system))
        return machine_of(self._state.settings.run_time, system, nodes, partition)

    def bends(self, key: ApplicationKey) -> tuple[float, ...]:
        """Return the sizes at which an application fills a memory domain, a socket or a node, in its own unit."""
        own = self._state.allocations.get(key.id)
        each = own.cores_each if own is not None and key.unit == "processes" else 1
        return self.of_partition(key.system, own.partition if own is not None else None).bends(key.unit, each)
