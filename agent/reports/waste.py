"""The weekly waste report as data: for each user the use, the loss by kind, and the sizes and limits to request next time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from agent.reports.waste_advice import Case, advice
from agent.reports.waste_judgement import KINDS, LOST, Amount, Bounds, Finding, Judged, Kind, judge
from agent.reports.waste_runs import WeekRun, WeekRuns
from agent.reports.week import Week
from processors.contracts.names import rfc3339

SCHEMA: Final = "scalewatch.week/1"
CASES_MAX: Final = 3  # pieces of advice of one kind
EXAMPLES_MAX: Final = 3


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One of the runs with the largest loss; `lost` is in `unit` times hours."""

    system: str
    job_id: str
    application: str | None
    input: str
    n: float | None
    unit: str
    start: str
    run_time_s: float
    time_limit_s: float | None
    state: str
    lost: Amount


class Waste(msgspec.Struct, frozen=True, kw_only=True):
    """The total cost of one kind of waste: runs, unit-hours, advice for the worst cases, and examples.

    `advice` is sorted by cost, largest first; `more` is the number of smaller cases left out.
    """

    kind: Kind
    unit: str
    runs: int
    lost: Amount
    advice: tuple[str, ...]
    more: int
    examples: tuple[Example, ...]


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """The interactive sessions among the runs: their number, the unit-hours they used, and their share of the total use."""

    runs: int = 0
    used: float = 0.0
    share: float = 0.0


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """The use and the loss in one unit, in unit-hours.

    `sessions` are interactive sessions: part of `used`, never of `lost`. `lost` sums the loss by sizes, failures and time-outs;
    `not_judged` is the use that could not be judged for them. `reserved` is the time requested by limits beyond need. `spared` is
    the cost of anomalous hosts, which is not the fault of the users there.
    """

    unit: str
    runs: int
    used: float
    lost: Amount
    reserved: Amount
    spared: Amount
    not_judged: float
    sessions: Sessions = Sessions()

    @property
    def not_judged_share(self) -> float:
        """The share of the used unit-hours that could not be judged."""
        return self.not_judged / self.used if self.used else 0.0


class User(msgspec.Struct, frozen=True, kw_only=True):
    """The week of one user; `user` is in the form the agent writes, None for runs without a user."""

    user: str | None
    totals: tuple[Total, ...]
    waste: tuple[Waste, ...]


class WeekReport(msgspec.Struct, frozen=True, kw_only=True):
    """The week of one user or of all, sorted by loss, largest first. `end` is exclusive; `left_out` runs exceeded the memory bound."""

    schema: str
    agent_version: str
    week: str
    days: str
    start: str
    end: str
    bounds: Bounds
    runs: int
    totals: tuple[Total, ...]
    users: tuple[User, ...]
    left_out: int = 0


class _Found(msgspec.Struct, frozen=True):
    """A run and its findings."""

    run: WeekRun
    known: bool
    findings: tuple[Finding, ...]


def report(week: Week, collected: WeekRuns, bounds: Bounds, agent_version: str) -> WeekReport:
    """Return the waste report of the collected runs."""
    found = [_found(run, collected, bounds) for run in collected.runs.values()]
    by_user: dict[str | None, list[_Found]] = defaultdict(list)
    for each in found:
        by_user[each.run.user].append(each)
    users = [User(user=user, totals=_totals(own), waste=_waste(own)) for user, own in by_user.items()]
    users.sort(key=lambda one: (-sum(total.lost.value for total in one.totals), one.user or ""))
    return WeekReport(
        schema=SCHEMA,
        agent_version=agent_version,
        week=week.name,
        days=week.days,
        start=rfc3339(week.from_ms),
        end=rfc3339(week.until_ms),
        bounds=bounds,
        runs=len(found),
        totals=_totals(found),
        users=tuple(users),
        left_out=collected.left_out,
    )


def encoded(found: WeekReport) -> bytes:
    """Return the report as JSON."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def _found(run: WeekRun, collected: WeekRuns, bounds: Bounds) -> _Found:
    judged = Judged(known=True) if run.session else judge(run, collected.curves.get(run.application_id or ""), bounds)
    return _Found(run, judged.known, judged.findings)


def _totals(found: Sequence[_Found]) -> tuple[Total, ...]:
    by_unit: dict[str, list[_Found]] = defaultdict(list)
    for each in found:
        by_unit[each.run.unit].append(each)
    totals = [_total(unit, own) for unit, own in by_unit.items()]
    return tuple(sorted(totals, key=lambda total: (-total.used, total.unit)))


def _total(unit: str, found: Sequence[_Found]) -> Total:
    every = [finding for each in found for finding in each.findings]
    used = sum(each.run.hours for each in found)
    sessions = [each.run.hours for each in found if each.run.session]
    return Total(
        unit=unit,
        runs=len(found),
        used=used,
        lost=_sum(finding.lost for finding in every if finding.kind in LOST),
        reserved=_sum(finding.lost for finding in every if finding.kind == "long_limit"),
        spared=_sum(finding.lost for finding in every if finding.kind == "odd_host"),
        not_judged=sum(each.run.hours for each in found if not each.known),
        sessions=Sessions(runs=len(sessions), used=sum(sessions), share=sum(sessions) / used if used else 0.0),
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def _waste(found: Sequence[_Found]) -> tuple[Waste, ...]:
    """Return the loss by kind and unit, in the order of the kinds."""
    runs_of: dict[str, int] = defaultdict(int)
    by_kind: dict[tuple[Kind, str], list[tuple[WeekRun, Finding]]] = defaultdict(list)
    for each in found:
        runs_of[each.run.application_id or ""] += 1
        for finding in each.findings:
            by_kind[finding.kind, each.run.unit].append((each.run, finding))
    order = sorted(by_kind, key=lambda key: (KINDS.index(key[0]), key[1]))
    return tuple(_of_kind(kind, unit, by_kind[kind, unit], runs_of) for kind, unit in order)


def _of_kind(kind: Kind, unit: str, pairs: Sequence[tuple[WeekRun, Finding]], runs_of: Mapping[str, int]) -> Waste:
    worst = sorted(pairs, key=lambda pair: (-pair[1].lost.value, pair[0].run_id))
    cases: dict[tuple[str, float | None], list[tuple[WeekRun, Finding]]] = defaultdict(list)
    for run, finding in worst:
        n = run.n if finding.expected is not None else None
        cases[run.application_id or "", n].append((run, finding))
    ranked = sorted(cases.items(), key=lambda item: -sum(finding.lost.value for _, finding in item[1]))
    shown = [Case(kind, own, runs_of[application_id]) for (application_id, _), own in ranked[:CASES_MAX]]
    return Waste(
        kind=kind,
        unit=unit,
        runs=len(pairs),
        lost=_sum(finding.lost for _, finding in pairs),
        advice=tuple(map(advice, shown)),
        more=len(cases) - len(shown),
        examples=tuple(_example(run, finding) for run, finding in worst[:EXAMPLES_MAX]),
    )


def _example(run: WeekRun, finding: Finding) -> Example:
    key = run.application
    return Example(
        system=run.system,
        job_id=run.job_id,
        application=key.application if key else None,
        input=key.input if key else "",
        n=run.n,
        unit=run.unit,
        start=rfc3339(run.start_ms),
        run_time_s=run.run_time_s,
        time_limit_s=run.time_limit_s,
        state=run.state,
        lost=finding.lost,
    )
