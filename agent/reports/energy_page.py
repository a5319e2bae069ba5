"""The weekly energy report for people: one HTML file without scripts, fit for an e-mail, and a text for a terminal."""

from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from agent.reports.energy import J_PER_KWH, EnergyGroup, EnergyReport, EnergyTotal, JobEnergy
from agent.reports.waste_advice import number
from sinks.web import formatting
from sinks.web.formatting import counted, moment, printable

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
NOBODY: Final = {
    "application": "runs that nothing names", "user": "runs that name no user", "account": "runs that name no account", "day": "",
}  # fmt: skip
RULES: Final = (
    "Energy is that of whole nodes. Measured is what meters of hosts or of the scheduler reported, estimated what counters or the "
    "power model of an application let expect, unknown what neither knows."
)


def page(report: EnergyReport, top: int) -> str:
    """Return the HTML page. All text that comes from jobs is escaped; the page loads no resource and runs no script."""
    styles = (files("sinks.web").joinpath("static/style.css"), files("agent.reports").joinpath("templates", "week.css"))
    return (
        environment()
        .get_template("energy.html")
        .render(
            report=report,
            groups=list(_lists(report, top)),
            jobs=report.jobs[:top],
            more_jobs=max(len(report.jobs) - top, 0),
            style=Markup("".join(path.read_text("utf-8") for path in styles)),  # noqa: S704 - our own files
        )
    )


def environment() -> Environment:
    """Return the template environment with the filters of the energy report."""
    made = formatting.environment("agent.reports")
    made.filters.update(number=number, kwh=kwh, kg=kg, per_cent=per_cent, band=band)
    made.globals.update(coverage_text=coverage_text, carbon_text=carbon_text, nobody=NOBODY, rules=RULES)
    return made


def text(report: EnergyReport, top: int, table: Table) -> str:
    """Return the report as text for a terminal; `table` lays out rows below their header."""
    parts = [f"Week {report.week}, {report.days}", coverage_text(report.total)]
    parts += [carbon] if (carbon := carbon_text(report.total)) else []
    for title, groups, hidden in _lists(report, top):
        parts.append(table(_head(title, report.total), [_row(title, group, report.total) for group in groups]))
        parts += [f"{counted(hidden, f'more {title}')}; --top shows more."] if hidden else []
    parts.append(table(*_jobs(report, top)))
    hidden = len(report.jobs) - top
    parts += [f"{counted(hidden, 'more job')}; --json has all."] if hidden > 0 else []
    if report.left_out:
        parts.append(f"{counted(report.left_out, 'run')} came after the list was full and are not counted.")
    return "\n\n".join([*parts, RULES])


def coverage_text(total: EnergyTotal) -> str:
    """Return one or two sentences with the energy used and the share with a known value."""
    measured, estimated, unknown = (
        per_cent(part, total.node_s) for part in (total.measured_s, total.estimated_s, total.unknown_s)
    )
    if unknown == "100 %":
        return f"Nothing is known of the energy of {counted(total.runs, 'run')}."
    known = (
        f"{counted(total.runs, 'run')} used {kwh(total.energy_j)} kWh{band(total)}: {measured} of their "
        f"node-seconds were measured and {estimated} estimated"
    )
    if unknown == "0 %":
        return f"{known}."
    return f"{known}; of {unknown} nothing is known."


def carbon_text(total: EnergyTotal) -> str:
    """Return the carbon, and the energy without a known carbon; empty if carbon is not configured or no energy was used."""
    if total.carbon_g is None or not total.energy_j:
        return ""
    known = f"With that came {kg(total.carbon_g)} kg CO2e"
    if per_cent(total.carbon_unknown_j, total.energy_j) in ("0 %", "-"):
        return f"{known}."
    return f"{known}, without {kwh(total.carbon_unknown_j)} kWh at times for which the series of carbon says nothing."


def kwh(energy_j: float) -> str:
    """Return an energy in kWh as text, without the unit."""
    return number(energy_j / J_PER_KWH)


def kg(grams: float | None) -> str:
    """Return a mass in kg as text, without the unit; a dash if the mass is unknown."""
    return "-" if grams is None else number(grams / 1000)


def band(total: EnergyTotal) -> str:
    """Return the bounds of an energy in brackets; empty if no part of the energy was estimated by a model."""
    low, high = kwh(total.energy_low_j), kwh(total.energy_high_j)
    return f" ({low} to {high})" if low != high else ""


def per_cent(part: float, whole: float) -> str:
    """Return a share in whole per cent; a share just above 0 or just below 100 % is written as <1 % or >99 %."""
    if not whole:
        return "-"
    share = 100 * part / whole
    if 0.05 < share < 1:
        return "<1 %"
    return ">99 %" if 99 < share < 99.95 else f"{share:.0f} %"


def _lists(report: EnergyReport, top: int) -> Iterator[tuple[str, tuple[EnergyGroup, ...], int]]:
    """Yield each list as title, its first `top` entries and the number of hidden entries; the list of days is complete."""
    for title, groups in (("application", report.applications), ("user", report.users), ("account", report.accounts)):
        yield title, groups[:top], max(len(groups) - top, 0)
    yield "day", report.by_day, 0


def _head(title: str, total: EnergyTotal) -> tuple[str, ...]:
    carbon = ("KG CO2E",) if total.carbon_g is not None else ()
    return (title.upper(), "RUNS", "NODE-HOURS", "KWH", *carbon, "MEASURED", "ESTIMATED", "UNKNOWN")


def _row(title: str, group: EnergyGroup, whole: EnergyTotal) -> tuple[str, ...]:
    name = NOBODY[title] if group.name is None else printable(group.name)
    return (name, str(group.total.runs), *_figures(group.total, whole))


def _jobs(report: EnergyReport, top: int) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    head = _head("job", report.total)
    return ("JOB", "APPLICATION", "STARTED", *head[2:]), [_job(job, report.total) for job in report.jobs[:top]]


def _job(job: JobEnergy, whole: EnergyTotal) -> tuple[str, ...]:
    named = map(printable, (job.job_id, job.application or "-"))
    return (*named, moment(job.start), *_figures(job.total, whole))


def _figures(total: EnergyTotal, whole: EnergyTotal) -> tuple[str, ...]:
    carbon = (kg(total.carbon_g),) if whole.carbon_g is not None else ()
    shares = (per_cent(part, total.node_s) for part in (total.measured_s, total.estimated_s, total.unknown_s))
    nothing = total.unknown_s >= total.node_s * (1 - 1e-9)
    return (number(total.node_s / 3600), "-" if nothing else kwh(total.energy_j), *carbon, *shares)
