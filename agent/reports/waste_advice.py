"""Texts for users: amounts rounded to their precision, and one piece of advice per case with sizes and times to request."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

from agent.reports.waste_judgement import ENDED_BY_HOST, Amount, Expected, Finding, Kind
from agent.reports.waste_runs import WeekRun
from sinks.web.formatting import between, counted, next_limit, rounded, size, sized

OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
DIGITS: Final = 3
OFTEN: Final = 0.1  # of the runs of an application: less is seldom the user's habit
NO_NAME: Final = "jobs that nothing names"
_HOURS: Final = {"gpus": "GPU-hours"}


class Case(NamedTuple):
    """Runs of one application with one kind of waste, largest loss first; if the size matters, all runs have the same size.

    `all_runs` is the number of all runs of the application in the week, with any outcome.
    """

    kind: Kind
    pairs: Sequence[tuple[WeekRun, Finding]]
    all_runs: int

    @property
    def name(self) -> str:
        """The application, with its input if the input is known."""
        key = self.pairs[0][0].application
        return NO_NAME if key is None else " ".join(part for part in (key.application, key.input) if part)

    @property
    def runs(self) -> list[WeekRun]:
        return [run for run, _ in self.pairs]


def advice(case: Case) -> str:
    """Return the advice for the next run, with the sizes and times to request."""
    return _ADVICE[case.kind](case)


def unit_hours(unit: str) -> str:
    """Return the name of the product of a unit and hours, for example node-hours."""
    return _HOURS.get(unit, "process-hours" if unit == "processes" else f"{unit.removesuffix('s')}-hours")


def amount(found: Amount, unit: str) -> str:
    """Return an amount with its unit, and its bounds if it is predicted; digits finer than the width of the bounds are rounded."""
    value, low, high = _digits(found)
    if found.low == found.high:
        return f"{value} {unit_hours(unit)}"
    ends = "" if low == high else f" ({low} to {high})"
    return f"about {value}{ends} {unit_hours(unit)}"


def plain_amount(found: Amount) -> str:
    """Return an amount without its unit, for a column that names the unit."""
    return _digits(found)[0]


def number(value: float) -> str:
    """Return a number with at most three significant digits."""
    return _to_step(value, _step(value))


def _digits(found: Amount) -> tuple[str, str, str]:
    apart = (found.high - found.low) / 2
    largest = max(abs(found.value), abs(found.high))
    step = max(_step(largest), 10.0 ** math.floor(math.log10(apart)) if apart > 0 else 0.0)
    value, low, high = (_to_step(each, step) for each in (found.value, found.low, found.high))
    return value, low, high


def _step(value: float) -> float:
    """Return the unit of the last significant digit."""
    return 10.0 ** (math.floor(math.log10(abs(value))) + 1 - DIGITS) if value else 1.0


def _to_step(value: float, step: float) -> str:
    places = max(-math.floor(math.log10(step)), 0)
    text = f"{round(value / step) * step:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _sizes(case: Case) -> str:
    """Return the advice to request a smaller size, with the expected run time at that size and at the present size."""
    run, finding = case.pairs[0]
    now, then = finding.expected, finding.advised
    if now is None or then is None:
        return ""
    times = f"{between(then.low_s, then.high_s)} in place of {between(now.low_s, now.high_s)}"
    hours = f"{_hours(then)} {unit_hours(run.unit)} in place of {_hours(now)}"
    slower = f"{case.name} gets slower beyond {sized(then.n, run.unit)}. " if case.kind == "slows_down" else ""
    what = "" if slower else f" for {case.name}"
    return f"{slower}Ask for {sized(then.n, run.unit)} in place of {size(now.n)}{what}: a run then takes {times}, and {hours}."


def _hours(expected: Expected) -> str:
    ends = Amount(*(expected.hours(seconds) for seconds in (expected.run_time_s, expected.low_s, expected.high_s)))
    _, low, high = _digits(ends)
    return low if low == high else f"{low} to {high}"


def _limit(case: Case) -> str:
    run, finding = case.pairs[0]
    if finding.expected is None or run.time_limit_s is None:
        return ""
    limit_s = max(each.limit_s or 0.0 for _, each in case.pairs)
    takes = between(finding.expected.low_s, finding.expected.high_s)
    return (
        f"Ask for {rounded(limit_s)} in place of {rounded(run.time_limit_s)} for {case.name} on {sized(run.n or 0, run.unit)}: "
        f"runs take {takes}, and what is short starts sooner."
    )


def _timed_out(case: Case) -> str:
    run, finding = case.pairs[0]
    where = f"{case.name} on {sized(run.n, run.unit)}" if run.n else case.name
    had_s = run.time_limit_s or run.run_time_s
    if finding.expected is None or finding.limit_s is None:
        return (
            f"No prediction of {where} can be relied on: ask for well over {rounded(had_s)}, or let it save its work before "
            "the limit."
        )
    takes = between(finding.expected.low_s, finding.expected.high_s)
    if finding.limit_s > had_s:
        return (
            f"Ask for {rounded(finding.limit_s)} in place of {rounded(had_s)} for {where}: runs that end take {takes}."
        )
    return f"Runs of {where} take {takes}, so a limit of {rounded(had_s)} was enough: find out what held these up."


def _failed(case: Case) -> str:
    times_s = [run.run_time_s for run in case.runs]
    found = f"{len(times_s)} of {counted(case.all_runs, 'run')} of {case.name} failed"
    starved = sum(run.state == OUT_OF_MEMORY for run in case.runs)
    if 2 * starved > len(times_s):
        return f"{found}, {starved} for lack of memory: ask for more memory, or for more {case.runs[0].unit}."
    if len(times_s) < OFTEN * case.all_runs:
        return f"{found}: few of them, so see first what the failed ones have in common."
    middle_s = median(times_s)
    sizes = [run.n for run in case.runs if run.n]
    where = f" on {sized(min(sizes), case.runs[0].unit)}" if sizes else ""
    limit = rounded(next_limit(middle_s))
    return f"{found}, half of them within {rounded(middle_s)}: try a change{where} with a limit of {limit} first."


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
            f"{counted(sum(slowed.values()), 'run')} of {case.name} met an odd host ({hosts}) and took longer."
        )
    return " ".join([*parts, "This is no fault of the user, and not counted as lost."])


_ADVICE: Final[dict[Kind, Callable[[Case], str]]] = {
    "slows_down": _sizes,
    "beyond_useful": _sizes,
    "failed": _failed,
    "timed_out": _timed_out,
    "long_limit": _limit,
    "odd_host": _odd_host,
}
