"""The filters of job lists: one place defines their meaning for pages and API."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams

from processors.contracts.events import STATES, SUCCESS
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import JobPrediction, Prediction, RecentRun
from processors.contracts.service import RunningJob, hits
from sinks.web import queries

Entry = TypeVar("Entry")
NEVER: Final = ApplicationKey("", "", "", "nodes")
TEXTS: Final = ("search", "system", "job_id", "application", "user", "account", "partition", "state")
FLAGS: Final = ("outside_band", "hits_limit")


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a list of jobs; an empty text or a flag that is not set filters nothing.

    `application` is a name or a whole id, `search` a part of a job's id, application or input, whatever the case. `state` and
    `outside_band` (completed runs outside their band) match ended runs only. `hits_limit` matches jobs that will probably hit
    their time limit, and runs that did.
    """

    search: str = ""
    system: str = ""
    job_id: str = ""
    application: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    state: str = ""
    outside_band: bool = False
    hits_limit: bool = False

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """Return the filters of a query; BadParameterError if a value is invalid."""
        texts: dict[str, Any] = {name: (queries.text(query, name) or "").strip() for name in TEXTS}
        if texts["state"] and texts["state"] not in STATES:
            raise queries.BadParameterError(f"state={texts['state'][:40]!r} has to be one of {', '.join(STATES)}.")
        flags: dict[str, Any] = {name: _flag(query, name) for name in FLAGS}
        return cls(**texts, **flags)

    def query(self, **changes: str) -> dict[str, str]:
        """Return the query of these filters, with changes, without empty parameters."""
        values = {name: getattr(self, name) for name in TEXTS} | {name: "1" * getattr(self, name) for name in FLAGS}
        return {name: value for name, value in (values | changes).items() if value}

    def jobs(self, running: Sequence[RunningJob]) -> list[RunningJob]:
        """Return the running jobs that match, in their order."""
        if self.state or self.outside_band:
            return []
        tests = self._tests(
            {"application": _names_of_job, "search": lambda job: f"{job.application or ''} {job.input or ''}"}
        )
        if self.hits_limit:
            tests.append(lambda job: hits(job.probability_exceeds_limit, session=job.session))
        return _passing(tests, running)

    def runs(self, ended: Sequence[RecentRun]) -> list[RecentRun]:
        """Return the ended runs that match, in their order."""
        tests = self._tests({"application": _names_of_run, "search": _searched_of_run})
        if self.state:
            tests.append(lambda run: run.state == self.state)
        if self.outside_band:
            tests.append(is_outside)
        if self.hits_limit:
            tests.append(lambda run: run.state == "TIMEOUT" and not run.session)
        return _passing(tests, ended)

    def is_known(
        self, predictions: Sequence[Prediction], running: Sequence[RunningJob], ended: Sequence[RecentRun]
    ) -> bool:
        """Return whether any prediction, running job or run has the application of the filter, if it has one."""
        names = chain(map(_names_of_prediction, predictions), map(_names_of_job, running), map(_names_of_run, ended))
        return not self.application or any(self.application in pair for pair in names)

    def _tests(self, texts_of: Mapping[str, Callable[[Any], Any]]) -> list[Callable[[Any], bool]]:
        """Return a test for each text filter; `texts_of` returns the names and the searchable text of a job or run."""
        tests: list[Callable[[Any], bool]] = [
            lambda entry, name=name, value=value: getattr(entry, name) == value  # type: ignore[misc]  # bound early
            for name in ("system", "job_id", "user", "account", "partition")
            if (value := getattr(self, name))
        ]
        if self.application:
            tests.append(lambda entry: self.application in texts_of["application"](entry))
        if self.search:
            sought = self.search.casefold()
            tests.append(
                lambda entry: sought in f"{entry.system}/{entry.job_id} {texts_of['search'](entry)}".casefold()
            )
        return tests


def _passing(tests: Sequence[Callable[[Any], bool]], entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that pass all tests; each test sees only the entries that passed before."""
    left: Sequence[Entry] = entries
    for test in tests:
        left = [entry for entry in left if test(entry)]
    return list(left)


def is_outside(run: RecentRun) -> bool:
    """Return whether a run completed outside its band; other runs were not compared with a band."""
    return run.state == SUCCESS and run.predicted is not None and not run.predicted.holds(run.run_time_s)


def of_predicted(run: RecentRun) -> float | None:
    """Return the run time as a multiple of its prediction, if it had one."""
    predicted = run.predicted
    return run.run_time_s / predicted.run_time_s if predicted is not None and predicted.run_time_s > 0 else None


def address(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


@lru_cache(maxsize=4096)
def key_of(application_id: str | None) -> ApplicationKey:
    """Return the key of an application id; NEVER if there is no valid id."""
    try:
        return ApplicationKey.parse(application_id) if application_id else NEVER
    except ValueError:
        return NEVER


def id_of(job: RunningJob | JobPrediction) -> str:
    """Return the application id of a running job; empty if it was not identified."""
    if job.application is None:
        return ""
    return ApplicationKey(job.application, job.system, job.input or "", job.unit or "nodes").id


def _names_of_prediction(entry: Prediction) -> tuple[str, str]:
    return entry.application, queries.application_id(entry)


def _names_of_job(job: RunningJob) -> tuple[str, str]:
    return job.application or "", id_of(job)


def _names_of_run(run: RecentRun) -> tuple[str, str]:
    return key_of(run.application_id).application, run.application_id or ""


def _searched_of_run(run: RecentRun) -> str:
    key = key_of(run.application_id)
    return f"{key.application} {key.input}"


def _flag(query: QueryParams, name: str) -> bool:
    value = query.get(name, "")
    if value not in ("", "0", "1"):
        raise queries.BadParameterError(f"{name}={value[:40]!r} has to be 1 or 0.")
    return value == "1"
