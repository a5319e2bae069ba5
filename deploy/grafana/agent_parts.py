"""Parts of the agent's dashboard: its state, its predictions, what it tells Alertmanager, and its process."""

from typing import Final

from deploy.grafana.frame import Line, Part
from deploy.grafana.panels import GREEN, ORANGE, RED, Panel, figure, lines, stacked
from deploy.grafana.queries import OF_AGENT, OF_JOB, latest, over_time, rate, slow
from deploy.grafana.tables import alerts

NONE: Final = {None: GREEN, 1.0: ORANGE}


def state() -> Part:
    """Return the part about checkpoints and restores.

    >>> state().title
    'Whether its state is safe'
    """
    age = lines(
        "Age of the checkpoint over time",
        "Time since the last confirmed checkpoint. A slope that does not fall back: checkpoints fail, see the outcomes beside.",
        "s",
        [over_time(f"max by (instance) (scalewatch_checkpoint_age_seconds{{{OF_AGENT}}})", "{{instance}}")],
        steps={None: GREEN, 900.0: ORANGE, 1800.0: RED},
    )
    seconds = "scalewatch_checkpoint_duration_seconds"
    duration = lines(
        "Time of a checkpoint",
        "From the first write to the confirmation: half and nineteen of twenty took less in the last hour. Long ones: the broker is slow, or "
        "the state is large.",
        "s",
        [
            over_time(slow(seconds, OF_AGENT, 0.5, over="1h"), "half"),
            over_time(slow(seconds, OF_AGENT, 0.95, over="1h"), "95 %"),
        ],
    )
    outcomes = lines(
        "Checkpoints in an hour by outcome",
        "Confirmed ones are safe. Fenced: another learner has the shard. Lost or unavailable: the broker; the role starts "
        "again from the last one that holds.",
        "none",
        [over_time(f"sum by (outcome) (increase(scalewatch_checkpoints_total{{{OF_AGENT}}}[1h]))", "{{outcome}}")],
    )
    restores = lines(
        "Take-overs in an hour",
        "Shards taken over with their state read back, and those at which what is learned of hosts began anew because the "
        "journal no longer held it: keep the journal longer.",
        "none",
        [
            over_time(f"sum(increase(scalewatch_restores_total{{{OF_AGENT}}}[1h]))", "take-overs"),
            over_time(f"sum(increase(scalewatch_restores_without_hosts_total{{{OF_AGENT}}}[1h]))", "without hosts"),
        ],
    )
    records = stacked(
        "State by processor",
        "Records of state held. A processor whose records only grow comes to its bound, which then shows among the bounds.",
        "short",
        [over_time(f"sum by (processor) (scalewatch_state_records{{{OF_AGENT}}}) > 0", "{{processor}}")],
    )
    series = lines(
        "Windows of the collector",
        "Resources of hosts that have a window in a collector: memory of the collector follows them.",
        "short",
        [over_time(f"sum by (instance) (scalewatch_collector_series{{{OF_AGENT}}})", "{{instance}}")],
    )
    return Part(
        "Whether its state is safe",
        (Line(8, ((8, age), (8, duration), (8, outcomes))), Line(8, ((8, restores), (8, records), (8, series)))),
    )


