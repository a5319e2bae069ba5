"""The dashboard of one application: its curve within its band, and whether to believe it."""

from typing import Final

from deploy.grafana.application_power import energy, load
from deploy.grafana.centre import COVERAGE, ERROR
from deploy.grafana.frame import Line, Part, Sheet
from deploy.grafana.panels import GREEN, GREY, HIGH, LOW, MIDDLE, ORANGE, RED, band, figure, lines, word
from deploy.grafana.queries import OF_APPLICATION, OF_SIZE, ends, latest, over_time
from deploy.grafana.tables import alerts, curve
from deploy.grafana.variables import CURVE, JOB
from deploy.grafana.variables import OF_APPLICATION as VARIABLES

VERDICTS: Final = {"reliable": GREEN, "insufficient": GREY, "unknown": GREY, "high_error": RED}
FIRING: Final = f"scalewatch_alert_firing{{{OF_APPLICATION}}}"
SCORED: Final = {None: RED, 5.0: ORANGE, 20.0: GREEN}


def sheet() -> Sheet:
    """Return the dashboard.

    >>> sheet().name
    'application'
    """
    return Sheet(
        name="application",
        title="Application",
        means="One application on one system and input: how it scales, within which band, and how far to trust that.",
        variables=(JOB, *VARIABLES),
        parts=(_now(), _run_time(), _trust(), load(), energy(), _alerts()),
        firing=FIRING,
        page="/applications/${system:percentencode}/${application:percentencode}/${input_name:percentencode}/${unit:percentencode}",
        shown="now-24h",
    )


def _now() -> Part:
    verdict = word(
        "Verdict",
        "Whether the predictions of this application can be trusted, and if not, what is wrong. The agent's page gives the "
        "reasons and what to run next.",
        latest(f"max by (verdict) (scalewatch_reliability{{{OF_APPLICATION}}}) == 1", "{{verdict}}"),
        VERDICTS,
    )
    covered = figure(
        "Measured coverage",
        "Share of the runs that lay inside the 90 % band that was published before they ended. Far below 90 %: the band is "
        "too narrow, reckon with more.",
        "percentunit",
        [latest(f"max(scalewatch_prediction_coverage_ratio{{{OF_APPLICATION}}})")],
        COVERAGE,
        absent="not measured yet",
    )
    scored = figure(
        "Runs that measured it",
        "Runs that were predicted before they ended. Coverage and error rest on them: below some twenty they are rough.",
        "none",
        [latest(f'max(scalewatch_prediction_runs{{{OF_APPLICATION}, use="scored"}})')],
        SCORED,
    )
    error = figure(
        "Error in the middle",
        "Median relative error of what was predicted before runs ended.",
        "percentunit",
        [latest(f"max(scalewatch_prediction_error_ratio{{{OF_APPLICATION}}})")],
        ERROR,
        absent="not measured yet",
    )
    low, middle, high = ends(CURVE, OF_SIZE)
    run_time = figure(
        "Run time at n = $n",
        "The prediction between the ends of its 90 % band. Ask the scheduler for the high end, not for the middle.",
        "s",
        [latest(low, LOW), latest(middle, MIDDLE), latest(high, HIGH)],
    )
    return Part(
        "Now: how long it takes, and whether to believe it",
        (Line(5, ((4, verdict), (4, covered), (4, scored), (4, error), (8, run_time))),),
    )


def _run_time() -> Part:
    scaling = curve(
        "How it scales",
        "Predicted run time over the size of a run, on axes of powers: a straight line falling by one for one scales ideally. "
        "Where the band opens, little is known; the figures above say how often bands were right.",
        "s",
        CURVE,
        OF_APPLICATION,
    )
    low, middle, high = ends(CURVE, OF_SIZE)
    history = band(
        "Run time at n = $n as it was predicted",
        "The prediction and its 90 % band as they changed. A step up that stays: a regression, look at the alerts below.",
        "s",
        [over_time(low, LOW), over_time(middle, MIDDLE), over_time(high, HIGH)],
    )
    sizes = lines(
        "Sizes worth asking for",
        "Largest useful size, the knee, half efficiency, and the sizes of least energy. Beyond the largest more nodes make "
        "it no faster; at the knee the next node begins to pay little.",
        "none",
        [over_time(f"max by (criterion) (scalewatch_useful_size{{{OF_APPLICATION}}})", "{{criterion}}")],
    )
    return Part("Run time", (Line(11, ((12, scaling), (12, history))), Line(8, ((24, sizes),))))


def _trust() -> Part:
    coverage = lines(
        "Coverage by how far out",
        "Share of the runs inside their 90 % band, in all and by how far the size was from those that had been run.",
        "percentunit",
        [
            over_time(f"max(scalewatch_prediction_coverage_ratio{{{OF_APPLICATION}}})", "all"),
            over_time(
                f"max by (horizon) (scalewatch_prediction_horizon_coverage_ratio{{{OF_APPLICATION}}})", "{{horizon}}"
            ),
        ],
        steps={None: RED, 0.75: ORANGE, 0.9: GREEN},
    )
    error = lines(
        "Error over time",
        "Median relative error of recent runs. It rises with a change of the application and falls as its new runs are learned.",
        "percentunit",
        [over_time(f"max(scalewatch_prediction_error_ratio{{{OF_APPLICATION}}})", "median error")],
    )
    return Part(
        "Whether to believe it",
        (Line(9, ((12, coverage), (12, error))),),
    )


def _alerts() -> Part:
    panel = alerts(
        "Alerts of this application",
        "What fires about this application, and what fires about the agent itself: predictions of an agent in trouble grow "
        "old. Each alert has a heading in the runbook.",
        FIRING,
    )
    return Part("Alerts", (Line(7, ((24, panel),)),))
