"""Fits: models that are due are fitted anew, published, and looked at for alerts.

It happens at ticks only, so it does not depend on how records were batched; the oldest wait goes first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from processors.alerts import applications
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Prediction, Tombstone, UsefulSizes
from processors.fairness import lane_of_application, lane_of_user
from processors.models.adept.verdict import gather_evidence
from processors.models.combination.combine import foretell, learn, summary
from processors.models.combination.evidence import Curve, Related, evidence_of
from processors.models.combination.replay import ForecastRows, rows
from processors.pipeline.alerts import Warnings
from processors.pipeline.completions import DriftDetection
from processors.pipeline.features import Features
from processors.pipeline.inputs import Machines, UnseenInputs
from processors.pipeline.load import UnderLoads
from processors.pipeline.power import Power
from processors.pipeline.predictor import Predictor, Prepared, Question
from processors.pipeline.similar_runs import SimilarRunForecasts
from processors.pipeline.stage import CompletionWork, TickWork, guard
from processors.pipeline.state import CENTRE, ShardState, related_curves_key
from processors.power.by_size import published_powers, relied_on, with_least_energy
from processors.run_time.members import ahead
from processors.run_time.messages import as_reference, model_of, of_similar_runs, prediction, with_similar_runs
from processors.run_time.model import RunTime
from processors.run_time.prediction import foretold_sizes
from processors.run_time.related_curves import CurveRecord
from processors.similar_runs import ALIKE_MIN, NOT_BY_SIZE, reliability
from processors.store import FULL_TICK_MS, share


class CurveTransfer:
    """Lets the curves of one application, and of the centre, learn from each other how well each ensemble member did."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._machines = Machines(state)

    def learn(self, key: ApplicationKey, model: RunTime) -> None:
        """Let a curve that has changed enough inform the others of its application, and the centre."""
        related_curves = self._state.related_curves.open(related_curves_key(key))
        found = model.evidence(key.id, key.system, self._machines.bends(key))
        if found is None or not related_curves.due(key.id, found, runs=model.observations):
            return
        before, own = related_curves.share, summary(found)
        record = CurveRecord(key.id, key.system, own.losses, model.observations, own.inside, own.ln_n, own.ln_t)
        self._publish_anew(related_curves.reaching_less(record))
        related_curves.learn(record)
        related = related_curves.related
        related_curves.transferred(
            learn(
                [made for curve in related_curves.replayed if (made := self._rows(curve, related)) is not None],
                self._state.coefficients_of(key),
            )
        )
        self._state.related_curves.changed(related_curves_key(key), related_curves, self._state.now_ms)
        pool = self._state.pool.open(CENTRE)
        if pool.score((before, related_curves.share)):
            pool.learn((before, related_curves.share))
            self._state.pool.changed(CENTRE, pool, self._state.now_ms)

    def _publish_anew(self, curves: Sequence[str]) -> None:
        """Let curves be published anew: another one of their application is known further out than before."""
        for application_id in curves:
            model = self._state.models.get(application_id)
            if model is not None:
                model.republish(self._state.now_ms)
                self._state.model_changed(application_id, model)

    def _rows(self, application_id: str, related: Related) -> ForecastRows | None:
        key = ApplicationKey.parse(application_id)
        model = self._state.models.get(application_id)
        found = model.evidence(key.id, key.system, self._machines.bends(key)) if model else None
        gate = self._state.coefficients_of(key).gate
        return rows(gate, found, related) if found is not None else None


T = TypeVar("T")
SLICE: Final = (
    16  # curves that are fitted together: more gain little, and what is done of all at once is not interrupted
)


CALM_FITS: Final = 64  # of a system in ten seconds: a fortieth of a core, where no more are wanted
WAIT_MS: Final = 60_000  # after which a model is fitted that is due


