"""The weekly waste report as data: per user the unit-hours used and lost, by kind, and what to request next time.

Only reliable predictions count. A run is wasteful only if the whole band of the prediction says so; runs that cannot be
judged are reported as such, never guessed.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Final, Literal, NamedTuple

import msgspec

from agent.reports.week import Week, WeeklyReport, WeekRun, WeekRuns, heading
from processors.advice import enough_limit, is_dependable, next_limit, reliable_point
from processors.contracts.events import SUCCESS
from processors.contracts.names import grouped, rfc3339
from processors.contracts.outputs import CurvePoint, Prediction
from processors.pipeline.outcomes import FAILED_STATES
from sinks.web.formatting import between, counted, rounded, size, sized

Kind = Literal["slows_down", "beyond_useful", "failed", "timed_out", "long_limit", "odd_host"]
KINDS: Final[tuple[Kind, ...]] = ("slows_down", "beyond_useful", "failed", "timed_out", "long_limit", "odd_host")
LOST: Final[frozenset[Kind]] = frozenset({"slows_down", "beyond_useful", "failed", "timed_out"})
"""Kinds of waste whose node-hours count as lost. A long time limit costs no node-hours, and users cannot avoid an abnormal host."""

TIMEOUT: Final = "TIMEOUT"
ENDED_BY_HOST: Final = frozenset({"NODE_FAIL", "BOOT_FAIL"})


class Amount(msgspec.Struct, frozen=True):
    """A number of unit-hours with its lower and upper bound, which are equal for measured amounts.

    A sum adds up the bounds, as if the errors of all predictions had the same sign; this is right within one application.
    """

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def measured(cls, value: float) -> "Amount":
        return cls(value, value, value)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.value + other.value, self.low + other.low, self.high + other.high)


class WasteBounds(msgspec.Struct, frozen=True):
    """The thresholds of waste: an efficiency below `efficiency_min`, and a time limit of `limit_factor` times the needed time."""

    efficiency_min: float = 0.5
    limit_factor: float = 10.0


class Expected(msgspec.Struct, frozen=True):
    """The predicted run time at a size, with its band."""

    n: float
    run_time_s: float
    low_s: float
    high_s: float

    def hours(self, seconds: float) -> float:
        """Return the unit-hours that `seconds` at this size use."""
        return self.n * seconds / 3600.0


class Finding(msgspec.Struct, frozen=True):
    """A waste of one kind in a run: unit-hours, the prediction at the run's size, and the better size (`advised`) or time limit."""

    kind: Kind
    lost: Amount
    expected: Expected | None = None
    advised: Expected | None = None
    limit_s: float | None = None


class WasteRun(NamedTuple):
    """A run, whether its size could be judged, and its findings."""

    run: WeekRun
    is_judged: bool
    findings: tuple[Finding, ...] = ()


def judge(run: WeekRun, curve: Prediction | None, bounds: WasteBounds) -> WasteRun:
    """Return the waste of a run according to the curve of its application. Interactive sessions waste nothing."""
    used = Amount.measured(run.hours)
    if run.session or run.state in ENDED_BY_HOST:
        return WasteRun(run, is_judged=True, findings=() if run.session else (Finding("odd_host", used),))
    expected = _expected(run, curve)
    if run.state == TIMEOUT:
        limit_s = enough_limit(expected.high_s) if expected else None
        return WasteRun(run, is_judged=True, findings=(Finding("timed_out", used, expected, limit_s=limit_s),))
    if run.state in FAILED_STATES:
        return WasteRun(run, is_judged=True, findings=(Finding("failed", used),))
    if run.state != SUCCESS:
        return WasteRun(run, is_judged=False)
    limit = _long_limit(run, expected, bounds)
    if run.slowed_by is not None:
        lost = run.hours * max(1.0 - 1.0 / run.slowed_by.factor, 0.0)
        return WasteRun(run, is_judged=True, findings=(Finding("odd_host", Amount.measured(lost)), *limit))
    is_judged, size = _size(run, curve, bounds)
    return WasteRun(run, is_judged, (*size, *limit))


