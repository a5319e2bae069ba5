"""Fits of run-time models: at ticks, the models that are due are fitted, published, and checked for alerts.

Fits happen at ticks only, so that they do not depend on how records are batched. The model that has waited longest goes first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from processors.alerts import applications, rules
from processors.contracts.names import ApplicationKey, lane_of_application, lane_of_user
from processors.contracts.outputs import Prediction, Tombstone, UsefulSizes
from processors.facts import PublishedCurve
from processors.models.adept.study import gather_evidence
from processors.models.combination.combine import foretell, learn, summary
from processors.models.combination.evidence import Curve, Related, evidence_of
from processors.models.combination.replay import ForecastRows, rows
from processors.pipeline.alerts import Warnings
from processors.pipeline.completions import DriftDetection
from processors.pipeline.features import Features
from processors.pipeline.inputs import Machines, UnseenInputs
from processors.pipeline.load import UnderLoads
from processors.pipeline.power import PowerPredictions
from processors.pipeline.predictor import Fitted, Predictor, Prepared, Question
from processors.pipeline.similar_runs import SimilarRunForecasts
from processors.pipeline.stage import CompletionWork, TickWork, guard
from processors.pipeline.state import CENTRE, Emits, Outgoing, ShardState, T, related_curves_key
from processors.power.by_size import published_powers, relied_on, with_least_energy
from processors.run_time.messages import as_reference, model_of, of_similar_runs, prediction, with_similar_runs
from processors.run_time.model import RunTime
from processors.run_time.prediction import foretold_sizes
from processors.run_time.related_curves import CurveRecord
from processors.similar_runs import ALIKE_MIN, NOT_BY_SIZE, reliability
from processors.store import FULL_TICK_MS, share


class CurveTransfer:
    """Transfers what one curve shows about the ensemble members to the related curves of its application and to the centre."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._machines = Machines(state)

    def learn(self, key: ApplicationKey, model: RunTime) -> None:
        """Transfer the scores of a curve if the curve has changed enough since the last transfer, see `RelatedCurves.due`."""
        related_curves = self._state.related_curves.open(related_curves_key(key))
        evidence = model.evidence(key.id, key.system, self._machines.bends(key))
        if evidence is None or not related_curves.due(key.id, evidence, runs=model.observations):
            return
        before, own = related_curves.share, summary(evidence)
        record = CurveRecord(key.id, key.system, own.losses, model.observations, own.ln_n, own.ln_t)
        self._republish(related_curves.reaching_less(record))
        related_curves.learn(record)
        related = related_curves.related
        replayed = (self._rows(curve, related) for curve in related_curves.replayed)
        related_curves.transferred(
            learn([of_curve for of_curve in replayed if of_curve is not None], self._state.coefficients_of(key))
        )
        self._state.related_curves.changed(related_curves_key(key), related_curves, self._state.now_ms)
        shares = before, related_curves.share
        if self._state.pool.open(CENTRE).score(shares):
            self._state.pool.learn(CENTRE, shares, self._state.now_ms)

    def _republish(self, curves: Sequence[str]) -> None:
        """Publish the predictions of `curves` again, because another curve of their application has gained larger sizes."""
        for application_id in curves:
            model = self._state.models.get(application_id)
            if model is not None:
                model.republish(self._state.now_ms)
                self._state.model_changed(application_id, model)

    def _rows(self, application_id: str, related: Related) -> ForecastRows | None:
        key = ApplicationKey.parse(application_id)
        model = self._state.models.get(application_id)
        evidence = model.evidence(key.id, key.system, self._machines.bends(key)) if model else None
        gate = self._state.coefficients_of(key).gate
        return rows(gate, evidence, related) if evidence is not None else None


SLICE: Final = 16  # curves fitted together; larger slices gain little, and a slice cannot be interrupted
CALM_FITS: Final = 64  # fits of a system in ten seconds, if no more are due: 2.5 % of a core
WAIT_MS: Final = 60_000  # the longest wait of a model that is due


