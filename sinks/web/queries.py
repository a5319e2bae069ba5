"""Reads and checks query parameters, filters job lists, makes links to pages, and finds the application that a URL path names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from math import isfinite
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, unquote, urlencode
from zlib import crc32

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from processors.alerts.rules import HANGING_JOB
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import STATES, SUCCESS, Attribute, Evidence, PredictionRequested
from processors.contracts.hosts import HostView
from processors.contracts.names import ApplicationKey, host_link, parse_rfc3339
from processors.contracts.nodes import spread
from processors.contracts.outputs import Alert, Answer, JobPrediction, Prediction
from processors.contracts.service import RecentRun, RunningJob, Service, hits
from processors.contracts.settings import EVIDENCE_FIELDS

SIZES_MAX: Final = 100
SIZE_LARGEST: Final = 1e9
TEXT_MAX: Final = 256
FIELD_MAX: Final = 4096  # maximum characters of a job's field, as many as the identification rules search
HOSTS_MAX: Final = 16_384  # maximum characters of a host list
ATTRIBUTES_MAX: Final = 32
FEATURES_MAX: Final = 64
ROWS_DEFAULT: Final = 1000
ROWS_MAX: Final = 10_000
KNOWN_MAX: Final = 20
NEAR_MAX: Final = 5
Truth = Callable[[str, float], float | None]
Entry = TypeVar("Entry")
OfJob = TypeVar("OfJob", RunningJob, RecentRun)


class BadParameterError(Exception):
    """An invalid query parameter; the text is one full sentence."""


def text(query: QueryParams, name: str, characters_max: int = TEXT_MAX) -> str | None:
    value = query.get(name)
    if value is not None and len(value) > characters_max:
        raise BadParameterError(f"{name} is longer than {characters_max} characters.")
    return value


def description(query: QueryParams) -> dict[str, str]:
    """Return the query fields that describe a job; scripts and paths may be longer than other texts."""
    return {name: value for name in EVIDENCE_FIELDS if (value := text(query, name, FIELD_MAX))}


def members(query: QueryParams) -> bool:
    """Return whether the response includes the members of the model; `members=false` omits them."""
    value = query.get("members", "true")
    if value not in ("true", "false"):
        raise BadParameterError(f"members={value[:40]!r} has to be true or false.")
    return value == "true"


def sizes(query: QueryParams) -> tuple[float, ...]:
    """Return the requested sizes: `n` given several times, or as a list with commas."""
    parts = [part.strip() for value in query.getlist("n") for part in value.split(",")]
    if len(parts) > SIZES_MAX:
        raise BadParameterError(f"n has {len(parts)} sizes, at most {SIZES_MAX} are allowed.")
    return tuple(_size(part) for part in parts)


def hosts(query: QueryParams) -> tuple[str, ...]:
    """Return the requested host lists: `hosts` given several times, or as one text."""
    texts = tuple(value for value in query.getlist("hosts") if value)
    if sum(map(len, texts)) > HOSTS_MAX:
        raise BadParameterError(f"hosts has more than {HOSTS_MAX} characters; use host lists such as n[1-64].")
    try:
        spread(texts, limit=1)
    except InvalidInputError as error:
        raise BadParameterError(str(error)) from None
    return texts


def attributes(query: QueryParams) -> dict[str, Attribute]:
    """Return the attributes of a job from `attribute.NAME`. Numbers stay texts; the model converts them."""
    return dict(_named(query, "attribute.", ATTRIBUTES_MAX))


def features(query: QueryParams) -> dict[str, float]:
    """Return numeric features from `feature.NAME`: communication features of a placement, or counters."""
    return {name: _number(name, value) for name, value in _named(query, "feature.", FEATURES_MAX).items()}


def _named(query: QueryParams, prefix: str, most: int) -> dict[str, str]:
    values = {name.removeprefix(prefix): value for name, value in query.items() if name.startswith(prefix)}
    if len(values) > most:
        raise BadParameterError(f"There are {len(values)} parameters {prefix}NAME, at most {most} are allowed.")
    for name, value in values.items():
        if not name or max(len(name), len(value)) > TEXT_MAX:
            raise BadParameterError(f"{prefix}{name[:40]} needs a name and a value of at most {TEXT_MAX} characters.")
    return values


def _float(value: str) -> float:
    """Return a number; NaN for any other text."""
    try:
        return float(value)
    except ValueError:
        return float("nan")


def _number(name: str, value: str) -> float:
    number = _float(value)
    if not isfinite(number):
        raise BadParameterError(f"feature.{name[:40]}={value[:40]!r} is not a number.")
    return number


def _size(part: str) -> float:
    n = _float(part)
    if not 0 < n <= SIZE_LARGEST:
        raise BadParameterError(f"n={part[:40]!r} is not a size: it has to be a number above 0 and at most 1e9.")
    return n


def rows(query: QueryParams) -> tuple[int, int]:
    return whole(query, "offset", 0, 10**9), whole(query, "limit", ROWS_DEFAULT, ROWS_MAX)


def page(query: QueryParams) -> int:
    return max(1, whole(query, "page", 1, 10**6))


def whole(query: Mapping[str, str], name: str, default: int, largest: int) -> int:
    value = query.get(name, str(default))
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= largest):
        raise BadParameterError(f"{name}={value[:40]!r} has to be a whole number from 0 to {largest}.")
    return int(value)


def raw_path(request: Request, prefix: str) -> str:
    """Return the URL path after `prefix` as the client sent it, with its escapes."""
    raw: bytes = request.scope.get("raw_path") or b""
    return raw.decode("latin-1").partition("?")[0].removeprefix(prefix)


def id_of(entry: Prediction | JobPrediction | RunningJob | Answer) -> str:
    """Return the application id of a message; empty if the application was not identified."""
    if entry.application is None:
        return ""
    return ApplicationKey(entry.application, entry.system, entry.input or "", entry.unit or "nodes").id


def link(id_: str) -> str:
    """Return an application id for use in a URL. The id has escapes, which are escaped again, because a server decodes once."""
    return quote(id_, safe="/")


def application_link(id_: str) -> str:
    return f"/applications/{link(id_)}"


def application_page(service: Service, id_: str | None) -> str:
    """Return the address of an application's page; empty if the application has no prediction and hence no page."""
    return application_link(id_) if id_ and service.prediction(id_) is not None else ""


