"""Metrics of power and energy: values, bounds, and no series if nothing is known."""

from prometheus_client.parser import text_string_to_metric_families

from processors.contracts.names import parse_rfc3339
from sinks.prometheus.registry import DETAILED_MAX, Metrics, PredictionCollector
from sinks.prometheus.table import POWER
from tests.kit.messages import power_fields, powered_curve, prediction
from tests.kit.service import FixedService

NOW_MS = parse_rfc3339("2026-11-20T11:00:00Z")
NAMES = {entry.name for entry in POWER}


def scrape(service: FixedService, detailed_max: int = DETAILED_MAX) -> dict[str, list[tuple[dict[str, str], float]]]:
    metrics = Metrics(formats=(), reasons=(), processors=())
    metrics.register(PredictionCollector(service, lambda: NOW_MS, detailed_max=detailed_max))
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in families
        if family.name in NAMES
    }


def test_power_and_energy_are_shown_as_three_quantiles_at_each_size() -> None:
    seen = scrape(FixedService([prediction(**power_fields())]))
    point = powered_curve()[6]
    for name, ends in (
        ("scalewatch_predicted_power_watts", (point.power_low_w, point.power_w, point.power_high_w)),
        ("scalewatch_predicted_energy_joules", (point.energy_low_j, point.energy_j, point.energy_high_j)),
    ):
        shown = {labels["level"]: value for labels, value in seen[name] if labels["n"] == "64"}
        assert shown == dict(zip(("0.05", "0.5", "0.95"), ends, strict=True))


def test_how_good_it_was_and_what_was_measured_are_shown() -> None:
    seen = scrape(FixedService([prediction(**power_fields())]))
    assert [value for _, value in seen["scalewatch_power_error_ratio"]] == [0.021]
    assert [value for _, value in seen["scalewatch_power_coverage_ratio"]] == [0.93]
    shares = {labels["source"]: value for labels, value in seen["scalewatch_power_source_ratio"]}
    assert shares == {"measured": 0.75, "estimated": 0.25}


def test_a_site_without_power_has_none_of_these_series() -> None:
    assert not any(scrape(FixedService([prediction()])).values())


def test_applications_beyond_the_bound_have_none() -> None:
    seen = scrape(FixedService([prediction(f"app{i}", **power_fields()) for i in range(3)]), detailed_max=2)
    assert {labels["application"] for labels, _ in seen["scalewatch_predicted_power_watts"]} == {"app1", "app2"}
