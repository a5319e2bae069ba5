"""The service of a process: what readers see of the roles that run in it."""

from collections.abc import Callable, Sequence

from agent.contracts.errors import UnavailableError
from agent.contracts.events import PredictionRequested
from agent.contracts.hosts import HostView
from agent.contracts.names import job_key
from agent.contracts.outputs import Alert, Answer, JobPrediction, Prediction
from agent.contracts.recent import Letter, RecentRun, SourceSeen
from agent.contracts.service import Health
from agent.learner.learner import Learner
from agent.learner.view import View

RoleHealth = Callable[[], Sequence[Health]]
Letters = Callable[[], Sequence[Letter]]


class LearnerService:
    """Reads of the learner in this process; `learner` may be away while it starts again."""

    def __init__(self, view: View, shard_of: Callable[[str], int | None], health: RoleHealth, letters: Letters) -> None:
        self._view = view
        self._shard_of = shard_of
        self._health = health
        self._letters = letters
        self.learner: Learner | None = None

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""
        return self._view.latest("predictions", Prediction)

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""
        return self._view.get("predictions", application_id, Prediction)

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""
        return self._view.latest("job_predictions", JobPrediction)

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return what was last told of a job that ended a short while ago."""
        return self._view.ended(job_key(system, job_id))

    def alerts(self) -> Sequence[Alert]:
        """Return open alerts, newest first, then the newest resolved ones."""
        opened = sorted(self._view.latest("alerts", Alert), key=lambda alert: alert.starts, reverse=True)
        return [*opened, *self._view.resolved()]

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the models as they are now; UnavailableError while the shard is not here."""
        shard = self._shard_of(request.system)
        learner = self.learner
        answer = learner.answer(request, shard) if learner is not None and shard is not None else None
        if answer is None:
            raise UnavailableError(f"The models of {request.system[:64]} are not in this process.")
        return answer

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most so many hosts: those with anomalies first, then by system and name."""
        learner = self.learner
        return () if learner is None else learner.hosts(limit)

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts, those with anomalies first."""
        learner = self.learner
        return () if learner is None else learner.host_names(limit)

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        learner = self.learner
        return None if learner is None else learner.host(system, host)

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""
        return self._view.runs.of_application(application_id)

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job."""
        return self._view.runs.of_job(system, job_id)

    def letters(self) -> Sequence[Letter]:
        """Return the newest dead letters of the whole agent."""
        return self._letters()

    def sources(self) -> Sequence[SourceSeen]:
        """Return the sources, the one that spoke last first."""
        learner = self.learner
        return () if learner is None else learner.sources.seen()

    def health(self) -> Sequence[Health]:
        """Return the health of every role in this process."""
        return self._health()


class CollectorService:
    """A collector shows its health; it knows no predictions."""

    def __init__(self, health: RoleHealth) -> None:
        self._health = health

    def predictions(self) -> Sequence[Prediction]:
        """Return nothing."""
        return ()

    def prediction(self, application_id: str) -> Prediction | None:
        """Return nothing."""
        del application_id
        return None

    def jobs(self) -> Sequence[JobPrediction]:
        """Return nothing."""
        return ()

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return nothing."""
        del system, job_id
        return None

    def alerts(self) -> Sequence[Alert]:
        """Return nothing."""
        return ()

    def answer(self, request: PredictionRequested) -> Answer:
        """Raise UnavailableError: the learner answers."""
        raise UnavailableError(f"This is a collector; ask the learner about {request.system[:64]}.")

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return nothing: what hosts measured is told from the journal, by the learner."""
        del limit
        return ()

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return nothing."""
        del limit
        return ()

    def host(self, system: str, host: str) -> HostView | None:
        """Return nothing."""
        del system, host
        return None

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return nothing."""
        del application_id
        return ()

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return nothing."""
        del system, job_id
        return ()

    def letters(self) -> Sequence[Letter]:
        """Return nothing: the learner tells of the whole agent."""
        return ()

    def sources(self) -> Sequence[SourceSeen]:
        """Return nothing."""
        return ()

    def health(self) -> Sequence[Health]:
        """Return the health of the collector."""
        return self._health()