def host_page(system: str, host: str) -> str:
    return f"/hosts/{host_link(system, host)}"


def alert_link(alert: Alert) -> str:
    return f"/alerts/{quote(alert.fingerprint)}"


def job_link(system: str, job_id: str) -> str:
    """Return the address of a job's page; the names come from outside, so they are escaped."""
    return f"/jobs/{quote(system, safe='')}/{quote(job_id, safe='')}"


def user_link(user: str) -> str:
    return f"/users/{quote(user, safe='')}"


def project_link(account: str) -> str:
    return f"/projects/{quote(account, safe='')}"


def job_of(key: str) -> tuple[str, str]:
    """Return system and job id from a job key `system/job`, or from a run id `system/job@start`."""
    system, _, rest = key.partition("/")
    job_id, separator, _ = rest.rpartition("@")
    return unquote(system), unquote(job_id if separator else rest)


def find(service: Service, path: str, raw_path: str) -> Prediction | None:
    """Return the prediction of the application that a URL path names, whether its id was escaped once or twice; None if unknown.

    `path` is the path as the server decoded it, `raw_path` as the client sent it. A path of three parts has an empty input,
    because a proxy may merge the two slashes around it into one.
    """
    entries = map(service.prediction, dict.fromkeys(_spellings(path, raw_path)))
    return next((entry for entry in entries if entry is not None), None)


def _spellings(path: str, raw_path: str) -> Iterator[str]:
    for text in (path, raw_path):
        yield text
        parts = text.split("/")
        if len(parts) == 3:
            yield f"{parts[0]}/{parts[1]}//{parts[2]}"
        if len(parts) == 4:
            yield ApplicationKey(*(unquote(parts[index]) for index in (1, 0, 2, 3))).id


def matching(entries: Sequence[Entry], wanted: Mapping[str, str | None]) -> list[Entry]:
    """Return the entries whose fields equal `wanted`; None matches everything."""
    requested = {name: value for name, value in wanted.items() if value is not None}
    return [entry for entry in entries if all(getattr(entry, name) == value for name, value in requested.items())]


def known_ids(predictions: Sequence[Prediction], like: str = "") -> list[str]:
    """Return some known ids to help with a typo; ids with the application name in `like` come first."""
    ids = sorted((entry.application != like, id_of(entry)) for entry in predictions)
    return [id_ for _, id_ in ids[:KNOWN_MAX]]


def name_of(entry: Prediction) -> str:
    """Return the display name of an application: name and input, then system and unit."""
    return " ".join(part for part in (entry.application, entry.input, f"({entry.system}, {entry.unit})") if part)


def names(predictions: Sequence[Prediction], limit: int) -> list[str]:
    return nsmallest(limit, map(name_of, predictions))


