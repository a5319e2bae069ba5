"""The slow runs that a host explains, as pages list them: of the host, and of an alert about it."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

import msgspec

from processors.contracts.hosts import ExplainedRun
from processors.contracts.names import ApplicationKey, rfc3339
from processors.contracts.outputs import RecentRun
from processors.contracts.service import Service
from sinks.web.formatting import moment
from sinks.web.queries import link
from sinks.web.views.jobs import job_link

FOREVER_MS: Final = 2**62


class ExplainedRow(msgspec.Struct, frozen=True):
    """A slow run in the list; empty links lead nowhere. `user` is None where it is no longer known."""

    job: str
    job_href: str
    application: str
    application_href: str
    factor: str
    ended: str
    user: str | None = None


class ExplainedRows(msgspec.Struct, frozen=True):
    """The slow runs that a host explains, the newest first, and how many there were in all."""

    rows: Sequence[ExplainedRow]
    count: int

    @property
    def title(self) -> str:
        """How many there are, and how many of them are listed."""
        return f"{self.count}" if self.count == len(self.rows) else f"the newest {len(self.rows)} of {self.count}"


def explained_rows(
    service: Service, system: str, host: str, since_ms: int = 0, until_ms: int = FOREVER_MS
) -> ExplainedRows:
    """Return the runs that a host explains and that were there in a time; by default all that are remembered."""
    found = service.explained_runs(system, host)
    pairs = [(run, _settled(service, run.run_id)) for run in reversed(found.runs)]
    shown = [
        _row(service, run, settled)
        for run, settled in pairs
        if run.end_ms >= since_ms and (settled.start_ms if settled else run.end_ms) <= until_ms
    ]
    whole = len(shown) == len(found.runs)
    return ExplainedRows(shown, found.count if whole else len(shown))


def _settled(service: Service, run_id: str) -> RecentRun | None:
    system, job_id = job_of(run_id)
    return next((run for run in service.runs_of_job(system, job_id) if run.run_id == run_id), None)


def _row(service: Service, run: ExplainedRun, settled: RecentRun | None) -> ExplainedRow:
    system, job_id = job_of(run.run_id)
    known = service.prediction(run.application_id) is not None
    key = ApplicationKey.parse(run.application_id)
    return ExplainedRow(
        job=f"{system}/{job_id}",
        job_href=job_link(system, job_id) if settled is not None else "",
        application=" ".join(filter(None, (key.application, key.input))),
        application_href=f"/applications/{link(run.application_id)}" if known else "",
        factor=f"{run.factor:.2f}",
        ended=moment(rfc3339(run.end_ms)),
        user=settled.user if settled is not None else None,
    )


def job_of(run_id: str) -> tuple[str, str]:
    """Return system and id of the job of a run, from `system/job@start`."""
    system, _, rest = run_id.partition("/")
    job_id, at, _ = rest.rpartition("@")
    return unquote(system), unquote(job_id if at else rest)
