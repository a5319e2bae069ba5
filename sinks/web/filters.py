"""Which jobs a reader asks for: one place decides what a filter means, for the pages and the API alike."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams

from processors.contracts.events import STATES, SUCCESS
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import JobPrediction, Prediction, RecentRun, RunningJob, hits
from sinks.web import queries

Entry = TypeVar("Entry")
NEVER: Final = ApplicationKey("", "", "", "nodes")
TEXTS: Final = ("search", "system", "job_id", "application", "user", "account", "partition", "state")
FLAGS: Final = ("outside_band", "hits_limit")


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list of jobs is limited to; an empty text and a flag that is not set limit nothing.

    `application` is a name or a whole id, `search` a part of a job's id, application or input in any case. `state` is how
    a run ended, and `outside_band` asks for completed runs outside of their band: running jobs have neither. `hits_limit` asks for jobs that
    will probably hit their time limit, and for runs that did.
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
        """Return what the parameters of a request ask for; BadParameterError where they make no sense."""
        texts: dict[str, Any] = {name: (queries.text(query, name) or "").strip() for name in TEXTS}
        if texts["state"] and texts["state"] not in STATES:
            raise queries.BadParameterError(f"state={texts['state'][:40]!r} has to be one of {', '.join(STATES)}.")
        flags: dict[str, Any] = {name: _flag(query, name) for name in FLAGS}
        return cls(**texts, **flags)

    def query(self, **changes: str) -> dict[str, str]:
        """Return the parameters that ask for this, with changes; an empty one is left out."""
        own = {name: getattr(self, name) for name in TEXTS} | {name: "1" * getattr(self, name) for name in FLAGS}
        return {name: value for name, value in (own | changes).items() if value}

    def jobs(self, found: Sequence[RunningJob]) -> list[RunningJob]:
        """Return the running jobs that are asked for, in their order."""
        if self.state or self.outside_band:
            return []
        tests = self._tests(
            {"application": _names_of_job, "search": lambda job: f"{job.application or ''} {job.input or ''}"}
        )
        if self.hits_limit:
            tests.append(lambda job: hits(job.probability_exceeds_limit, session=job.session))
        return _passing(tests, found)

    def runs(self, found: Sequence[RecentRun]) -> list[RecentRun]:
        """Return the runs that are asked for, in their order."""
        tests = self._tests({"application": _names_of_run, "search": _searched_of_run})
        if self.state:
            tests.append(lambda run: run.state == self.state)
        if self.outside_band:
            tests.append(is_outside)
        if self.hits_limit:
            tests.append(lambda run: run.state == "TIMEOUT" and not run.session)
        return _passing(tests, found)

    def is_known(
        self, predictions: Sequence[Prediction], running: Sequence[RunningJob], ended: Sequence[RecentRun]
    ) -> bool:
        """Return whether a prediction, a running job or a run has the application that is asked for, if one is."""
        names = chain(map(_names_of_prediction, predictions), map(_names_of_job, running), map(_names_of_run, ended))
        return not self.application or any(self.application in each for each in names)

    def _tests(self, of: Mapping[str, Callable[[Any], Any]]) -> list[Callable[[Any], bool]]:
        """Return a test for each text that is given; `of` returns the names of a job or run, and what is searched in it."""
        tests: list[Callable[[Any], bool]] = [
            lambda entry, name=name, value=value: getattr(entry, name) == value  # type: ignore[misc]  # bound early
            for name in ("system", "job_id", "user", "account", "partition")
            if (value := getattr(self, name))
        ]
        if self.application:
            tests.append(lambda entry: self.application in of["application"](entry))
        if self.search:
            sought = self.search.casefold()
            tests.append(lambda entry: sought in f"{entry.system}/{entry.job_id} {of['search'](entry)}".casefold())
        return tests


def _passing(tests: Sequence[Callable[[Any], bool]], found: Sequence[Entry]) -> list[Entry]:
    """Return what passes all tests; each looks only at what those before it let through."""
    left: Sequence[Entry] = found
    for test in tests:
        left = [entry for entry in left if test(entry)]
    return list(left)


def is_outside(run: RecentRun) -> bool:
    """Return whether a run completed outside of its band; one that was not predicted, or did not complete, was not compared."""
    return run.state == SUCCESS and run.predicted is not None and not run.predicted.holds(run.run_time_s)


def of_predicted(run: RecentRun) -> float | None:
    """Return a run time as a multiple of what was predicted; None where nothing was."""
    shown = run.predicted
    return run.run_time_s / shown.run_time_s if shown is not None and shown.run_time_s > 0 else None


def address(path: str, query: Mapping[str, str]) -> str:
    """Return the address of a list."""
    return f"{path}?{urlencode(query)}" if query else path


@lru_cache(maxsize=4096)
def key_of(application_id: str | None) -> ApplicationKey:
    """Return the key of an application's id; that of no application where it is none."""
    try:
        return ApplicationKey.parse(application_id) if application_id else NEVER
    except ValueError:
        return NEVER


def id_of(job: RunningJob | JobPrediction) -> str:
    """Return the id of the application of a running job; empty where it was not identified."""
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
    given = query.get(name, "")
    if given not in ("", "0", "1"):
        raise queries.BadParameterError(f"{name}={given[:40]!r} has to be 1 or 0.")
    return given == "1"
