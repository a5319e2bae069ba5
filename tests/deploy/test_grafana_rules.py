"""Rules that Grafana evaluates itself: the rules of Prometheus, with queries that need no recording rule."""

from typing import Any

import promql_parser as promql
import pytest
import yaml

from deploy.grafana.alerting import ANSWER, FOLDER, RULES, text
from tests.kit.dashboards import selectors

SHIPPED = yaml.safe_load((FOLDER / "rules.yaml").read_text())
OF_GRAFANA: list[dict[str, Any]] = [rule for group in SHIPPED["groups"] for rule in group["rules"]]


def test_what_is_shipped_is_what_the_code_makes() -> None:
    assert (FOLDER / "rules.yaml").read_text() == text()


def test_every_alert_of_prometheus_is_there_and_one_rule_for_what_the_agent_finds() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    of_prometheus = [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]
    assert [rule["title"] for rule in OF_GRAFANA] == [*of_prometheus, "ScalewatchFound"]
    assert len({rule["uid"] for rule in OF_GRAFANA}) == len(OF_GRAFANA)


@pytest.mark.parametrize("rule", OF_GRAFANA, ids=lambda rule: rule["title"])
def test_a_rule_asks_for_scraped_series_and_fires_for_each_of_them_even_if_its_value_is_zero(
    rule: dict[str, Any],
) -> None:
    answer, fires = (each["model"] for each in rule["data"])
    parsed = promql.parse(answer["expr"].replace("$$", "$"))
    assert not [each.name for each in selectors(parsed) if ":" in (each.name or "")]
    assert (rule["condition"], fires["expression"]) == (fires["refId"], f"is_number($${ANSWER})")


@pytest.mark.parametrize("rule", OF_GRAFANA, ids=lambda rule: rule["title"])
def test_grafana_finds_no_variable_of_its_environment_and_a_value_in_each_text(rule: dict[str, Any]) -> None:
    assert "$" not in str(rule["data"]).replace("$$", "")
    assert "$value " not in str(rule["annotations"])


def test_the_contact_point_that_the_policy_names_is_there() -> None:
    example = yaml.safe_load((FOLDER / "contact-points.yaml").read_text())
    assert [each["receiver"] for each in example["policies"]] == [each["name"] for each in example["contactPoints"]]
