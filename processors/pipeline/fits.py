"""Refits: models that are due are fitted anew, published, and looked at for alerts.

It happens at ticks only, so it does not depend on how records were batched; the oldest wait goes first.
"""

import msgspec

from processors import similar_runs
from processors.alerts import applications
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Prediction
from processors.models.combination.combine import SHIPPED, Combination, learn, summary
from processors.models.combination.evidence import SiblingSummary
from processors.models.combination.replay import Rows, rows
from processors.pipeline.alerts import Warnings
from processors.pipeline.completions import Watch
from processors.pipeline.features import Features
from processors.pipeline.inputs import Unseen
from processors.pipeline.load import UnderLoads
from processors.pipeline.power import Power
from processors.pipeline.similar_runs import Histories
from processors.pipeline.state import Desk, Tombstone, laws_key
from processors.power.by_size import told_powers
from processors.run_time.members import Fits, Members
from processors.run_time.messages import fits, model_of, prediction, published_curve
from processors.run_time.model import RunTime
from processors.run_time.prediction import Outlook
from processors.run_time.related_curves import CurveRecord, Laws, Pool
from processors.similar_runs import ComingJob
from processors.store import FULL_TICK_MS, share

# How curves teach each other: records of an application's laws, offsets, and scores pooled over the centre.


CENTRE = "centre"


