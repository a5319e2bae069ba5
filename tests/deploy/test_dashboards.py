"""Dashboards: what the code makes is what is shipped, its form is right, and it asks for what there is."""

import doctest
import importlib
import json
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from deploy.grafana.files import texts
from sinks.prometheus.table import METRICS
from tests.kit.dashboards import (
    FOLDER,
    Question,
    dashboards,
    listed,
    nodes,
    panels,
    put_in,
    questions,
    selectors,
    set_by_replace,
    used,
    variables,
)

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "helm" / "scalewatch" / "files" / "rules" / "scalewatch.yaml"
ALL = dashboards()
NAMES = sorted(ALL)
QUESTIONS = [question for name, made in ALL.items() for question in questions(name, made)]
# the units that are used, all of them known to Grafana
UNITS = {"none", "short", "s", "percentunit", "bytes", "watt", "joule", "cps", "bool_yes_no"}
ANY = {"input": "input='x'"}  # this variable is a matcher
SCRAPED = {"job", "instance"}
PROCESS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_max_fds"}
ALERT_LABELS = {"alertname", "alertstate", "severity", "system", "role", "reason", "bound", "processor"}
MODULES = sorted(path.stem for path in (ROOT / "deploy" / "grafana").glob("*.py") if not path.stem.startswith("__"))


def recorded() -> dict[str, set[str]]:
    """Return the labels of what recording rules record: those that they group by."""
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    grouped = {rule["record"]: promql.parse(rule["expr"]) for rule in rules if "record" in rule}
    return {name: labels_of(expr) for name, expr in grouped.items()}


def labels_of(expr: promql.Expr) -> set[str]:
    while isinstance(expr, promql.BinaryExpr | promql.ParenExpr):
        expr = expr.lhs if isinstance(expr, promql.BinaryExpr) else expr.expr
    assert isinstance(expr, promql.AggregateExpr)
    return set(expr.modifier.labels) if expr.modifier else set()


def known() -> dict[str, set[str]]:
    """Return the labels of each series that there is, by its name."""
    found = dict.fromkeys(PROCESS, SCRAPED) | {"ALERTS": SCRAPED | ALERT_LABELS}
    found |= {"scalewatch_build_info": SCRAPED | {"version"}} | recorded()
    for entry in METRICS:
        labels = SCRAPED | set(entry.label_names)
        endings = ("_bucket", "_sum", "_count") if entry.kind == "histogram" else ("",)
        found |= {f"{entry.name}{ending}": labels | ({"le"} if ending == "_bucket" else set()) for ending in endings}
    return found


KNOWN = known()


def parsed(question: Question) -> promql.Expr:
    values = dict.fromkeys(variables(ALL[question.dashboard]), "x") | ANY
    return promql.parse(put_in(question.expr, values))


def queries_of_variables() -> list[Question]:
    return [
        Question(name, variable["name"], listed(variable)[0])
        for name, made in ALL.items()
        for variable in made["templating"]["list"]
        if variable["type"] == "query"
    ]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_code_run(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"deploy.grafana.{module}"))
    assert tried > 0
    assert failed == 0


def test_what_is_shipped_is_what_the_code_makes() -> None:
    made = texts()
    assert {path.name for path in FOLDER.glob("*")} == set(made)
    changed = [name for name, text in made.items() if (FOLDER / name).read_text() != text]
    assert changed == [], "run `make dashboards`"


def test_dashboards_have_addresses_and_titles_of_their_own() -> None:
    assert NAMES == ["agent", "application", "centre", "host", "jobs"]
    assert {made["uid"] for made in ALL.values()} == {f"scalewatch-{name}" for name in NAMES}
    assert len({made["title"] for made in ALL.values()}) == len(ALL)
    assert all(made["description"] and "scalewatch" in made["tags"] for made in ALL.values())
    assert all("id" not in made and "version" not in made for made in ALL.values()), "Grafana gives these itself"


def test_parts_that_need_data_that_many_centres_lack_say_so_and_are_folded() -> None:
    rows = {panel["title"]: panel for made in ALL.values() for panel in made["panels"] if panel["type"] == "row"}
    folded = {title for title, row in rows.items() if row["collapsed"]}
    assert folded == {title for title in rows if "(needs " in title}
    assert "Power and energy (needs hosts that send their power or counters)" in folded
    assert all(rows[title]["panels"] for title in folded)


