"""What the model of an application learns of one run, and what follows from the run before that."""

from collections.abc import Mapping

from agent.contracts.events import Attribute
from agent.contracts.names import ApplicationKey
from processors.curve import PublishedCurve
from processors.facts import RunFact, Scored
from processors.fold.desk import Desk
from processors.fold.unseen import Unseen
from processors.fold.warnings import Warnings
from processors.fold.watch import Watch
from processors.members import MemberFact
from processors.other_inputs import Sizes


class Training:
    """Teaches the models of one shard; a run is scored against what was published before it is learned.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> desk = make_shard(Config()).desk
    >>> training = Training(desk, Warnings(desk))
    >>> run = RunFact("exa/1@0", n=4, run_time_s=60.0, start_ms=0, end_ms=60_000, seen_ms=60_000)
    >>> training.train("exa/lammps//nodes", run, (), {"build": "2026.1"}, first=True, replaces=False)
    >>> desk.models.get("exa/lammps//nodes").observations
    1
    >>> training.forget("exa/lammps//nodes", "exa/1@0"), "exa/lammps//nodes" in desk.models
    (True, False)
    """

    def __init__(self, desk: Desk, warnings: Warnings) -> None:
        self._desk = desk
        self._warnings = warnings
        self._unseen = Unseen(desk)
        self._watch = Watch(desk, warnings)

    def train(
        self,
        application_id: str,
        fact: RunFact,
        sizes: Sizes,
        attributes: Mapping[str, Attribute],
        *,
        first: bool,
        replaces: bool,
    ) -> None:
        """Learn a run of an input of the given sizes; `attributes` tell builds and versions apart.

        `first` is its first report, `replaces` a corrected one of a run of the same application.
        """
        model = self._desk.models.open(application_id)
        if replaces and not model.holds(fact.run_id):
            self._desk.tally["refused", "correction_too_late"] += 1
            return
        scored = model.score(fact)
        if first:
            self._compare(application_id, model.published, fact, scored)
        if scored is None or not first:
            model.learn(fact, self._watch.strange(application_id, scored))
        else:
            taken = self._watch.take(application_id, model, scored, attributes)
            model.learn(fact, taken.judgement.strange if taken.judgement else 0)
            model.note(scored)
            self._watch.follow(application_id, model, scored, taken)
        self._desk.model_changed(application_id, model)
        self._unseen.ran(application_id, sizes, model)

    def forget(self, application_id: str, run_id: str) -> bool:
        """Take a run away from a model that learned it; False where it is not held any more."""
        self._forget_profile(application_id, run_id)
        model = self._desk.models.get(application_id)
        if model is None or not model.forget(run_id, self._desk.now_ms):
            return False
        self._desk.model_changed(application_id, model)
        self._unseen.fitted(ApplicationKey.parse(application_id), model)
        if not model.observations:
            self._warnings.forget_application(application_id)
        return True

    def _forget_profile(self, application_id: str, run_id: str) -> None:
        profiles = self._desk.profile_models.get(application_id)
        if profiles is not None and profiles.forget(run_id):
            self._desk.profile_models.changed(application_id, profiles, self._desk.now_ms)

    def _compare(
        self, application_id: str, published: PublishedCurve | None, fact: RunFact, scored: Scored | None
    ) -> None:
        """Let the run say which law was right."""
        members = self._desk.members.get(application_id)
        if members is None or published is None:
            return
        told = scored.ln_ratio if scored else None
        members.learn(MemberFact(fact.n, fact.run_time_s, published.horizon(fact.n), told))
        self._desk.members.changed(application_id, members, self._desk.now_ms)
