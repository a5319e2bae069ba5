"""Watching the runs of each application: strange ones, and levels that moved for good. What is found moves the model."""

import math
from collections.abc import Mapping
from typing import Final

from agent.contracts.events import Attribute
from agent.contracts.names import ApplicationKey
from processors import alert_rules, run_rules
from processors.drift import ScoredRun, Shift, Taken
from processors.facts import Scored
from processors.fold.desk import Desk
from processors.fold.warnings import Warnings
from processors.run_time import RunTime

MARGIN_MIN: Final = 0.03  # of ln run time, by which a level may miss one from before and still be it
UNWATCHED: Final = Taken(None)


class Watch:
    """The watches of one shard.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from processors.facts import RunFact
    >>> desk = make_shard(Config()).desk
    >>> run = RunFact("exa/1@0", n=4, run_time_s=150.0, start_ms=0, end_ms=150_000, seen_ms=0)
    >>> scored = Scored(run, 100.0, 90.0, 110.0, math.log(1.5), 0.1, inside=False, horizon="inside", observations=9)
    >>> watch, model = Watch(desk, Warnings(desk)), desk.models.open("exa/lammps//nodes")
    >>> watch.take("exa/lammps//nodes", model, scored, {"build": "2026.1"}).judgement.strange
    1
    """

    def __init__(self, desk: Desk, warnings: Warnings) -> None:
        self._desk = desk
        self._warnings = warnings

    def take(self, application_id: str, model: RunTime, scored: Scored, attributes: Mapping[str, Attribute]) -> Taken:
        """Judge a run before its model learns it; one of an earlier level says nothing about the present one."""
        if model.began_before_its_level(scored.run):
            return UNWATCHED
        drift = self._desk.drifts.open(application_id)
        taken = drift.take(ScoredRun(scored, attributes))
        if taken.judgement is not None:
            self._desk.drifts.changed(application_id, drift, self._desk.now_ms)
        return taken

    def strange(self, application_id: str, scored: Scored | None) -> int:
        """Return how strange a run is whose report was corrected: 1 slow, -1 fast, 0 not at all or not to be told."""
        drift = self._desk.drifts.get(application_id)
        judged = drift.score(ScoredRun(scored)) if drift and scored else None
        return judged.strange if judged else 0

    def follow(self, application_id: str, model: RunTime, scored: Scored, taken: Taken) -> None:
        """Move the model's level where it shifted, and tell people; history moves models only."""
        key = ApplicationKey.parse(application_id)
        recent = self._desk.recent(scored.run.end_ms)
        if taken.over is not None:
            self._end(run_rules.ALERT_OF[taken.over.direction], key, run_rules.BACK)
        if taken.found is not None and model.of_one_size_only(taken.found.sizes, taken.found.since_run):
            self._adopt(application_id)  # the other sizes may be as before: the median of this one will follow
        elif taken.found is not None:
            self._tell_shift(key, taken.found, back=self._move(model, taken.found), recent=recent)
        elif taken.judgement is not None and recent:
            settings, now_ms = self._desk.settings.alerts.strange_run, self._desk.now_ms
            said = run_rules.strange_run(key, scored, taken.judgement, settings, now_ms)
            self._warnings.take([said] if said else [])

    def published(self, application_id: str) -> None:
        """Note that the curve that users are told now is at the new level."""
        self._adopt(application_id)

    def _adopt(self, application_id: str) -> None:
        drift = self._desk.drifts.get(application_id)
        if drift is not None and drift.shift is not None:
            drift.adopted()
            self._desk.drifts.changed(application_id, drift, self._desk.now_ms)

    def _move(self, model: RunTime, shift: Shift) -> bool:
        margin = max(MARGIN_MIN, 2 * shift.noise / math.sqrt(shift.runs))
        self._desk.tally["shift", shift.direction] += 1
        return model.move_level(
            shift.since_run, shift.since_ms, math.log(shift.factor), margin=margin, seen_ms=self._desk.now_ms
        )

    def _tell_shift(self, key: ApplicationKey, shift: Shift, *, back: bool, recent: bool) -> None:
        slower = shift.direction == "regression"
        opposite = alert_rules.IMPROVEMENT if slower else alert_rules.REGRESSION
        undone = self._end(opposite, key, run_rules.BACK if back else run_rules.OVERTAKEN)
        strange = run_rules.strange_run_labels(key, 1 if slower else -1)
        self._warnings.ends(run_rules.ended(alert_rules.STRANGE_RUN, strange, run_rules.EXPLAINED, self._desk.now_ms))
        said = run_rules.shifted(key, shift, self._desk.settings.alerts.shift, self._desk.now_ms)
        if said is not None and recent and not (back and undone):
            self._warnings.take([said])

    def _end(self, name: str, key: ApplicationKey, why: str) -> bool:
        labels = alert_rules.application_labels(key)
        return self._warnings.ends(run_rules.ended(name, labels, why, self._desk.now_ms))