def _expected(run: WeekRun, curve: Prediction | None) -> Expected | None:
    """Return the reliable prediction at a run's size, from the current curve or else from the run's start; None without one."""
    point = reliable_point(curve, run.n)
    if point is not None:
        return _of(point)
    start = run.predicted
    if start is None or run.n is None or not is_dependable(start):
        return None
    return Expected(run.n, start.run_time_s, start.low_s, start.high_s) if start.high_s < math.inf else None


def _of(point: CurvePoint) -> Expected:
    return Expected(point.n, point.run_time_s, point.low_s, point.high_s)


def _long_limit(run: WeekRun, expected: Expected | None, bounds: WasteBounds) -> tuple[Finding, ...]:
    """Return the time beyond a sufficient limit, if the limit is at least `limit_factor` times both the band's upper end and the run time."""
    if expected is None or run.time_limit_s is None:
        return ()
    needed_s = max(expected.high_s, run.run_time_s)
    limit_s = enough_limit(needed_s)
    if run.time_limit_s < bounds.limit_factor * needed_s or limit_s >= run.time_limit_s:
        return ()
    unused = Amount.measured(run.hours_of(run.time_limit_s - limit_s))
    return (Finding("long_limit", unused, expected, limit_s=limit_s),)


def _size(run: WeekRun, curve: Prediction | None, bounds: WasteBounds) -> tuple[bool, tuple[Finding, ...]]:
    """Return whether a reliable curve tells if the size of a run was good, and the waste compared with a better size."""
    point = reliable_point(curve, run.n)
    if curve is None or point is None or point.efficiency is None:
        return False, ()
    fastest = curve.useful_n.slower_beyond
    if fastest is not None and point.n > fastest:
        advised = reliable_point(curve, fastest)
        return advised is not None, _beyond("slows_down", run, point, advised)
    if point.efficiency >= bounds.efficiency_min:
        return True, ()
    advised = _efficient(curve, point.n, bounds.efficiency_min)
    return advised is not None, _beyond("beyond_useful", run, point, advised)


def _efficient(curve: Prediction, below_n: float, efficiency_min: float) -> CurvePoint | None:
    """Return the largest size below `below_n` that is efficient enough, among sizes that were run and powers of two."""
    efficient = [
        point
        for point in curve.curve
        if point.n < below_n
        and (point.n in curve.sizes or math.log2(point.n).is_integer())
        and point.efficiency is not None
        and point.efficiency >= efficiency_min
        and point.reliable
    ]
    return max(efficient, key=lambda point: point.n, default=None)


def _beyond(kind: Kind, run: WeekRun, point: CurvePoint, advised: CurvePoint | None) -> tuple[Finding, ...]:
    """Return the waste of a run compared with the smaller size `advised`; none if `advised` could cost as much within its band.

    A run time outside the band has other causes than the size, so the waste counts it only up to the end of the band.
    """
    if advised is None:
        return ()
    used = run.hours_of(min(max(run.run_time_s, point.low_s), point.high_s))
    least = _of(advised)
    low, value, high = (used - least.hours(seconds) for seconds in (advised.high_s, advised.run_time_s, advised.low_s))
    return (Finding(kind, Amount(value, low, high), _of(point), least),) if low > 0 else ()


OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
DIGITS: Final = 3  # significant digits of amounts
OFTEN: Final = 0.1  # minimum share of an application's runs; rarer failures are seldom a habit of the user
NO_NAME: Final = "jobs of unknown applications"
_HOURS: Final = {"gpus": "GPU-hours"}