def predictions() -> Part:
    """Return the part about what the agent says, and whom it told.

    >>> predictions().title
    'What it says'
    """
    fits = lines(
        "Time of a fit",
        "Time to fit the models of one application: half and nineteen of twenty took less in the last hour.",
        "s",
        [
            over_time(slow("scalewatch_fit_duration_seconds", OF_AGENT, 0.5, over="1h"), "half"),
            over_time(slow("scalewatch_fit_duration_seconds", OF_AGENT, 0.95, over="1h"), "95 %"),
        ],
    )
    right = lines(
        "Measured coverage and error",
        "Mean coverage of the 90 % bands, and the error in the middle of all applications. Coverage that falls below 75 %: "
        "see Predictions miss in the runbook.",
        "percentunit",
        [
            over_time(f"avg(scalewatch_prediction_coverage_ratio{{{OF_AGENT}}})", "coverage"),
            over_time(f"quantile(0.5, scalewatch_prediction_error_ratio{{{OF_AGENT}}})", "median error"),
        ],
        steps={None: RED, 0.75: ORANGE, 0.9: GREEN},
    )
    profiles = lines(
        "Settled runs by their profile",
        "Runs per second whose counters and power were learned, or why not. No telemetry where hosts are measured: names of "
        "hosts differ between the scheduler and the producers.",
        "cps",
        [over_time(rate("scalewatch_profiles_total", OF_AGENT, "outcome"), "{{outcome}}")],
    )
    posts = lines(
        "Told to Alertmanager in an hour",
        "Looks at which an Alertmanager was told, or could not be. Failed ones alone: nobody is notified, see Alertmanager "
        "unreachable in the runbook. All zero: alertmanager.urls is empty.",
        "none",
        [
            over_time(
                f"sum by (outcome) (increase(scalewatch_alertmanager_posts_total{{{OF_AGENT}}}[1h]))", "{{outcome}}"
            ),
        ],
    )
    late = figure(
        "Minutes too late for a profile, in an hour",
        "Minutes of hosts that came when the profile of their run was closed. Many: producers are late, or jobs.settle_max_s "
        "is short.",
        "none",
        [latest(f"sum(increase(scalewatch_profile_records_late_total{{{OF_AGENT}}}[1h]))")],
        {None: GREEN, 1.0: ORANGE},
    )
    estimate = figure(
        "Error of estimated power",
        "Median recent error of the power estimated from counters, for the worst kind of host; 0 where none is estimated.",
        "watt",
        [latest(f"max by (component) (scalewatch_power_estimate_error_watts{{{OF_AGENT}}})", "{{component}}")],
    )
    panel = alerts(
        "Alerts that fire",
        "What the rules of Prometheus say about the agent (kind agent), and what the agent says of the centre.",
        f"scalewatch_alert_firing{{{OF_JOB}}}",
    )
    return Part(
        "What it says",
        (
            Line(8, ((8, fits), (8, right), (8, profiles))),
            Line(8, ((8, posts), (3, late), (3, estimate), (10, panel))),
        ),
    )


def process() -> Part:
    """Return the part about the process.

    >>> process().title
    'Process'
    """
    memory = lines(
        "Memory",
        "Resident memory of the process. It follows the applications, hosts and series that are held, all of which have "
        "bounds. Near the limit of the container: raise that, or lower a bound of the configuration.",
        "bytes",
        [over_time(f"max by (instance) (process_resident_memory_bytes{{{OF_AGENT}}})", "{{instance}}")],
    )
    processor = lines(
        "Processor time",
        "Processors used. At one, or at the container's limit, for long: lag grows; add partitions to the journal and "
        "learners, or collectors.",
        "none",
        [over_time(rate("process_cpu_seconds_total", OF_AGENT, "instance"), "{{instance}}")],
    )
    files = lines(
        "Open files",
        "Files and connections in use, as a share of what the process may have.",
        "percentunit",
        [
            over_time(
                f"max by (instance) (process_open_fds{{{OF_AGENT}}} / process_max_fds{{{OF_AGENT}}})", "{{instance}}"
            )
        ],
        steps={None: GREEN, 0.5: ORANGE, 0.9: RED},
    )
    return Part("Process", (Line(8, ((8, memory), (8, processor), (8, files))),))


def hourly(title: str, means: str, metric: str, label: str) -> Panel:
    """Return how often something happened in an hour: in all, and by what is not zero.

    >>> [target.legend_format for target in hourly("A", "What it means.", "x_total", "reason").targets]
    ['all', '{{reason}}']
    """
    increase = f"increase({metric}{{{OF_AGENT}}}[1h])"
    panel = [
        over_time(f"sum({increase})", "all"),
        over_time(f"sum by ({label}) ({increase}) > 0", f"{{{{{label}}}}}"),
    ]
    return lines(title, means, "none", panel, steps=NONE)
