"""ISO 8601 weeks in a time zone, from Monday to Sunday, and the runs and curves that a weekly report reads."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final, NamedTuple

import msgspec

from processors.contracts.errors import ConfigError
from processors.contracts.events import UNITS, Evidence, Identity, JobCompleted, nodes_of
from processors.contracts.hosts import Profile
from processors.contracts.names import ApplicationKey, rfc3339
from processors.contracts.outputs import Emission, Prediction, Run, RunSummary
from processors.contracts.settings import SESSION

_NAME: Final = re.compile(r"(\d{4})-W(\d{2})")
_FIRST_YEAR, _LAST_YEAR = 1990, 2099


class Week(NamedTuple):
    """A week: name, days with time zone, first moment, and first moment of the next week, in ms."""

    name: str
    days: str
    from_ms: int
    until_ms: int

    def holds(self, time_ms: int) -> bool:
        return self.from_ms <= time_ms < self.until_ms


def week_named(name: str, zone: tzinfo) -> Week:
    """Return the week with a name such as 2026-W47; raise ConfigError if the name is invalid."""
    match = _NAME.fullmatch(name)
    monday = None
    if match is not None and _FIRST_YEAR <= int(match[1]) <= _LAST_YEAR:
        with suppress(ValueError):  # most years have only 52 weeks
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
    from_ms, until_ms = (midnight_ms(monday + timedelta(days=days), zone) for days in (0, 7))
    days = f"{monday} to {monday + timedelta(days=6)} ({zone})"
    return Week(f"{year}-W{number:02d}", days, from_ms, until_ms)


def midnight_ms(day: date, zone: tzinfo) -> int:
    return round(datetime.combine(day, time.min, zone).timestamp() * 1000)


RUNS_MAX: Final = 1_000_000  # maximum runs held in memory; further runs are only counted
CURVES_MAX: Final = 20_000
_RUN: Final = msgspec.json.Decoder(Run)
_PREDICTION: Final = msgspec.json.Decoder(Prediction)
_COMPLETION: Final = msgspec.json.Decoder(JobCompleted)
_IDENTITY: Final = msgspec.json.Decoder(Identity)


class WeeklyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The fields common to all weekly reports; `end` is the first moment after the week, and `left_out` runs did not fit into memory."""

    schema: str
    agent_version: str
    week: str
    days: str
    start: str
    end: str
    left_out: int = 0


def heading(schema: str, week: Week, agent_version: str) -> dict[str, str]:
    return {
        "schema": schema,
        "agent_version": agent_version,
        "week": week.name,
        "days": week.days,
        "start": rfc3339(week.from_ms),
        "end": rfc3339(week.until_ms),
    }


class WeekRun(RunSummary, frozen=True, kw_only=True):
    """A run that ended in the week. `n` is None if its size in `unit` is unknown.

    `nodes` is 1 if no source reports the number of nodes. `scheduler_j` is the energy in J that the scheduler measured.
    """

    unit: str
    nodes: int
    profile: Profile | None = None
    exclusive: bool | None = None
    scheduler_j: float | None = None

    @property
    def hours(self) -> float:
        """The unit-hours that the run used; 0 if its size is unknown."""
        return self.hours_of(self.run_time_s)

    def hours_of(self, seconds: float) -> float:
        """Return the unit-hours that `seconds` at the size of the run use."""
        return (self.n or 0.0) * seconds / 3600.0

    @property
    def application(self) -> ApplicationKey | None:
        return ApplicationKey.parse(self.application_id) if self.application_id else None


# fields of WeekRun that have the same name in a run's completion or in its settled run
_OF_EVENT: Final = ("job_id", "system", "start_ms", "end_ms", "run_time_s", "state")
_OF_RUN: Final = ("run_id", "application_id", "predicted", "slowed_by")


class WeekRuns:
    """A sink that keeps the runs of a week, of one `user` or of all users, and the newest curve of each application.

    By default these are the runs that ended in the week; with `partly`, all runs that ran during the week, with their profiles.
    A run is reported when it ends, maybe in a later week. `unit` is the unit of runs without an identified application.
    `newest_ms` is the end of the newest run, of any week.
    """

    def __init__(self, week: Week, user: str | None = None, *, unit: str = "nodes", partly: bool = False) -> None:
        self._week, self._user, self._unit, self._partly = week, user, unit, partly
        self.runs: dict[str, WeekRun] = {}
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
        if not self._in_week(event):
            return
        week_run = self._week_run(run, event)
        if self._user not in (None, week_run.user):
            return
        if len(self.runs) < RUNS_MAX:
            self.runs[emission.key] = week_run
        else:
            self.left_out += 1

    def _in_week(self, event: JobCompleted) -> bool:
        week = self._week
        if self._partly:
            in_week = event.start_ms < week.until_ms and event.end_ms > max(week.from_ms, event.start_ms)
        else:
            in_week = week.holds(event.end_ms)
        return in_week and event.run_time_s > 0

    def _week_run(self, run: Run, event: JobCompleted) -> WeekRun:
        evidence = list(_reported_evidence(run, event))
        unit, n = self._unit, run.n
        if run.application_id is not None:
            unit = ApplicationKey.parse(run.application_id).unit
        else:
            sizes = event.evidence.sizes
            unit = next((name for name in (unit, *UNITS) if name in sizes), unit)
            n = sizes.get(unit)
        reported_nodes = next((nodes for report in evidence if (nodes := nodes_of(report)) is not None), 1)
        return WeekRun(
            **{name: getattr(event, name) for name in _OF_EVENT},
            **{name: getattr(run, name) for name in _OF_RUN},
            user=next((report.user for report in evidence if report.user), None),
            account=next((report.account for report in evidence if report.account), None),
            unit=unit,
            n=n,
            nodes=run.profile.hosts if run.profile is not None and run.profile.hosts else reported_nodes,
            time_limit_s=next((report.time_limit_s for report in evidence if report.time_limit_s), None),
            session=run.identified_by == SESSION,
            profile=run.profile if self._partly else None,
            exclusive=next((report.exclusive for report in evidence if report.exclusive is not None), None),
            scheduler_j=event.energy_j,
        )


def _reported_evidence(run: Run, event: JobCompleted) -> Iterator[Evidence]:
    """Yield the evidence in the completion of a run, and, if fields are missing there, the evidence from its start and other sources."""
    evidence = event.evidence
    yield evidence
    if evidence.user and evidence.time_limit_s and evidence.account and evidence.exclusive is not None:
        return
    for raw in run.identities:
        yield _IDENTITY.decode(raw).evidence
