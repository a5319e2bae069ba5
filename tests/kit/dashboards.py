"""Dashboards as Grafana reads them: panels, what they ask Prometheus, and variables put in."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql

FOLDER = Path(__file__).resolve().parents[2] / "helm" / "scalewatch" / "files" / "dashboards"
BUILT_IN = {"__rate_interval": "10s", "__interval": "5s", "__range": "60s"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")
_LIST = re.compile(r"label_values\((?P<selector>.*), (?P<label>\w+)\)|query_result\((?P<query>.*)\)")


@dataclass(frozen=True)
class Question:
    """What a panel, or the marks of alerts, ask Prometheus."""

    dashboard: str
    place: str
    expr: str

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.place}"


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels that show something, also those of folded parts, without the titles of parts."""
    every = [each for panel in dashboard["panels"] for each in (panel, *panel.get("panels", ()))]
    return [panel for panel in every if panel["type"] != "row"]


def questions(name: str, dashboard: Mapping[str, Any]) -> Iterator[Question]:
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            yield Question(name, f"{panel['title']} {target['refId']}", target["expr"])
    for mark in dashboard["annotations"]["list"]:
        yield Question(name, f"marks of {mark['name']}", mark["target"]["expr"])


def variables(dashboard: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in dashboard["templating"]["list"]}


def listed(variable: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what a variable of a list asks: the selector of a label, or an expression and no label."""
    found = _LIST.fullmatch(variable["query"])
    assert found, variable["query"]
    return found["selector"] or found["query"], found["label"]


def choices(variable: Mapping[str, Any], series: list[dict[str, str]]) -> list[str]:
    """Return the values that Grafana makes of the result of an expression: its text form, by the variable's pattern."""
    pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
    texts = ("{" + ",".join(f'{key}="{value}"' for key, value in sorted(each.items())) + "} 1 0" for each in series)
    found = [pattern.search(text) for text in texts]
    assert all(found), f"{variable['regex']} fits not all of {series}"
    return [match["value"] for match in found if match]


def used(text: str) -> set[str]:
    """Return the names of the variables in a text; those of label_replace are numbers."""
    return {name for match in _VARIABLE.finditer(text) if not (name := match[1] or match[2]).isdigit()}


def put_in(expr: str, values: Mapping[str, str]) -> str:
    """Return an expression with its variables replaced; KeyError where one has no value."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return match[0] if name.isdigit() else ({**BUILT_IN, **values})[name]

    return _VARIABLE.sub(value, expr)


def nodes(expr: promql.Expr) -> list[promql.Expr]:
    """Return an expression and all that is in it."""
    found: list[promql.Expr] = []
    promql.walk(expr, found.append)
    return found


def selectors(expr: promql.Expr) -> list[promql.VectorSelector]:
    """Return what an expression selects."""
    inner = [node.vector_selector if isinstance(node, promql.MatrixSelector) else node for node in nodes(expr)]
    return [node for node in inner if isinstance(node, promql.VectorSelector)]


def set_by_replace(expr: promql.Expr) -> set[str]:
    """Return the labels that calls within an expression make."""
    calls = [node for node in nodes(expr) if isinstance(node, promql.Call) and node.func.name == "label_replace"]
    return {call.args[1].val for call in calls if isinstance(call.args[1], promql.StringLiteral)}
