from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import (
    HorizonQuality,
    Prediction,
    Quality,
    UsefulSizes,
)
from sinks.prometheus.registry import FIRING_MAX, Metrics, PredictionCollector
from tests.kit.messages import alert, curve_point, prediction
from tests.kit.service import FixedService

NOW_MS = parse_rfc3339("2026-11-20T11:00:00Z")


def scrape(service: FixedService, **bounds: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    metrics = Metrics(formats=(), reasons=(), processors=())
    metrics.register(PredictionCollector(service, lambda: NOW_MS, **bounds))
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in families}


def applications(seen: dict[str, list[tuple[dict[str, str], float]]]) -> set[str]:
    return {labels["application"] for labels, _ in seen["scalewatch_predicted_run_time_seconds"]}


def counted(seen: dict[str, list[tuple[dict[str, str], float]]]) -> dict[str, float]:
    return {labels["status"]: value for labels, value in seen["scalewatch_applications"]}


def test_a_prediction_shows_its_curve_as_three_quantiles_at_each_size() -> None:
    seen = scrape(FixedService([prediction()]))
    key = {"application": "lammps", "system": "archer2", "input": "rhodo", "unit": "nodes", "n": "64"}
    series = [(labels["level"], value) for labels, value in seen["scalewatch_predicted_run_time_seconds"]
              if labels == key | {"level": labels["level"]}]  # fmt: skip
    point = prediction().curve[6]
    assert series == [("0.05", point.low_s), ("0.5", point.run_time_s), ("0.95", point.high_s)]


def test_quality_useful_sizes_and_the_verdict_are_shown() -> None:
    seen = scrape(FixedService([prediction()]))
    assert [value for _, value in seen["scalewatch_prediction_coverage_ratio"]] == [0.91]
    assert [value for _, value in seen["scalewatch_prediction_error_ratio"]] == [0.031]
    assert {labels["criterion"]: value for labels, value in seen["scalewatch_useful_size"]} == {
        "max": 192.0, "knee": 96.0, "half_efficiency": 80.0,
    }  # fmt: skip
    assert [(labels["verdict"], value) for labels, value in seen["scalewatch_reliability"]] == [("reliable", 1.0)]


def test_what_is_not_known_yet_has_no_series() -> None:
    seen = scrape(FixedService([prediction(quality=Quality(), useful_n=UsefulSizes())]))
    assert seen["scalewatch_prediction_coverage_ratio"] == []
    assert seen["scalewatch_useful_size"] == []


def test_over_the_bound_the_applications_that_changed_last_are_shown_and_the_rest_counted() -> None:
    changed = ["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.250Z", "2026-11-20T09:59:59.999Z"]
    service = FixedService([prediction(f"app{index}", time=time) for index, time in enumerate(changed)])
    seen = scrape(service, applications_max=2)
    assert applications(seen) == {"app0", "app1"}
    assert counted(seen) == {"shown": 2.0, "left_out": 1.0, "stale": 0.0}


def test_a_stale_prediction_leaves() -> None:
    service = FixedService([
        prediction("old", valid_until="2026-11-20T11:00:00Z"),
        prediction("fresh", valid_until="2026-11-20T11:00:00.001Z"),
    ])  # fmt: skip
    seen = scrape(service)
    assert applications(seen) == {"fresh"}
    assert counted(seen) == {"shown": 1.0, "left_out": 0.0, "stale": 1.0}


def test_an_application_that_was_evicted_leaves() -> None:
    service = FixedService([prediction("a"), prediction("b")])
    assert applications(scrape(service)) == {"a", "b"}
    service.held_predictions.pop()
    assert applications(scrape(service)) == {"a"}


def test_a_long_curve_is_thinned_to_the_bound_and_keeps_its_ends() -> None:
    long = prediction(curve=tuple(curve_point(float(n), 1000.0 / n) for n in range(1, 65)))
    seen = scrape(FixedService([long]), sizes_max=8)
    sizes = sorted({float(labels["n"]) for labels, _ in seen["scalewatch_predicted_run_time_seconds"]})
    assert (len(sizes), sizes[0], sizes[-1]) == (8, 1.0, 64.0)


def test_every_kind_severity_and_status_of_alerts_is_counted_from_zero() -> None:
    service = FixedService(alerts=[alert("f1"), alert("f2"), alert("f3", status="resolved", severity="critical")])
    seen = {tuple(labels.values()): value for labels, value in scrape(service)["scalewatch_alerts"]}
    assert len(seen) == 18
    assert seen["anomaly", "warning", "firing"] == 2.0
    assert seen["anomaly", "critical", "resolved"] == 1.0
    assert sum(seen.values()) == 3.0


@given(st.text(), st.text())
def test_any_name_survives_the_text_format(application: str, input_: str) -> None:
    seen = scrape(FixedService([prediction(application, input=input_)]))
    labels, _ = seen["scalewatch_reliability"][0]
    assert (labels["application"], labels["input"]) == (application, input_)


def test_the_number_of_series_stays_below_the_bound() -> None:
    many: list[Prediction] = [prediction(f"app{index}") for index in range(50)]
    seen = scrape(FixedService(many), applications_max=10, sizes_max=4)
    per_application = [name for name in seen if name.startswith("scalewatch_pred") or name.endswith(("size", "ity"))]
    assert sum(len(seen[name]) for name in per_application) <= 10 * (3 * 4 + 8)


def test_coverage_is_shown_by_horizon_beside_the_whole() -> None:
    parts = (HorizonQuality("inside", 30, 0.02, 0.93), HorizonQuality("up_to_2x", 7, 0.2, 0.71))
    seen = scrape(FixedService([prediction(quality=Quality(37, 0.03, 0.91, 0.0, parts))]))
    by_horizon = {labels["horizon"]: value for labels, value in seen["scalewatch_prediction_horizon_coverage_ratio"]}
    assert by_horizon == {"inside": 0.93, "up_to_2x": 0.71}
    assert [value for _, value in seen["scalewatch_prediction_coverage_ratio"]] == [0.91]


def test_an_alert_that_fires_is_a_series_with_what_it_is_about() -> None:
    host = alert("f4", severity="critical", labels={"alertname": "HostAnomaly", "system": "exa", "host": "n1"})
    service = FixedService(alerts=[alert("f1"), host, alert("f2", status="resolved"), alert("f3", status="pending")])
    seen = [
        ({name: text for name, text in labels.items() if text}, value)
        for labels, value in scrape(service)["scalewatch_alert_firing"]
    ]
    kind = {"kind": "anomaly"}
    assert seen == [
        ({"alertname": "HostAnomaly", "severity": "critical", "system": "exa", "host": "n1", **kind}, 1.0),
        (alert().labels | {"severity": "warning", **kind}, 1.0),
    ]


def test_of_very_many_alerts_the_worst_have_series() -> None:
    many = [alert(str(n), severity="info", labels={"alertname": "FastSize", "n": str(n)}) for n in range(FIRING_MAX)]
    worst = alert("w", severity="critical", labels={"alertname": "RackAnomaly", "rack": "x1"})
    seen = scrape(FixedService(alerts=[*many, worst]))["scalewatch_alert_firing"]
    assert len(seen) == FIRING_MAX
    assert seen[0][0]["alertname"] == "RackAnomaly"


def test_coverage_comes_with_the_number_of_runs_that_it_rests_on() -> None:
    seen = scrape(FixedService([prediction(observations=41, quality=Quality(scored=37, coverage_90=0.9))]))
    assert {labels["use"]: value for labels, value in seen["scalewatch_prediction_runs"]} == {
        "learned": 41,
        "scored": 37,
    }
