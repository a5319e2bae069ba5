"""Weeks by ISO 8601: from Monday to Sunday, in a time zone."""

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
    """A week: its name, its days with their time zone, its start and its end (exclusive) in ms."""

    name: str
    days: str
    from_ms: int
    until_ms: int

    def holds(self, time_ms: int) -> bool:
        """Return whether the week contains `time_ms`."""
        return self.from_ms <= time_ms < self.until_ms


def week_named(name: str, zone: tzinfo) -> Week:
    """Return the week with a name such as 2026-W47.

    Raise ConfigError if no week has that name.
    """
    found = _NAME.fullmatch(name)
    monday = None
    if found is not None and _FIRST_YEAR <= int(found[1]) <= _LAST_YEAR:
        with suppress(ValueError):  # most years have 52 weeks
            monday = date.fromisocalendar(int(found[1]), int(found[2]), 1)
    if monday is None:
        raise ConfigError(f"There is no week {name[:40]!r}; write an ISO week such as 2026-W47.")
    return _from(monday, zone)


def week_of(time_ms: int, zone: tzinfo) -> Week:
    """Return the week that contains `time_ms`."""
    day = datetime.fromtimestamp(time_ms / 1000, zone).date()
    return _from(day - timedelta(days=day.weekday()), zone)


def last_whole_week(now_ms: int, zone: tzinfo) -> Week:
    """Return the most recent week that has ended."""
    return week_of(week_of(now_ms, zone).from_ms - 1, zone)


def _from(monday: date, zone: tzinfo) -> Week:
    year, number, _ = monday.isocalendar()
    starts = (datetime.combine(monday + timedelta(days=days), datetime.min.time(), zone) for days in (0, 7))
    from_ms, until_ms = (round(start.timestamp() * 1000) for start in starts)
    days = f"{monday} to {monday + timedelta(days=6)} ({zone})"
    return Week(f"{year}-W{number:02d}", days, from_ms, until_ms)


RUNS_MAX: Final = 1_000_000  # of a week, which are held in memory; what is more is counted and left out
CURVES_MAX: Final = 20_000
_RUN: Final = msgspec.json.Decoder(Run)
_PREDICTION: Final = msgspec.json.Decoder(Prediction)
_COMPLETION: Final = msgspec.json.Decoder(JobCompleted)
_IDENTITY: Final = msgspec.json.Decoder(Identity)


class OfUser(Protocol):
    """The interface of a run in a report: it has a user."""

    @property
    def user(self) -> str | None:
        """The user of the run in the form the agent writes; None if no user is named."""


R = TypeVar("R", bound=OfUser)


class Collected(Generic[R]):
    """Collects the runs of a report, of one `user` or of all, and the newest curve of each application; writable like a sink.

    `counted` converts a run for the report, or returns None to leave the run out. `newest_ms` is the latest end of any run,
    counted or not.
    """

    def __init__(self, counted: Callable[[Run, JobCompleted], R | None], user: str | None = None) -> None:
        self._counted, self._user = counted, user
        self.runs: dict[str, R] = {}
        self.curves: dict[str, Prediction] = {}
        self.left_out = 0
        self.newest_ms: int | None = None

    def write(self, emissions: Iterable[Emission]) -> None:
        """Collect messages; a later message replaces an earlier one with the same key."""
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
        found = self._counted(run, event)
        if found is None or (self._user is not None and found.user != self._user):
            return
        if len(self.runs) >= RUNS_MAX:
            self.left_out += 1
            return
        self.runs[emission.key] = found


def reported_evidence(run: Run, event: JobCompleted) -> Iterator[Evidence]:
    """Yield the evidence of a run: the evidence of its end first, then fields known only from its start or other sources."""
    yield event.evidence
    known = event.evidence
    if known.user and known.time_limit_s and known.account and known.exclusive is not None:
        return
    for raw in run.identities:
        yield _IDENTITY.decode(raw).evidence
