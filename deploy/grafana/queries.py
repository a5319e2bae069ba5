"""Selectors and queries that several panels use."""

from typing import Final

from grafana_foundation_sdk.models import prometheus

OF_JOB: Final = 'job=~"$job"'
OF_SYSTEMS: Final = f'{OF_JOB}, system=~"$system"'
OF_APPLICATION: Final = f'{OF_JOB}, system="$system", application="$application", ${{input:raw}}, unit="$unit"'
OF_SIZE: Final = f'{OF_APPLICATION}, n="$n"'
OF_HOST: Final = f'{OF_JOB}, system="$system", host="$host"'
OF_RESOURCE: Final = f'{OF_HOST}, resource="$resource"'
OF_AGENT: Final = f'{OF_JOB}, instance=~"$instance"'
RULES_OF_AGENT: Final = 'alertname=~"Scalewatch.*", alertstate="firing"'
QUANTILES: Final = (("low", "0.05"), ("predicted", "0.5"), ("high", "0.95"))
KEY: Final = "application, system, input, unit"


def over_time(expr: str, legend: str = "__auto") -> prometheus.Dataquery:
    """Return a query for a line over time.

    >>> over_time("up").range_val
    True
    """
    return _query(expr, legend, prometheus.PromQueryFormat.TIME_SERIES, is_range=True)


def latest(expr: str, legend: str = "__auto") -> prometheus.Dataquery:
    """Return a query for a figure of now.

    >>> latest("up").instant
    True
    """
    return _query(expr, legend, prometheus.PromQueryFormat.TIME_SERIES, is_range=False)


def rows(expr: str) -> prometheus.Dataquery:
    """Return a query for a table of now: a column for each label, and one for the value.

    >>> rows("up").format_val.value
    'table'
    """
    return _query(expr, "", prometheus.PromQueryFormat.TABLE, is_range=False)


def ends(metric: str, selector: str, by: str = "") -> tuple[str, str, str]:
    """Return the expressions of the low end, the prediction and the high end of a predicted figure.

    >>> ends("x", 'n="4"')[0]
    'max(x{n="4", level="0.05"})'
    """
    grouped = f" by ({by}) " if by else ""
    low, middle, high = (f'max{grouped}({metric}{{{selector}, level="{each}"}})' for _, each in QUANTILES)
    return low, middle, high


def rate(metric: str, selector: str, by: str, over: str = "$__rate_interval") -> str:
    """Return the expression of how often something is counted in a second.

    >>> rate("x_total", 'job="a"', "role")
    'sum by (role) (rate(x_total{job="a"}[$__rate_interval]))'
    """
    return f"sum by ({by}) (rate({metric}{{{selector}}}[{over}]))"


def slow(metric: str, selector: str, share: float, by: str = "", over: str = "$__rate_interval") -> str:
    """Return the expression of the time that a share of the observations of a histogram stays below.

    What happens seldom is looked at `over` a longer time, or there would be nothing to see most of the time.

    >>> slow("x_seconds", 'job="a"', 0.5, over="1h")
    'histogram_quantile(0.5, sum by (le) (rate(x_seconds_bucket{job="a"}[1h])))'
    """
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, {rate(f'{metric}_bucket', selector, labels, over)})"


def _query(expr: str, legend: str, form: prometheus.PromQueryFormat, *, is_range: bool) -> prometheus.Dataquery:
    return prometheus.Dataquery(
        expr=expr,
        legend_format=legend or None,
        format_val=form,
        editor_mode=prometheus.QueryEditorMode.CODE,
        instant=not is_range,
        range_val=is_range,
    )
