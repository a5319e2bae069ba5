"""The dashboard of one host: what it measured in the last five minutes, what comes next, and how strange it is."""

from typing import Final

from deploy.grafana.frame import Line, Part, Sheet
from deploy.grafana.panels import GREEN, HIGH, LOW, MIDDLE, ORANGE, RED, band, figure, lines, text_panel
from deploy.grafana.queries import OF_HOST, OF_JOB, OF_RESOURCE, latest, over_time, rows
from deploy.grafana.tables import HOST_URL, alerts, linked, shaded, table
from deploy.grafana.variables import JOB
from deploy.grafana.variables import OF_HOST as VARIABLES

ANOMALY_STEPS: Final = {None: GREEN, 0.9: ORANGE, 0.99: RED}
FIRING: Final = f"scalewatch_alert_firing{{{OF_HOST}}}"
NEEDS: Final = "metrics.hosts_max"
SWITCH: Final = """Hosts have series of their own where the agent's configuration says how many:

```yaml
metrics:
  hosts_max: 1000   # 0, the default: none
```

Hosts with anomalies come first. A host has up to 225 series, so a thousand hosts are up to 225,000.
All hosts are on the agent's own page, with or without this."""


def sheet() -> Sheet:
    """Return the dashboard.

    >>> sheet().name
    'host'
    """
    return Sheet(
        name="host",
        title="Host",
        means="One host: the last five minutes of what it measures, a forecast, and how strange it is.",
        variables=(JOB, *VARIABLES),
        parts=(_hosts(), _resource(), _anomaly_part()),
        firing=FIRING,
        page="/hosts/${system:percentencode}/${host:percentencode}",
        shown="now-3h",
    )


def _hosts() -> Part:
    shown = figure(
        "Hosts shown",
        "Hosts that have series here. None: metrics.hosts_max is 0, see beside.",
        "none",
        [latest(f"sum(scalewatch_hosts_shown{{{OF_JOB}}})")],
        {None: ORANGE, 1.0: GREEN},
        absent="none: set metrics.hosts_max",
    )
    left_out = figure(
        "Left out",
        "One while hosts, or resources of a host, have no series because of a bound. Raise metrics.hosts_max, or use the "
        "agent's page, which has all.",
        "bool_yes_no",
        [latest(f"max(scalewatch_hosts_left_out{{{OF_JOB}}})")],
        {None: GREEN, 1.0: ORANGE},
    )
    strangest = table(
        "Strangest hosts",
        "The twenty hosts whose resources together are least like what they used to be: 1 is as strange as can be. A host "
        "raises HostAnomaly if it is too unusual for the rate alerts.host_anomaly.false_per_host_day.",
        {"score": rows(f'topk(20, max by (system, host) (scalewatch_host_anomaly_score{{{OF_JOB}, resource="*"}}))')},
    )
    linked(strangest, "host", "What ${__data.fields.host} measures", HOST_URL)
    shaded(strangest, "score", "none", ANOMALY_STEPS)
    how = text_panel("Where hosts come from", "How to let hosts have series.", SWITCH)
    return Part("Hosts", (Line(8, ((3, shown), (3, left_out), (9, strangest), (9, how))),))


def _resource() -> Part:
    window = band(
        "$resource of $host, last five minutes",
        "Quantiles of the samples of the last five minutes, in the unit of the resource: the middle, and the band from 5 % "
        "to 95 %; the mean is of the last minute. A wide band: the host's load changes much, so will run times.",
        "short",
        [
            over_time(_stat("q05"), LOW),
            over_time(_stat("q50"), MIDDLE),
            over_time(_stat("q95"), HIGH),
            over_time(_stat("mean"), "mean"),
        ],
    )
    forecast = f"max(scalewatch_host_forecast{{{OF_RESOURCE}}})"
    low, high = (f'max(scalewatch_host_forecast_level{{{OF_RESOURCE}, level="{level}"}})' for level in ("0.05", "0.95"))
    predicted = band(
        "Forecast of $resource",
        "The next mean over ten seconds, within the band that held 90 % of the latest hundred, beside the mean that was "
        "measured. The mean outside of the band for long: something is new on this host.",
        "short",
        [
            over_time(low, LOW),
            over_time(forecast, MIDDLE),
            over_time(high, HIGH),
            over_time(_stat("mean"), "mean"),
        ],
    )
    ends = lines(
        "Smallest and largest sample",
        "The ends of the last five minutes, in the unit of the resource.",
        "short",
        [over_time(_stat("low"), "smallest"), over_time(_stat("high"), "largest")],
    )
    samples = lines(
        "Samples in the window",
        "How many samples the figures rest on. Few or none: the producer on this host is late or gone.",
        "none",
        [over_time(f"max by (resource) (scalewatch_host_window_samples{{{OF_HOST}}})", "{{resource}}")],
    )
    return Part(
        "A resource",
        (Line(9, ((12, window), (12, predicted))), Line(7, ((12, ends), (12, samples)))),
        needs=NEEDS,
    )


def _anomaly_part() -> Part:
    score = lines(
        "How strange each resource is",
        "0 is usual, 1 as strange as can be; * is all of the host together, which also sees resources that contradict each "
        "other. Look at what runs on the host before you drain it.",
        "none",
        [over_time(f"max by (resource) (scalewatch_host_anomaly_score{{{OF_HOST}}})", "{{resource}}")],
        steps={None: GREEN, 0.9: ORANGE, 0.99: RED},
    )
    panel = alerts(
        "Alerts of this host",
        "HostAnomaly, PeerDifference and HostFailureRate of this host, and what fires about the agent itself.",
        FIRING,
    )
    return Part("How strange it is", (Line(9, ((12, score), (12, panel))),), needs=NEEDS)


def _stat(stat: str) -> str:
    return f'max(scalewatch_host_window{{{OF_RESOURCE}, stat="{stat}"}})'
