"""Access rules: an operator sees everything, a user sees the details of the user's own jobs."""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from processors.contracts.hosts import ExplainedRunList, HostLines, HostUse, HostView, ResourceLine
from processors.contracts.names import job_key
from processors.contracts.outputs import Alert, JobPrediction
from processors.contracts.service import (
    DeadLetterView,
    Forwarding,
    Health,
    Neighbour,
    RecentRun,
    RunningJob,
    Service,
    Silence,
    Story,
    Views,
)
from processors.contracts.telemetry import JOB

NAME_BYTES_MAX: Final = 256
TOKEN_BYTES_MAX: Final = 4096


Entry = TypeVar("Entry")
OfUser = TypeVar("OfUser", JobPrediction, RunningJob, RecentRun)


class Reader(msgspec.Struct, frozen=True):
    """The sender of a request: the user in the form stored in the journal (None if unknown), and whether the sender is an operator."""

    user: str | None = None
    operator: bool = False

    def sees(self, user: str | None) -> bool:
        return self.operator or (user is not None and user == self.user)

    def own(self, entries: Sequence[OfUser]) -> Sequence[OfUser]:
        return entries if self.operator else [entry for entry in entries if self.sees(entry.user)]


EVERYBODY: Final = Reader(operator=True)  # used without access control
STRANGER: Final = Reader()
# the reader of this thread or task, for code without a request; by default an unknown reader
PRESENT: Final[ContextVar[Reader]] = ContextVar("reader", default=STRANGER)


def reader(request: Request) -> Reader:
    """Return the reader of a request; without access control everybody is an operator."""
    who: Reader = request.scope.get("scalewatch.reader", EVERYBODY)
    return who


class Token(msgspec.Struct, frozen=True):
    """An accepted bearer token: its digest and its reader. The token itself is not kept."""

    digest: bytes
    reader: Reader


class Access(msgspec.Struct, frozen=True):
    """Identifies the reader of a request by a bearer token, or by the header of a trusted proxy.

    `written` returns the form in which the journal stores a user name, or None if the journal stores no names. The header takes
    precedence, because the proxy may forward the token with which it logged in itself.
    """

    tokens: Sequence[Token] = ()
    user_header: str | None = None
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = ()
    operators: frozenset[str] = frozenset()
    written: Callable[[str], str | None] = str
    metrics_open: bool = False

    def reader_of(self, scope: Scope) -> Reader | None:
        headers = Headers(scope=scope)
        name = self._named(headers, scope.get("client"))
        if name is not None:
            return Reader(user=self.written(name), operator=name in self.operators)
        shown = _bearer(headers)
        return None if shown is None else self._shown(shown)

    def _named(self, headers: Headers, client: tuple[str, int] | None) -> str | None:
        """Return the user name in the header of a trusted proxy; None if the header occurs twice, because then a client forged one."""
        if self.user_header is None or not self._trusted(client):
            return None
        shown = headers.getlist(self.user_header)
        name = shown[0].strip() if len(shown) == 1 else ""
        return _text(name) if 0 < len(name) <= NAME_BYTES_MAX else None

    def _trusted(self, client: tuple[str, int] | None) -> bool:
        try:
            address = ip_address(client[0].partition("%")[0]) if client else None
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return address is not None and any(address in network for network in self.trusted_proxies)

    def _shown(self, token: bytes) -> Reader | None:
        """Return the reader of a token. The token is compared with all entries, so that the response time does not depend on the match."""
        digest, owner = token_digest(token), None
        for entry in self.tokens:
            if hmac.compare_digest(digest, entry.digest):
                owner = entry.reader
        return owner


def token_digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _bearer(headers: Headers) -> bytes | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    shown = token.strip().encode("latin-1")
    return shown if scheme.lower() == "bearer" and 0 < len(shown) <= TOKEN_BYTES_MAX else None


def _text(name: str) -> str:
    """Return a header value as text, decoded as UTF-8 as proxies write it."""
    raw = name.encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return name


