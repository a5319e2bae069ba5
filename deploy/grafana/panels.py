"""Panels as all dashboards show them: figures, lines, bands and explanations."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import stat as build_stat
from grafana_foundation_sdk.builders import text as build_text
from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import common, dashboard, prometheus, text

from deploy.grafana.variables import DATASOURCE

STEP_MIN: Final = "30s"  # recording rules are evaluated as often, and few scrape more often
BLUE, GREEN, ORANGE, RED, GREY = "blue", "green", "orange", "red", "text"
LOW, MIDDLE, HIGH = "low", "predicted", "high"
Queries = Sequence[prometheus.Dataquery]
Steps = Mapping[float | None, str]
Properties = dict[str, object]
Panel = dashboard.Panel


class Builder(Protocol):
    """What the builders of all kinds of panels have in common."""

    def build(self) -> dashboard.Panel:
        """Return the panel."""


def finish(builder: Builder, title: str, means: str, unit: str, queries: Queries = ()) -> dashboard.Panel:
    """Return the panel with what every panel has.

    >>> finish(build_text.Panel(), "A", "What it means.", "").description
    'What it means.'
    """
    panel = builder.build()
    panel.title, panel.description, panel.transparent = title, means, None
    if queries:
        panel.datasource, panel.interval = DATASOURCE, STEP_MIN
        panel.targets = []
        for dead_letter, query in zip("ABCDEFGHIJ", queries, strict=False):
            query.ref_id, query.datasource = dead_letter, DATASOURCE
            panel.targets.append(query)
        _defaults(panel).unit = unit
    return panel


def override(panel: dashboard.Panel, name: str, properties: Properties) -> dashboard.Panel:
    """Set properties of the field with a name.

    >>> panel = finish(stat_builder(), "A", "What it means.", "s", [prometheus.Dataquery(expr="up")])
    >>> override(panel, "low", {"unit": "s"}).field_config.overrides[0].matcher.options
    'low'
    """
    values = [dashboard.DynamicConfigValue(key, value) for key, value in properties.items()]
    matcher = dashboard.MatcherConfig("byName", name)
    _fields(panel).overrides.append(dashboard.DashboardFieldConfigSourceOverrides(matcher, values))
    return panel


def coloured(panel: dashboard.Panel, colours: Mapping[str, str]) -> dashboard.Panel:
    """Give fields colours by their names.

    >>> panel = finish(stat_builder(), "A", "What it means.", "s", [prometheus.Dataquery(expr="up")])
    >>> len(coloured(panel, {"slow": "red", "fast": "green"}).field_config.overrides)
    2
    """
    for name, colour in colours.items():
        override(panel, name, {"color": {"mode": "fixed", "fixedColor": colour}})
    return panel


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    """Return thresholds: the colour from each value on; None is below all of them.

    >>> [step.value for step in thresholds({None: "green", 0.5: "red"}).steps]
    [None, 0.5]
    """
    return dashboard.ThresholdsConfig(
        dashboard.ThresholdsMode.ABSOLUTE, [dashboard.Threshold(value, colour) for value, colour in steps.items()]
    )


def stat_builder() -> build_stat.Panel:
    """Return what builds a figure.

    >>> stat_builder().build().type_val
    'stat'
    """
    reduced = build_common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False)
    return (
        build_stat.Panel()
        .reduce_options(reduced)
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
    )


def figure(
    title: str, means: str, unit: str, queries: Queries, steps: Steps | None = None, *, absent: str = "nothing told"
) -> dashboard.Panel:
    """Return figures of now, coloured by thresholds.

    >>> figure("A", "What it means.", "s", [prometheus.Dataquery(expr="up")], {None: "green"}).type_val
    'stat'
    """
    panel = finish(stat_builder().no_value(absent), title, means, unit, queries)
    _defaults(panel).thresholds = thresholds(steps or {None: BLUE})
    return panel


def word(title: str, means: str, query: prometheus.Dataquery, colours: Mapping[str, str]) -> dashboard.Panel:
    """Return a panel that shows the names of the series that there are, in their colours.

    >>> word("A", "What it means.", prometheus.Dataquery(expr="up == 1"), {"reliable": "green"}).options.text_mode.value
    'name'
    """
    builder = stat_builder().text_mode(common.BigValueTextMode.NAME).no_value("nothing told")
    panel = finish(builder, title, means, "none", [query])
    _defaults(panel).thresholds = thresholds({None: ORANGE})
    return coloured(panel, colours)


def lines(title: str, means: str, unit: str, queries: Queries, *, steps: Steps | None = None) -> dashboard.Panel:
    """Return lines over time; thresholds are drawn as lines.

    >>> lines("A", "What it means.", "s", [prometheus.Dataquery(expr="up")]).type_val
    'timeseries'
    """
    builder = _lines()
    if steps:
        style = build_common.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        builder = builder.thresholds_style(style)
    panel = finish(builder, title, means, unit, queries)
    if steps:
        _defaults(panel).thresholds = thresholds(steps)
    if unit == "percentunit":
        _defaults(panel).min_val = 0
    return panel


def stacked(title: str, means: str, unit: str, queries: Queries) -> dashboard.Panel:
    """Return lines on top of each other: parts of a whole.

    >>> stacked("A", "What it means.", "s", [prometheus.Dataquery(expr="up")]).type_val
    'timeseries'
    """
    builder = _lines().fill_opacity(30).stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL))
    return finish(builder, title, means, unit, queries)


def band(title: str, means: str, unit: str, queries: Queries) -> dashboard.Panel:
    """Return a line within its band; the queries are named low, predicted and high, others are lines beside.

    >>> from deploy.grafana.queries import over_time
    >>> panel = band("A", "What it means.", "s", [over_time(f"up{n}", name) for n, name in enumerate(["low", "high"])])
    >>> [each.matcher.options for each in panel.field_config.overrides]
    ['low', 'high', 'predicted']
    """
    return banded(finish(_lines(), title, means, unit, queries))


def banded(panel: dashboard.Panel) -> dashboard.Panel:
    """Let the field high be filled down to the field low, with the prediction as a line between them.

    >>> panel = finish(_lines(), "A", "What it means.", "s", [prometheus.Dataquery(expr="up")])
    >>> banded(panel).field_config.overrides[1].properties[0].value
    'low'
    """
    edge: Properties = {"custom.lineWidth": 0, "color": {"mode": "fixed", "fixedColor": BLUE}}
    override(panel, LOW, {"custom.fillOpacity": 0, **edge})
    override(panel, HIGH, {"custom.fillBelowTo": LOW, "custom.fillOpacity": 20, **edge})
    return override(panel, MIDDLE, {"custom.lineWidth": 2, "color": {"mode": "fixed", "fixedColor": BLUE}})


def text_panel(title: str, means: str, content: str) -> dashboard.Panel:
    """Return an explanation.

    >>> text_panel("A", "What it means.", "Some **text**.").type_val
    'text'
    """
    return finish(build_text.Panel().mode(text.TextMode.MARKDOWN).content(content), title, means, "")


def _lines() -> timeseries.Panel:
    legend = (
        build_common.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
        .calcs(["lastNotNull"])
    )
    tooltip = build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    return (
        timeseries.Panel()
        .legend(legend)
        .tooltip(tooltip)
        .line_width(1)
        .fill_opacity(0)
        .show_points(common.VisibilityMode.NEVER)
    )


def _fields(panel: dashboard.Panel) -> dashboard.FieldConfigSource:
    if panel.field_config is None:
        panel.field_config = dashboard.FieldConfigSource()
    return panel.field_config


def _defaults(panel: dashboard.Panel) -> dashboard.FieldConfig:
    return _fields(panel).defaults