def named(predictions: Sequence[Prediction], called: str) -> Prediction | None:
    """Return the application with the id, full name or name `called`, ignoring case; None without a match, or if several have the name."""
    sought = called.strip().casefold()
    full = (entry for entry in predictions if sought in (id_of(entry).casefold(), name_of(entry).casefold()))
    alone = [entry for entry in predictions if entry.application.casefold() == sought]
    return next(full, alone[0] if len(alone) == 1 else None)


def not_named(predictions: Sequence[Prediction], called: str) -> str:
    """Return the error message that no application has the name `called`, with similar names."""
    sought = called.strip().casefold()
    near = names([entry for entry in predictions if sought in name_of(entry).casefold()], NEAR_MAX)
    if not near:
        return f"No application is called {called[:80]!r}."
    return f"{called[:80]!r} is not the full name of one application. Similar names: {', '.join(near)}."


def present_ms(service: Service) -> int | None:
    """Return the newest known time in ms, from a tick or an event; None if neither is known."""
    ticks = (role.folded_ms for role in service.health() if role.folded_ms is not None)
    events = (source.newest_ms for source in service.sources() if source.newest_ms is not None)
    newest = max((*ticks, *events), default=None)
    if newest is not None:
        return newest
    # without ticks and events, the newest output gives the time
    parts = (service.predictions(), service.running(), service.alerts(), service.hosts(1))
    return max(filter(None, (ms_of(entry.as_of) for part in parts for entry in part)), default=None)


def ms_of(time: str | None) -> int | None:
    """Return a time in ms; None if it is unknown, as in an output before the first tick."""
    with suppress(InvalidInputError):
        return None if time is None else parse_rfc3339(time)
    return None


def question(
    entry: Prediction, sizes: Sequence[float], place: Evidence, features: dict[str, float]
) -> PredictionRequested:
    """Return the request for run times at `sizes`, on the hosts or partition in `place`; equal requests have the same id."""
    parts = [
        id_of(entry),
        *map(str, sizes),
        str(msgspec.json.encode(place, order="sorted")),
        str(sorted(features.items())),
    ]
    return PredictionRequested(
        system=entry.system,
        request_id=f"http-{crc32('?'.join(parts).encode()):08x}",
        n=tuple(sizes),
        evidence=msgspec.structs.replace(place, application=entry.application, input=entry.input),
        unit=entry.unit,
        features=features,
    )


def identification(system: str, evidence: Evidence) -> PredictionRequested:
    content = msgspec.json.encode((system, evidence), order="sorted")
    return PredictionRequested(system, request_id=f"http-{crc32(content):08x}", n=(), evidence=evidence, unit="nodes")


def is_in_rack(service: Service, system: str, host: str, labels: Mapping[str, str]) -> bool:
    rack = service.rack(system, host) if system == labels.get("system") else None
    return rack is not None and rack.name == labels.get("rack")


# the Grafana dashboard for each page template
_DASHBOARDS: Final = {
    "overview.html": "centre",
    "alerts.html": "centre",
    "alert.html": "centre",
    "application.html": "application",
    "hosts.html": "host",
    "host.html": "host",
    "jobs.html": "jobs",
    "job.html": "jobs",
    "agent.html": "agent",
}


class PageLinks(msgspec.Struct, frozen=True):
    """The address of Grafana, and the address template of a job in a portal; each may be None."""

    grafana_url: str | None = None
    job_portal: str | None = None

    def portal(self, system: str, job_id: str) -> str | None:
        if self.job_portal is None:
            return None
        return self.job_portal.format(system=quote(system, safe=""), job_id=quote(job_id, safe=""))

    def dashboard(self, template: str, shown: Mapping[str, Any]) -> str | None:
        name = _DASHBOARDS.get(template)
        if self.grafana_url is None or name is None:
            return None
        chosen = urlencode({f"var-{key}": value for key, value in _variables(shown).items()})
        return f"{self.grafana_url.rstrip('/')}/d/scalewatch-{name}{chosen and f'?{chosen}'}"


def _variables(shown: Mapping[str, Any]) -> dict[str, str]:
    """Return the dashboard variables of the host or application on a page; the variable `input` has the form of a label matcher."""
    host, row = shown.get("host"), shown.get("row")
    if isinstance(host, HostView):
        return {"system": host.system, "host": host.host}
    entry = getattr(row, "prediction", None)
    if isinstance(entry, Prediction):
        matcher = f"input='{entry.input}'"
        return {"system": entry.system, "application": entry.application, "input": matcher, "unit": entry.unit}
    return {}


