"""The weekly energy report as data: totals by application, user, account and day, each job, and the measured shares."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from agent.reports.week import Week, WeeklyReport, WeekRun, WeekRuns, heading, midnight_ms
from processors.advice import point_at
from processors.contracts.names import grouped, rfc3339
from processors.contracts.nodes import Intensity
from processors.contracts.outputs import Prediction
from processors.power.by_size import RunEnergy, energy_of_run, relied_on

SESSIONS: Final = "interactive sessions"


J_PER_KWH: Final = 3.6e6


class Carbon(NamedTuple):
    """Grams of CO2 equivalent, and the energy in J used at times without a known intensity, which adds no grams."""

    grams: float = 0.0
    unknown_j: float = 0.0


class Factor:
    """A constant carbon intensity in g CO2e per kWh."""

    def __init__(self, g_per_kwh: float) -> None:
        self.g_per_kwh = g_per_kwh

    def of(self, energy_j: float, from_ms: int, until_ms: int) -> Carbon:
        del from_ms, until_ms
        return Carbon(energy_j / J_PER_KWH * self.g_per_kwh)


class IntensitySeries:
    """Carbon intensities over time. Each is valid until the next one begins, but for at most `hold_s`; then the intensity is unknown."""

    def __init__(self, rows: Sequence[Intensity], hold_s: float) -> None:
        self._hold_ms = round(hold_s * 1000)
        self._rows = rows
        self._times = [row.time_ms for row in rows]
        self._known_ms, self._grams = [0], [0.0]  # up to each row: known time, and integral of the intensity
        for row, after in pairwise(rows):
            held_ms = min(after.time_ms - row.time_ms, self._hold_ms)
            self._known_ms.append(self._known_ms[-1] + held_ms)
            self._grams.append(self._grams[-1] + held_ms * row.g_per_kwh)

    def of(self, energy_j: float, from_ms: int, until_ms: int) -> Carbon:
        """Return the carbon of an energy that was used evenly between `from_ms` and `until_ms`."""
        (known_from, grams_from), (known_until, grams_until) = self._until(from_ms), self._until(until_ms)
        kwh_per_ms = energy_j / J_PER_KWH / (until_ms - from_ms)
        known_share = (known_until - known_from) / (until_ms - from_ms)
        return Carbon((grams_until - grams_from) * kwh_per_ms, energy_j * (1.0 - known_share))

    def _until(self, time_ms: int) -> tuple[int, float]:
        """Return the time in ms with a known intensity up to `time_ms`, and the integral of the intensity (g/kWh) over this time in ms."""
        place = bisect_right(self._times, time_ms) - 1
        if place < 0:
            return 0, 0.0
        held_ms = min(time_ms - self._times[place], self._hold_ms)
        return self._known_ms[place] + held_ms, self._grams[place] + held_ms * self._rows[place].g_per_kwh


SCHEMA: Final = "scalewatch.energy/1"
CarbonSource = Factor | IntensitySeries


class EnergyTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The energy of several runs, and the node-seconds with measured, estimated and unknown energy, which add up to `node_s`.

    `energy_low_j` and `energy_high_j` bound the energy. Node-seconds with unknown energy add nothing. `carbon_g` is None if no
    carbon intensity is configured; `carbon_unknown_j` is the energy at times without an intensity in the series.
    """

    runs: int
    node_s: float
    measured_s: float
    estimated_s: float
    unknown_s: float
    energy_j: float
    energy_low_j: float
    energy_high_j: float
    carbon_g: float | None = None
    carbon_unknown_j: float = 0.0


class EnergyGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The energy of all runs of one application, user, account or day. `name` is None if that name is unknown."""

    name: str | None
    total: EnergyTotal


class JobEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """The energy of a job in the week, counting only the part of its run inside the week."""

    system: str
    job_id: str
    user: str | None
    account: str | None
    application: str | None
    nodes: int
    start: str
    end: str
    total: EnergyTotal


class EnergyReport(WeeklyReport, frozen=True, kw_only=True):
    """The energy of a week, of one user or of all users; each list is sorted by energy, largest first, except days."""

    total: EnergyTotal
    applications: tuple[EnergyGroup, ...]
    users: tuple[EnergyGroup, ...]
    accounts: tuple[EnergyGroup, ...]
    by_day: tuple[EnergyGroup, ...]
    jobs: tuple[JobEnergy, ...]


class Day(NamedTuple):
    """A day in a time zone, 23 to 25 hours long: name, first moment, and first moment of the next day, in ms."""

    name: str
    from_ms: int
    until_ms: int


class _Part(NamedTuple):
    """The part of a run within one day; `energy` is the energy of the whole run, `share` the part's share of the run time."""

    key: str
    run: WeekRun
    day: str
    share: float
    energy: RunEnergy
    carbon: Carbon | None


