"""The weeks of ISO 8601 in a time zone, from Monday to Sunday, and the runs and curves that a weekly report reads."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta, tzinfo
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, Identity, JobCompleted
from processors.contracts.outputs import Emission, Prediction, Run

_NAME: Final = re.compile(r"(\d{4})-W(\d{2})")
_FIRST_YEAR, _LAST_YEAR = 1990, 2099


class Week(NamedTuple):
    """A week: name, days with time zone, first moment and the moment after the last, in ms."""

    name: str
    days: str
    from_ms: int
    until_ms: int

    def holds(self, time_ms: int) -> bool:
        return self.from_ms <= time_ms < self.until_ms


def week_named(name: str, zone: tzinfo) -> Week:
    """Return the week of a name such as 2026-W47; ConfigError if there is none."""
    match = _NAME.fullmatch(name)
    monday = None
    if match is not None and _FIRST_YEAR <= int(match[1]) <= _LAST_YEAR:
        with suppress(ValueError):  # most years have 52 weeks
            monday = date.fromisocalendar(int(match[1]), int(match[2]), 1)
    if monday is None:
        raise ConfigError(f"There is no week {name[:40]!r}; write an ISO week such as 2026-W47.")
    return _from(monday, zone)


def week_of(time_ms: int, zone: tzinfo) -> Week:
    day = datetime.fromtimestamp(time_ms / 1000, zone).date()
    return _from(day - timedelta(days=day.weekday()), zone)


def last_whole_week(now_ms: int, zone: tzinfo) -> Week:
    return week_of(week_of(now_ms, zone).from_ms - 1, zone)


def _from(monday: date, zone: tzinfo) -> Week:
    year, number, _ = monday.isocalendar()
    starts = (datetime.combine(monday + timedelta(days=days), datetime.min.time(), zone) for days in (0, 7))
    from_ms, until_ms = (round(start.timestamp() * 1000) for start in starts)
    days = f"{monday} to {monday + timedelta(days=6)} ({zone})"
    return Week(f"{year}-W{number:02d}", days, from_ms, until_ms)


RUNS_MAX: Final = 1_000_000  # of a week, held in memory; further runs are only counted
CURVES_MAX: Final = 20_000
_RUN: Final = msgspec.json.Decoder(Run)
_PREDICTION: Final = msgspec.json.Decoder(Prediction)
_COMPLETION: Final = msgspec.json.Decoder(JobCompleted)
_IDENTITY: Final = msgspec.json.Decoder(Identity)


class WeeklyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that all weekly reports share; `end` is the first moment after the week."""

    schema: str
    agent_version: str
    week: str
    days: str
    start: str
    end: str


def encoded(report: WeeklyReport) -> bytes:
    """Return a report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


class HasUser(Protocol):
    """A run with its user, written as the agent writes users; None if the run names nobody."""

    @property
    def user(self) -> str | None: ...


R = TypeVar("R", bound=HasUser)


class Collected(Generic[R]):
    """A sink that keeps the runs of a report, of one `user` or of all, and the newest curve of each application.

    `convert` returns the run in the form of the report, None if the run does not count. `newest_ms` is the end of the newest
    run, whether it counts or not.
    """

    def __init__(self, convert: Callable[[Run, JobCompleted], R | None], user: str | None = None) -> None:
        self._convert, self._user = convert, user
        self.runs: dict[str, R] = {}
        self.curves: dict[str, Prediction] = {}
        self.left_out = 0
        self.newest_ms: int | None = None

    def write(self, emissions: Iterable[Emission]) -> None:
        """Read messages; a later message replaces an earlier one with the same key."""
        for emission in emissions:
            if emission.kind == "predictions":
                self._take_curve(emission)
            elif emission.kind == "runs":
                self._take_run(emission)

    def _take_curve(self, emission: Emission) -> None:
        self.curves.pop(emission.key, None)
        if emission.value is not None:
            self.curves[emission.key] = _PREDICTION.decode(emission.value)
            if len(self.curves) > CURVES_MAX:
                del self.curves[next(iter(self.curves))]

    def _take_run(self, emission: Emission) -> None:
        self.runs.pop(emission.key, None)
        if emission.value is None:
            return
        run = _RUN.decode(emission.value)
        event = _COMPLETION.decode(run.event)
        self.newest_ms = max(event.end_ms, self.newest_ms or event.end_ms)
        converted = self._convert(run, event)
        if converted is None or (self._user is not None and converted.user != self._user):
            return
        if len(self.runs) >= RUNS_MAX:
            self.left_out += 1
            return
        self.runs[emission.key] = converted


def reported_evidence(run: Run, event: JobCompleted) -> Iterator[Evidence]:
    """Yield the evidence of a run: that of its end first, then that of its start and of other sources if fields are missing."""
    evidence = event.evidence
    yield evidence
    if evidence.user and evidence.time_limit_s and evidence.account and evidence.exclusive is not None:
        return
    for raw in run.identities:
        yield _IDENTITY.decode(raw).evidence
