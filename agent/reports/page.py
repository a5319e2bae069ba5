"""The weekly reports for people: one HTML file without scripts, which a mail can carry, and a text for a terminal."""

import math
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup

from agent.reports.energy import J_PER_KWH, EnergyGroup, EnergyReport, EnergyTotal, JobEnergy
from agent.reports.waste import Example, Total, User, Waste, WeekReport, amount, number, plain_amount, unit_hours
from agent.reports.waste_judgement import Amount, Bounds, Kind
from sinks.web import formatting
from sinks.web.formatting import counted, moment, printable, rounded, size

Row = tuple[str, ...]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
HEADINGS: Final[dict[Kind, str]] = {
    "slows_down": "Sizes that make the application slower",
    "beyond_useful": "More than the useful size",
    "failed": "Failed runs",
    "timed_out": "Runs ended by their time limit",
    "long_limit": "Time limits far too long",
    "odd_host": "Slowed or ended by a host (no fault of the user)",
}
MEASURES: Final[dict[Kind, str]] = {"long_limit": "requested but not needed", "odd_host": "not counted as lost"}
NOBODY: Final = {
    "application": "runs of unknown applications", "user": "runs without a user", "account": "runs without an account", "day": "",
}  # fmt: skip
RULES: Final = (
    "Energy is that of whole nodes. Measured: reported by meters of hosts or by the scheduler. Estimated: computed from "
    "counters or by the power model of the application. Unknown: neither is available."
)


def page(report: WeekReport | EnergyReport, top: int) -> str:
    """Return the page, which fetches nothing and runs no script; everything that comes from jobs is escaped."""
    styles = (files("sinks.web").joinpath("static/style.css"), files("agent.reports").joinpath("templates", "week.css"))
    values: dict[str, Any] = {
        "report": report,
        "style": Markup("".join(path.read_text("utf-8") for path in styles)),  # noqa: S704 - our own files
    }
    if isinstance(report, EnergyReport):
        values |= {"groups": list(_lists(report, top)), "jobs": report.jobs[:top], "more_jobs": len(report.jobs) - top}
        return environment().get_template("energy.html").render(values)
    return environment().get_template("week.html").render(values, users=report.users[:top])


def environment() -> Environment:
    """Return the templates with the words of both reports."""
    templates = formatting.environment("agent.reports")
    templates.filters.update(
        amount=amount, number=number, plain_amount=plain_amount, unit_hours=unit_hours, heading=HEADINGS.__getitem__, measure=measure,
        rounded=rounded, not_judged=not_judged, sessions=sessions, user_name=user_name, part=part, kwh=kwh, kg=kg, per_cent=per_cent,
        band=band,
    )  # fmt: skip
    templates.globals.update(
        bounds_text=bounds_text, coverage_text=coverage_text, carbon_text=carbon_text, nobody=NOBODY, rules=RULES
    )
    return templates


def text(report: WeekReport | EnergyReport, top: int, table: Table, *, one_user: bool = False) -> str:
    """Return the report for a terminal; `table` lays out rows below their head."""
    parts = [f"Week {report.week}, {report.days}"]
    parts += _energy(report, top, table) if isinstance(report, EnergyReport) else _waste(report, top, table, one_user)
    if report.left_out:
        parts.append(f"{counted(report.left_out, 'run')} did not fit into memory and are not counted.")
    return "\n\n".join([*parts, RULES if isinstance(report, EnergyReport) else bounds_text(report.bounds)])


def _hidden(count: int, thing: str, option: str) -> list[str]:
    return [f"{counted(count, f'more {thing}')}; {option}."] if count > 0 else []


def _waste(report: WeekReport, top: int, table: Table, one_user: bool) -> Iterator[str]:  # noqa: FBT001 - private
    if not one_user:
        yield table(*_users(report, top))
        yield from _hidden(len(report.users) - top, "user", "--top shows more")
        yield from (f"{used}." for total in report.totals if (used := sessions(total)))
    for user in report.users[:top]:
        yield "\n".join([printable(user_name(user)), *(f"  {_total(total)}" for total in user.totals)])
        if not user.waste:
            yield "  No waste was found."
        yield from (_kind(waste, table) for waste in user.waste)


