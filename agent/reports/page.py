"""The weekly reports for people: one HTML file without scripts, which fits into a mail, and a text for a terminal.

Both have the same parts and differ only in layout.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Final, NamedTuple

from markupsafe import Markup

from agent.reports.energy import J_PER_KWH, EnergyReport, EnergyTotal
from agent.reports.waste import (
    Kind,
    Total,
    User,
    Waste,
    WasteBounds,
    WeekReport,
    amount,
    number,
    plain_amount,
    unit_hours,
)
from sinks.web import formatting
from sinks.web.formatting import counted, moment, printable, rounded, size

Row = tuple[str, ...]
Layout = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
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
USERS: Final = (
    "user", "runs", "unit", "used", "lost", "of used", "requested but not needed", "sessions", "not judged",
)  # fmt: skip
TEXT_COLUMNS: Final = frozenset({*NOBODY, "unit", "of used", "job", "started"})
"""The columns of tables that contain text instead of numbers."""


class Table(NamedTuple):
    """A table of a report; `hidden` is the number of rows that were left out."""

    caption: str
    head: Row
    rows: Sequence[Row]
    hidden: int = 0


class Part(NamedTuple):
    """A section of a report: lines of text, then a list of items, a table, and subsections of one line each."""

    title: str
    lines: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    table: Table | None = None
    parts: tuple["Part", ...] = ()


class Content(NamedTuple):
    """The content of a report: kind, title, lines below the title, parts, and the rules for computing its numbers."""

    kind: str
    title: str
    lines: tuple[str, ...]
    parts: tuple[Part, ...]
    rules: str


def content(report: WeekReport | EnergyReport, top: int) -> Content:
    """Return the content of a report; lists show at most `top` rows."""
    days = (report.days,)
    left_out = (f"{counted(report.left_out, 'run')} did not fit into memory and are not counted.",)[: report.left_out]
    if isinstance(report, EnergyReport):
        lines = (coverage_text(report.total), *filter(None, [carbon_text(report.total)]))
        title = f"Energy of week {report.week}"
        return Content("energy", title, days + lines + left_out, tuple(_energy_parts(report, top)), RULES)
    lines = () if report.runs else ("No run ended in this week.",)
    parts = tuple(_waste_parts(report, top))
    return Content("week", f"Week {report.week}", days + lines + left_out, parts, bounds_text(report.bounds))


def page(report: WeekReport | EnergyReport, top: int) -> str:
    """Return the HTML page, which loads nothing and runs no script; all text from jobs is escaped."""
    styles = (files("sinks.web").joinpath("static/style.css"), files("agent.reports").joinpath("templates", "week.css"))
    style = Markup("".join(path.read_text("utf-8") for path in styles))  # noqa: S704 - our own files
    template = formatting.environment("agent.reports").get_template("weekly.html")
    return template.render(report=report, content=content(report, top), style=style, text_columns=TEXT_COLUMNS)


def text(report: WeekReport | EnergyReport, top: int, layout: Layout) -> str:
    """Return the report as text for a terminal; `layout` turns a head and rows into an aligned table."""
    shown = content(report, top)
    parts = ("\n".join(_part_text(part, layout)) for part in shown.parts)
    return "\n\n".join(["\n".join([", ".join([shown.title, shown.lines[0]]), *shown.lines[1:]]), *parts, shown.rules])


def _part_text(part: Part, layout: Layout, indent: str = "") -> Iterator[str]:
    if indent:
        yield f"{indent}{part.title}: {'; '.join(part.lines)}"
    else:
        yield printable(part.title)
        yield from (f"  {line}" for line in part.lines)
    yield from (f"{indent}- {printable(item)}" for item in part.items)
    if part.table is not None:
        head = [name.upper() for name in part.table.head]
        rows = [[printable(cell) for cell in row] for row in part.table.rows]
        yield from (f"{2 * indent}{line}" for line in layout(head, rows).splitlines())
        if part.table.hidden:
            yield f"{part.table.hidden} more; use --top to show them."
    for smaller in part.parts:
        yield ""
        yield from _part_text(smaller, layout, indent="  ")


def _waste_parts(report: WeekReport, top: int) -> Iterator[Part]:
    if len(report.users) > 1:
        rows = [_user_row(user, total) for user in report.users[:top] for total in user.totals]
        lines = tuple(f"{used}." for total in report.totals if (used := sessions(total)))
        yield Part("Users", lines, table=_table("The largest losses first", USERS, rows, len(report.users) - top))
    for user in report.users[:top]:
        lines = (*map(_total, user.totals), *(() if user.waste else ("No waste was found.",)))
        yield Part(_name("user", user.user), lines, parts=tuple(map(_kind, user.waste)))


def _energy_parts(report: EnergyReport, top: int) -> Iterator[Part]:
    carbon = ("kg CO2e",) if report.total.carbon_g is not None else ()
    head = ("node-hours", "kWh", *carbon, "measured", "estimated", "unknown")
    every = (report.applications, report.users, report.accounts, report.by_day)
    for title, groups in zip(NOBODY, every, strict=True):
        most = len(groups) if title == "day" else top
        caption = "Days of the week" if title == "day" else "The largest first"
        rows = [
            (_name(title, group.name), str(group.total.runs), *_figures(group.total, report.total))
            for group in groups[:most]
        ]
        yield Part(f"By {title}", table=_table(caption, (title, "runs", *head), rows, len(groups) - most))
    rows = [
        (job.job_id, job.application or "-", job.account or "-", moment(job.start), *_figures(job.total, report.total))
        for job in report.jobs[:top]
    ]
    columns = ("job", "application", "account", "started", *head)
    yield Part("Jobs", table=_table("The largest first", columns, rows, len(report.jobs) - top))


def _table(caption: str, head: Row, rows: Sequence[Row], hidden: int) -> Table:
    more = f"; {hidden} more are not shown" if hidden > 0 else ""
    return Table(caption + more, head, rows, max(hidden, 0))


def _name(title: str, name: str | None) -> str:
    return NOBODY[title] if name is None else name


def bounds_text(bounds: WasteBounds) -> str:
    """Return a text with the thresholds above which the report counts waste."""
    return (
        f"A size counts as waste if its prediction is reliable, its efficiency is below {100 * bounds.efficiency_min:.0f} % and the whole "
        f"band of a smaller size lies below what was used. A time limit counts from {bounds.limit_factor:g} times the upper end of the band."
    )


def sessions(total: Total) -> str:
    """Return the unit-hours of interactive sessions; empty if there were none."""
    used = f"{number(total.sessions.used)} {unit_hours(total.unit)} ({100 * total.sessions.share:.0f} %)"
    count = counted(total.sessions.runs, "interactive session")
    return f"{count} used {used}, not counted as lost" if total.sessions.runs else ""


def _lost_share(total: Total) -> str:
    """Return the lost share of the used unit-hours in whole per cent."""
    return f"{100 * total.lost.value / total.used:.0f} %" if total.used else "-"


def _user_row(user: User, total: Total) -> Row:
    return (
        _name("user", user.user), str(total.runs), unit_hours(total.unit), number(total.used), plain_amount(total.lost),
        _lost_share(total), plain_amount(total.reserved), number(total.sessions.used), f"{100 * total.not_judged_share:.0f} %",
    )  # fmt: skip


def _total(total: Total) -> str:
    used = f"{counted(total.runs, 'run')}, {number(total.used)} {unit_hours(total.unit)}"
    if total.lost.value:
        used += f"; lost {amount(total.lost, total.unit)}, {_lost_share(total)}"
    not_judged = ""
    if total.not_judged_share >= 0.005:
        not_judged = f"{100 * total.not_judged_share:.0f} % of these {unit_hours(total.unit)} could not be judged"
    return "; ".join(filter(None, (used, sessions(total), not_judged))) + "."


def _kind(waste: Waste) -> Part:
    lost = f"{amount(waste.lost, waste.unit)} {MEASURES.get(waste.kind, 'lost')}"
    more = (f"and {counted(waste.more, 'smaller case')}",) if waste.more else ()
    head = ("job", "application", waste.unit, "started", "run time", "limit", unit_hours(waste.unit))
    rows = [
        (
            run.job_id,
            " ".join(filter(None, (run.application, run.input))) or "-",
            "-" if run.n is None else size(run.n),
            moment(run.start),
            rounded(run.run_time_s),
            "-" if run.time_limit_s is None else rounded(run.time_limit_s),
            plain_amount(run.lost),
        )
        for run in waste.examples
    ]
    table = Table("The most expensive runs", head, rows)
    return Part(HEADINGS[waste.kind], (f"{counted(waste.runs, 'run')}, {lost}",), (*waste.advice, *more), table)


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
    """Return the lower and upper bound of an energy in brackets; empty if all energy was measured."""
    low, high = kwh(total.energy_low_j), kwh(total.energy_high_j)
    return f" ({low} to {high})" if low != high else ""


def per_cent(amount: float, whole: float) -> str:
    """Return a share in whole per cent; 0 % and 100 % appear only if the share is nearly exactly that."""
    if not whole:
        return "-"
    share = 100 * amount / whole
    if 0.05 < share < 1:
        return "<1 %"
    return ">99 %" if 99 < share < 99.95 else f"{share:.0f} %"


def _figures(total: EnergyTotal, whole: EnergyTotal) -> Row:
    carbon = (kg(total.carbon_g),) if whole.carbon_g is not None else ()
    shares = (per_cent(seconds, total.node_s) for seconds in (total.measured_s, total.estimated_s, total.unknown_s))
    is_unknown = math.isclose(total.unknown_s, total.node_s, rel_tol=1e-6)
    energy = "-" if is_unknown else f"{kwh(total.energy_j)}{band(total)}"
    return (number(total.node_s / 3600), energy, *carbon, *shares)
