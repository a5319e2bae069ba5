"""How curves teach each other: records of an application's laws, offsets, and scores pooled over the centre."""

from agent.contracts.names import ApplicationKey
from processors.fold.desk import Desk
from processors.fold.keys import laws_key
from processors.fold.unseen import Unseen
from processors.laws import CurveRecord, Laws, Pool
from processors.models.combination.coefficients import SHIPPED
from processors.models.combination.combine import Combination, learn, summary
from processors.models.combination.gate import SiblingSummary
from processors.models.combination.replay import Rows, rows
from processors.outlook import Outlook
from processors.run_time import RunTime

CENTRE = "centre"


class Teaching:
    """Builds the outlook of an application from its own curve and what others have taught.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence, JobCompleted, JournalRecord, Tick
    >>> shard = make_shard(Config())
    >>> for job, n in enumerate((1, 2, 4, 8)):
    ...     evidence = Evidence(application="lammps", sizes={"nodes": n})
    ...     run = JobCompleted("exa", str(job), f"exa/{job}@0", 0, 60_000, 60.0 / n, "COMPLETED", evidence)
    ...     _ = shard.fold(JournalRecord(run))
    >>> key = ApplicationKey("lammps", "exa", "", "nodes")
    >>> Teaching(shard.desk).outlook(key, shard.desk.models.get(key.id)).model_name
    'combination'
    """

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