@pytest.mark.parametrize("name", NAMES)
def test_panels_are_distinguished(name: str) -> None:
    numbers = [each["id"] for panel in ALL[name]["panels"] for each in (panel, *panel.get("panels", ()))]
    assert numbers == list(range(1, len(numbers) + 1))
    titles = [panel["title"] for panel in ALL[name]["panels"]]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", NAMES)
def test_panels_lie_in_the_grid_and_none_on_another(name: str) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in ALL[name]["panels"]:
        place = panel["gridPos"]
        assert place["w"] > 0 < place["h"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24, panel["title"]
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_states_what_it_means_in_its_unit_and_asks_the_chosen_prometheus(name: str) -> None:
    for panel in panels(ALL[name]):
        assert len(panel["description"]) > 20, panel["title"]
        if panel["type"] == "text":
            continue
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["interval"] == "30s"
        requested = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(each == {"type": "prometheus", "uid": "${datasource}"} for each in requested), panel["title"]
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGHIJ"[: len(panel["targets"])])


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_leads_to_the_others_and_to_the_agents_page(name: str) -> None:
    links = ALL[name]["links"]
    assert [(link["type"], link["tags"]) for link in links] == [("dashboards", ["scalewatch"]), ("link", [])]
    assert links[1]["url"].startswith("${page}/")
    assert [mark["name"] for mark in ALL[name]["annotations"]["list"]] == [
        "Alerts about the agent",
        "Alerts of the agent",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_variables_are_used_and_those_used_are_there(name: str) -> None:
    there = set(variables(ALL[name]))
    text = json.dumps([ALL[name]["panels"], ALL[name]["links"], ALL[name]["templating"], ALL[name]["annotations"]])
    requested = {each for each in used(text) if not each.startswith("__")}
    assert requested - there == set()
    assert there - requested == set()


@pytest.mark.parametrize("name", NAMES)
def test_each_variable_asks_for_those_before_it_alone(name: str) -> None:
    before: set[str] = set()
    for variable in ALL[name]["templating"]["list"]:
        if variable["type"] == "query":
            assert used(variable["query"]) <= before, variable["name"]
        before.add(variable["name"])


@pytest.mark.parametrize("question", QUESTIONS + queries_of_variables(), ids=str)
def test_a_query_parses_and_asks_for_series_and_labels_that_there_are(question: Question) -> None:
    expr = parsed(question)
    found = selectors(expr)
    assert found
    for selector in found:
        assert selector.name in KNOWN
        named = {matcher.name for matcher in selector.matchers.matchers}
        assert named - KNOWN[selector.name or ""] == set(), selector.name


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_query_groups_by_labels_that_there_are(question: Question) -> None:
    for node in nodes(parsed(question)):
        if isinstance(node, promql.AggregateExpr) and node.modifier:
            inside: set[str] = set().union(*(KNOWN[each.name or ""] for each in selectors(node.expr)))
            assert set(node.modifier.labels) - inside - set_by_replace(node.expr) == set()


def with_band(panel: dict[str, Any]) -> bool:
    return any("scalewatch_predicted_" in target["expr"] for target in panel.get("targets", ()))


@pytest.mark.parametrize("name", NAMES)
def test_a_prediction_is_never_shown_without_its_band_nor_far_from_what_was_measured_of_it(name: str) -> None:
    shown = [panel for panel in panels(ALL[name]) if with_band(panel)]
    for panel in shown:
        exprs = " ".join(target["expr"] for target in panel["targets"])
        assert all(f'level="{level}"' in exprs for level in ("0.05", "0.5", "0.95")), panel["title"]
        if panel["type"] != "stat":
            high = next(each for each in panel["fieldConfig"]["overrides"] if each["matcher"]["options"] == "high")
            assert {"id": "custom.fillBelowTo", "value": "low"} in high["properties"], panel["title"]
    if shown:
        text = json.dumps(ALL[name]["panels"])
        assert all(
            f"scalewatch_{each}" in text for each in ("reliability", "prediction_coverage_ratio", "prediction_runs")
        )


def test_the_only_prediction_over_all_applications_is_a_table_with_verdict_and_coverage() -> None:
    table = next(panel for panel in panels(ALL["centre"]) if panel["title"] == "Applications")
    columns = table["transformations"][1]["options"]["renameByName"].values()
    assert {"coverage", "scored runs", "error"} <= set(columns)
    assert "verdict" in table["targets"][0]["expr"]