def bounds_text(bounds: Bounds) -> str:
    """Return what the report counts as waste."""
    return (
        f"A size counts as waste if its prediction is reliable, its efficiency is below {100 * bounds.efficiency_min:.0f} % and the whole "
        f"band of a smaller size lies below what was used. A time limit counts from {bounds.limit_factor:g} times the upper end of the band."
    )


def user_name(user: User) -> str:
    return NOBODY["user"] if user.user is None else user.user


def not_judged(total: Total) -> str:
    """Return the share of the used unit-hours that could not be judged; empty if there is none."""
    share = total.not_judged_share
    return f"{100 * share:.0f} % of these {unit_hours(total.unit)} could not be judged" if share >= 0.005 else ""


def sessions(total: Total) -> str:
    """Return the unit-hours of interactive sessions; empty if there were none."""
    used = f"{number(total.sessions.used)} {unit_hours(total.unit)} ({100 * total.sessions.share:.0f} %)"
    count = counted(total.sessions.runs, "interactive session")
    return f"{count} used {used}, not counted as lost" if total.sessions.runs else ""


def part(lost: Amount, used: float) -> str:
    """Return an amount as a share of the used unit-hours, in whole per cent."""
    return f"{100 * lost.value / used:.0f} %" if used else "-"


def measure(waste: Waste) -> str:
    """Return what the amount of a kind of waste stands for."""
    return MEASURES.get(waste.kind, "lost")


def _users(report: WeekReport, top: int) -> tuple[Row, list[Row]]:
    head = ("USER", "RUNS", "UNIT", "USED", "LOST", "OF USED", "REQUESTED BUT NOT NEEDED", "SESSIONS", "NOT JUDGED")
    rows: list[Row] = [
        (
            printable(user_name(user)), str(total.runs), unit_hours(total.unit), number(total.used), plain_amount(total.lost),
            part(total.lost, total.used), plain_amount(total.reserved), number(total.sessions.used), f"{100 * total.not_judged_share:.0f} %",
        )
        for user in report.users[:top]
        for total in user.totals
    ]  # fmt: skip
    return head, rows


def _total(total: Total) -> str:
    used = f"{counted(total.runs, 'run')}, {number(total.used)} {unit_hours(total.unit)}"
    if total.lost.value:
        used += f"; lost {amount(total.lost, total.unit)}, {part(total.lost, total.used)}"
    return "; ".join(filter(None, (used, sessions(total), not_judged(total)))) + "."


def _kind(waste: Waste, table: Table) -> str:
    head = f"  {HEADINGS[waste.kind]}: {counted(waste.runs, 'run')}, {amount(waste.lost, waste.unit)} {measure(waste)}"
    advice = [f"  - {printable(text)}" for text in waste.advice]
    more = [f"  - and {counted(waste.more, 'smaller case')}"] if waste.more else []
    columns = ("JOB", "APPLICATION", waste.unit.upper(), "STARTED", "RUN TIME", "LIMIT", unit_hours(waste.unit).upper())
    lines = table(columns, [_example(example) for example in waste.examples]).splitlines()
    return "\n".join([head, *advice, *more, *(f"    {line}" for line in lines)])


def _example(example: Example) -> Row:
    limit = "-" if example.time_limit_s is None else rounded(example.time_limit_s)
    n = "-" if example.n is None else size(example.n)
    names = map(printable, (example.job_id, example.application or "-"))
    return (*names, n, moment(example.start), rounded(example.run_time_s), limit, plain_amount(example.lost))


def _energy(report: EnergyReport, top: int, table: Table) -> Iterator[str]:
    yield coverage_text(report.total)
    yield from filter(None, [carbon_text(report.total)])
    for title, groups, hidden in _lists(report, top):
        yield table(_head(title, report.total), [_group_row(title, group, report.total) for group in groups])
        yield from _hidden(hidden, title, "--top shows more")
    head = ("JOB", "APPLICATION", "STARTED", *_head("job", report.total)[2:])
    yield table(head, [_job_row(job, report.total) for job in report.jobs[:top]])
    yield from _hidden(len(report.jobs) - top, "job", "--json has all")