class Teaching:
    """Builds the outlook of an application from its own curve and what others have taught."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._unseen = Unseen(desk)

    def outlook(self, key: ApplicationKey, model: RunTime) -> Outlook:
        """Return how an application looks now; changes nothing."""
        others = self._unseen.leaned_on(key, model)
        return Outlook(model.study(), self._combination(key, model, self._laws(key)), others, model.observed().scatter)

    def learn(self, key: ApplicationKey, model: RunTime) -> None:
        """Let a curve that has changed enough teach the others of its application, and the centre."""
        laws = self._laws(key)
        found = model.evidence(key.id, key.system)
        if found is None or not laws.due(key.id, sizes=found.k, runs=model.observations):
            return
        before = laws.share
        taught = summary(found)
        laws.learn(CurveRecord(key.id, key.system, taught.losses, model.observations, taught.inside))
        siblings = laws.siblings
        laws.taught(learn([made for curve in laws.curves if (made := self._rows(curve, siblings)) is not None]))
        self._desk.laws.changed(laws_key(key), laws, self._desk.now_ms)
        pool = self._pool()
        if pool.score((before, laws.share)):
            pool.learn((before, laws.share))
            self._desk.pool.changed(CENTRE, pool, self._desk.now_ms)

    def _rows(self, application_id: str, siblings: tuple[SiblingSummary, ...]) -> Rows | None:
        key = ApplicationKey.parse(application_id)
        model = self._desk.models.get(application_id)
        found = model.evidence(key.id, key.system) if model else None
        return rows(SHIPPED.gate, found, siblings) if found is not None else None

    def _combination(self, key: ApplicationKey, model: RunTime, laws: Laws) -> Combination | None:
        found = model.evidence(key.id, key.system)
        if found is None:
            return None
        siblings = tuple(_in_unit(key.unit, sibling) for sibling in laws.siblings)
        return Combination(found, siblings, laws.learned, self._pool().counts, SHIPPED)

    def _laws(self, key: ApplicationKey) -> Laws:
        return self._desk.laws.open(laws_key(key))

    def _pool(self) -> Pool:
        return self._desk.pool.open(CENTRE)


def _in_unit(unit: str, sibling: SiblingSummary) -> SiblingSummary:
    """Return what a sibling tells, without what it tells of its sizes where these are counted in another unit."""
    alike = not sibling.inside or ApplicationKey.parse(sibling.key).unit == unit
    return sibling if alike else sibling._replace(inside=())


class Refits:
    """Fits and publishes the models of one shard."""

    def __init__(self, desk: Desk, warnings: Warnings, histories: Histories) -> None:
        self._desk = desk
        self._histories = histories
        self._warnings = warnings
        self._teaching = Teaching(desk)
        self._unseen = Unseen(desk)
        self._under_loads = UnderLoads(desk)
        self._features = Features(desk)
        self._watch = Watch(desk, warnings)
        self._power = Power(desk)

    def tick(self, since_ms: int) -> None:
        """Fit and publish what is due, at most `refits_per_tick_max`; then evict what is too much.

        `since_ms` is the time since the last tick. Below ten seconds only that share of the refits is allowed, so that
        frequent ticks spread them and none holds the fold for long.
        """
        most = self._desk.settings.run_time.refits_per_tick_max
        limit = share(most, since_ms)
        due = self._desk.models.due(self._desk.now_ms, limit)
        if len(due) == limit and (limit == most or self._behind(due[-1])):
            self._desk.tally["bound", "refits_per_tick_max"] += 1
        for application_id in due:
            try:
                self._publish(application_id)
            except Exception:  # noqa: BLE001  one application's fit must not stop the others
                self._failed(application_id)
        self._evict()

    def _behind(self, application_id: str) -> bool:
        """Tell whether a model that was due waited for longer than ticks without a share would have let it."""
        due_ms = self._desk.models.open(application_id).due_ms()
        return due_ms is not None and self._desk.now_ms - due_ms >= FULL_TICK_MS

    def _publish(self, application_id: str) -> None:
        model = self._desk.models.open(application_id)
        if model.on_probation:
            self._withdraw(application_id, model)
            return
        key = ApplicationKey.parse(application_id)
        settings = self._desk.settings.run_time
        self._teaching.learn(key, model)
        outlook = self._teaching.outlook(key, model)
        members = self._desk.members.open(application_id)
        laws = self._laws(outlook, model, members)
        source = model_of(outlook, members, laws)
        said = prediction(key, model, outlook, settings, self._desk.context, source=source)
        flagged = self._strange_sizes(key, model)
        curve = published_curve(said, model.widening, self._desk.now_ms, model.observed().doubted)
        spread = self._spread(key, said)
        if spread is not None:
            by_size, curve = curve.points, published_curve(spread, 1.0, self._desk.now_ms)
            said, curve = spread, msgspec.structs.replace(curve, by_size=by_size)
        said = self._power.predicted(application_id, said)
        said = msgspec.structs.replace(said, features=self._features.models(application_id))
        model.publish(msgspec.structs.replace(curve, power_w=told_powers(said.curve)), flagged)
        members.publish(laws)
        self._desk.members.changed(application_id, members, self._desk.now_ms)
        self._desk.model_changed(application_id, model)
        self._unseen.fitted(key, model)
        self._watch.published(application_id)
        self._desk.outbox.append(self._under_loads.published(key, said, curve))
        self._desk.tally["fit", "published"] += 1
        self._unreliable(key, said)

    def _laws(self, outlook: Outlook, model: RunTime, members: Members) -> Fits | None:
        try:
            return fits(outlook, model.observations, members.fits, model.least_s())
        except Exception:  # noqa: BLE001  what stands beside a prediction must not cost it
            self._desk.tally["fault", Members.name] += 1
            return None

    def _spread(self, key: ApplicationKey, said: Prediction) -> Prediction | None:
        """Return what to publish where run times do not follow the size; None where they do."""
        if not self._histories.not_by_size(key.id):
            return None
        sizes = [1.0, *(point.n for point in said.curve)]
        told = [self._histories.told(key.system, ComingJob(n, key.id)) for n in sizes]
        found = [each for each in told if each is not None]
        return similar_runs.spread(said, found[1:], found[0]) if len(found) == len(sizes) else None

    def _withdraw(self, application_id: str, model: RunTime) -> None:
        # corrections took runs away: what is left would never have been published
        verdicts = self._desk.settings.alerts.unreliable.verdicts
        key = ApplicationKey.parse(application_id)
        self._warnings.take(applications.forgotten(key, model.flagged, verdicts, self._desk.now_ms))
        model.withdraw()
        self._desk.members.remove(application_id)
        self._desk.model_changed(application_id, model)
        self._desk.outbox.append(Tombstone("predictions", application_id))

    def _failed(self, application_id: str) -> None:
        model = self._desk.models.open(application_id)
        model.fit_failed(self._desk.now_ms)
        self._desk.model_changed(application_id, model)
        self._desk.tally["fault", RunTime.name] += 1

    def _strange_sizes(self, key: ApplicationKey, model: RunTime) -> list[tuple[str, float]]:
        settings = self._desk.settings.alerts.slow_size
        told = settings.enabled and model.study().noise <= settings.scatter_max
        wanted = told and self._desk.recent(model.newest_ms)  # history wakes nobody
        believed = model.observed().confirmed.keys() & set(model.sizes())  # neighbours that were merged are no size
        found = {
            (applications.SLOW_SIZE if size.direction == "slow" else applications.FAST_SIZE, size.n): (
                size.observed_s,
                size.expected_s,
            )
            for size in model.study().anomalies
            if wanted and size.n in believed and abs(size.deviation) >= settings.deviation_min
        }
        gone = applications.sizes_no_longer(model.flagged, list(found))
        now_ms = self._desk.now_ms
        self._warnings.take(
            applications.strange_size(key, name, n, None, settings=settings, now_ms=now_ms) for name, n in gone
        )
        self._warnings.take(
            applications.strange_size(key, *flag, seen, settings=settings, now_ms=now_ms)
            for flag, seen in found.items()
        )
        return list(found)

    def _unreliable(self, key: ApplicationKey, said: Prediction) -> None:
        settings = self._desk.settings.alerts.unreliable
        self._warnings.take(
            applications.unreliable(key, said.reliability, said.observations, settings, self._desk.now_ms)
        )

    def _evict(self) -> None:
        excess = len(self._desk.models) - self._desk.settings.run_time.applications_max
        if excess > 0:
            for application_id in self._desk.models.longest_unused(excess):
                self._warnings.forget_application(application_id)
                self._desk.tally["bound", "applications_max"] += 1
