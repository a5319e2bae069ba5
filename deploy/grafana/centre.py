"""The dashboard of the whole centre: what needs attention, and how good predictions are."""

from typing import Final

from deploy.grafana.frame import Line, Part, Sheet
from deploy.grafana.panels import GREEN, ORANGE, RED, Panel, figure, lines, stacked
from deploy.grafana.queries import KEY, OF_JOB, OF_SYSTEMS, latest, over_time, rate, rows
from deploy.grafana.tables import APPLICATION_URL, alerts, linked, shaded, table, with_input
from deploy.grafana.variables import JOB, SYSTEMS

COVERAGE: Final = {None: RED, 0.75: ORANGE, 0.85: GREEN}
ERROR: Final = {None: GREEN, 0.1: ORANGE, 0.25: RED}
SOME: Final = {None: GREEN, 1.0: ORANGE}
FIRING: Final = f"scalewatch_alert_firing{{{OF_SYSTEMS}}}"


def sheet() -> Sheet:
    """Return the dashboard.

    >>> sheet().name
    'centre'
    """
    return Sheet(
        name="centre",
        title="Centre",
        means="All applications of a centre: which need attention, and how far predictions can be trusted.",
        variables=(JOB, SYSTEMS),
        parts=(_now(), _attention(), _trust(), _activity()),
        firing=FIRING,
        shown="now-24h",
    )


def _now() -> Part:
    applications = figure(
        "Applications with a prediction",
        "How many applications have a prediction that is still valid. Stale ones were not run for long; those left out are "
        "over the bound of series, the agent's page has them.",
        "none",
        [latest(f"max by (status) (scalewatch_applications{{{OF_JOB}}})", "{{status}}")],
    )
    share = figure(
        "Applications with a reliable prediction",
        "Share of the applications whose verdict is reliable. The others may be used with what the table says of them in mind.",
        "percentunit",
        [
            latest(
                f'(sum(scalewatch_reliability{{{OF_SYSTEMS}, verdict="reliable"}}) or vector(0))'
                f" / sum(scalewatch_reliability{{{OF_SYSTEMS}}})"
            )
        ],
        {None: RED, 0.3: ORANGE, 0.6: GREEN},
    )
    covered = figure(
        "Measured coverage",
        "Share of the runs that lay inside their 90 % band, weighted by runs that were scored. Near 90 % bands say what they "
        "promise; far below, let no scheduler act on predictions before you know why.",
        "percentunit",
        [latest(_weighted("coverage"))],
        COVERAGE,
    )
    error = figure(
        "Error in the middle",
        "Median over applications of the median relative error of what was predicted before runs ended.",
        "percentunit",
        [latest(f"quantile(0.5, scalewatch_prediction_error_ratio{{{OF_SYSTEMS}}})")],
        ERROR,
    )
    firing = figure(
        "Firing alerts by severity",
        "Alerts of applications and hosts that fire now, by severity. The table below names them, the runbook says what to do.",
        "none",
        [latest(f'sum by (severity) (scalewatch_alerts{{{OF_JOB}, status="firing"}})', "{{severity}}")],
        SOME,
    )
    behind = figure(
        "Behind",
        "Event time between the newest record and the newest one used, of the role that is farthest behind. What is shown "
        "here is of that long ago.",
        "s",
        [latest(f"max(scalewatch_event_time_lag_seconds{{{OF_JOB}}})")],
        {None: GREEN, 120.0: ORANGE, 600.0: RED},
    )
    return Part("Now", (Line(4, tuple((4, each) for each in (applications, share, covered, error, firing, behind))),))


def _attention() -> Part:
    return Part(
        "What needs attention",
        (
            Line(
                8,
                (
                    (
                        24,
                        alerts(
                            "Alerts that fire",
                            "Alerts of the agent about applications and hosts, and rules of Prometheus about the agent (kind "
                            "agent). Each has a heading in the runbook; the agent's page has its evidence.",
                            FIRING,
                        ),
                    ),
                ),
            ),
            Line(12, ((24, _applications()),)),
        ),
    )


