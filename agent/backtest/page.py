"""The report as one HTML file: pictures and style are inside, so that it opens anywhere."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from jinja2 import Environment
from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from agent.backtest import plots
from agent.backtest.plots import power_said
from agent.backtest.report import AlertCount, Application, Drawn, Profiled, Report, Variant
from agent.backtest.scores import Figures
from sinks.web import words
from sinks.web import words as html
from sinks.web.views.application import explained_views
from sinks.web.views.overview import change
from sinks.web.words import counted, moment, power, share

NUMBERS_BEYOND: Final = 1e6
ERROR_BEYOND: Final = 10.0
BASELINE_WORDS: Final = {"requested": "requested time", "last_two": "user's last two jobs"}


def page(report: Report) -> str:
    """Return the page; everything that comes from the files is escaped."""
    return (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            first=report.variants[0] if report.variants else None,
            style=Markup(_style()),  # noqa: S704 - our own file
            alert_names=sorted({alert.name for variant in report.variants for alert in variant.alerts}),
        )
    )


def environment() -> Environment:
    """Return the templates with what the report adds to them."""
    made = html.environment("agent.backtest")
    made.filters.update(
        change=change, explained=explained_views, power=words.power, seconds=seconds, number=number, error=error, file_name=_file_name, horizon=plots.horizon_words,
        baseline=BASELINE_WORDS.__getitem__,
    )  # fmt: skip
    made.globals.update(pictures=pictures, curve=_curve, alert_of=alert_of, most=most, power_said=_power_said)
    return made


def pictures(variant: Variant) -> dict[str, Markup]:
    """Return the pictures of a variant; text in them is escaped where they are made."""
    return {
        "errors": Markup(plots.errors_over_time(variant.periods)),  # noqa: S704
        "coverage": Markup(plots.coverage_over_time(variant.periods)),  # noqa: S704
        "horizons": Markup(plots.coverage_by_horizon(variant.by_horizon)),  # noqa: S704
        "reliability": Markup(plots.reliability(variant.quantiles, variant.limit)),  # noqa: S704
    }


def seconds(value: float | None) -> str:
    """Return seconds as figures, a dash where there are none."""
    if value is None:
        return "-"
    if abs(value) >= NUMBERS_BEYOND:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def error(value: float | None) -> str:
    """Return a relative error in per cent, as a multiple where it is large."""
    if value is None or value < ERROR_BEYOND:
        return words.share(value)
    return f"{seconds(value)}x"


def number(value: float | None) -> str:
    """Return a plain number, a dash where there is none."""
    return "-" if value is None else f"{value:.3g}"


def alert_of(variant: Variant, name: str) -> AlertCount | None:
    """Return how often an alert fired in a variant; None where it never did."""
    return next((alert for alert in variant.alerts if alert.name == name), None)


def most(variants: Sequence[Variant]) -> int:
    """Return how often the alert fired that fired most, at least 1."""
    return max((alert.fired for variant in variants for alert in variant.alerts), default=1)


def _file_name(path: str) -> str:
    return PurePath(path).name or path


def _curve(application: Application) -> Markup:
    return Markup(plots.curve(application))  # noqa: S704


def _power_said(sample: Sequence[Drawn]) -> Markup:
    return Markup(power_said(sample))  # noqa: S704


def _style() -> str:
    shared = files("sinks.web").joinpath("static", "style.css").read_text("utf-8")
    return shared + files("agent.backtest").joinpath("templates", "report.css").read_text("utf-8")


# The report in short, for a terminal.


_FIGURES = ("runs", "answered", "median error", "MAE s", "bias", "band held", "95 % interval")


def summary(report: Report) -> Iterator[Table | Text]:
    """Yield a line about the history, the table of predictions against baselines, and the table of alerts."""
    history = report.history
    refused = f"{counted(history.refused, 'record')} refused"
    yield Text(f"{counted(history.runs, 'run')} from {moment(history.first)} to {moment(history.last)}, {refused}")
    if report.variants:
        yield _predictions(report)
    if report.variants and report.variants[0].profiled is not None:
        yield _power(report.variants[0].profiled)
    for place, variant in enumerate(report.variants[1:], 1):
        yield Text(f"{_name(place)}: {variant.name}")
    names = sorted({alert.name for variant in report.variants for alert in variant.alerts})
    if names:
        yield _alerts(report, names)


def _predictions(report: Report) -> Table:
    table = _table("run time by", *_FIGURES)
    first = report.variants[0]
    for place, variant in enumerate(report.variants):
        total = variant.total
        if not place or total != first.total:  # alert settings change no prediction
            table.add_row(_name(place), str(total.runs), share(total.answered), *_cells(total.figures))
    for pair in first.comparisons:
        if pair.runs == "completed":  # on the same runs, where anything was said of them
            found = pair.baseline_said if pair.said.scored else pair.alone
            table.add_row(BASELINE_WORDS[pair.baseline], str(found.scored), "", *_cells(found))
    return table


def _power(found: Profiled) -> Table:
    table = _table(
        "power (of all hosts)", "runs", "answered", "mean", "median error", "bias", "band held", "95 % interval"
    )
    for row in (found.total, *found.by_application):
        figures = row.figures
        low, high = figures.coverage_low, figures.coverage_high
        held = "-" if low is None or high is None else f"{100 * low:.0f}-{100 * high:.0f} %"
        table.add_row(
            row.name, str(row.runs), share(row.answered), power(figures.mean_w), error(figures.median_error),
            number(figures.bias), share(figures.coverage_90), held,
        )  # fmt: skip
    return table


def _alerts(report: Report, names: list[str]) -> Table:
    table = _table("alerts (per 1,000 runs)", *(_name(place) for place in range(len(report.variants))))
    for name in names:
        table.add_row(name, *(_fired(variant, name) for variant in report.variants))
    return table


def _name(place: int) -> str:
    return f"what if {place}" if place else "Scalewatch"


def _fired(variant: Variant, name: str) -> str:
    alert = alert_of(variant, name)
    return f"{alert.fired} ({number(alert.per_1000_runs)})" if alert else "0"


def _cells(found: Figures) -> tuple[str, ...]:
    low, high = found.coverage_low, found.coverage_high
    held = "-" if low is None or high is None else f"{100 * low:.0f}-{100 * high:.0f} %"
    return error(found.median_error), seconds(found.mae_s), number(found.bias), share(found.coverage_90), held


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table
