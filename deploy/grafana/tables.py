"""Tables, and curves over the size of runs: what several queries report the same thing, joined."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import table as build_table
from grafana_foundation_sdk.builders import trend
from grafana_foundation_sdk.models import common, dashboard, prometheus

from deploy.grafana.panels import HIGH, LOW, MIDDLE, banded, finish, override
from deploy.grafana.queries import RULES_OF_AGENT, ends, rows

APPLICATION_URL = (
    "/d/scalewatch-application?${datasource:queryparam}&${job:queryparam}&${page:queryparam}"
    "&var-system=${__data.fields.system:percentencode}&var-application=${__data.fields.application:percentencode}"
    "&var-input=${__data.fields.is:percentencode}&var-unit=${__data.fields.unit:percentencode}&${__url_time_range}"
)
HOST_URL = (
    "/d/scalewatch-host?${datasource:queryparam}&${job:queryparam}&${page:queryparam}"
    "&var-system=${__data.fields.system:percentencode}&var-host=${__data.fields.host:percentencode}&${__url_time_range}"
)


def change(name: str, **options: object) -> dashboard.DataTransformerConfig:
    """Return a step that changes what the queries told.

    >>> change("merge").id_val
    'merge'
    """
    return dashboard.DataTransformerConfig(id_val=name, options=options)


def with_input(expr: str) -> str:
    """Return an expression whose series also tell their input as the variable of it does, for links.

    >>> print(with_input("up"))
    label_replace(up, "is", "input='$1'", "input", "(.*)")
    """
    return f"""label_replace({expr}, "is", "input='$1'", "input", "(.*)")"""


def table(
    title: str,
    means: str,
    columns: Mapping[str, prometheus.Dataquery],
    hidden: Sequence[str] = (),
    unit: str = "none",
) -> dashboard.Panel:
    """Return a table of now: a row for what has the same labels, a column for each label, and for each query a named one.

    A column whose name is empty says only that a row is there, and is left out. Hidden columns are for links.

    >>> panel = table("A", "What it means.", {"up": rows("up"), "": rows("up == 1")}, hidden=("job",))
    >>> panel.transformations[1].options["renameByName"], panel.transformations[1].options["excludeByName"]
    ({'Value #A': 'up'}, {'Time': True, 'Value #B': True})
    """
    builder = build_table.Panel().cell_height(common.TableCellHeight.SM).show_header(show_header=True)
    panel = finish(builder.no_value("none"), title, means, unit, list(columns.values()))
    values = dict(zip((f"Value #{dead_letter}" for dead_letter in "ABCDEFGHIJ"), columns, strict=False))
    if len(columns) == 1:  # the letter is told only where several queries returned something
        values["Value"] = values["Value #A"]
    left_out = [value for value, name in values.items() if not name]
    panel.transformations = [
        change("merge"),
        change(
            "organize",
            excludeByName=dict.fromkeys(("Time", *left_out), True),
            renameByName={value: name for value, name in values.items() if name},
        ),
    ]
    for name in hidden:
        override(panel, name, {"custom.hidden": True})
    return panel


def alerts(title: str, means: str, firing: str) -> dashboard.Panel:
    """Return a table of what fires: the rules of Prometheus about the agent, and what the agent says of the centre.

    Both have the same labels, so they are the rows of one table.

    >>> alerts("A", "What it means.", "scalewatch_alert_firing").targets[0].expr[:30]
    'max by (alertname, severity, k'
    """
    about = "alertname, severity, kind, system, application, input, unit, n, host, partition, rack"
    rules = f'label_replace(ALERTS{{{RULES_OF_AGENT}}}, "kind", "agent", "", "")'
    alerts_panel = f"max by (alertname, severity, kind, system, job, instance, role) ({rules})"
    # one query, for a column that two have in common would be told twice
    panel = table(title, means, {"": rows(f"max by ({about}) ({firing}) or {alerts_panel}")})
    severity = {"info": "blue", "warning": "orange", "critical": "red"}
    mapped = [
        {"type": "value", "options": {name: {"color": hue, "index": i}}}
        for i, (name, hue) in enumerate(severity.items())
    ]
    return override(panel, "severity", {"mappings": mapped, "custom.cellOptions": {"type": "color-text"}})


def curve(title: str, means: str, unit: str, metric: str, selector: str) -> dashboard.Panel:
    """Return a figure over the size of runs, within its band, both on axes of powers.

    >>> curve("A", "What it means.", "s", "scalewatch_predicted_run_time_seconds", 'system="exa"').type_val
    'trend'
    """
    log = build_common.ScaleDistributionConfig().type(common.ScaleDistribution.LOG)
    builder = (
        trend.Panel()
        .x_field("n")
        .line_width(1)
        .fill_opacity(0)
        .show_points(common.VisibilityMode.ALWAYS)
        .scale_distribution(log.log(10))
        .legend(build_common.VizLegendOptions().show_legend(show_legend=True).calcs([]))
    )
    panel = finish(builder, title, means, unit, [rows(expr) for expr in ends(metric, selector, "n")])
    panel.transformations = [
        change("joinByField", byField="n", mode="outer"),
        change("convertFieldType", fields={}, conversions=[{"targetField": "n", "destinationType": "number"}]),
        change(
            "organize",
            excludeByName={"Time": True, "Time 1": True, "Time 2": True, "Time 3": True},
            renameByName={"Value #A": LOW, "Value #B": MIDDLE, "Value #C": HIGH},
        ),
        change("sortBy", fields={}, sort=[{"field": "n", "desc": False}]),
    ]
    banded(panel)
    return override(panel, "n", {"unit": "none", "custom.scaleDistribution": {"type": "log", "log": 2}})


def linked(panel: dashboard.Panel, column: str, title: str, url: str) -> dashboard.Panel:
    """Let a column of a table lead somewhere.

    >>> linked(table("A", "What it means.", {"up": rows("up")}), "host", "Host", HOST_URL).field_config.overrides[0].matcher.options
    'host'
    """
    return override(panel, column, {"links": [{"title": title, "url": url}]})


def shaded(panel: dashboard.Panel, column: str, unit: str, steps: Mapping[float | None, str]) -> dashboard.Panel:
    """Give a column its unit, and its cells colours by their values.

    >>> len(shaded(table("A", "What it means.", {"up": rows("up")}), "up", "s", {None: "green"}).field_config.overrides)
    1
    """
    marks = [{"value": value, "color": colour} for value, colour in steps.items()]
    return override(
        panel,
        column,
        {
            "unit": unit,
            "thresholds": {"mode": "absolute", "steps": marks},
            "custom.cellOptions": {"type": "color-text"},
        },
    )
