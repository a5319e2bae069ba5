"""Parts of an application's dashboard: run time under load, power and energy, each with its own record."""

from deploy.grafana.centre import COVERAGE, ERROR
from deploy.grafana.frame import Line, Part
from deploy.grafana.panels import HIGH, LOW, MIDDLE, ORANGE, Panel, band, figure, lines, stacked
from deploy.grafana.queries import OF_APPLICATION, OF_SIZE, ends, latest, over_time, rows
from deploy.grafana.tables import curve, shaded, table


def load() -> Part:
    """Return the part about run times under the load of shared hosts.

    >>> load().title
    'Under the load of the moment (applications on shared hosts)'
    """
    low, middle, high = ends("scalewatch_under_load_run_time_seconds", OF_APPLICATION)
    run_time = band(
        "Run time under load",
        "Run time under the load of the hosts where the application usually runs, at the size run last there, within its "
        "90 % range. The figures to the right say how often runs lay in the range.",
        "s",
        [over_time(low, LOW), over_time(middle, MIDDLE), over_time(high, HIGH)],
    )
    factor = lines(
        "How much load stretches it",
        "By which factor load stretches the run time of a quiet machine: now, and when the curve was learned. Now above "
        "usual: waiting may be faster than starting.",
        "none",
        [over_time(f"max by (moment) (scalewatch_under_load_factor{{{OF_APPLICATION}}})", "{{moment}}")],
    )
    inside = figure(
        "Runs in the range",
        "Share of the runs within the range that was told at their start.",
        "percentunit",
        [latest(f"max(scalewatch_under_load_in_range_ratio{{{OF_APPLICATION}}})")],
        COVERAGE,
        absent="not measured yet",
    )
    score = figure(
        "Against the plain band",
        "Continuous ranked probability score under load over that of the plain band: below 1 it pays to look at load.",
        "none",
        [latest(f"max(scalewatch_under_load_crps_ratio{{{OF_APPLICATION}}})")],
        {None: "green", 1.0: ORANGE},
        absent="not measured yet",
    )
    intervals = table(
        "Runs by interval",
        "Share of the runs in each of the five intervals of the range, beside the share that was expected there. Much more "
        "than expected in the last one: load is worse than its measurements say.",
        {
            kind: rows(f'max by (interval) (scalewatch_under_load_interval_ratio{{{OF_APPLICATION}, kind="{kind}"}})')
            for kind in ("observed", "expected")
        },
        unit="percentunit",
    )
    tenths = table(
        "Runs by told probability",
        "Share of the runs in each tenth of the probability that was told. 10 % each is ideal; full ends mean a range that "
        "is too narrow, a full middle one that is too wide.",
        {"share": rows(f"max by (tenth) (scalewatch_under_load_pit_ratio{{{OF_APPLICATION}}})")},
        unit="percentunit",
    )
    return Part(
        "Under the load of the moment (applications on shared hosts)",
        (
            Line(8, ((10, run_time), (8, factor), (3, inside), (3, score))),
            Line(8, ((12, intervals), (12, tenths))),
        ),
    )


def energy() -> Part:
    """Return the part about power and energy.

    >>> energy().title
    'Power and energy (applications whose hosts are measured)'
    """
    return Part(
        "Power and energy (applications whose hosts are measured)",
        (
            Line(9, ((8, _power()), (8, _energy()), (8, _energy_over_size()))),
            Line(8, (*((4, each) for each in _record()), (8, _sources()))),
            Line(9, ((12, _counters()), (12, _models()))),
        ),
    )


def _power() -> Panel:
    low, middle, high = ends("scalewatch_predicted_power_watts", OF_SIZE)
    return band(
        "Power at n = $n",
        "Mean power of all hosts of a run together, within its 90 % band. The high end is what a power budget should hold.",
        "watt",
        [over_time(low, LOW), over_time(middle, MIDDLE), over_time(high, HIGH)],
    )


def _energy() -> Panel:
    low, middle, high = ends("scalewatch_predicted_energy_joules", OF_SIZE)
    return band(
        "Energy of a run at n = $n",
        "Energy of a whole run, within its 90 % band: power times run time, with what both do not know.",
        "joule",
        [over_time(low, LOW), over_time(middle, MIDDLE), over_time(high, HIGH)],
    )


def _energy_over_size() -> Panel:
    return curve(
        "Energy over size",
        "Energy of a whole run over its size. The lowest point costs least; beyond the knee more hosts cost more than they save.",
        "joule",
        "scalewatch_predicted_energy_joules",
        OF_APPLICATION,
    )


def _record() -> tuple[Panel, ...]:
    covered = figure(
        "Coverage of power",
        "Share of the runs whose power was inside the 90 % band that was told before they were learned.",
        "percentunit",
        [latest(f"max(scalewatch_power_coverage_ratio{{{OF_APPLICATION}}})")],
        COVERAGE,
        absent="not measured yet",
    )
    error = figure(
        "Error of power",
        "Median relative error of power by size, of runs that were predicted before they were learned.",
        "percentunit",
        [latest(f"max(scalewatch_power_error_ratio{{{OF_APPLICATION}}})")],
        ERROR,
        absent="not measured yet",
    )
    by_target = "max by (target) (scalewatch_profile_{}_ratio{{{}}})"
    explained = figure(
        "Error from counters",
        "Median relative error of what was expected of runs from their counters.",
        "percentunit",
        [latest(by_target.format("error", OF_APPLICATION), "{{target}}")],
        ERROR,
        absent="not measured yet",
    )
    coverage = figure(
        "Coverage from counters",
        "Share of these runs inside the 90 % band of what counters let expect.",
        "percentunit",
        [latest(by_target.format("coverage", OF_APPLICATION), "{{target}}")],
        COVERAGE,
        absent="not measured yet",
    )
    return covered, error, explained, coverage


def _sources() -> Panel:
    return stacked(
        "Where power comes from",
        "Share of the host-minutes whose power a sensor measured, and share that was estimated from counters. Believe "
        "estimates less.",
        "percentunit",
        [over_time(f"max by (source) (scalewatch_power_source_ratio{{{OF_APPLICATION}}})", "{{source}}")],
    )


def _counters() -> Panel:
    labels = "max by (target, counter)"
    panel = table(
        "Counters that explain it",
        "The counters that move what is expected of each target most: rank correlation, and by how many of its deviations the "
        "target moves for one deviation of the counter. Where to look first when power or run time is out of line.",
        {
            "correlation": rows(f"{labels} (scalewatch_profile_correlation{{{OF_APPLICATION}}})"),
            "coefficient": rows(f"{labels} (scalewatch_profile_coefficient{{{OF_APPLICATION}}})"),
        },
    )
    return shaded(panel, "correlation", "none", {None: "text", 0.5: "blue"})


def _models() -> Panel:
    return lines(
        "Errors from counters over time",
        "Median relative error of what counters let expect, by target. A rise: the application does something else now.",
        "percentunit",
        [over_time(f"max by (target) (scalewatch_profile_error_ratio{{{OF_APPLICATION}}})", "{{target}}")],
    )
