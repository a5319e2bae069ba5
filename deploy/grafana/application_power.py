"""Parts of an application's dashboard: run time under load, power and energy, each with its own record."""

from deploy.grafana.centre import COVERAGE, ERROR
from deploy.grafana.frame import Line, Part
from deploy.grafana.panels import HIGH, LOW, MIDDLE, Panel, band, figure, lines, stacked
from deploy.grafana.queries import OF_APPLICATION, OF_SIZE, ends, latest, over_time
from deploy.grafana.tables import curve


def load() -> Part:
    """Return the part about run times under the load of shared hosts.

    >>> load().title
    'Under the load of the moment'
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
    return Part(
        "Under the load of the moment",
        (Line(8, ((12, run_time), (8, factor), (4, inside))),),
        needs="shared hosts that send their load",
    )


def energy() -> Part:
    """Return the part about power and energy.

    >>> energy().title
    'Power and energy'
    """
    return Part(
        "Power and energy",
        (
            Line(9, ((8, _power()), (8, _energy()), (8, _energy_over_size()))),
            Line(8, (*((6, panel) for panel in _record()), (12, _sources()))),
        ),
        needs="hosts that send their power or counters",
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
    return covered, error


def _sources() -> Panel:
    return stacked(
        "Where power comes from",
        "Share of the host-minutes whose power a sensor measured, and share that was estimated from counters. Believe "
        "estimates less.",
        "percentunit",
        [over_time(f"max by (source) (scalewatch_power_source_ratio{{{OF_APPLICATION}}})", "{{source}}")],
    )
