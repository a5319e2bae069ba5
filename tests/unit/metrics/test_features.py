"""What features of runs explain as metrics: errors, order, importances, their bounds, and nothing where nothing is known."""

from prometheus_client.parser import text_string_to_metric_families

from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import FeatureModel
from sinks.prometheus.predictions import FEATURES_MAX, NAME_MAX, PredictionCollector
from sinks.prometheus.registry import Metrics
from sinks.prometheus.table import FEATURE_KINDS, FEATURES
from tests.kit.messages import prediction
from tests.kit.service import FixedService

NOW_MS = parse_rfc3339("2026-11-20T11:00:00Z")
NAMES = {entry.name for entry in FEATURES}
HALO = FeatureModel(
    features="communication", model="H4", runs=80, weight=0.9, scored=60, error=0.02, curve_error=0.11,
    combined_error=0.019, coverage_90=0.92, ranked=60, rcc=0.94, rcc_symmetric=0.93, r_squared=0.97,
    importances={"max_bytes": 0.7, "avg_buffer_to": 0.3},
)  # fmt: skip


def scrape(*models: FeatureModel) -> dict[str, list[tuple[dict[str, str], float]]]:
    metrics = Metrics(formats=(), reasons=(), processors=())
    metrics.register(PredictionCollector(FixedService([prediction(features=models)]), lambda: NOW_MS))
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in families
        if family.name in NAMES
    }


def test_how_well_features_order_runs_and_what_matters_are_shown() -> None:
    seen = scrape(HALO)
    order = {labels["ties"]: value for labels, value in seen["scalewatch_feature_rank_correlation"]}
    assert order == {"first": 0.94, "half": 0.93}
    errors = {labels["of"]: value for labels, value in seen["scalewatch_feature_error_ratio"]}
    assert errors == {"features": 0.02, "curve": 0.11, "both": 0.019}
    assert [value for _, value in seen["scalewatch_feature_r_squared"]] == [0.97]
    shares = {labels["feature"]: value for labels, value in seen["scalewatch_feature_importance_ratio"]}
    assert shares == {"max_bytes": 0.7, "avg_buffer_to": 0.3}
    assert {labels["features"] for samples in seen.values() for labels, _ in samples} == {"communication"}


def test_a_model_that_no_run_has_checked_has_no_order_and_no_error() -> None:
    seen = scrape(FeatureModel(features="communication", model="H1", runs=12, weight=0.0, scored=0))
    assert {name for name, samples in seen.items() if samples} == {"scalewatch_feature_weight_ratio"}


def test_an_application_has_no_more_series_than_the_bound_whatever_its_features_are_called() -> None:
    hostile = {f"feature{i}": 0.01 for i in range(100)} | {"x" * (NAME_MAX + 1): 0.5}
    models = [
        FeatureModel(
            features=kind, model="law", runs=80, weight=0.9, scored=60, error=0.02, curve_error=0.11,
            combined_error=0.019, coverage_90=0.92, ranked=60, rcc=0.94, rcc_symmetric=0.93, r_squared=0.97,
            importances=hostile,
        )
        for kind in (*FEATURE_KINDS, "of_a_later_version", FEATURE_KINDS[0])
    ]  # fmt: skip
    seen = scrape(*models)
    assert sum(len(samples) for samples in seen.values()) == len(FEATURE_KINDS) * (8 + FEATURES_MAX)


def test_a_site_without_features_has_none_of_these_series() -> None:
    assert not any(scrape().values())