NEVER: Final = ApplicationKey("", "", "", "nodes")
TEXTS: Final = ("search", "system", "job_id", "application", "user", "account", "partition", "state")
FLAGS: Final = ("outside_band", "hits_limit", "hangs")


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a job list; an empty text or an unset flag does not filter.

    `application` is a name or a whole id, `search` a part of a job's id, application or input, ignoring case. `state` and
    `outside_band` (completed runs outside their band) match ended runs only. `hits_limit` matches jobs that will probably hit
    their time limit, and runs that did. `hangs` matches jobs with an open alert that they hang.
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
    hangs: bool = False

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """Return the filters in a query; raise BadParameterError if a value is invalid."""
        texts: dict[str, Any] = {name: (text(query, name) or "").strip() for name in TEXTS}
        if texts["state"] and texts["state"] not in STATES:
            raise BadParameterError(f"state={texts['state'][:40]!r} has to be one of {', '.join(STATES)}.")
        flags: dict[str, Any] = {name: _flag(query, name) for name in FLAGS}
        return cls(**texts, **flags)

    def query(self, **changes: str) -> dict[str, str]:
        values = {name: getattr(self, name) for name in TEXTS} | {name: "1" * getattr(self, name) for name in FLAGS}
        return {name: value for name, value in (values | changes).items() if value}

    def jobs(self, running: Sequence[RunningJob], alerts: Sequence[Alert]) -> list[RunningJob]:
        """Return the running jobs that match; `alerts` name the jobs that hang."""
        if self.state or self.outside_band:
            return []
        hang = hanging(alerts)
        running = [job for job in running if not self.hangs or (job.system, job.job_id) in hang]
        return self._passing(running, lambda job: hits(job.probability_exceeds_limit, session=job.session))

    def runs(self, ended: Sequence[RecentRun]) -> list[RecentRun]:
        passing = self._passing([] if self.hangs else ended, lambda run: run.state == "TIMEOUT" and not run.session)
        of_state = [run for run in passing if self.state in ("", run.state)]
        return [run for run in of_state if is_outside(run)] if self.outside_band else of_state

    def is_known(
        self, predictions: Sequence[Prediction], running: Sequence[RunningJob], ended: Sequence[RecentRun]
    ) -> bool:
        """Return whether any prediction, running job or run has the application in the filter; true without such a filter."""
        entries: Iterator[Prediction | RunningJob | RecentRun] = chain(predictions, running, ended)
        return not self.application or any(map(self._is_of, entries))

    def _is_of(self, entry: Prediction | RunningJob | RecentRun) -> bool:
        id_ = (entry.application_id or "") if isinstance(entry, RecentRun) else id_of(entry)
        return self.application in (id_, key_of(id_).application)

    def _passing(self, entries: Sequence[OfJob], hits_limit: Callable[[OfJob], bool]) -> list[OfJob]:
        names = ("system", "job_id", "user", "account", "partition")
        fields = {name: value for name in names if (value := getattr(self, name))}
        left = [entry for entry in entries if all(getattr(entry, name) == value for name, value in fields.items())]
        if self.application:
            left = [entry for entry in left if self._is_of(entry)]
        if self.search:
            left = [entry for entry in left if self.search.casefold() in _searched(entry).casefold()]
        return [entry for entry in left if hits_limit(entry)] if self.hits_limit else left


def hanging(alerts: Sequence[Alert]) -> set[tuple[str | None, ...]]:
    """Return system and id of the jobs with a firing alert that they hang."""
    firing = [alert.labels for alert in alerts if alert.name == HANGING_JOB.name and alert.status == "firing"]
    return {(labels.get("system"), labels.get("job")) for labels in firing}


def is_outside(run: RecentRun) -> bool:
    """Return whether a run completed with a run time outside its band; False for runs that are not compared with a band."""
    return run.state == SUCCESS and run.predicted is not None and not run.predicted.holds(run.run_time_s)


def of_predicted(run: RecentRun) -> float | None:
    """Return the ratio of the run time to its prediction; None without a prediction."""
    predicted = run.predicted
    return run.run_time_s / predicted.run_time_s if predicted is not None and predicted.run_time_s > 0 else None


def address(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


@lru_cache(maxsize=4096)
def key_of(application_id: str | None) -> ApplicationKey:
    """Return the key for an application id; if the id is missing or malformed, return NEVER, a key that no application has."""
    try:
        return ApplicationKey.parse(application_id) if application_id else NEVER
    except ValueError:
        return NEVER


def _searched(entry: RunningJob | RecentRun) -> str:
    key = key_of(entry.application_id) if isinstance(entry, RecentRun) else entry
    return f"{entry.system}/{entry.job_id} {key.application or ''} {key.input or ''}"


def _flag(query: QueryParams, name: str) -> bool:
    value = query.get(name, "")
    if value not in ("", "0", "1"):
        raise BadParameterError(f"{name}={value[:40]!r} has to be 1 or 0.")
    return value == "1"