def _applications() -> Panel:
    def alerts_panel(metric: str, extra: str = "") -> str:
        return with_input(f"max by ({KEY}) ({metric}{{{OF_SYSTEMS}{extra}}})")

    panel = table(
        "Applications",
        "A row for each application. Trust a prediction as far as its verdict and its measured coverage go, and coverage as "
        "far as the number of scored runs goes. The knee is the size beyond which more nodes bring little.",
        {
            "": rows(with_input(f"max by ({KEY}, verdict) (scalewatch_reliability{{{OF_SYSTEMS}}})")),
            "coverage": rows(alerts_panel("scalewatch_prediction_coverage_ratio")),
            "scored runs": rows(alerts_panel("scalewatch_prediction_runs", ', use="scored"')),
            "error": rows(alerts_panel("scalewatch_prediction_error_ratio")),
            "learned runs": rows(alerts_panel("scalewatch_prediction_runs", ', use="learned"')),
            "knee": rows(alerts_panel("scalewatch_useful_size", ', criterion="knee"')),
            "useful up to": rows(alerts_panel("scalewatch_useful_size", ', criterion="max"')),
            "alerts": rows(with_input(f'sum by ({KEY}) (scalewatch_alert_firing{{{OF_SYSTEMS}, application!=""}})')),
        },
        hidden=("is",),
    )
    linked(panel, "application", "What is known of ${__data.fields.application}", APPLICATION_URL)
    shaded(panel, "coverage", "percentunit", COVERAGE)
    shaded(panel, "error", "percentunit", ERROR)
    return shaded(panel, "alerts", "none", SOME)


def _trust() -> Part:
    coverage = lines(
        "Measured coverage by system",
        "Mean coverage of the 90 % bands over the applications of a system (a recording rule of the chart). A fall on one "
        "system: the machine or its software changed. A fall on all: look at the agent.",
        "percentunit",
        [over_time(f"scalewatch:prediction_coverage:mean{{{OF_SYSTEMS}}}", "{{system}}")],
        steps={None: RED, 0.75: ORANGE, 0.9: GREEN},
    )
    error = lines(
        "Error by system",
        "Median over the applications of a system of their median relative errors (a recording rule of the chart).",
        "percentunit",
        [over_time(f"scalewatch:prediction_error:median{{{OF_SYSTEMS}}}", "{{system}}")],
    )
    horizon = lines(
        "Coverage by how far a size was from those known",
        "The farther out a size is, the less a band can promise. Low coverage far out alone: ask for predictions nearer to "
        "sizes that were run, or run the next size that an application's page advises.",
        "percentunit",
        [over_time(f"avg by (horizon) (scalewatch_prediction_horizon_coverage_ratio{{{OF_SYSTEMS}}})", "{{horizon}}")],
        steps={None: RED, 0.75: ORANGE, 0.9: GREEN},
    )
    verdicts = stacked(
        "Applications by verdict",
        "Verdicts other than reliable say why a prediction cannot be trusted yet; the page of an application gives the "
        "reasons, and what to run next.",
        "none",
        [over_time(f"count by (verdict) (scalewatch_reliability{{{OF_SYSTEMS}}})", "{{verdict}}")],
    )
    return Part(
        "How far predictions can be trusted",
        (Line(8, ((12, coverage), (12, error))), Line(8, ((12, horizon), (12, verdicts)))),
    )


def _activity() -> Part:
    panel = stacked(
        "Alerts by kind and severity",
        "Firing alerts over time. Anomalies are about runs and hosts, reliability is about failures and about predictions.",
        "none",
        [
            over_time(
                f'sum by (kind, severity) (scalewatch_alerts{{{OF_JOB}, status="firing"}}) > 0',
                "{{kind}}, {{severity}}",
            )
        ],
    )
    runs = lines(
        "Runs that settled",
        "Runs that ended and became part of the training set, per second. None although jobs end: look at the agent's "
        "dashboard, at dead letters and at lag.",
        "cps",
        [over_time(rate("scalewatch_emissions_total", f'{OF_JOB}, topic="runs"', "job"), "{{job}}")],
    )
    shifts = lines(
        "Applications that changed for good",
        "Regressions and improvements that were found in the last hour, history included. Several regressions at once: the "
        "machine, not the applications.",
        "none",
        [over_time(f"sum by (direction) (increase(scalewatch_level_shifts_total{{{OF_JOB}}}[1h]))", "{{direction}}")],
    )
    ends = stacked(
        "How alerts ended",
        "Alerts that fired and are over, in a day. Itself: the cause went away before anybody acted, or somebody mended it. "
        "Many of one name that end by themselves within the hour: raise its for_s or exclude what causes them.",
        "none",
        [over_time(f"sum by (by) (increase(scalewatch_alerts_resolved_total{{{OF_JOB}}}[1d])) > 0", "{{by}}")],
    )
    return Part("What happens", (Line(8, ((6, panel), (6, ends), (6, runs), (6, shifts))),))


def _weighted(name: str) -> str:
    """Return the mean of a figure over applications, each counting as many times as its runs were scored."""
    of, same = OF_SYSTEMS, f"on (job, instance, {KEY})"
    scored = f'scalewatch_prediction_runs{{{of}, use="scored"}}'
    value = f"scalewatch_prediction_{name}_ratio{{{of}}}"
    return f"sum({value} * {same} {scored}) / sum({scored} and {same} {value})"