class Case(NamedTuple):
    """Runs of one application with the same kind of waste, and also the same size if the waste depends on it; largest losses first.

    `all_runs` counts the runs of the application in the week, whatever their outcome.
    """

    kind: Kind
    pairs: Sequence[tuple[WeekRun, Finding]]
    all_runs: int

    @property
    def name(self) -> str:
        """The name of the application, followed by its input if it has one."""
        key = self.pairs[0][0].application
        return NO_NAME if key is None else " ".join(part for part in (key.application, key.input) if part)

    @property
    def runs(self) -> list[WeekRun]:
        return [run for run, _ in self.pairs]


def unit_hours(unit: str) -> str:
    """Return the name of a unit multiplied by hours, such as node-hours."""
    return _HOURS.get(unit, "process-hours" if unit == "processes" else f"{unit.removesuffix('s')}-hours")


def amount(lost: Amount, unit: str) -> str:
    """Return an amount with its unit, and with its lower and upper bound if it depends on a prediction.

    The value has only as many digits as the bounds justify.
    """
    value, low, high = _digits(lost)
    if lost.low == lost.high:
        return f"{value} {unit_hours(unit)}"
    ends = "" if low == high else f" ({low} to {high})"
    return f"about {value}{ends} {unit_hours(unit)}"


def plain_amount(lost: Amount) -> str:
    """Return an amount without unit and bounds, for a column with the unit in its heading."""
    return _digits(lost)[0]


def number(value: float) -> str:
    """Return a number with at most three significant digits."""
    return _to_step(value, _step(value))


def _digits(lost: Amount) -> tuple[str, str, str]:
    apart = (lost.high - lost.low) / 2
    largest = max(abs(lost.value), abs(lost.high))
    step = max(_step(largest), 10.0 ** math.floor(math.log10(apart)) if apart > 0 else 0.0)
    value, low, high = (_to_step(part, step) for part in (lost.value, lost.low, lost.high))
    return value, low, high


def _step(value: float) -> float:
    """Return the power of ten to which a value is rounded for DIGITS significant digits."""
    return 10.0 ** (math.floor(math.log10(abs(value))) + 1 - DIGITS) if value else 1.0


def _to_step(value: float, step: float) -> str:
    places = max(-math.floor(math.log10(step)), 0)
    text = f"{round(value / step) * step:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _sizes(case: Case) -> str:
    run, finding = case.pairs[0]
    now, then = finding.expected, finding.advised
    if now is None or then is None:
        return ""
    times = f"{between(then.low_s, then.high_s)} instead of {between(now.low_s, now.high_s)}"
    hours = f"{_hours(then)} {unit_hours(run.unit)} instead of {_hours(now)}"
    slower = f"{case.name} gets slower beyond {sized(then.n, run.unit)}. " if case.kind == "slows_down" else ""
    name = "" if slower else f" for {case.name}"
    return f"{slower}Request {sized(then.n, run.unit)} instead of {size(now.n)}{name}: a run then takes {times}, and {hours}."


def _hours(expected: Expected) -> str:
    ends = Amount(*(expected.hours(seconds) for seconds in (expected.run_time_s, expected.low_s, expected.high_s)))
    _, low, high = _digits(ends)
    return low if low == high else f"{low} to {high}"


def _limit(case: Case) -> str:
    run, finding = case.pairs[0]
    if finding.expected is None or run.time_limit_s is None:
        return ""
    limit_s = max(same_kind.limit_s or 0.0 for _, same_kind in case.pairs)
    takes = between(finding.expected.low_s, finding.expected.high_s)
    return (
        f"Request {rounded(limit_s)} instead of {rounded(run.time_limit_s)} for {case.name} on {sized(run.n or 0, run.unit)}: "
        f"runs take {takes}, and jobs with short limits start sooner."
    )