def _evenly(waiting: int, longest_ms: int, since_ms: int) -> int:
    """Return how many of `waiting` models to fit at this tick, so that all are fitted before the longest wait exceeds WAIT_MS.

    `since_ms` is the time since the previous tick; the following ticks are assumed to be as long.
    """
    ticks = max((WAIT_MS - longest_ms) // max(since_ms, 1), 1)
    return -(-waiting // ticks)


def _batches(due: Sequence[str]) -> Iterator[list[str]]:
    """Yield the application ids in batches of at most SLICE, in order.

    A batch has only one curve of each application, because curves of one application learn from each other.
    """
    batch: list[str] = []
    applications_in_batch: set[str] = set()
    for application_id in due:
        shared = related_curves_key(ApplicationKey.parse(application_id))
        if shared in applications_in_batch or len(batch) >= SLICE:
            yield batch
            batch, applications_in_batch = [], set()
        batch.append(application_id)
        applications_in_batch.add(shared)
    if batch:
        yield batch


Sizes = Mapping[tuple[str, float], tuple[float, float]]
"""Unusual sizes: alert name and size, mapped to the observed and the expected run time in s."""


class FitQueue:
    """Fits and publishes the models of one shard."""

    def __init__(
        self,
        state: ShardState,
        warnings: Warnings,
        predictor: Predictor,
        similar_runs: SimilarRunForecasts,
        *,
        features: Features,
        unseen: UnseenInputs,
        power: PowerPredictions,
    ) -> None:
        self._state = state
        self._warnings = warnings
        self._predictor, self._similar_runs = predictor, similar_runs
        self._related, self._machines = CurveTransfer(state), Machines(state)
        self._unseen_inputs = unseen
        self._under_loads = UnderLoads(state)
        self._features = features
        self._drift_detection = DriftDetection(state, warnings)
        self._power = power

    def fit_curves(self, work: TickWork) -> Emits[None]:
        """Fit and publish the models that are due, at most `fits_per_tick_max` in ten seconds.

        The fits are spread evenly over the ticks, so that other records are processed in between. Requests are answered after
        each fit.
        """
        for batch in _batches(self._due(work.since_ms)):
            yield from self._fit(batch)

    def catch_up(self, work: CompletionWork) -> Iterable[Outgoing]:
        """Fit the curve before an old run is scored, if a large share of the earlier runs is missing from it.

        Replayed runs arrive faster than ticks. Without this fit, an outdated curve would miss many of them with its bands.
        """
        application_id = work.report.placement.application_id
        if application_id is None or work.report.kind != "first" or self._state.recent(work.event.end_ms):
            return ()
        model = self._state.models.get(application_id)
        return self._fit([application_id]) if model is not None and model.lags else ()

    def _due(self, since_ms: int) -> list[str]:
        """Return the applications to fit now: a few of each system, and more if a model would otherwise wait longer than WAIT_MS.

        With one limit for all systems together, a curve of a quiet system waited half a minute for the many fits of another system.
        """
        models, now_ms = self._state.models, self._state.now_ms
        most = share(self._state.settings.run_time.fits_per_tick_max, now_ms, since_ms)
        calm = share(CALM_FITS, now_ms, since_ms)
        due = models.due(now_ms, most, calm)
        self._state.waiting_fits = Counter()
        if len(due) < min(calm, most):
            return due
        waiting = models.overdue(now_ms)
        wanted = _evenly(waiting.lanes.total() + len(due), waiting.longest_ms, since_ms)
        if more := models.due(now_ms, max(min(wanted, most) - len(due), 0)):
            waiting = models.overdue(now_ms)
        due += more
        self._state.waiting_fits = waiting.lanes
        if len(due) == most and (since_ms >= FULL_TICK_MS or (due and self._behind(due[-1]))):
            self._state.tally["bound", "fits_per_tick_max"] += 1
        return due

    def _fit(self, batch: Sequence[str]) -> Emits[None]:
        """Fit and publish the curves of several applications together; with arrays, a batch takes hardly longer than one fit.

        The curves learn from the centre one after the other, so the result is the same as that of separate fits in this order.
        """
        unseen = self._of_each(batch, self._unseen_curve)
        with suppress(ValueError):  # an invalid curve fails in its own fit; all curves are then fitted one by one
            self._gather({application_id: curve for application_id, curve in unseen.items() if curve is not None})
        prepared = self._of_each(unseen, self._prepare)
        with suppress(ValueError):
            self._foretell(
                {application_id: inputs for application_id, inputs in prepared.items() if inputs is not None}
            )
        for application_id, inputs in prepared.items():
            with guard(self._state, RunTime.name, recover=partial(self._failed, application_id)):
                yield from self._publish(application_id, inputs)
            self._state.give_way()

    def _of_each(self, applications: Iterable[str], part: Callable[[str], T]) -> dict[str, T]:
        """Return the result of one part of the fit for each application; a failed fit is left out and does not stop the others."""
        results: dict[str, T] = {}
        for application_id in applications:
            with guard(self._state, RunTime.name, recover=partial(self._failed, application_id)):
                results[application_id] = part(application_id)
            self._state.give_way()
        return results

    def _unseen_curve(self, application_id: str) -> Curve | None:
        model, key = self._state.models.open(application_id), ApplicationKey.parse(application_id)
        return None if model.on_probation else model.unseen_curve(key.id, key.system, self._machines.bends(key))

    def _gather(self, unseen: Mapping[str, Curve]) -> None:
        """Compute the evidence of all curves in one step, and store it in their models."""
        for application_id, evidence in zip(unseen, evidence_of(list(unseen.values())), strict=True):
            self._state.models.open(application_id).saw(evidence)

    def _prepare(self, application_id: str) -> Prepared | None:
        """Return the input of a fit, after the curve and its related curves have learned from each other.

        None if the model is on probation: then its prediction is withdrawn.
        """
        model, key = self._state.models.open(application_id), ApplicationKey.parse(application_id)
        if model.on_probation:
            return None
        self._related.learn(key, model)
        return self._predictor.prepare(key, model)

    def _foretell(self, prepared: Mapping[str, Prepared]) -> None:
        """Compute the run times by each law and the evidence for the verdicts, for all curves in one step, and cache both."""
        foretell(
            [
                (inputs.combination, foretold_sizes(inputs.sizes, n_max))
                for application_id, inputs in prepared.items()
                if inputs.combination is not None and (n_max := self._state.models.open(application_id).sizes()[-1])
            ]
        )
        self._state.give_way()
        gather_evidence([self._state.models.open(application_id).study() for application_id in prepared])

    def _behind(self, application_id: str) -> bool:
        """Return whether a model has been due for at least FULL_TICK_MS."""
        due_ms = self._state.models.open(application_id).due_ms()
        return due_ms is not None and self._state.now_ms - due_ms >= FULL_TICK_MS

    def _publish(self, application_id: str, prepared: Prepared | None) -> Emits[None]:
        """Fit a curve and build its message, and only then store and send both, so that an exception changes no state."""
        model = self._state.models.open(application_id)
        if prepared is None:
            yield from self._withdraw(application_id, model)
            return
        fitted = self._predictor.fitted(ApplicationKey.parse(application_id), model, prepared)
        curve, message = self._published(fitted)
        yield from self._write(fitted, curve, message, self._unusual_sizes(model))

    def _published(self, fitted: Fitted) -> tuple[PublishedCurve, Prediction]:
        """Return the curve and the message of a fit: with power, and with similar runs if they predict better than the curve."""
        key, curve = fitted.key, fitted.curve
        question = Question(key.system, key, fitted=fitted)
        points, predicted = self._predictor.points(question, [point.n for point in curve.points])
        points = self._power.answered(key.id, points)
        source = model_of(curve, self._state.members.open(key.id), fitted.laws)
        similar = next((found for found in predicted.values() if found.similar is not None), None)
        useful = with_least_energy(curve.useful or UsefulSizes(), relied_on(points))
        curve = msgspec.structs.replace(curve, power_w=published_powers(points), useful=useful)
        if similar is not None and self._similar_runs.not_by_size(key.id):
            curve = of_similar_runs(curve, points, reliability(ALIKE_MIN, NOT_BY_SIZE))
            source = as_reference(source, similar.model)
        # similar runs predict if only one size was run, or at the sizes where they were more accurate
        elif similar is not None:
            curve = with_similar_runs(curve, points)
        message = prediction(
            key,
            fitted.model,
            curve,
            points,
            self._state.settings.run_time,
            context=self._state.context,
            preferred_n=fitted.forecast.study.preferred_sizes or None,
            source=source,
        )
        message = self._power.predicted(key.id, message)
        message = msgspec.structs.replace(message, features=self._features.models(key.id))
        return curve, self._under_loads.published(key, message, curve)

    def _write(self, fitted: Fitted, curve: PublishedCurve, message: Prediction, unusual: Sizes) -> Emits[None]:
        """Store a published fit in all states, and send its message and the alerts that follow from the fit."""
        (key, model, *_), state = fitted, self._state
        yield from self._report_unusual(key, model, unusual)
        state.teach(model.teach())
        model.publish(curve, list(unusual))
        members = state.members.open(key.id)
        members.publish(fitted.laws)
        state.members.changed(key.id, members, state.now_ms)
        nobodys = state.models.lane(key.id) == lane_of_user(key.system, None)
        # a published model gets a lane of its own, so that it does not compete with new names that nobody has run before
        state.model_changed(key.id, model, lane_of_application(key.id) if nobodys else None)
        self._unseen_inputs.fitted(key, model)
        self._drift_detection.published(key.id)
        yield message
        state.tally["fit", "published"] += 1
        rules, now_ms = state.settings.alerts, state.now_ms
        yield from self._warnings.take(
            *applications.unreliable(key, message.reliability, message.observations, rules.unreliable, now_ms),
            applications.slows_down(message, rules.slows_down, now_ms),
        )

    def _withdraw(self, application_id: str, model: RunTime) -> Emits[None]:
        """Withdraw a prediction: after corrections, too few runs are left for a curve."""
        verdicts = self._state.settings.alerts.unreliable.verdicts
        key = ApplicationKey.parse(application_id)
        ends = applications.forgotten(key, model.flagged, verdicts, self._state.now_ms, withdrawn=True)
        yield from self._warnings.take(*ends)
        model.withdraw()
        self._state.members.remove(application_id)
        self._state.model_changed(application_id, model)
        yield Tombstone("predictions", application_id)

    def _failed(self, application_id: str) -> None:
        model = self._state.models.open(application_id)
        model.fit_failed(self._state.now_ms)
        self._state.model_changed(application_id, model)

    def _unusual_sizes(self, model: RunTime) -> Sizes:
        """Return the sizes to raise alerts about: sizes with many runs that deviate clearly from the other sizes.

        Empty if the run times of the application scatter too widely, or if its newest run is old.
        """
        settings = self._state.settings.alerts.slow_size
        if not model.study().anomalies or not settings.enabled or model.scatter() > settings.scatter_max:
            return {}
        if not self._state.recent(model.newest_ms):
            return {}  # old runs raise no alerts
        # a size merged from neighbours was never run
        confirmed = model.observed().apart.keys() & set(model.sizes())
        return {
            (rules.SLOW_SIZE.name if size.direction == "slow" else rules.FAST_SIZE.name, size.n): (
                size.observed_s,
                size.expected_s,
            )
            for size in model.study().anomalies
            if size.n in confirmed and abs(size.deviation) >= settings.deviation_min
        }

    def _report_unusual(self, key: ApplicationKey, model: RunTime, unusual: Sizes) -> Emits[None]:
        settings, now_ms = self._state.settings.alerts.slow_size, self._state.now_ms
        ended = [(name, n) for name, n in model.flagged if (name, n) not in unusual]
        for (name, n), times_s in [*((flag, None) for flag in ended), *unusual.items()]:
            condition = applications.unusual_size(key, name, n, times_s, settings=settings, now_ms=now_ms)
            yield from self._warnings.take(condition)
