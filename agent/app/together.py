"""Several agents of one process as one service: the first tells of jobs, all of them of hosts and alerts."""

from collections.abc import Sequence

from agent.contracts.events import PredictionRequested
from agent.contracts.hosts import HostView
from agent.contracts.outputs import Alert, Answer, JobPrediction, Prediction
from agent.contracts.recent import Letter, RecentRun, SourceSeen
from agent.contracts.service import Health, Service


class Together:
    """Shows `first`, and with it the hosts and alerts of `others`.

    Their hosts come first: there are few of them, and a list of the first ones would never show them else.
    """

    def __init__(self, first: Service, *others: Service) -> None:
        self._first, self._others = first, others

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""
        return self._first.predictions()

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""
        return self._first.prediction(application_id)

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""
        return self._first.jobs()

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return what was last told of a job that ended a short while ago."""
        return self._first.ended(system, job_id)

    def alerts(self) -> Sequence[Alert]:
        """Return open alerts, then the newest resolved ones."""
        told = [alert for service in (self._first, *self._others) for alert in service.alerts()]
        return sorted(told, key=lambda alert: alert.status == "resolved")

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the models as they are now."""
        return self._first.answer(request)

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most so many hosts."""
        found = [view for service in self._others for view in service.hosts(limit)][:limit]
        return [*found, *self._first.hosts(limit - len(found))] if len(found) < limit else found

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts."""
        found = [name for service in self._others for name in service.host_names(limit)][:limit]
        return [*found, *self._first.host_names(limit - len(found))] if len(found) < limit else found

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        views = (service.host(system, host) for service in (self._first, *self._others))
        return next((view for view in views if view is not None), None)

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""
        return self._first.runs(application_id)

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job."""
        return self._first.runs_of_job(system, job_id)

    def letters(self) -> Sequence[Letter]:
        """Return the newest dead letters of the whole agent."""
        told = [letter for service in (self._first, *self._others) for letter in service.letters()]
        return sorted(told, key=lambda letter: letter.time_ms, reverse=True)

    def sources(self) -> Sequence[SourceSeen]:
        """Return the sources, the one that spoke last first."""
        told = [source for service in (self._first, *self._others) for source in service.sources()]
        return sorted(told, key=lambda source: source.newest_ms, reverse=True)

    def health(self) -> Sequence[Health]:
        """Return the health of every role."""
        return self._first.health()