# Operators see everything. Other readers see applications, hosts and alerts, but no jobs and runs of other users, and no
# names of these jobs in other texts. Only operators see dead letters.
UNREADY: Final = "Only operators see the reason."
RUNS_LOOKED_UP_MAX: Final = 64  # maximum runs looked up for one alert
OTHERS: Final = "another user's {}"
_MENTIONED: Final = re.compile(r"\b(run|job) ([^\s/]+/[^\s/]+?)(?=[\s,;:.)]*(?:\s|$))")
_SERIES: Final = re.compile(rf"{JOB}([^\s,;:)]+)")


class VisibilityFilter(Forwarding):
    """A service restricted to the data that the current reader may see, as `present` returns the reader."""

    def __init__(self, service: Service, present: Callable[[], Reader] = PRESENT.get) -> None:
        super().__init__(service)
        self._present = present

    def jobs(self) -> Sequence[JobPrediction]:
        return self._present().own(self._service.jobs())

    def running(self) -> Sequence[RunningJob]:
        return self._present().own(self._service.running())

    def job(self, system: str, job_id: str) -> JobPrediction | None:
        return self._own(self._service.job(system, job_id))

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        return self._own(self._service.ended(system, job_id))

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        return self._present().own(self._service.runs(application_id))

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        return self._present().own(self._service.runs_of_job(system, job_id))

    def recent_runs(self) -> Sequence[RecentRun]:
        return self._present().own(self._service.recent_runs())

    def alerts(self) -> Sequence[Alert]:
        sees = self._present().sees
        alerts = [each for each in self._service.alerts() if "job" not in each.labels or sees(each.labels.get("user"))]
        return self._hiding(alerts, self._alert)

    def silences(self) -> Mapping[str, Silence]:
        silences = self._service.silences()
        if self._present().operator:
            return silences
        return {key: msgspec.structs.replace(silence, by="", comment="") for key, silence in silences.items()}

    def hosts(self, limit: int) -> Sequence[HostView]:
        return self._hiding(self._service.hosts(limit), _host)

    def host_uses(self, limit: int) -> Sequence[HostUse]:
        return self._hiding(self._service.host_uses(limit), _use)

    def reading(self, system: str) -> Views:
        views = self._service.reading(system)
        return views if self._present().operator else VisibleViews(views, system, self._running(), self.is_own)

    def dead_letters(self) -> Sequence[DeadLetterView]:
        """Return the newest dead letters; empty unless the reader is an operator, because dead letters quote messages."""
        return self._service.dead_letters() if self._present().operator else ()

    def health(self) -> Sequence[Health]:
        """Return the health of every role. Only operators see the reasons, because these may quote error messages of brokers."""
        roles = self._service.health()
        if self._present().operator:
            return roles
        return [role if role.ready else msgspec.structs.replace(role, reasons=(UNREADY,)) for role in roles]

    def _hiding(self, entries: Sequence[Entry], hide: Callable[[Entry, frozenset[str]], Entry]) -> Sequence[Entry]:
        """Return the entries; for other readers than operators, replaced by `hide(entry, keys of the reader's running jobs)`."""
        if self._present().operator:
            return entries
        running = self._running()
        return [hide(entry, running) for entry in entries]

    def _own(self, job: JobPrediction | None) -> JobPrediction | None:
        return job if job is not None and self._present().sees(job.user) else None

    def _running(self) -> frozenset[str]:
        return frozenset(job_key(job.system, job.job_id) for job in self.running())

    def _alert(self, alert: Alert, running: frozenset[str]) -> Alert:
        if "job" in alert.labels:  # the reader's own job
            return alert
        owned: dict[str, bool] = {}

        def is_own(name: str) -> bool:
            if name not in owned:
                owned[name] = name in running or (len(owned) < RUNS_LOOKED_UP_MAX and self.is_own(name))
            return owned[name]

        evidence, system = alert.evidence, alert.labels.get("system", "")
        names = (*evidence.runs, *filter(None, [str(evidence.detail.get("job", ""))]))
        hidden = [name for name in names if not is_own(name)]

        def phrase(text: str) -> str:
            for name in hidden:
                text = text.replace(f"run {name}", OTHERS.format("run")).replace(f"job {name}", OTHERS.format("job"))
                text = text.replace(name, OTHERS.format("job"))
            text = _MENTIONED.sub(lambda match: match[0] if is_own(match[2]) else OTHERS.format(match[1]), text)
            return _SERIES.sub(lambda match: match[0] if is_own(job_key(system, match[1])) else "", text)

        detail = {
            phrase(name): value if not isinstance(value, str) else phrase(value)
            for name, value in evidence.detail.items()
            if name != "job" or value not in hidden
        }
        return msgspec.structs.replace(
            alert,
            annotations={name: phrase(text) for name, text in alert.annotations.items()},
            evidence=msgspec.structs.replace(evidence, runs=tuple(filter(is_own, evidence.runs)), detail=detail),
        )

    def is_own(self, name: str) -> bool:
        """Return whether a run or job id belongs to the reader; an unknown job belongs to nobody."""
        system, _, rest = name.partition("/")
        job_id, separator, _ = rest.rpartition("@")
        runs = self.runs_of_job(unquote(system), unquote(job_id if separator else rest))
        return any(run.run_id == name or not separator for run in runs)


