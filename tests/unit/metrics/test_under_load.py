"""Run times under load as metrics: the figures, what they were worth, and nothing where nothing is told."""

from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from processors.contracts.load import LoadHistogram, LoadQuality, UnderLoad
from processors.contracts.names import parse_rfc3339
from sinks.prometheus.registry import DETAILED_MAX, Metrics, PredictionCollector
from tests.kit.messages import prediction
from tests.kit.service import FixedService

NOW_MS = parse_rfc3339("2026-11-20T11:00:00Z")


def under_load(**changes: Any) -> UnderLoad:
    """Return a run time under load: hosts that are half busy, of an application that has been scored."""
    quality = LoadQuality(
        of="application",
        scored=37,
        in_range=0.97,
        hits=(0.1, 0.2, 0.4, 0.2, 0.07),
        expected=(0.1, 0.25, 0.35, 0.2, 0.1),
        crps_ratio=0.8,
        pit=(0.1,) * 10,
    )
    values: dict[str, Any] = {
        "as_of": "2026-11-20T10:00:00Z",
        "hosts": "partition standard",
        "hosts_count": 64.0,
        "n": 64.0,
        "looked_at": 64,
        "histogram": LoadHistogram((40.0, 44.0, 48.0, 52.0, 56.0, 60.0), (0.1, 0.25, 0.35, 0.2, 0.1)),
        "mean_s": 49.5,
        "q05_s": 42.0,
        "q50_s": 50.0,
        "q95_s": 58.0,
        "variation": "medium",
        "load": 2.0,
        "baseline_load": 1.25,
        "quality": quality,
        "better": True,
    }
    return UnderLoad(**(values | changes))


def scrape(service: FixedService, detailed_max: int = DETAILED_MAX) -> dict[str, list[tuple[dict[str, str], float]]]:
    metrics = Metrics(formats=(), reasons=(), processors=())
    metrics.register(PredictionCollector(service, lambda: NOW_MS, detailed_max=detailed_max))
    families = text_string_to_metric_families(metrics.exposition().decode())
    found = {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in families}
    return {name.removeprefix("scalewatch_under_load_"): found[name] for name in found if "under_load" in name}


def test_the_run_time_the_load_and_the_usual_load_are_shown() -> None:
    seen = scrape(FixedService([prediction(under_load=under_load())]))
    assert {labels["level"]: value for labels, value in seen["run_time_seconds"]} == {
        "0.05": 42.0, "0.5": 50.0, "0.95": 58.0,
    }  # fmt: skip
    assert {labels["moment"]: value for labels, value in seen["factor"]} == {"now": 2.0, "usual": 1.25}


def test_the_share_of_runs_in_the_range_is_the_only_figure_of_quality() -> None:
    seen = scrape(FixedService([prediction(under_load=under_load(monte_carlo_gap=0.02))]))
    assert [value for _, value in seen["in_range_ratio"]] == [0.97]
    assert sum(map(len, seen.values())) == 6, "3 quantiles, 2 loads, 1 of their quality"


def test_the_centres_quality_is_not_taken_for_an_applications_own() -> None:
    published = under_load()
    assert published.quality is not None
    seen = scrape(FixedService([prediction(under_load=msgspec.structs.replace(published, quality=None))]))
    assert seen["in_range_ratio"] == []
    borrowed = msgspec.structs.replace(published.quality, of="centre")
    seen = scrape(FixedService([prediction(under_load=under_load(quality=borrowed))]))
    assert seen["in_range_ratio"] == []


def test_without_a_run_time_under_load_there_is_no_series() -> None:
    seen = scrape(FixedService([prediction()]))
    assert sum(map(len, seen.values())) == 0


def test_only_the_applications_with_the_most_runs_are_shown() -> None:
    entries = [prediction(f"app{i}", observations=10 * i, under_load=under_load()) for i in range(4)]
    seen = scrape(FixedService(entries), detailed_max=2)
    assert {labels["application"] for labels, _ in seen["in_range_ratio"]} == {"app2", "app3"}
