"""What a reader sees of a service: an operator all of it, others no detail of jobs that are not theirs.

Applications, hosts and alerts are for everybody who may read. Jobs and runs of others are left out, and so are their names
where something else mentions them. Dead letters are for operators.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from urllib.parse import unquote

import msgspec

from agent.contracts.events import PredictionRequested
from agent.contracts.hosts import HostView
from agent.contracts.names import job_key
from agent.contracts.outputs import Alert, Answer, JobPrediction, Prediction
from agent.contracts.recent import Letter, RecentRun, SourceSeen
from agent.contracts.service import Health, Service
from agent.contracts.telemetry import JOB
from agent.http.access import PRESENT, Reader

UNREADY: Final = "It is not ready; operators see why."
RUNS_LOOKED_UP_MAX: Final = 64  # of one alert
OTHERS: Final = "another user's {}"
_MENTIONED: Final = re.compile(r"\b(run|job) ([^\s/]+/[^\s/]+?)(?=[\s,;:.)]*(?:\s|$))")
_SERIES: Final = re.compile(rf"{JOB}([^\s,;:)]+)")


class Seen:
    """A service as the present reader sees it; where nobody said who reads, a stranger does.

    >>> Seen(None).letters()
    ()
    """

    def __init__(self, service: Service, present: Callable[[], Reader] = PRESENT.get) -> None:
        self._service, self._present = service, present

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""
        return self._service.predictions()

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""
        return self._service.prediction(application_id)

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the models as they are now."""
        return self._service.answer(request)

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of the reader's running jobs."""
        present = self._present()
        found = self._service.jobs()
        return found if present.operator else [job for job in found if present.sees(job.user)]

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return what was last told of a job of the reader's that ended a short while ago."""
        found = self._service.ended(system, job_id)
        return found if found is not None and self._present().sees(found.user) else None

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the reader's newest settled runs of an application."""
        return self._own(self._service.runs(application_id))

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job of the reader's."""
        return self._own(self._service.runs_of_job(system, job_id))

    def alerts(self) -> Sequence[Alert]:
        """Return the alerts; runs and jobs of others are not named in them."""
        found = self._service.alerts()
        if self._present().operator:
            return found
        running = self._running()
        return [self._alert(alert, running) for alert in found]

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most so many hosts, without the jobs of others on them."""
        found = self._service.hosts(limit)
        if self._present().operator:
            return found
        running = self._running()
        return [_host(view, running) for view in found]

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts, those with anomalies first."""
        return self._service.host_names(limit)

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host, without the job of another on it."""
        found = self._service.host(system, host)
        return found if found is None or self._present().operator else _host(found, self._running())

    def letters(self) -> Sequence[Letter]:
        """Return the newest dead letters to operators, to others nothing: they quote what producers sent."""
        return self._service.letters() if self._present().operator else ()

    def sources(self) -> Sequence[SourceSeen]:
        """Return the sources, the one that spoke last first."""
        return self._service.sources()

    def health(self) -> Sequence[Health]:
        """Return the health of every role; the reasons, which quote brokers, to operators alone."""
        found = self._service.health()
        if self._present().operator:
            return found
        return [role if role.ready else msgspec.structs.replace(role, reasons=(UNREADY,)) for role in found]

    def _own(self, runs: Iterable[RecentRun]) -> Sequence[RecentRun]:
        present = self._present()
        return [run for run in runs if present.sees(run.user)]

    def _running(self) -> frozenset[str]:
        return frozenset(job_key(job.system, job.job_id) for job in self.jobs())

    def _alert(self, alert: Alert, running: frozenset[str]) -> Alert:
        known: dict[str, bool] = {}

        def own(name: str) -> bool:
            if name not in known:
                known[name] = name in running or (len(known) < RUNS_LOOKED_UP_MAX and self._is_own(name))
            return known[name]

        evidence, system = alert.evidence, alert.labels.get("system", "")
        named = (*evidence.runs, *filter(None, [str(evidence.detail.get("job", ""))]))
        hidden = [name for name in named if not own(name)]

        def said(text: str) -> str:
            for name in hidden:
                text = text.replace(f"run {name}", OTHERS.format("run")).replace(f"job {name}", OTHERS.format("job"))
                text = text.replace(name, OTHERS.format("job"))
            text = _MENTIONED.sub(lambda found: found[0] if own(found[2]) else OTHERS.format(found[1]), text)
            return _SERIES.sub(lambda found: found[0] if own(job_key(system, found[1])) else "", text)

        detail = {
            said(name): value if not isinstance(value, str) else said(value)
            for name, value in evidence.detail.items()
            if name != "job" or value not in hidden
        }
        return msgspec.structs.replace(
            alert,
            annotations={name: said(text) for name, text in alert.annotations.items()},
            evidence=msgspec.structs.replace(evidence, runs=tuple(filter(own, evidence.runs)), detail=detail),
        )

    def _is_own(self, name: str) -> bool:
        """Tell whether a run or a job, by its id, is the reader's; what is no longer known is nobody's."""
        system, _, rest = name.partition("/")
        job_id, at, _ = rest.rpartition("@")
        runs = self.runs_of_job(unquote(system), unquote(job_id if at else rest))
        return any(run.run_id == name or not at for run in runs)


def _host(view: HostView, running: frozenset[str]) -> HostView:
    """Return a host without what is of jobs that are not among these: some producers tell of each job on a host."""
    own = tuple(entry for entry in view.resources if _is_shown(view.system, entry.resource, running))
    job = view.job if view.job in running else None
    return msgspec.structs.replace(view, job=job, resources=own)


def _is_shown(system: str, resource: str, running: frozenset[str]) -> bool:
    _, of_job, job_id = resource.partition(JOB)
    return not of_job or job_key(system, job_id) in running