def report(
    week: Week, zone: tzinfo, collected: WeekRuns, carbon: CarbonSource | None, agent_version: str
) -> EnergyReport:
    days = list(days_of(week, zone))
    parts = [
        part
        for key, run in collected.runs.items()
        for part in _parts(key, run, _energy(run, collected.curves.get(run.application_id or "")), days, carbon)
    ]
    jobs = [_job(of_run) for of_run in grouped(parts, lambda part: part.key).values()]
    return EnergyReport(
        **heading(SCHEMA, week, agent_version),
        total=_total(parts, with_carbon=carbon is not None),
        applications=_groups(parts, lambda part: _application(part.run)),
        users=_groups(parts, lambda part: part.run.user),
        accounts=_groups(parts, lambda part: part.run.account),
        by_day=tuple(sorted(_groups(parts, lambda part: part.day), key=lambda group: group.name or "")),
        jobs=tuple(sorted(jobs, key=lambda job: (-job.total.energy_j, job.system, job.job_id, job.start))),
        left_out=collected.left_out,
    )


def _energy(run: WeekRun, curve: Prediction | None) -> RunEnergy:
    """Return the energy of a run from telemetry, or else from the scheduler, or else from a reliable point of `curve`."""
    point = point_at(curve, run.n)
    return energy_of_run(
        run.profile,
        run.scheduler_j,
        exclusive=run.exclusive,
        run_time_s=run.run_time_s,
        predicted=next(iter(relied_on([point] if point is not None else ())), None),
    )


def _application(run: WeekRun) -> str | None:
    """Return the application without its input, SESSIONS for an interactive session, or None if it is unknown."""
    if run.session:
        return SESSIONS
    return run.application.application if run.application is not None else None


def days_of(week: Week, zone: tzinfo) -> Iterator[Day]:
    monday = datetime.fromtimestamp(week.from_ms / 1000, zone).date()
    for number in range(7):
        day = monday + timedelta(days=number)
        yield Day(day.isoformat(), midnight_ms(day, zone), midnight_ms(day + timedelta(days=1), zone))


def _parts(
    key: str, run: WeekRun, energy: RunEnergy, days: Iterable[Day], carbon: CarbonSource | None
) -> Iterator[_Part]:
    """Yield the parts of a run by day, assuming constant power."""
    for day in days:
        from_ms, until_ms = max(run.start_ms, day.from_ms), min(run.end_ms, day.until_ms)
        if from_ms >= until_ms:
            continue
        share = (until_ms - from_ms) / (run.end_ms - run.start_ms)
        emitted = None if carbon is None else carbon.of((energy.energy_j or 0.0) * share, from_ms, until_ms)
        yield _Part(key, run, day.name, share, energy, emitted)


def _groups(parts: Iterable[_Part], name_of: Callable[[_Part], str | None]) -> tuple[EnergyGroup, ...]:
    groups = [EnergyGroup(name=name, total=_total(of_group)) for name, of_group in grouped(parts, name_of).items()]
    return tuple(sorted(groups, key=lambda group: (-group.total.energy_j, -group.total.node_s, group.name or "")))


def _job(parts: list[_Part]) -> JobEnergy:
    run = parts[0].run
    return JobEnergy(
        **{name: getattr(run, name) for name in ("system", "job_id", "user", "account", "nodes")},
        application=_application(run),
        start=rfc3339(run.start_ms),
        end=rfc3339(run.end_ms),
        total=_total(parts),
    )


def _total(parts: list[_Part], *, with_carbon: bool = False) -> EnergyTotal:
    """Return the total of parts of runs. Without any carbon in the parts, `carbon_g` is 0 if `with_carbon` (intensities exist), else None."""
    emitted = [part.carbon for part in parts if part.carbon is not None]
    return EnergyTotal(
        runs=len({part.key for part in parts}),
        node_s=sum(map(_node_s, parts)),
        measured_s=sum(_node_s(part) * part.energy.measured for part in parts),
        estimated_s=sum(_node_s(part) * part.energy.estimated for part in parts),
        unknown_s=sum(_node_s(part) * part.energy.unknown for part in parts),
        energy_j=sum(part.share * (part.energy.energy_j or 0.0) for part in parts),
        energy_low_j=sum(part.share * (part.energy.low_j or 0.0) for part in parts),
        energy_high_j=sum(part.share * (part.energy.high_j or 0.0) for part in parts),
        carbon_g=sum(carbon.grams for carbon in emitted) if emitted or with_carbon else None,
        carbon_unknown_j=sum(carbon.unknown_j for carbon in emitted),
    )


def _node_s(part: _Part) -> float:
    return part.run.nodes * part.run.run_time_s * part.share