def _timed_out(case: Case) -> str:
    run, finding = case.pairs[0]
    name = f"{case.name} on {sized(run.n, run.unit)}" if run.n else case.name
    requested_s = run.time_limit_s or run.run_time_s
    if finding.expected is None or finding.limit_s is None:
        return (
            f"No prediction of {name} is reliable: request well over {rounded(requested_s)}, or let the job save its work "
            "before the limit."
        )
    takes = between(finding.expected.low_s, finding.expected.high_s)
    if finding.limit_s > requested_s:
        longer = f"{rounded(finding.limit_s)} instead of {rounded(requested_s)}"
        return f"Request {longer} for {name}: runs that complete take {takes}."
    return (
        f"Runs of {name} take {takes}, so a limit of {rounded(requested_s)} is enough: find out what slowed these runs."
    )


def _failed(case: Case) -> str:
    times_s = [run.run_time_s for run in case.runs]
    failed = f"{len(times_s)} of {counted(case.all_runs, 'run')} of {case.name} failed"
    starved = sum(run.state == OUT_OF_MEMORY for run in case.runs)
    if 2 * starved > len(times_s):
        return f"{failed}, {starved} for lack of memory: request more memory, or more {case.runs[0].unit}."
    if len(times_s) < OFTEN * case.all_runs:
        return f"{failed}. These are few, so look first for what they have in common."
    middle_s = median(times_s)
    sizes = [run.n for run in case.runs if run.n]
    smallest = f" on {sized(min(sizes), case.runs[0].unit)}" if sizes else ""
    limit = rounded(next_limit(middle_s))
    return f"{failed}, half of them within {rounded(middle_s)}: test changes{smallest} with a limit of {limit} first."


def _odd_host(case: Case) -> str:
    ended = sum(run.state in ENDED_BY_HOST for run in case.runs)
    slowed = Counter(
        run.slowed_by.host for run in case.runs if run.slowed_by is not None and run.state not in ENDED_BY_HOST
    )
    parts = []
    if ended:
        parts.append(f"{counted(ended, 'run')} of {case.name} ended because a host failed: run them again.")
    if slowed:
        hosts = ", ".join(host for host, _ in slowed.most_common(3))
        parts.append(
            f"{counted(sum(slowed.values()), 'run')} of {case.name} ran on an abnormal host ({hosts}) and took longer."
        )
    return " ".join([*parts, "The user is not at fault, and nothing counts as lost."])


_ADVICE: Final[dict[Kind, Callable[[Case], str]]] = {
    "slows_down": _sizes,
    "beyond_useful": _sizes,
    "failed": _failed,
    "timed_out": _timed_out,
    "long_limit": _limit,
    "odd_host": _odd_host,
}


SCHEMA: Final = "scalewatch.week/1"
CASES_MAX: Final = 3  # maximum pieces of advice for each kind of waste
EXAMPLES_MAX: Final = 3


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One of the runs with the largest losses; `lost` is in `unit` times hours."""

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
    """The waste of one kind: runs, unit-hours, advice, and examples.

    `advice` has a text for each of the cases with the largest losses, largest first; `more` is the number of cases without a
    text.
    """

    kind: Kind
    unit: str
    runs: int
    lost: Amount
    advice: tuple[str, ...]
    more: int
    examples: tuple[Example, ...]


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """The interactive sessions among the runs: number, unit-hours, and share of all used unit-hours."""

    runs: int = 0
    used: float = 0.0
    share: float = 0.0


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """The sums over all runs with sizes in one unit, in unit-hours.

    `used` includes the interactive `sessions`, which never count as lost. `lost` is the waste by sizes, failures and time-outs;
    `not_judged` is the use of runs whose size could not be judged. `reserved` is the time requested beyond sufficient limits.
    `spared` was lost to abnormal hosts, for which no user is to blame.
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
        return self.not_judged / self.used if self.used else 0.0


class User(msgspec.Struct, frozen=True, kw_only=True):
    """The week of one user; `user` has the form in which the agent stores users, None for runs without a user."""

    user: str | None
    totals: tuple[Total, ...]
    waste: tuple[Waste, ...]


class WeekReport(WeeklyReport, frozen=True, kw_only=True):
    """The waste of a week, of one user or of all users, largest losses first."""

    bounds: WasteBounds
    runs: int
    totals: tuple[Total, ...]
    users: tuple[User, ...]


