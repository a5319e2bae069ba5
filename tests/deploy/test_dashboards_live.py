"""Every query of every dashboard returns data from a real Prometheus that scraped the demo, and the rules are quiet there."""

import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.kit.agent_process import until
from tests.kit.dashboards import Question, choices, dashboards, listed, put_in, questions, variables
from tests.kit.prometheus import Prometheus
from tests.kit.scraped_demo import ALWAYS, quick_rules, scraped_demo
from tests.kit.tools import tool

pytestmark = [pytest.mark.tools, pytest.mark.slow]

ALL = dashboards()
QUESTIONS = [question for name, made in ALL.items() for question in questions(name, made)]
NO_CHECKPOINTS = "the demo keeps nothing, so it takes no checkpoints"
NO_BROKER = "the demo has no broker whose topics could be looked up"
HEALTHY = "in a healthy agent this does not happen"
NONE_ENDED = "the few alerts of the first hours stay open while the demo is scraped"
QUIET_HOSTS = "no host is strange in the first hours, before anyone knows what is usual"
# what can only be empty in the demo, and why
EMPTY = {
    "agent: Age of the newest message, by source A": NO_BROKER,
    "agent: Messages per second, by source A": NO_BROKER,
    "agent: Silence of sources A": NO_BROKER,
    "agent: Dead letters by source B": HEALTHY,
    "agent: Records deleted unread, by source B": HEALTHY,
    "agent: Age of the checkpoint A": NO_CHECKPOINTS,
    "agent: Age of the checkpoint over time A": NO_CHECKPOINTS,
    "agent: Time of a checkpoint A": NO_CHECKPOINTS,
    "agent: Time of a checkpoint B": NO_CHECKPOINTS,
    "agent: Dead letters by reason B": HEALTHY,
    "agent: Faults by processor B": HEALTHY,
    "agent: Bounds hit B": HEALTHY,
    "agent: Measurements left out by reason B": HEALTHY,
    "agent: Reports of runs refused by reason B": HEALTHY,
    "host: marks of Alerts of the agent": QUIET_HOSTS,
    "centre: How alerts ended A": NONE_ENDED,
}
# what every application has, from its first prediction that was scored
OF_EVERY_APPLICATION = ("Verdict", "Measured coverage", "Runs that measured it", "How it scales", "Run time at n = $n")
READY = (
    "scalewatch:dead_letters:ratio_rate15m and on () rate(scalewatch_events_total[10s])"
    " and on () increase(scalewatch_fit_duration_seconds_count[1m]) > 0"
    ' and on () ALERTS{alertname="ScalewatchOfTheTest"} and on () absent(ALERTS{alertname="ScalewatchDown"})'
)
Values = dict[str, str]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with scraped_demo(tool("prometheus"), tmp_path_factory.mktemp("prometheus")) as found:
        ready = until(
            lambda: found.query(READY), 40.0, "models were fitted between scrapes, and the rules recorded a rate"
        )
        found.hold(ready[0]["value"][0])
        yield found


def test_promtool_finds_nothing_wrong_with_the_metrics_of_the_demo(scraped: Prometheus) -> None:
    (address,) = scraped.addresses()
    text = httpx.get(address, trust_env=False, timeout=30).content
    assert text.count(b"\nscalewatch_") > 1000
    done = subprocess.run([tool("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture(scope="module")
def chosen(scraped: Prometheus) -> dict[str, list[Values]]:
    """Return all that can be chosen on each dashboard."""
    return {name: offered(scraped, made) for name, made in ALL.items()}


def offered(scraped: Prometheus, dashboard: dict[str, Any]) -> list[Values]:
    found: list[Values] = [{}]
    for variable in dashboard["templating"]["list"]:
        found = [{**values, variable["name"]: each} for values in found for each in options(scraped, variable, values)]
    return found


def options(scraped: Prometheus, variable: dict[str, Any], values: Values) -> list[str]:
    """Return what a variable offers after those before it were chosen."""
    if variable["type"] != "query":
        return ["x"]
    requested, label = listed(variable)
    if label is None:
        reported = choices(variable, [each["metric"] for each in scraped.query(put_in(requested, values))])
    else:
        reported = scraped.label_values(label, put_in(requested, values))
    if variable.get("hide") and not reported:
        return [""]  # an application whose input nobody told
    assert reported, f"{variable['name']} offers nothing after {values}"
    return [variable["allValue"]] if variable["includeAll"] else reported


def answers(scraped: Prometheus, question: Question, chosen: list[Values]) -> bool:
    exprs = dict.fromkeys(put_in(question.expr, values) for values in chosen)
    return any(scraped.query(expr) for expr in exprs)


def test_every_query_returns_data(scraped: Prometheus, chosen: dict[str, list[Values]]) -> None:
    silent = {str(each) for each in QUESTIONS if not answers(scraped, each, chosen[each.dashboard])}
    assert silent - set(EMPTY) == set()


def test_what_may_be_empty_is_asked_somewhere() -> None:
    assert set(EMPTY) - {str(each) for each in QUESTIONS} == set()


def test_every_application_is_offered_with_its_verdict_its_coverage_and_its_band(
    scraped: Prometheus, chosen: dict[str, list[Values]]
) -> None:
    offers = chosen["application"]
    reported = scraped.query("count by (application, system, input, unit) (scalewatch_reliability)")
    assert len({(each["application"], each["input"]) for each in offers}) == len(reported)
    inputs = {each["input"] for each in offers}
    assert "input=''" in inputs < {*inputs, ""}
    of_every = [q for q in QUESTIONS if q.dashboard == "application" and q.place[:-2] in OF_EVERY_APPLICATION]
    assert len(of_every) >= len(OF_EVERY_APPLICATION)
    scored = {each["metric"]["application"] for each in scraped.query("scalewatch_prediction_coverage_ratio")}
    for values in offers:
        if values["application"] in scored:
            silent = [str(each) for each in of_every if not scraped.query(put_in(each.expr, values))]
            assert silent == [], values


def test_a_band_holds_what_is_predicted(scraped: Prometheus, chosen: dict[str, list[Values]]) -> None:
    low, middle, high = [q for q in QUESTIONS if q.place.startswith("Run time at n = $n as")]
    for values in chosen["application"]:
        found = [float(scraped.query(put_in(each.expr, values))[0]["value"][1]) for each in (low, middle, high)]
        assert found == sorted(found), values


def test_the_table_of_alerts_has_the_agents_own_and_those_of_rules(scraped: Prometheus) -> None:
    (shown,) = [each for each in QUESTIONS if str(each) == "centre: Alerts that fire A"]
    everything = dict.fromkeys(variables(ALL["centre"]), ".*")
    found = {each["metric"]["alertname"]: each["metric"] for each in scraped.query(put_in(shown.expr, everything))}
    always, others = found.pop(ALWAYS["alert"]), list(found.values())
    assert always["kind"] == "agent"
    assert {alert["kind"] for alert in others} <= {"anomaly", "reliability"}
    assert others
    assert all({"alertname", "severity", "kind", "system"} <= set(alert) & set(always) for alert in others)


def test_all_rules_are_evaluated_and_the_demo_lets_none_fire(scraped: Prometheus) -> None:
    found = scraped.rules()
    assert len(found) == sum(len(group["rules"]) for group in quick_rules()["groups"])
    assert {rule["name"]: rule.get("lastError") for rule in found if rule["health"] != "ok"} == {}
    assert {each["metric"]["alertname"] for each in scraped.query("ALERTS")} == {ALWAYS["alert"]}
