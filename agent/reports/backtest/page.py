"""The report of a backtest as one HTML file, and a summary for a terminal."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from jinja2 import Environment
from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from agent.reports.backtest.alerts import AlertCount, precision_rows
from agent.reports.backtest.report import (
    Coverage,
    Drawn,
    Period,
    Profiled,
    Report,
    ScoredApplication,
    ScoreRow,
    Variant,
)
from agent.reports.backtest.scores import Figures
from agent.reports.backtest.waits import LAST_TWO, PERFECT, PREDICTED, REQUESTED, Scheduling, WaitPeriod, Waits
from processors.contracts.names import parse_rfc3339
from sinks.web import formatting
from sinks.web.charts import (
    Axis,
    Chart,
    curve_chart,
    linear_axis,
    log_axis,
    round_ticks,
    run_time_axis,
    share_axis,
    time_axis,
)
from sinks.web.formatting import counted, moment, power, share, verdict_text

NUMBERS_BEYOND: Final = 1e6
ERROR_BEYOND: Final = 10.0
ERROR_LEAST: Final = 1e-3  # smaller errors are shown at this value, because a logarithmic axis has no 0
BASELINE_TEXT: Final = {"requested": "requested time", "last_two": "user's last two jobs"}
SOURCE_TEXT: Final = {
    REQUESTED: "users' limits", LAST_TWO: "user's last two jobs", PREDICTED: "Scalewatch", PERFECT: "perfect knowledge",
}  # fmt: skip
ORDER_TEXT: Final = {"first_come": "as they came", "shortest_first": "shortest first"}
STYLES: Final = ("static/vendor/uPlot.min.css", "static/style.css")
SCRIPTS: Final = ("static/vendor/uPlot.iife.min.js", "static/chart.js")
LICENCE: Final = "static/vendor/uPlot.LICENSE.txt"  # every copy of uPlot must include the licence


def page(report: Report) -> str:
    """Return the HTML page, which contains its styles and scripts; all text from the input files is escaped."""
    shared, private = files("sinks.web"), files("agent.reports.backtest")
    styles = [*(shared.joinpath(path) for path in STYLES), private.joinpath("templates", "report.css")]
    library, drawing = (shared.joinpath(path).read_text("utf-8") for path in SCRIPTS)
    return (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            first=report.variants[0] if report.variants else None,
            style=Markup("".join(path.read_text("utf-8") for path in styles)),  # noqa: S704 - our own files
            library=Markup(f"/*\n{shared.joinpath(LICENCE).read_text('utf-8')}*/\n{library}"),  # noqa: S704
            drawing=Markup(drawing),  # noqa: S704
            alert_names=sorted({alert.name for variant in report.variants for alert in variant.alerts}),
        )
    )


def environment() -> Environment:
    """Return the template environment with the texts of the report."""
    templates = formatting.environment("agent.reports.backtest")
    templates.filters.update(
        seconds=seconds, number=number, error=error, middle_ms=middle_ms, log_error=_log_error,
        file_name=lambda path: PurePath(path).name or path, baseline=BASELINE_TEXT.__getitem__,
    )  # fmt: skip
    templates.globals.update(
        errors_chart=errors_chart, coverage_chart=coverage_chart, horizons_chart=horizons_chart, power_chart=power_chart,
        curve_chart=application_chart, reliability_chart=reliability_chart, coverages_chart=coverages_chart, alert_of=alert_of, most=most,
        precision_rows=precision_rows, waits_chart=waits_chart, source_text=SOURCE_TEXT, order_text=ORDER_TEXT, best=best,
    )  # fmt: skip
    return templates


def errors_chart(periods: Sequence[Period]) -> Chart:
    medians = [
        _log_error(value)
        for period in periods
        for value in (period.row.figures.median_error, period.requested_median_error, period.last_two_median_error)
        if value is not None
    ]
    return _over_time("Median error", periods, log_axis(medians, round_ticks, error, "median error"))


def coverage_chart(periods: Sequence[Period]) -> Chart:
    return _over_time("Share inside the 90 % band", periods, share_axis(1.0, "runs inside the band"))


def horizons_chart(rows: Sequence[ScoreRow]) -> Chart:
    """Return the chart of the share of runs inside their bands, by distance from the known sizes."""
    places = linear_axis(
        range(len(rows)), lambda place: verdict_text(rows[round(place)].name), "distance from the known sizes"
    )
    return Chart("Share inside the 90 % band by distance", places, share_axis(1.0, "runs inside the band"))


def reliability_chart() -> Chart:
    """Return the chart of observed frequencies against predicted probabilities."""
    predicted, observed = share_axis(1.0, "predicted probability"), share_axis(1.0, "observed frequency")
    return Chart("Reliability diagram", predicted, observed, ratio=0.8, diagonal=True)


def coverages_chart(coverage: Coverage) -> Chart:
    """Return the chart of observed against nominal coverage of bands at one distance."""
    label = f"Nominal and observed coverage, {verdict_text(coverage.name)}"
    nominal, observed = share_axis(1.0, "nominal coverage"), share_axis(1.0, "observed coverage")
    return Chart(label, nominal, observed, ratio=0.8, diagonal=True)


def power_chart(sample: Sequence[Drawn]) -> Chart:
    watts = [value for run in sample for value in (run.predicted_w, run.measured_w)]
    measured, predicted = (log_axis(watts, round_ticks, power, f"{which} power") for which in ("measured", "predicted"))
    return Chart("Predicted against measured power", measured, predicted, ratio=0.8, diagonal=True)


def application_chart(application: ScoredApplication) -> Chart:
    """Return the chart of the last published curve of an application, with a sample of its runs."""
    runs, curve = application.observed, application.curve
    title = f"{application.row.name}: run time against {application.unit}"
    return curve_chart(title, curve, application.unit, [(run.n, run.run_time_s) for run in runs])


def waits_chart(periods: Sequence[WaitPeriod]) -> Chart:
    """Return the chart of the mean wait by period, with one line for each source of run times: predicted, requested and true."""
    waits = [period.wait_mean_s[source] for period in periods for source in (PREDICTED, REQUESTED, PERFECT)]
    return _over_time("Mean wait", periods, run_time_axis((max(wait, 1.0) for wait in waits), "mean wait"))


def best(scheduling: Scheduling, waits: Waits, field: str) -> bool:
    """Return whether `waits` has the lowest `field` of all rows with its order of backfilling; rows with true run times do not count."""
    compared = [row for row in scheduling.waits if row.order == waits.order and row.source != PERFECT]
    return waits in compared and getattr(waits, field) == min(getattr(row, field) for row in compared)


def middle_ms(period: Period | WaitPeriod) -> float:
    return (parse_rfc3339(period.start) + parse_rfc3339(period.end)) / 2


def _over_time(label: str, periods: Sequence[Period] | Sequence[WaitPeriod], values: Axis) -> Chart:
    times = time_axis(middle_ms(periods[0]), middle_ms(periods[-1]))
    return Chart(f"{label} over time", times, values, ratio=0.46)


def _log_error(value: float) -> float:
    return max(value, ERROR_LEAST)


def seconds(value: float | None) -> str:
    """Return seconds as text without a unit, or a dash if they are unknown."""
    if value is None:
        return "-"
    if abs(value) >= NUMBERS_BEYOND:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def error(value: float | None) -> str:
    """Return a relative error in per cent, or as a factor if it is large."""
    if value is None or value < ERROR_BEYOND:
        return formatting.share(value)
    return f"{seconds(value)}x"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def alert_of(variant: Variant, name: str) -> AlertCount | None:
    return next((alert for alert in variant.alerts if alert.name == name), None)


def most(variants: Sequence[Variant]) -> int:
    """Return how often the most frequent alert of all `variants` fired; 1 if there are no alerts."""
    return max((alert.fired for variant in variants for alert in variant.alerts), default=1)


_FIGURES = ("runs", "answered", "median error", "MAE s", "bias", "band held", "95 % interval")


def summary(report: Report) -> Iterator[Table | Text]:
    """Yield a line about the history, and tables of predictions, power, waits and alerts."""
    history = report.history
    refused = f"{counted(history.refused, 'record')} refused"
    yield Text(f"{counted(history.runs, 'run')} from {moment(history.first)} to {moment(history.last)}, {refused}")
    if report.variants:
        yield _predictions(report)
    if report.variants and report.variants[0].profiled is not None:
        yield _power(report.variants[0].profiled)
    for place, variant in enumerate(report.variants[1:], 1):
        yield Text(f"{_name(place)}: {variant.name}")
    if report.scheduling is not None:
        yield _scheduling(report.scheduling)
    names = sorted({alert.name for variant in report.variants for alert in variant.alerts})
    if names:
        yield _alerts(report, names)
    for variant in report.variants:
        if variant.precision:
            yield _precision(variant)


def _predictions(report: Report) -> Table:
    table = _table("run time by", *_FIGURES)
    first = report.variants[0]
    for place, variant in enumerate(report.variants):
        total = variant.total
        if not place or total != first.total:  # alert settings do not change predictions
            table.add_row(_name(place), str(total.runs), share(total.answered), *_cells(total.figures))
    for pair in first.comparisons:
        if pair.runs == "completed":  # compare completed runs, if there are any
            figures = pair.baseline_prediction if pair.prediction.scored else pair.alone
            table.add_row(BASELINE_TEXT[pair.baseline], str(figures.scored), "", *_cells(figures))
    return table


def _power(profiled: Profiled) -> Table:
    table = _table(
        "power (of all hosts)", "runs", "answered", "mean", "median error", "bias", "band held", "95 % interval"
    )
    for row in (profiled.total, *profiled.by_application):
        median_error, _, *cells = _cells(row.figures)
        table.add_row(row.name, str(row.runs), share(row.answered), power(row.mean_w), median_error, *cells)
    return table


def _scheduling(scheduling: Scheduling) -> Table:
    table = _table(
        f"EASY on {scheduling.size:g} {scheduling.unit}, by",
        "mean wait h",
        "95 % wait h",
        "bounded slowdown",
        "too short",
    )
    for row in scheduling.waits:
        waits = (f"{wait / 3600:.3g}" for wait in (row.wait_mean_s, row.wait_p95_s))
        name = SOURCE_TEXT[row.source] + (", shortest first" if row.order == "shortest_first" else "")
        table.add_row(name, *waits, f"{row.bounded_slowdown:.3g}", share(row.too_short))
    return table


def _alerts(report: Report, names: list[str]) -> Table:
    table = _table("alerts (per 1,000 runs)", *(_name(place) for place in range(len(report.variants))))
    for name in names:
        table.add_row(name, *(_fired(variant, name) for variant in report.variants))
    return table


def _precision(variant: Variant) -> Table:
    table = _table(f"alerts judged by labels ({variant.name})", "judged", "real", "share")
    for row in precision_rows(variant.precision):
        table.add_row(*row)
    return table


def _name(place: int) -> str:
    return f"what if {place}" if place else "Scalewatch"


def _fired(variant: Variant, name: str) -> str:
    alert = alert_of(variant, name)
    return f"{alert.fired} ({number(alert.per_1000_runs)})" if alert else "0"


def _cells(figures: Figures) -> tuple[str, ...]:
    low, high = figures.coverage_low, figures.coverage_high
    interval = "-" if low is None or high is None else f"{100 * low:.0f}-{100 * high:.0f} %"
    return (
        error(figures.median_error),
        seconds(figures.mae_s),
        number(figures.bias),
        share(figures.coverage_90),
        interval,
    )


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
