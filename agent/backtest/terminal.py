"""The report in short, for a terminal."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from agent.backtest.page import BASELINE_WORDS, alert_of, error, number, seconds
from agent.backtest.report import Profiled, Report, Variant
from agent.backtest.scores import Figures
from agent.words import counted, moment, power, share

_FIGURES = ("runs", "answered", "median error", "MAE s", "bias", "band held", "95 % interval")


def summary(report: Report) -> Iterator[Table | Text]:
    """Yield a line about the history, the table of predictions against baselines, and the table of alerts.

    >>> from agent.backtest.report import SCHEMA, History
    >>> history = History(files=(), records=0, events=0, runs=2, refused=0, refused_by_reason={}, ignored={},
    ...                   first="1970-01-01T00:00:00Z", last="1970-01-02T00:00:00Z")
    >>> [str(part) for part in summary(Report(schema=SCHEMA, agent_version="1", history=history, variants=()))]
    ['2 runs from 1970-01-01 00:00 to 1970-01-02 00:00, 0 records refused']
    """
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
