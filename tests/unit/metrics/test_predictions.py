from collections.abc import Sequence
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from processors.contracts.names import Horizon, parse_rfc3339
from processors.contracts.outputs import (
    Envelope,
    HorizonError,
    HorizonQuality,
    Member,
    Model,
    Prediction,
    Quality,
    ScalabilityStudy,
    UsefulSizes,
)
from sinks.prometheus.predictions import FIRING_MAX, PredictionCollector
from sinks.prometheus.registry import Metrics
from tests.kit.messages import alert, curve_point, prediction
from tests.kit.service import FixedService

NOW_MS = parse_rfc3339("2026-11-20T11:00:00Z")


def scrape(
    service: FixedService, *, members: bool = True, **bounds: int
) -> dict[str, list[tuple[dict[str, str], float]]]:
    metrics = Metrics(formats=(), reasons=(), processors=())
    metrics.register(PredictionCollector(service, lambda: NOW_MS, **bounds, members=members))
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


def members(count: int = 2, horizons: Sequence[Horizon] = ("inside", "up_to_2x")) -> Model:
    errors = tuple(HorizonError(horizon, 5, 0.125) for horizon in horizons)
    members = (Member(f"law{i}", 0.5, {}, "reference" if i else "part", errors=errors) for i in range(count))
    return Model("combination", tuple(members), errors[:1])


def test_coverage_is_shown_by_horizon_beside_the_whole() -> None:
    parts = (HorizonQuality("inside", 30, 0.02, 0.93), HorizonQuality("up_to_2x", 7, 0.2, 0.71))
    seen = scrape(FixedService([prediction(quality=Quality(37, 0.03, 0.91, 0.0, parts))]))
    by_horizon = {labels["horizon"]: value for labels, value in seen["scalewatch_prediction_horizon_coverage_ratio"]}
    assert by_horizon == {"inside": 0.93, "up_to_2x": 0.71}
    assert [value for _, value in seen["scalewatch_prediction_coverage_ratio"]] == [0.91]


def fallen(horizons: Sequence[Horizon]) -> Quality:
    parts = (HorizonQuality(horizon, 30, 0.02, 0.9, (0.1,) * 9 + (0.2,), 0.01, 0.03) for horizon in horizons)
    return Quality(60, 0.03, 0.91, 0.0, tuple(parts))


def test_where_runs_fell_is_shown_by_horizon_with_the_losses_of_the_ends() -> None:
    seen = scrape(FixedService([prediction(quality=fallen(["inside", "beyond_4x"]))]))
    tenths = {(labels["horizon"], labels["tenth"]): value for labels, value in seen["scalewatch_prediction_pit_ratio"]}
    assert len(tenths) == 20
    assert (tenths["inside", "1"], tenths["beyond_4x", "10"]) == (0.1, 0.2)
    losses = {
        (labels["horizon"], labels["end"]): value for labels, value in seen["scalewatch_prediction_pinball_ratio"]
    }
    assert losses == {
        ("inside", "low"): 0.01, ("inside", "high"): 0.03, ("beyond_4x", "low"): 0.01, ("beyond_4x", "high"): 0.03,
    }  # fmt: skip


def test_where_runs_fell_is_not_shown_before_it_is_known() -> None:
    parts = (HorizonQuality("inside", 3, 0.02, 0.93),)
    seen = scrape(FixedService([prediction(quality=Quality(3, 0.03, 0.91, 0.0, parts))]))
    assert seen["scalewatch_prediction_pit_ratio"] == seen["scalewatch_prediction_pinball_ratio"] == []


def test_the_series_of_where_runs_fell_stay_below_their_bound() -> None:
    every = get_args(Horizon)
    service = FixedService([prediction(f"app{i}", quality=fallen(every)) for i in range(5)])
    seen = scrape(service, detailed_max=3)
    names = ("scalewatch_prediction_pit_ratio", "scalewatch_prediction_pinball_ratio")
    assert sum(len(seen[name]) for name in names) == 3 * 48


def test_laws_are_shown_with_their_errors_and_those_of_the_prediction_with_their_weight() -> None:
    seen = scrape(FixedService([prediction(model=members())]))
    assert [(labels["member"], value) for labels, value in seen["scalewatch_member_weight"]] == [("law0", 0.5)]
    errors = {(labels["member"], labels["horizon"]): value for labels, value in seen["scalewatch_member_error_ratio"]}
    assert errors == {
        ("law0", "inside"): 0.125, ("law0", "up_to_2x"): 0.125, ("law1", "inside"): 0.125, ("law1", "up_to_2x"): 0.125,
        ("published", "inside"): 0.125,
    }  # fmt: skip


def test_the_largest_step_of_metric_r_is_shown_where_a_study_has_one() -> None:
    bounds = Envelope(
        t1_low_s=95.0, t1_high_s=105.0, parallelism_low=7.0, parallelism_high=40.0, serial_share_high=0.02
    )
    studies = [ScalabilityStudy(fluctuation=(), fluctuation_ratio_max=ratio, envelope=bounds) for ratio in (2.2, None)]
    known = [prediction(f"app{i}", model=Model("adept", (), study=study)) for i, study in enumerate((*studies, None))]
    seen = scrape(FixedService(known))["scalewatch_fluctuation_ratio_max"]
    assert [(labels["application"], value) for labels, value in seen] == [("app0", 2.2)]


def test_laws_are_shown_of_the_applications_with_the_most_runs_alone() -> None:
    service = FixedService([prediction(f"app{i}", observations=10 * i, model=members()) for i in range(4)])
    unasked = scrape(service, members=False)
    assert not [name for name in unasked if name.startswith("scalewatch_member_") and unasked[name]]
    seen = scrape(service, detailed_max=2)
    assert {labels["application"] for labels, _ in seen["scalewatch_member_weight"]} == {"app2", "app3"}
    assert {labels["application"] for labels, _ in seen["scalewatch_member_error_ratio"]} == {"app2", "app3"}
    assert applications(seen) == {f"app{i}" for i in range(4)}


def test_the_series_of_laws_stay_below_their_bound() -> None:
    whole = members(count=40, horizons=get_args(Horizon))
    whole = Model(
        whole.name, tuple(Member(m.name, 0.1, {}, "part", errors=m.errors) for m in whole.members), whole.errors
    )
    seen = scrape(FixedService([prediction(f"app{i}", model=whole) for i in range(5)]), detailed_max=3)
    assert len(seen["scalewatch_member_weight"]) + len(seen["scalewatch_member_error_ratio"]) <= 3 * 84


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
