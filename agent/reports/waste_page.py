"""The weekly waste report for people: one HTML file without scripts, fit for an e-mail, and a text for a terminal."""

from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup

from agent.reports.waste import Example, Total, User, Waste, WeekReport
from agent.reports.waste_advice import amount, number, plain_amount, unit_hours
from agent.reports.waste_judgement import Amount, Bounds, Kind
from sinks.web import formatting
from sinks.web.formatting import counted, moment, printable, rounded, size

NOBODY: Final = "runs that name no user"
HEADINGS: Final[dict[Kind, str]] = {
    "slows_down": "More made it slower",
    "beyond_useful": "More than the useful size",
    "failed": "Failed runs",
    "timed_out": "Runs that met their time limit",
    "long_limit": "Time limits far too long",
    "odd_host": "Slowed or ended by a host (no fault of the user)",
}
MEASURES: Final[dict[Kind, str]] = {"long_limit": "asked for beyond need", "odd_host": "not counted as lost"}
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def page(report: WeekReport, top: int) -> str:
    """Return the HTML page. All text that comes from jobs is escaped; the page loads no resource and runs no script."""
    styles = (files("sinks.web").joinpath("static/style.css"), files("agent.reports").joinpath("templates", "week.css"))
    return (
        environment()
        .get_template("week.html")
        .render(
            report=report,
            shown=report.users[:top],
            style=Markup("".join(path.read_text("utf-8") for path in styles)),  # noqa: S704 - our own files
        )
    )


def environment() -> Environment:
    """Return the template environment with the filters of the waste report."""
    made = formatting.environment("agent.reports")
    made.filters.update(
        amount=amount, number=number, plain_amount=plain_amount, unit_hours=unit_hours, heading=HEADINGS.__getitem__, measure=measure,
        rounded=rounded, not_judged=not_judged, sessions=sessions, user_name=user_name, part=part,
    )  # fmt: skip
    made.globals.update(bounds_text=bounds_text)
    return made


def text(report: WeekReport, top: int, table: Table, *, one_user: bool) -> str:
    """Return the report as text for a terminal; `table` lays out rows below their header."""
    parts = [f"Week {report.week}, {report.days}"]
    if not one_user:
        parts.append(table(*_users(report, top)))
        hidden = len(report.users) - top
        parts += [f"{counted(hidden, 'more user')}; --top shows more."] if hidden > 0 else []
        parts += [f"{text}." for total in report.totals if (text := sessions(total))]
    parts += [part for user in report.users[:top] for part in _user(user, table)]
    if report.left_out:
        parts.append(f"{counted(report.left_out, 'run')} came after the list was full and are not counted.")
    return "\n\n".join([*parts, bounds_text(report.bounds)])


def bounds_text(bounds: Bounds) -> str:
    """Return a text that explains the thresholds of waste in the report."""
    return (
        f"Sizes count where the prediction may be relied on, efficiency is below {100 * bounds.efficiency_min:.0f} % and the whole band of a "
        f"smaller size lies below what was used; limits count from {bounds.limit_factor:g} times the upper end of the band."
    )


def user_name(user: User) -> str:
    """Return the display name of a user."""
    return NOBODY if user.user is None else user.user


def not_judged(total: Total) -> str:
    """Return the share of the use that could not be judged; empty if everything was judged."""
    share = total.not_judged_share
    return f"{100 * share:.0f} % of these {unit_hours(total.unit)} could not be judged" if share >= 0.005 else ""


def sessions(total: Total) -> str:
    """Return the use by interactive sessions as text; empty if there were no sessions."""
    shown = total.sessions
    used = f"{number(shown.used)} {unit_hours(total.unit)} ({100 * shown.share:.0f} %), not counted as lost"
    return f"{counted(shown.runs, 'interactive session')} used {used}" if shown.runs else ""


def part(lost: Amount, used: float) -> str:
    """Return an amount as a share of the use, in whole per cent."""
    return f"{100 * lost.value / used:.0f} %" if used else "-"


def measure(waste: Waste) -> str:
    """Return the meaning of the amount of a kind of waste."""
    return MEASURES.get(waste.kind, "lost")


def _users(report: WeekReport, top: int) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    head = ("USER", "RUNS", "UNIT", "USED", "LOST", "OF USED", "ASKED BEYOND NEED", "SESSIONS", "NOT JUDGED")
    rows = [
        (
            printable(user_name(user)), str(total.runs), unit_hours(total.unit), number(total.used), plain_amount(total.lost),
            part(total.lost, total.used), plain_amount(total.reserved), number(total.sessions.used), f"{100 * total.not_judged_share:.0f} %",
        )
        for user in report.users[:top]
        for total in user.totals
    ]  # fmt: skip
    return head, rows


def _user(user: User, table: Table) -> Iterator[str]:
    yield "\n".join([printable(user_name(user)), *(f"  {_total(total)}" for total in user.totals)])
    if not user.waste:
        yield "  Nothing was found to be wasted."
    for waste in user.waste:
        yield _waste(waste, table)


def _total(total: Total) -> str:
    shown = f"{counted(total.runs, 'run')}, {number(total.used)} {unit_hours(total.unit)}"
    if total.lost.value:
        shown += f"; lost {amount(total.lost, total.unit)}, {part(total.lost, total.used)}"
    return "; ".join(filter(None, (shown, sessions(total), not_judged(total)))) + "."


def _waste(waste: Waste, table: Table) -> str:
    head = f"  {HEADINGS[waste.kind]}: {counted(waste.runs, 'run')}, {amount(waste.lost, waste.unit)} {measure(waste)}"
    advice = [f"  - {printable(one)}" for one in waste.advice]
    more = [f"  - and {counted(waste.more, 'smaller case')}"] if waste.more else []
    rows = [_example(example) for example in waste.examples]
    columns = ("JOB", "APPLICATION", waste.unit.upper(), "STARTED", "TOOK", "LIMIT", unit_hours(waste.unit).upper())
    return "\n".join([head, *advice, *more, *(f"    {line}" for line in table(columns, rows).splitlines())])


def _example(example: Example) -> tuple[str, ...]:
    limit = "-" if example.time_limit_s is None else rounded(example.time_limit_s)
    where = "-" if example.n is None else size(example.n)
    named: tuple[Any, ...] = (example.job_id, example.application or "-")
    return (
        *map(printable, named), where, moment(example.start), rounded(example.run_time_s), limit, plain_amount(example.lost)
    )  # fmt: skip