def coverage_text(total: EnergyTotal) -> str:
    """Return the used energy, and the shares of node-seconds with measured, estimated and unknown energy."""
    runs, parts = counted(total.runs, "run"), (total.measured_s, total.estimated_s, total.unknown_s)
    measured, estimated, unknown = (per_cent(seconds, total.node_s) for seconds in parts)
    if unknown == "100 %":
        return f"The energy of {runs} is unknown."
    used = f"{runs} used {kwh(total.energy_j)} kWh{band(total)}"
    if unknown == "0 %":
        return f"{used}: {measured} of the node-seconds were measured and {estimated} estimated."
    return f"{used}: {measured} of the node-seconds were measured, {estimated} estimated, and {unknown} are unknown."


def carbon_text(total: EnergyTotal) -> str:
    """Return the carbon of the energy, and the energy without a known intensity; empty if there is no carbon or no energy."""
    if total.carbon_g is None or not total.energy_j:
        return ""
    caused = f"This energy caused {kg(total.carbon_g)} kg CO2e"
    if per_cent(total.carbon_unknown_j, total.energy_j) in ("0 %", "-"):
        return f"{caused}."
    return f"{caused}, without {kwh(total.carbon_unknown_j)} kWh used at times without a known carbon intensity."


def kwh(energy_j: float) -> str:
    return number(energy_j / J_PER_KWH)


def kg(grams: float | None) -> str:
    return "-" if grams is None else number(grams / 1000)


def band(total: EnergyTotal) -> str:
    """Return the ends of an energy in brackets; empty if all of it was measured."""
    low, high = kwh(total.energy_low_j), kwh(total.energy_high_j)
    return f" ({low} to {high})" if low != high else ""


def per_cent(amount: float, whole: float) -> str:
    """Return a share in whole per cent; it reads 0 % or 100 % only if it is nearly exactly that."""
    if not whole:
        return "-"
    share = 100 * amount / whole
    if 0.05 < share < 1:
        return "<1 %"
    return ">99 %" if 99 < share < 99.95 else f"{share:.0f} %"


def _lists(report: EnergyReport, top: int) -> Iterator[tuple[str, tuple[EnergyGroup, ...], int]]:
    """Yield title, shown groups and number of hidden groups of each list; days are never hidden."""
    for title, groups in (("application", report.applications), ("user", report.users), ("account", report.accounts)):
        yield title, groups[:top], max(len(groups) - top, 0)
    yield "day", report.by_day, 0


def _head(title: str, total: EnergyTotal) -> Row:
    carbon = ("KG CO2E",) if total.carbon_g is not None else ()
    return (title.upper(), "RUNS", "NODE-HOURS", "KWH", *carbon, "MEASURED", "ESTIMATED", "UNKNOWN")


def _group_row(title: str, group: EnergyGroup, whole: EnergyTotal) -> Row:
    name = NOBODY[title] if group.name is None else printable(group.name)
    return (name, str(group.total.runs), *_figures(group.total, whole))


def _job_row(job: JobEnergy, whole: EnergyTotal) -> Row:
    names = map(printable, (job.job_id, job.application or "-"))
    return (*names, moment(job.start), *_figures(job.total, whole))


def _figures(total: EnergyTotal, whole: EnergyTotal) -> Row:
    carbon = (kg(total.carbon_g),) if whole.carbon_g is not None else ()
    shares = (per_cent(seconds, total.node_s) for seconds in (total.measured_s, total.estimated_s, total.unknown_s))
    is_unknown = math.isclose(total.unknown_s, total.node_s, rel_tol=1e-9)
    return (number(total.node_s / 3600), "-" if is_unknown else kwh(total.energy_j), *carbon, *shares)
