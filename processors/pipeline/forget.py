"""Removal of applications: those without runs, and the longest unused ones beyond `applications_max`."""

from processors.alerts import applications
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Tombstone
from processors.inputs import input_key
from processors.pipeline.alerts import Warnings
from processors.pipeline.stage import JobWork
from processors.pipeline.state import Emits, ShardState, inputs_key, related_curves_key
from processors.similar_runs import name_key


class Forgetting:
    """Removes applications: their state, their prediction and their alerts."""

    def __init__(self, state: ShardState, warnings: Warnings) -> None:
        self._state = state
        self._warnings = warnings

    def forget_emptied(self, work: JobWork) -> Emits[None]:
        """Forget the applications that lost their last run because of this record."""
        for application_id in work.emptied:
            yield from self.forget(application_id)

    def forget_excess_applications(self, _work: object) -> Emits[None]:
        """Forget the applications beyond `applications_max`, the longest unused first."""
        state = self._state
        for application_id in state.models.excess(state.settings.run_time.applications_max, state.stale_ms):
            yield from self.forget(application_id)
            state.tally["bound", "applications_max"] += 1

    def forget(self, application_id: str) -> Emits[None]:
        """Forget one application: end its alerts, remove its state, and withdraw its prediction."""
        model, key, now_ms = (
            self._state.models.get(application_id),
            ApplicationKey.parse(application_id),
            self._state.now_ms,
        )
        flagged = model.flagged if model else ()
        verdicts = self._state.settings.alerts.unreliable.verdicts
        yield from self._warnings.take(*applications.forgotten(key, flagged, verdicts, now_ms))
        if model is not None and model.transferred:
            self._state.teach((model.transferred, {}))
        for store in self._state.per_application:
            store.remove(application_id)
        self._state.similar_runs.remove(name_key(key.system, application_id))
        self._forget_shared(key)
        self._state.forget_unused_id(application_id)
        if model is not None and model.published is not None:  # a name that was run once leaves nothing behind
            yield Tombstone("predictions", application_id)

    def _forget_shared(self, key: ApplicationKey) -> None:
        """Remove an application from the state that its inputs share; its share in the pool of the centre stays."""
        state, curves_key = self._state, related_curves_key(key)
        related_curves = state.related_curves.get(curves_key)
        if related_curves is not None and related_curves.forget(key.id):
            state.related_curves.changed(curves_key, related_curves, state.now_ms)
        elif related_curves is not None:
            state.related_curves.remove(curves_key)
        inputs = state.inputs.get(inputs_key(key))
        if inputs is None or inputs.of(input_key(key)) is None:
            return
        if inputs.forget(input_key(key)):
            state.inputs.changed(inputs_key(key), inputs, state.now_ms)
        else:
            state.inputs.remove(inputs_key(key))
