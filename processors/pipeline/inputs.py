"""Predictions of an input with few or no runs from the other inputs of its application, learned from every run and fit."""

from typing import Final, TypeVar

from processors.contracts.events import JobCompleted
from processors.contracts.names import ApplicationKey, escaped
from processors.inputs import (
    ApplicationInputs,
    InputFact,
    Sizes,
    TransferPrediction,
    input_key,
    summarised,
    transfer_prediction,
)
from processors.pipeline.state import ShardState, inputs_key
from processors.run_time.machine import Allocations, Machine, NodeShapes, allocation, machine_of
from processors.run_time.model import RunTime
from processors.store import Store

NAMES_MAX: Final = 8  # more names than a configuration lists, so the configuration must have changed


class UnseenInputs:
    """Learns the sizes and run times of the inputs of an application, and from these predicts inputs that were never run."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def ran(self, application_id: str, sizes: Sizes, model: RunTime) -> None:
        """Record a run of an input with known sizes; the published curve changes only at its next fit."""
        if not sizes:
            return
        key = ApplicationKey.parse(application_id)
        known = self._known(key)
        names = _joined(known.names if known else (), sizes)
        record = known.of(input_key(key)) if known else None
        given = tuple(dict(sizes).get(name, 0.0) for name in names)
        if record is None or record.sizes != given or model.published is None:
            self._learn(key, names, given, model)

    def fitted(self, key: ApplicationKey, model: RunTime) -> None:
        """Update the stored run time of an input after a change of its runs or its curve; do nothing if its sizes are unknown."""
        known = self._known(key)
        record = known.of(input_key(key)) if known else None
        if known is not None and record is not None and model.observations:
            self._learn(key, known.names, record.sizes, model)

    def others(self, key: ApplicationKey, sizes: Sizes | None = None) -> TransferPrediction | None:
        """Return the prediction for an input from the other inputs; if `sizes` is None, the sizes of its own runs are used."""
        known = self._known(key)
        if known is None:
            return None
        if sizes is None:
            record = known.of(input_key(key))
            given = zip(known.names, record.sizes, strict=True) if record else ()
            sizes = tuple((name, size) for name, size in given if size)
        return transfer_prediction(known, key, sizes)

    def _known(self, key: ApplicationKey) -> ApplicationInputs | None:
        return self._state.inputs.get(inputs_key(key))

    def _learn(self, key: ApplicationKey, names: tuple[str, ...], sizes: tuple[float, ...], model: RunTime) -> None:
        known = self._state.inputs.open(inputs_key(key))
        fact = InputFact(names, summarised(input_key(key), sizes, model))
        if known.score(fact):
            if known.overflows(fact):
                self._state.tally["bound", "inputs_max"] += 1
            known.learn(fact)
            self._state.inputs.changed(inputs_key(key), known, self._state.now_ms)


def _joined(names: tuple[str, ...], sizes: Sizes) -> tuple[str, ...]:
    """Return the known `names` of input sizes, followed by new names in `sizes`; only the names in `sizes` if there are too many."""
    fresh = tuple(name for name, _ in sizes)
    joined = names + tuple(name for name in fresh if name not in names)
    return joined if len(joined) <= NAMES_MAX else fresh


P = TypeVar("P", Allocations, NodeShapes)


class Machines:
    """Learns the shapes of the nodes of a shard from its jobs; from these follow the sizes at which a curve may bend."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def learn(self, application_id: str, event: JobCompleted) -> None:
        """Learn the partition and the cores of a run: for its application, and for the node shapes of its system."""
        given = allocation(event)
        if not (given.partition or given.cores_per_node or given.cores_each):
            return  # the event has no allocation to learn
        self._state.allocations.learn(application_id, given, self._state.now_ms)
        system = application_id.partition("/")[0]
        if not given.cores_per_node and system not in self._state.node_shapes:
            return
        nodes = self._state.node_shapes.open(system)
        nodes.learn(given)
        if len(nodes):
            self._state.node_shapes.changed(system, nodes, self._state.now_ms)

    def forget(self, application_id: str, event: JobCompleted) -> None:
        """Remove the allocation of a run that now belongs to another application or that no model may learn."""
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
        """Return the node type of a partition; without a partition, the node type configured for the system."""
        nodes = self._state.node_shapes.get(escaped(system))
        return machine_of(self._state.settings.run_time, system, nodes, partition)

    def bends(self, key: ApplicationKey) -> tuple[float, ...]:
        """Return the sizes at which an application fills a memory domain, a socket or a node, in the unit of the application."""
        own = self._state.allocations.get(key.id)
        each = own.cores_each if own is not None and key.unit == "processes" else 1
        return self.of_partition(key.system, own.partition if own is not None else None).bends(key.unit, each)