class VisibleViews(Views):
    """The views of a system for a reader who is not an operator, without the jobs and runs of other users.

    `running` has the keys of the reader's running jobs; `is_own` tells from a run id whether the run belongs to the reader.
    """

    def __init__(self, views: Views, system: str, running: frozenset[str], is_own: Callable[[str], bool]) -> None:
        self._views, self._system, self._running, self._is_own = views, system, running, is_own

    def host(self, host: str) -> HostView | None:
        view = self._views.host(host)
        return None if view is None else _host(view, self._running)

    def host_lines(self, host: str, resource: str | None = None) -> HostLines | None:
        lines = self._views.host_lines(host, resource)
        return None if lines is None else _lines(lines, self._running)

    def hosts_of_job(self, job_id: str) -> Sequence[str]:
        return self._views.hosts_of_job(job_id) if self._is_running(job_id) else ()

    def neighbours(self, job_id: str) -> Sequence[Neighbour]:
        if not self._is_running(job_id):
            return ()
        return [job for job in self._views.neighbours(job_id) if self._is_running(job.job_id)]

    def explained_runs(self, host: str) -> ExplainedRunList:
        runs = tuple(run for run in self._views.explained_runs(host).runs if self._is_own(run.run_id))
        return ExplainedRunList(len(runs), runs)

    def story(self, application_id: str) -> Story | None:
        return self._views.story(application_id)  # a story has no user, job or run names, like the curve

    def _is_running(self, job_id: str) -> bool:
        return job_key(self._system, job_id) in self._running


def _host(view: HostView, running: frozenset[str]) -> HostView:
    """Return a host without the measurements of single jobs, except the jobs in `running`; some producers report each job on a host."""
    resources = tuple(entry for entry in view.resources if _is_shown(view.system, entry.resource, running))
    job = view.job if view.job in running else None
    return msgspec.structs.replace(view, job=job, resources=resources)


def _use(use: HostUse, running: frozenset[str]) -> HostUse:
    return use if use.job in running else msgspec.structs.replace(use, job=None)


def _lines(lines: HostLines, running: frozenset[str]) -> HostLines:

    def visible(line: ResourceLine) -> ResourceLine:
        shown = {name: band for name, band in line.resources.items() if _is_shown(lines.system, name, running)}
        return msgspec.structs.replace(line, resources=shown)

    return msgspec.structs.replace(lines, day=visible(lines.day), hour=visible(lines.hour))


def _is_shown(system: str, resource: str, running: frozenset[str]) -> bool:
    _, of_job, job_id = resource.partition(JOB)
    return not of_job or job_key(system, job_id) in running