def _evenly(waiting: int, longest_ms: int, since_ms: int) -> int:
    """Return how many of those that wait are fitted at a tick, if ticks go on like this and the last is not to be late."""
    ticks = max((WAIT_MS - longest_ms) // max(since_ms, 1), 1)
    return -(-waiting // ticks)


def _batches(due: Sequence[str]) -> Iterator[list[str]]:
    """Yield applications in their order, those that are fitted together: curves of one application learn from each other."""
    batch: list[str] = []
    seen: set[str] = set()
    for application_id in due:
        shared = related_curves_key(ApplicationKey.parse(application_id))
        if shared in seen or len(batch) >= SLICE:
            yield batch
            batch, seen = [], set()
        batch.append(application_id)
        seen.add(shared)
    if batch:
        yield batch


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
        power: Power,
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

    def fit_curves(self, work: TickWork) -> None:
        """Fit and publish what is due, at most `fits_per_tick_max` in ten seconds; then evict what is too much.

        Each tick has its share of them, so that frequent ticks spread them and other records are folded meanwhile. Between
        any two fits the fold gives way to questions.
        """
        for batch in _batches(self._due(work.since_ms)):
            self._fit(batch)
        self._evict()

    def catch_up(self, work: CompletionWork) -> None:
        """Fit the curve that scores a run of long ago, if the curve lacks too many of the runs before it.

        History arrives faster than ticks, and bands of curves that lag behind hold fewer runs than they promise.
        """
        application_id = work.placement.application_id
        if application_id is None or not work.first or self._state.recent(work.event.end_ms):
            return
        model = self._state.models.get(application_id)
        if model is not None and model.lags:
            self._fit([application_id])

    def _due(self, since_ms: int) -> list[str]:
        """Return what is fitted at this tick: few of each system, and so many more that none waits for longer than WAIT_MS.

        With few of all systems together, a curve of a quiet system waited for half a minute beside a flood of another.
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

    def _fit(self, batch: Sequence[str]) -> None:
        """Fit and publish the curves of several applications: arrays of many cost little more than those of one.

        Each learns from what the centre knew at its turn, so that its numbers are those of one fit after the other.
        """
        unseen = self._of_each(batch, self._unseen_curve)
        with suppress(
            ValueError
        ):  # of a curve that is not valid: it fails at its turn, and the others are fitted one by one
            self._gather({application_id: curve for application_id, curve in unseen.items() if curve is not None})
        prepared = self._of_each(unseen, self._prepare)
        with suppress(ValueError):
            self._foretell({application_id: each for application_id, each in prepared.items() if each is not None})
        self._of_each(prepared, lambda application_id: self._publish(application_id, prepared[application_id]))
        self._predictor.begin()

    def _of_each(self, applications: Iterable[str], part: Callable[[str], T]) -> dict[str, T]:
        """Return a part of the fits of some applications, without those that fail: these must not stop the others."""
        found: dict[str, T] = {}
        for application_id in applications:
            with guard(self._state, RunTime.name, recover=partial(self._failed, application_id)):
                found[application_id] = part(application_id)
            self._state.give_way()
        return found

    def _unseen_curve(self, application_id: str) -> Curve | None:
        model, key = self._state.models.open(application_id), ApplicationKey.parse(application_id)
        return None if model.on_probation else model.unseen_curve(key.id, key.system, self._machines.bends(key))

    def _gather(self, unseen: Mapping[str, Curve]) -> None:
        """Gather what curves say of the laws, of all of them at once."""
        for application_id, found in zip(unseen, evidence_of(list(unseen.values())), strict=True):
            self._state.models.open(application_id).saw(found)

    def _prepare(self, application_id: str) -> Prepared | None:
        """Let a curve and the others learn from each other, and return what it is fitted from; None on probation."""
        model, key = self._state.models.open(application_id), ApplicationKey.parse(application_id)
        if model.on_probation:
            return None
        self._related.learn(key, model)
        return self._predictor.prepare(key, model)

    def _foretell(self, prepared: Mapping[str, Prepared]) -> None:
        """Let the laws predict the sizes that curves are told at, and gather what verdicts rest on, of all of them at once."""
        foretell(
            [
                (each.combination, [*foretold_sizes(each.sizes, n_max), *ahead(n_max)])
                for application_id, each in prepared.items()
                if each.combination is not None and (n_max := self._state.models.open(application_id).sizes()[-1])
            ]
        )
        self._state.give_way()
        gather_evidence([self._state.models.open(application_id).study().judge for application_id in prepared])

    def _behind(self, application_id: str) -> bool:
        """Return whether a model that was due waited for longer than ticks without a share would have let it."""
        due_ms = self._state.models.open(application_id).due_ms()
        return due_ms is not None and self._state.now_ms - due_ms >= FULL_TICK_MS

    def _publish(self, application_id: str, prepared: Prepared | None) -> None:
        model = self._state.models.open(application_id)
        if prepared is None:
            self._withdraw(application_id, model)
            return
        key, now_ms = ApplicationKey.parse(application_id), self._state.now_ms
        self._state.teach(model.teach())
        self._predictor.begin({application_id: prepared})
        forecast = self._predictor.forecast(key, model)
        members = self._state.members.open(application_id)
        ensemble = self._predictor.laws(key, model)
        curve = self._predictor.fit(key, model)
        flagged = self._unusual_sizes(key, model)
        points, found = self._predictor.points(
            Question(key.system, key, curve=curve), [point.n for point in curve.points]
        )
        points = self._power.answered(application_id, points)
        source = model_of(curve, members, ensemble)
        similar = next((found[n] for n in found if found[n].similar is not None), None)
        useful = with_least_energy(curve.useful or UsefulSizes(), relied_on(points))
        curve = msgspec.structs.replace(curve, power_w=published_powers(points), useful=useful)
        if similar is not None and self._similar_runs.not_by_size(key.id):
            curve = of_similar_runs(curve, points, reliability(ALIKE_MIN, NOT_BY_SIZE))
            source = as_reference(source, similar.model)
        elif similar is not None:  # of the one size that was run, or where they have the better record
            curve = with_similar_runs(curve, points)
        model.publish(curve, flagged)
        predicted = prediction(
            key,
            model,
            curve,
            points,
            self._state.settings.run_time,
            context=self._state.context,
            preferred_n=forecast.study.preferred_sizes or None,
            source=source,
        )
        predicted = self._power.predicted(application_id, predicted)
        predicted = msgspec.structs.replace(predicted, features=self._features.models(application_id))
        members.publish(ensemble)
        self._state.members.changed(application_id, members, now_ms)
        nobodys = self._state.models.lane(application_id) == lane_of_user(key.system, None)
        lane = lane_of_application(application_id) if nobodys else None  # what is published waits for no new names
        self._state.model_changed(application_id, model, lane)
        self._unseen_inputs.fitted(key, model)
        self._drift_detection.published(application_id)
        sent = self._under_loads.published(key, predicted, curve)
        if not self._state.settings.run_time.publish_members:
            sent = msgspec.structs.replace(sent, model=sent.model.slim)
        self._state.outbox.append(sent)
        self._state.tally["fit", "published"] += 1
        self._unreliable(key, predicted)

    def _withdraw(self, application_id: str, model: RunTime) -> None:
        # corrections took runs away: what is left would never have been published
        verdicts = self._state.settings.alerts.unreliable.verdicts
        key = ApplicationKey.parse(application_id)
        self._warnings.take(applications.forgotten(key, model.flagged, verdicts, self._state.now_ms))
        model.withdraw()
        self._state.members.remove(application_id)
        self._state.model_changed(application_id, model)
        self._state.outbox.append(Tombstone("predictions", application_id))

    def _failed(self, application_id: str) -> None:
        model = self._state.models.open(application_id)
        model.fit_failed(self._state.now_ms)
        self._state.model_changed(application_id, model)

    def _unusual_sizes(self, key: ApplicationKey, model: RunTime) -> list[tuple[str, float]]:
        settings = self._state.settings.alerts.slow_size
        if not model.study().anomalies and not model.flagged:
            return []
        known = settings.enabled and model.scatter() <= settings.scatter_max
        wanted = known and self._state.recent(model.newest_ms)  # history wakes nobody
        confirmed = model.observed().confirmed.keys() & set(model.sizes())  # neighbours that were merged are no size
        found = {
            (applications.SLOW_SIZE if size.direction == "slow" else applications.FAST_SIZE, size.n): (
                size.observed_s,
                size.expected_s,
            )
            for size in model.study().anomalies
            if wanted and size.n in confirmed and abs(size.deviation) >= settings.deviation_min
        }
        gone = [flag for flag in model.flagged if tuple(flag) not in found]
        now_ms = self._state.now_ms
        self._warnings.take(
            applications.unusual_size(key, name, n, None, settings=settings, now_ms=now_ms) for name, n in gone
        )
        self._warnings.take(
            applications.unusual_size(key, *flag, seen, settings=settings, now_ms=now_ms)
            for flag, seen in found.items()
        )
        return list(found)

    def _unreliable(self, key: ApplicationKey, predicted: Prediction) -> None:
        settings = self._state.settings.alerts.unreliable
        self._warnings.take(
            applications.unreliable(key, predicted.reliability, predicted.observations, settings, self._state.now_ms)
        )
        self._warnings.take(
            [applications.slows_down(predicted, self._state.settings.alerts.slows_down, self._state.now_ms)]
        )

    def _evict(self) -> None:
        excess = len(self._state.models) - self._state.settings.run_time.applications_max
        for application_id in self._state.models.longest_unused(excess, self._state.stale_ms):
            self._warnings.forget_application(application_id)
            self._state.tally["bound", "applications_max"] += 1
