"""The dashboard of the agent itself: whether it keeps up, what it could not use, and whether its state is safe."""

from typing import Final

from deploy.grafana.agent_parts import hourly, predictions, process, state
from deploy.grafana.agent_sources import sources
from deploy.grafana.frame import Line, Part, Sheet
from deploy.grafana.panels import GREEN, ORANGE, RED, figure, lines, stacked
from deploy.grafana.queries import OF_AGENT, OF_JOB, latest, over_time, rate, rows, slow
from deploy.grafana.tables import table
from deploy.grafana.variables import INSTANCE, JOB

LAG: Final = {None: GREEN, 120.0: ORANGE, 600.0: RED}


def sheet() -> Sheet:
    """Return the dashboard.

    >>> sheet().name
    'agent'
    """
    return Sheet(
        name="agent",
        title="Agent",
        means="The agent itself: whether it keeps up, what it could not use, and whether its state is safe.",
        variables=(JOB, INSTANCE),
        parts=(_now(), _events(), sources(), _refused(), state(), predictions(), process()),
        firing=f"scalewatch_alert_firing{{{OF_JOB}}}",
    )


def _now() -> Part:
    up = figure(
        "Answers",
        "Share of the processes that Prometheus can scrape. Below 100 %: see Down in the runbook.",
        "percentunit",
        [latest(f"avg(up{{{OF_AGENT}}})")],
        {None: RED, 1.0: GREEN},
    )
    ready = figure(
        "Ready",
        "Roles that are ready, by name. A role that is not says why in /readyz.",
        "none",
        [latest(f"sum by (role) (scalewatch_ready{{{OF_AGENT}}})", "{{role}}")],
        {None: RED, 1.0: GREEN},
    )
    lag = figure(
        "Behind, in event time",
        "Event time between the newest record and the newest one used. Above ten minutes: see Lag in the runbook.",
        "s",
        [latest(f"max by (role) (scalewatch_event_time_lag_seconds{{{OF_AGENT}}})", "{{role}}")],
        LAG,
    )
    age = figure(
        "Age of the checkpoint",
        "Time since the last confirmed checkpoint: as much is folded anew after a restart. Above half an hour: see Checkpoint "
        "age in the runbook.",
        "s",
        [latest(f"max(scalewatch_checkpoint_age_seconds{{{OF_AGENT}}})")],
        {None: GREEN, 900.0: ORANGE, 1800.0: RED},
        absent="takes none",
    )
    starts = figure(
        "Starts of roles in an hour",
        "How often a role was started again. More than three: its log names what ends it.",
        "none",
        [latest(f"sum by (role) (increase(scalewatch_role_restarts_total{{{OF_AGENT}}}[1h]))", "{{role}}")],
        {None: GREEN, 1.0: ORANGE, 3.0: RED},
    )
    version = table(
        "Versions",
        "What runs where. Two versions for long: a rollout has stopped.",
        {"": rows(f"max by (instance, version) (scalewatch_build_info{{{OF_AGENT}}})")},
    )
    return Part("Now", (Line(5, tuple((4, each) for each in (up, ready, lag, age, starts, version))),))


def _events() -> Part:
    outcomes = stacked(
        "Events by what became of them",
        "Received events are processed, rejected or dropped; repeated ones are a part of the processed. Rejected ones are "
        "dead letters.",
        "cps",
        [
            over_time(
                rate("scalewatch_events_total", f'{OF_AGENT}, outcome!="received"', "role, outcome"),
                "{{role}}: {{outcome}}",
            )
        ],
    )
    formats = lines(
        "Events received, by format",
        "What arrives. A format that stops: its producer, or its topic, see /readyz and the page's sources.",
        "cps",
        [
            over_time(
                rate("scalewatch_events_total", f'{OF_AGENT}, role="collector", outcome="received"', "format") + " > 0",
                "{{format}}",
            )
        ],
    )
    lag = lines(
        "Lag in event time",
        "Between the newest record and the newest one used. A saw-tooth is the rhythm of batches; a slope needs processor time.",
        "s",
        [over_time(f"max by (role) (scalewatch_event_time_lag_seconds{{{OF_AGENT}}})", "{{role}}")],
        steps=LAG,
    )
    seconds = "scalewatch_batch_duration_seconds"
    batches = lines(
        "Time to work off a batch",
        "Half and nineteen of twenty batches take less than this. Above the poll interval for long, lag grows.",
        "s",
        [
            over_time(slow(seconds, OF_AGENT, 0.5, "role"), "{{role}}, half"),
            over_time(slow(seconds, OF_AGENT, 0.95, "role"), "{{role}}, 95 %"),
        ],
    )
    sent = lines(
        "Records sent, by topic",
        "What the agent publishes, tombstones included.",
        "cps",
        [over_time(rate("scalewatch_emissions_total", OF_AGENT, "topic"), "{{topic}}")],
    )
    telemetry = lines(
        "Minutes of hosts",
        "Minutes of hosts written into the journal per second: the hosts that report, divided by sixty.",
        "cps",
        [over_time(rate("scalewatch_collector_host_records_total", OF_AGENT, "instance"), "{{instance}}")],
    )
    return Part(
        "Whether it keeps up",
        (
            Line(8, ((12, outcomes), (12, formats))),
            Line(8, ((12, lag), (12, batches))),
            Line(7, ((12, sent), (12, telemetry))),
        ),
    )


def _refused() -> Part:
    dead_letters = hourly(
        "Dead letters by reason",
        "Messages that could not be used in the last hour. `scalewatch deadletter list` shows them; a producer may have "
        "changed its format.",
        "scalewatch_dead_letters_total",
        "reason",
    )
    ratio = lines(
        "Share of messages that became dead letters",
        "Rejected of received in a quarter of an hour (a recording rule of the chart). Above 5 %: see Dead letters rising in "
        "the runbook.",
        "percentunit",
        [over_time(f"scalewatch:dead_letters:ratio_rate15m{{{OF_JOB}}}", "{{job}}")],
        steps={None: GREEN, 0.01: ORANGE, 0.05: RED},
    )
    faults = hourly(
        "Faults by processor",
        "Events that a processor could not fold in the last hour: a fault of the agent, worth reporting. The events are dead "
        "letters, and what they are about is as it was before.",
        "scalewatch_processor_faults_total",
        "processor",
    )
    bounds = hourly(
        "Bounds hit",
        "Times a bound was reached in the last hour, and something was evicted, refused or put off. Raise the bound of the "
        "configuration that has the name, or leave it so on purpose.",
        "scalewatch_bounds_hit_total",
        "bound",
    )
    samples = hourly(
        "Measurements left out by reason",
        "Measurements of hosts in the last hour that are in no window. Late: clocks or producers; no_unit: the file of units.",
        "scalewatch_samples_left_out_total",
        "reason",
    )
    runs = hourly(
        "Reports of runs refused by reason",
        "Reports in the last hour that change no model. `scalewatch rebuild` heals corrections that came too late.",
        "scalewatch_runs_refused_total",
        "reason",
    )
    return Part(
        "What it could not use",
        (Line(8, ((8, dead_letters), (8, ratio), (8, faults))), Line(8, ((8, bounds), (8, samples), (8, runs)))),
    )