def report(week: Week, collected: WeekRuns, bounds: WasteBounds, agent_version: str) -> WeekReport:
    curves = collected.curves
    runs = [judge(run, curves.get(run.application_id or ""), bounds) for run in collected.runs.values()]
    by_user = grouped(runs, lambda judged: judged.run.user)
    users = [User(user=name, totals=_totals(of_user), waste=_waste(of_user)) for name, of_user in by_user.items()]
    users.sort(key=lambda user: (-sum(total.lost.value for total in user.totals), user.user or ""))
    return WeekReport(
        **heading(SCHEMA, week, agent_version),
        bounds=bounds,
        runs=len(runs),
        totals=_totals(runs),
        users=tuple(users),
        left_out=collected.left_out,
    )


def _totals(runs: Sequence[WasteRun]) -> tuple[Total, ...]:
    totals = [_total(unit, of_unit) for unit, of_unit in grouped(runs, lambda judged: judged.run.unit).items()]
    return tuple(sorted(totals, key=lambda total: (-total.used, total.unit)))


def _total(unit: str, runs: Sequence[WasteRun]) -> Total:
    findings = [finding for judged in runs for finding in judged.findings]
    used = sum(judged.run.hours for judged in runs)
    sessions = [judged.run.hours for judged in runs if judged.run.session]
    return Total(
        unit=unit,
        runs=len(runs),
        used=used,
        lost=_sum(finding.lost for finding in findings if finding.kind in LOST),
        reserved=_sum(finding.lost for finding in findings if finding.kind == "long_limit"),
        spared=_sum(finding.lost for finding in findings if finding.kind == "odd_host"),
        not_judged=sum(judged.run.hours for judged in runs if not judged.is_judged),
        sessions=Sessions(runs=len(sessions), used=sum(sessions), share=sum(sessions) / used if used else 0.0),
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def _waste(runs: Sequence[WasteRun]) -> tuple[Waste, ...]:
    """Return the waste by kind and unit, with kinds in the order of KINDS."""
    runs_of = Counter(judged.run.application_id or "" for judged in runs)
    pairs = [(run, finding) for run, _, findings in runs for finding in findings]
    by_kind = grouped(pairs, lambda pair: (pair[1].kind, pair[0].unit))
    order = sorted(by_kind, key=lambda key: (KINDS.index(key[0]), key[1]))
    return tuple(_of_kind(kind, unit, by_kind[kind, unit], runs_of) for kind, unit in order)


def _of_kind(kind: Kind, unit: str, pairs: Sequence[tuple[WeekRun, Finding]], runs_of: Mapping[str, int]) -> Waste:
    worst = sorted(pairs, key=lambda pair: (-pair[1].lost.value, pair[0].run_id))
    cases = grouped(worst, lambda pair: (pair[0].application_id or "", pair[0].n if pair[1].expected else None))
    ranked = sorted(cases.items(), key=lambda item: -sum(finding.lost.value for _, finding in item[1]))
    shown = [Case(kind, runs, runs_of[application_id]) for (application_id, _), runs in ranked[:CASES_MAX]]
    return Waste(
        kind=kind,
        unit=unit,
        runs=len(pairs),
        lost=_sum(finding.lost for _, finding in pairs),
        advice=tuple(_ADVICE[case.kind](case) for case in shown),
        more=len(cases) - len(shown),
        examples=tuple(_example(run, finding) for run, finding in worst[:EXAMPLES_MAX]),
    )


_OF_RUN: Final = ("system", "job_id", "n", "unit", "run_time_s", "time_limit_s", "state")


def _example(run: WeekRun, finding: Finding) -> Example:
    key = run.application
    return Example(
        **{name: getattr(run, name) for name in _OF_RUN},
        application=key.application if key else None,
        input=key.input if key else "",
        start=rfc3339(run.start_ms),
        lost=finding.lost,
    )
