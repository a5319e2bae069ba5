"""A service of fixed content: the real interface over real messages, without a learner behind it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from processors.contracts.events import CollectorReport, PredictionRequested
from processors.contracts.hosts import ExplainedRunList, HostCounts, HostLines, HostUse, HostView
from processors.contracts.names import ApplicationKey
from processors.contracts.nodes import HostRack
from processors.contracts.outputs import Alert, Answer, AnswerPoint, JobPrediction, Prediction
from processors.contracts.service import (
    DeadLetterView,
    Health,
    Neighbour,
    RecentRun,
    RunningJob,
    Silence,
    SourceStatus,
    Story,
    Views,
)
from tests.kit.messages import COMMON, alert, curve_point, job, prediction


class FixedService:
    """Shows what it was given; a test may exchange the lists between two reads."""

    def __init__(
        self,
        predictions: Sequence[Prediction] = (),
        jobs: Sequence[JobPrediction] = (),
        alerts: Sequence[Alert] = (),
        health: Sequence[Health] = (Health(role="learner", ready=True, lag_s=1.5, checkpoint_age_s=4.0),),
        hosts: Sequence[HostView] = (),
        *,
        runs: Sequence[RecentRun] = (),
        dead_letters: Sequence[DeadLetterView] = (),
        sources: Sequence[SourceStatus] = (),
        collectors: Sequence[CollectorReport] = (),
    ) -> None:
        self.held_collectors = list(collectors)
        self.held_silences: dict[str, Silence] = {}
        self.held_explained: dict[tuple[str, str], ExplainedRunList] = {}
        self.held_stories: dict[str, Story] = {}
        self.held_ended: list[JobPrediction] = []
        self.held_hosts_of_jobs: dict[tuple[str, str], Sequence[str]] = {}
        self.held_runs, self.held_dead_letters, self.held_sources = list(runs), list(dead_letters), list(sources)
        self.held_hosts = list(hosts)
        self.held_counts = HostCounts(known=len(self.held_hosts))
        self.held_neighbours: dict[tuple[str, str], Sequence[Neighbour]] = {}
        self.held_racks: dict[tuple[str, str], HostRack] = {}
        self.held_lines: dict[tuple[str, str], HostLines] = {}
        self.held_predictions = list(predictions)
        self.held_jobs = list(jobs)
        self.held_alerts = list(alerts)
        self.held_health = list(health)
        self.requested: list[PredictionRequested] = []

    def predictions(self) -> Sequence[Prediction]:
        return sorted(self.held_predictions, key=application_id)

    def prediction(self, application_id_: str) -> Prediction | None:
        return next((entry for entry in self.held_predictions if application_id(entry) == application_id_), None)

    def jobs(self) -> Sequence[JobPrediction]:
        return sorted(self.held_jobs, key=lambda entry: (entry.system, entry.job_id))

    def running(self) -> Sequence[RunningJob]:
        return [msgspec.convert(msgspec.to_builtins(entry), RunningJob) for entry in self.jobs()]

    def job(self, system: str, job_id: str) -> JobPrediction | None:
        return next((job for job in self.jobs() if (job.system, job.job_id) == (system, job_id)), None)

    def rack(self, system: str, host: str) -> HostRack | None:
        return self.held_racks.get((system, host))

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        return next((job for job in self.held_ended if (job.system, job.job_id) == (system, job_id)), None)

    def alerts(self) -> Sequence[Alert]:
        return tuple(self.held_alerts)

    def silences(self) -> Mapping[str, Silence]:
        return self.held_silences

    def hosts(self, limit: int) -> Sequence[HostView]:
        return tuple(self.held_hosts[:limit])

    def host_counts(self) -> HostCounts:
        return self.held_counts

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        return tuple((view.system, view.host) for view in self.held_hosts[:limit])

    def host_uses(self, limit: int) -> Sequence[HostUse]:
        return tuple(HostUse(view.system, view.host, view.state, view.job) for view in self.held_hosts[:limit])

    def reading(self, system: str) -> Views:
        return FixedViews(self, system)

    def runs(self, application_id_: str) -> Sequence[RecentRun]:
        return tuple(run for run in self.held_runs if run.application_id == application_id_)

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        return tuple(run for run in self.held_runs if (run.system, run.job_id) == (system, job_id))

    def recent_runs(self) -> Sequence[RecentRun]:
        return sorted(self.held_runs, key=lambda run: (run.end_ms, run.run_id), reverse=True)

    def dead_letters(self) -> Sequence[DeadLetterView]:
        return tuple(self.held_dead_letters)

    def sources(self) -> Sequence[SourceStatus]:
        return tuple(self.held_sources)

    def collectors(self) -> Sequence[CollectorReport]:
        return tuple(self.held_collectors)

    def health(self) -> Sequence[Health]:
        return tuple(self.held_health)

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer with the points of the curve that were asked for, or that nothing is known."""
        self.requested.append(request)
        evidence = request.evidence
        key = ApplicationKey(evidence.application or "", request.system, evidence.input or "", request.unit or "nodes")
        known = self.prediction(key.id)
        values: dict[str, Any] = {
            "id": request.request_id,
            "request_id": request.request_id,
            "known": known is not None,
            "detail": "" if known else f"Nothing is known of {key.application}.",
            "application": key.application,
            "system": key.system,
            "input": key.input,
            "unit": key.unit,
            "identified_by": "application",
            "confidence": 1.0,
            "observations": known.observations if known else 0,
            "points": tuple(_point(n) for n in request.n) if known else (),
            "model": known.model if known else None,
            "useful_n": known.useful_n if known else None,
            "quality": known.quality if known else None,
        }
        return Answer(**(COMMON | values))


class FixedViews(Views):
    """The views of one system of a service that holds what it shows."""

    def __init__(self, service: FixedService, system: str) -> None:
        self._service, self._system = service, system

    def host(self, host: str) -> HostView | None:
        key = (self._system, host)
        return next((entry for entry in self._service.held_hosts if (entry.system, entry.host) == key), None)

    def host_lines(self, host: str, resource: str | None = None) -> HostLines | None:
        lines = self._service.held_lines.get((self._system, host))
        if lines is None or resource is None:
            return lines
        day, hour = (
            msgspec.structs.replace(
                line, resources={resource: line.resources[resource]} if resource in line.resources else {}
            )
            for line in (lines.day, lines.hour)
        )
        return msgspec.structs.replace(lines, day=day, hour=hour)

    def hosts_of_job(self, job_id: str) -> Sequence[str]:
        return self._service.held_hosts_of_jobs.get((self._system, job_id), ())

    def neighbours(self, job_id: str) -> Sequence[Neighbour]:
        return self._service.held_neighbours.get((self._system, job_id), ())

    def explained_runs(self, host: str) -> ExplainedRunList:
        return self._service.held_explained.get((self._system, host), ExplainedRunList())

    def story(self, application_id: str) -> Story | None:
        return self._service.held_stories.get(application_id)


def application_id(entry: Prediction) -> str:
    return ApplicationKey(entry.application, entry.system, entry.input, entry.unit).id


def _point(n: float) -> AnswerPoint:
    point = curve_point(n, 10.0 + 990.0 / n, reliability=prediction().reliability)
    return AnswerPoint(**msgspec.structs.asdict(point))


def busy_service() -> FixedService:
    """Two applications, one of them in trouble, a running job, an alert."""
    slow = prediction("nektar", observations=12, input="")
    return FixedService([prediction(), slow], [job()], [alert()])
