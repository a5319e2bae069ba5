"""`scalewatch alerts`: the alerts that a configuration would have raised for past events, and the withheld alerts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from agent.app.replay import Replay
from agent.cli.live import live_options, open_alerts, show
from agent.cli.options import (
    FileInput,
    counted,
    finish,
    indented,
    labels_option,
    progress,
    quiet_option,
    reads_files,
    table,
)
from agent.config.changes import changed, settings_of
from agent.config.tree import Config
from agent.reports.backtest.alerts import AlertHistory, Episode, precision, precision_rows
from processors.alerts.rules import HOST_ANOMALY
from processors.contracts.hosts import HOST_ANOMALY_RATES
from processors.windows.settings import MINUTE_MS
from sinks.web.formatting import when
from sinks.web.views.alert_states import AlertLabel

DAILY_MAXIMA: Final = "scalewatch_daily_maxima_total"
SECTIONS: Final = ("alerts", "run_time", "jobs", "profiles")


@click.command
@click.argument("files", nargs=-1)
@click.option("--replay", is_flag=True, help="Process FILES as `scalewatch replay` does, without a running agent.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
              help="Override a configuration key, such as alerts.strange_run.factor_min=1.5. May be repeated.")  # fmt: skip
@labels_option
@click.option("--host", default=None, metavar="NAME", help="Host to assume for telemetry records that name no host.")
@reads_files()
@live_options
@quiet_option
def command(
    files: tuple[str, ...], sets: tuple[str, ...], labels: list[AlertLabel], host: str | None, source: FileInput, *,
    replay: bool, as_json: bool, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Show the open alerts of a running agent, or with --replay the alerts that a configuration would have raised for FILES.

    \b
    scalewatch alerts --watch
    scalewatch alerts --replay telemetry.jsonl --set alerts.host_anomaly.false_per_host_day=0.001

    With --replay, each line is one alert with the times when it fired and resolved. The withheld alerts follow, grouped by reason: an
    exclusion, a maintenance window or a dry run. No alert is sent. FILES can be anything that `scalewatch replay` accepts.
    """  # noqa: D301 - click wants the character itself
    if replay != bool(files):
        raise click.UsageError("Give --replay and FILES, or neither to ask a running agent.")
    if not replay:
        show(open_alerts, {**options, "as_json": as_json})
        return
    config = _changed(source.config, sets)
    history = AlertHistory()
    with progress("records", quiet=quiet) as on_progress:
        played = Replay(config, history, None, host)
        played.run(files, source.options(), on_progress)
        events = played.summary()
        played.agent.close()
    host_days = {float(rate): played.agent.metrics.value(DAILY_MAXIMA, rate=rate) for rate in HOST_ANOMALY_RATES}
    empty = played.remarks.failed or (not events["events"] and not events["telemetry"]["taken"])
    if as_json or history.episodes or not empty:
        parts = _parts(history, labels, _rates(history, host_days, config.alerts.host_anomaly.false_per_host_day))
        click.echo(indented(history.episodes) if as_json else "\n\n".join(parts))
    finish(played.remarks, empty=empty)


def _changed(config: Config, sets: Sequence[str]) -> Config:
    keys: dict[str, str] = {}
    for text in sets:
        keys |= settings_of(text)
    return changed(config, keys, SECTIONS) if keys else config


def _parts(history: AlertHistory, labels: Sequence[AlertLabel], rates: str) -> list[str]:
    raised = history.raised()
    parts = [_raised(raised), *filter(None, [rates])]
    for reason, episodes in history.withheld().items():
        parts.append(f"Withheld by {reason}: {counted(len(episodes), 'alert')}\n{_lines(episodes)}")
    if history.left_out:
        parts.append(f"{counted(history.left_out, 'more alert')} did not fit into the list.")
    if labels:
        parts.append(_precision(raised, labels))
    return parts


def _rates(history: AlertHistory, host_days: Mapping[float, float], rate: float) -> str:
    """Return the rate of alerts about hosts, and the unusual days that limit it at other rates; empty without two days of a host."""
    days = host_days[1.0]
    if not days:
        return ""
    raised = sum(episode.alertname == HOST_ANOMALY.name for episode in history.raised())
    title = (
        f"{counted(raised, HOST_ANOMALY.name + ' alert')} in {counted(round(days), 'host-day')}: {raised / days:.2g} per host and day "
        f"(false_per_host_day: {rate:g})\nAt other rates, these host-days had a minute unusual enough; an alert needs three such minutes."
    )
    rows = [(f"{one:g}", f"{count:.0f}", f"{count / days:.2g}") for one, count in host_days.items() if one < 1.0]
    return f"{title}\n{table(('RATE', 'HOST-DAYS', 'PER HOST AND DAY'), rows)}"


def _raised(raised: Sequence[Episode]) -> str:
    if not raised:
        return "No alert would have fired."
    subjects = len({episode.fingerprint for episode in raised})
    return f"{counted(len(raised), 'alert')} about {counted(subjects, 'cause')}\n{_lines(raised)}"


def _lines(episodes: Sequence[Episode]) -> str:
    rows = [
        (when(alert.from_ms), _duration(alert), alert.alertname, alert.subject, alert.summary) for alert in episodes
    ]
    return table(("FIRED", "FOR", "ALERT", "ABOUT", "WHAT"), rows)


def _duration(alert: Episode) -> str:
    if alert.until_ms is None:
        return "open"
    minutes = round((alert.until_ms - alert.from_ms) / MINUTE_MS)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes / 60:.1f} h" if minutes < 1_440 else f"{minutes / 1_440:.1f} d"


def _precision(raised: Sequence[Episode], labels: Sequence[AlertLabel]) -> str:
    shares = precision(raised, labels)
    if not shares:
        return "No label matches one of these alerts."
    return "Share of real alerts among the labelled ones\n" + table(
        ("ALERT", "JUDGED", "REAL", "SHARE"), precision_rows(shares)
    )
