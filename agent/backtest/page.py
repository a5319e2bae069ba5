"""The report as one HTML file: pictures and style are inside, so that it opens anywhere."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from agent import words
from agent.backtest import plots
from agent.backtest.power_plot import power_said
from agent.backtest.report import AlertCount, Application, Drawn, Report, Variant
from agent.http import environment as html
from agent.http.power import explained_views
from agent.http.view import change

NUMBERS_BEYOND: Final = 1e6
ERROR_BEYOND: Final = 10.0
BASELINE_WORDS: Final = {"requested": "requested time", "last_two": "user's last two jobs"}


def page(report: Report) -> str:
    """Return the page; everything that comes from the files is escaped.

    >>> from agent.backtest.report import SCHEMA, History
    >>> history = History(files=("<b>",), records=0, events=0, runs=0, refused=0, refused_by_reason={}, ignored={},
    ...                   first="1970-01-01T00:00:00Z", last="1970-01-01T00:00:00Z")
    >>> "<b>" in page(Report(schema=SCHEMA, agent_version="1", history=history, variants=()))
    False
    """
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
    """Return the templates with what the report adds to them.

    >>> environment().from_string("{{ 0.031|share }}").render()
    '3.1 %'
    """
    made = html.environment("agent.backtest")
    made.filters.update(
        change=change, explained=explained_views, power=words.power, seconds=seconds, number=number, error=error, file_name=_file_name, horizon=plots.horizon_words,
        baseline=BASELINE_WORDS.__getitem__,
    )  # fmt: skip
    made.globals.update(pictures=pictures, curve=_curve, alert_of=alert_of, most=most, power_said=_power_said)
    return made


def pictures(variant: Variant) -> dict[str, Markup]:
    """Return the pictures of a variant; text in them is escaped where they are made.

    >>> from agent.backtest.observer import Observer
    >>> from agent.backtest.summary import variant
    >>> sorted(pictures(variant("x", {}, Observer([0, 1]), top=1)))
    ['coverage', 'errors', 'horizons', 'reliability']
    """
    return {
        "errors": Markup(plots.errors_over_time(variant.periods)),  # noqa: S704
        "coverage": Markup(plots.coverage_over_time(variant.periods)),  # noqa: S704
        "horizons": Markup(plots.coverage_by_horizon(variant.by_horizon)),  # noqa: S704
        "reliability": Markup(plots.reliability(variant.quantiles, variant.limit)),  # noqa: S704
    }


def seconds(value: float | None) -> str:
    """Return seconds as figures, a dash where there are none.

    >>> seconds(4838.4), seconds(0.123), seconds(2.3e9), seconds(None)
    ('4838', '0.123', '2.3e+09', '-')
    """
    if value is None:
        return "-"
    if abs(value) >= NUMBERS_BEYOND:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def error(value: float | None) -> str:
    """Return a relative error in per cent, as a multiple where it is large.

    >>> error(0.336), error(1624.0), error(None)
    ('34 %', '1624x', '-')
    """
    if value is None or value < ERROR_BEYOND:
        return words.share(value)
    return f"{seconds(value)}x"


def number(value: float | None) -> str:
    """Return a plain number, a dash where there is none.

    >>> number(0.5344), number(None)
    ('0.534', '-')
    """
    return "-" if value is None else f"{value:.3g}"


def alert_of(variant: Variant, name: str) -> AlertCount | None:
    """Return how often an alert fired in a variant; None where it never did.

    >>> from agent.backtest.observer import Observer
    >>> from agent.backtest.summary import variant
    >>> alert_of(variant("x", {}, Observer([0, 1]), top=1), "SlowSize") is None
    True
    """
    return next((alert for alert in variant.alerts if alert.name == name), None)


def most(variants: Sequence[Variant]) -> int:
    """Return how often the alert fired that fired most, at least 1.

    >>> most(())
    1
    """
    return max((alert.fired for variant in variants for alert in variant.alerts), default=1)


def _file_name(path: str) -> str:
    return PurePath(path).name or path


def _curve(application: Application) -> Markup:
    return Markup(plots.curve(application))  # noqa: S704


def _power_said(sample: Sequence[Drawn]) -> Markup:
    return Markup(power_said(sample))  # noqa: S704


def _style() -> str:
    shared = files("agent.http").joinpath("static", "style.css").read_text("utf-8")
    return shared + files("agent.backtest").joinpath("templates", "report.css").read_text("utf-8")
