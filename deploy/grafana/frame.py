"""What all dashboards have: the grid, links to the others and to the agent's page, and alerts as marks in time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from deploy.grafana.queries import RULES_OF_AGENT
from deploy.grafana.variables import DATASOURCE, PAGE, SOURCE, Variables

TAG: Final = "scalewatch"
COLUMNS: Final = 24
ROW_HEIGHT: Final = 1
Placed = tuple[int, model.Panel]  # columns it is wide


@dataclass(frozen=True)
class Line:
    """Panels beside each other, all of one height."""

    height: int
    panels: tuple[Placed, ...]


@dataclass(frozen=True)
class Part:
    """A part of a dashboard with a title: lines of panels below each other.

    A part that `needs` data of some kind says so in its title and is folded, because many centres do not have these data.
    """

    title: str
    lines: tuple[Line, ...]
    needs: str = ""


@dataclass(frozen=True)
class Sheet:
    """A dashboard: its name is part of its address, `firing` selects the alerts that it is about."""

    name: str
    title: str
    means: str
    variables: Variables
    parts: tuple[Part, ...]
    firing: str
    page: str = "/"
    shown: str = field(default="now-6h")


class Firing(model.AnnotationQuery):
    """Marks where alerts fired; the library knows neither the query of a mark nor its text.

    >>> Firing("Alerts", "ALERTS", "{{instance}}").to_json()["titleFormat"]
    '{{alertname}}'
    """

    def __init__(self, name: str, expr: str, text: str) -> None:
        super().__init__(name=name, datasource=DATASOURCE, enable=True, hide=False, icon_color="red")
        self._requested, self._text = expr, text

    def to_json(self) -> dict[str, object]:
        """Return it as Grafana reads it.

        >>> Firing("Alerts", "ALERTS", "{{instance}}").to_json()["target"]["expr"]
        'ALERTS'
        """
        return super().to_json() | {
            "target": {"expr": self._requested, "interval": "60s", "refId": "Anno"},
            "titleFormat": "{{alertname}}",
            "textFormat": self._text,
            "tagKeys": "severity",
        }


def dashboard(sheet: Sheet) -> model.Dashboard:
    """Return the dashboard of a sheet, with a number for each panel and a place in the grid.

    >>> made = dashboard(Sheet("a", "A", "What it shows.", (), (), "scalewatch_alert_firing"))
    >>> made.uid, [each.name for each in made.templating.list_val]
    ('scalewatch-a', ['datasource', 'page'])
    """
    builder = (
        build.Dashboard(f"Scalewatch / {sheet.title}")
        .uid(f"{TAG}-{sheet.name}")
        .description(sheet.means)
        .tags([TAG])
        .editable()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .time(sheet.shown, "now")
        .refresh("1m")
        .timezone("browser")
    )
    made = builder.build()
    made.panels = list(_placed(sheet))
    made.templating = model.DashboardDashboardTemplating([SOURCE, *sheet.variables, PAGE])
    made.annotations = model.AnnotationContainer(
        [
            Firing("Alerts about the agent", f"ALERTS{{{RULES_OF_AGENT}}}", "{{job}} {{instance}} {{system}}"),
            Firing("Alerts of the agent", sheet.firing, "{{system}} {{application}} {{input}} {{n}} {{host}} {{rack}}"),
        ]
    )
    made.links = [_others(), _page(sheet.page)]
    return made


def _placed(sheet: Sheet) -> Iterator[model.Panel | model.RowPanel]:
    y, number = 0, 0
    for part in sheet.parts:
        number += 1
        row = model.RowPanel(title=part.title, grid_pos=model.GridPos(ROW_HEIGHT, COLUMNS, 0, y), id_val=number)
        y += ROW_HEIGHT
        panels: list[model.Panel] = []
        for line in part.lines:
            x = 0
            for width, panel in line.panels:
                number += 1
                panel.id_val, panel.grid_pos = number, model.GridPos(line.height, width, x, y)
                panels.append(panel)
                x += width
            y += line.height
        if part.needs:
            row.title, row.collapsed, row.panels, panels = f"{part.title} (needs {part.needs})", True, panels, []
        yield row
        yield from panels


def _others() -> model.DashboardLink:
    return model.DashboardLink(
        title="Scalewatch", type_val=model.DashboardLinkType.DASHBOARDS, icon="apps", tags=[TAG], as_dropdown=True,
        include_vars=True, keep_time=True, tooltip="The other dashboards, about the same things where they can be.",
    )  # fmt: skip


def _page(path: str) -> model.DashboardLink:
    return model.DashboardLink(
        title="Agent's page", icon="external link", url=f"${{page}}{path}", target_blank=True,
        tooltip="The agent's own page: reasons, advice and what to run next.",
    )  # fmt: skip
