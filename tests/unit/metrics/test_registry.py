import pytest
from prometheus_client.parser import text_string_to_metric_families

from sinks.prometheus.registry import HealthCollector, Metrics
from sinks.prometheus.table import (
    AGENT,
    CHECKPOINT_OUTCOMES,
    HOSTS,
    JOBS,
    METRICS,
    POWER,
    PREDICTIONS,
    SOURCES,
    UNDER_LOAD,
    rows,
)
from tests.kit.service import FixedService
from tests.kit.unaccounted import unaccounted


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(formats=("native", "slurm"), reasons=("empty", "too-large"), processors=("jobs", "run_time"))


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_series_with_closed_labels_is_there_from_the_start_at_zero(metrics: Metrics) -> None:
    seen = samples(metrics)
    for reason in ("empty", "too-large"):
        assert seen["scalewatch_dead_letters_total", (("reason", reason),)] == 0.0
    for outcome in CHECKPOINT_OUTCOMES:
        assert seen["scalewatch_checkpoints_total", (("outcome", outcome),)] == 0.0
    labels = (("format", "slurm"), ("outcome", "received"), ("role", "collector"))
    assert seen["scalewatch_events_total", labels] == 0.0
    assert seen["scalewatch_restores_total", ()] == 0.0


def test_every_declared_metric_is_exposed_with_its_kind_and_help(metrics: Metrics) -> None:
    families = {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}
    for entry in AGENT:
        family = families[entry.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (entry.kind, entry.help)


def test_no_counter_has_a_second_series_with_the_time_it_was_made(metrics: Metrics) -> None:
    assert b"_created" not in metrics.exposition()


def test_a_value_outside_its_closed_list_counts_as_other_and_makes_no_new_series(metrics: Metrics) -> None:
    for number in range(100):
        metrics.add("scalewatch_dead_letters_total", reason=f"reason {number}")
    assert metrics.value("scalewatch_dead_letters_total", reason="other") == 100.0
    assert sum(name == "scalewatch_dead_letters_total" for name, _ in samples(metrics)) == 3


def test_what_was_received_was_processed_rejected_dropped_or_is_in_work(metrics: Metrics) -> None:
    def event(outcome: str, count: int) -> None:
        metrics.add("scalewatch_events_total", count, role="collector", format="slurm", outcome=outcome)

    event("received", 10)
    event("processed", 6)
    event("repeated", 2)
    event("rejected", 1)
    assert unaccounted(metrics) == {("collector", "slurm"): 3.0}
    event("dropped", 3)
    assert unaccounted(metrics) == {}


def test_gauges_are_set_and_histograms_count(metrics: Metrics) -> None:
    metrics.set("scalewatch_state_records", 7, processor="jobs")
    metrics.observe("scalewatch_fit_duration_seconds", 0.0015)
    metrics.observe("scalewatch_batch_duration_seconds", 0.3, role="learner")
    assert metrics.value("scalewatch_state_records", processor="jobs") == 7.0
    assert metrics.value("scalewatch_fit_duration_seconds") == 1.0
    assert metrics.value("scalewatch_batch_duration_seconds", role="learner") == 1.0
    assert samples(metrics)["scalewatch_fit_duration_seconds_bucket", (("le", "0.002"),)] == 1.0


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("scalewatch_unheard_of_total", {}),
        ("scalewatch_dead_letters_total", {}),
        ("scalewatch_dead_letters_total", {"reason": "empty", "topic": "raw"}),
        ("scalewatch_dead_letters_total", {"topic": "raw"}),
        ("scalewatch_state_records", {"processor": "jobs"}),
    ],
)
def test_what_the_table_does_not_declare_cannot_be_counted(metrics: Metrics, name: str, labels: dict[str, str]) -> None:
    with pytest.raises(KeyError):
        metrics.add(name, 1, **labels)


def test_two_agents_in_one_process_do_not_share_counts(metrics: Metrics) -> None:
    metrics.add("scalewatch_restores_total")
    other = Metrics(formats=(), reasons=(), processors=())
    assert (metrics.value("scalewatch_restores_total"), other.value("scalewatch_restores_total")) == (1.0, 0.0)


def test_names_follow_the_practice_of_prometheus() -> None:
    for entry in METRICS:
        assert entry.name.startswith("scalewatch_")
        assert entry.name.endswith("_total") == (entry.kind == "counter")
        assert entry.kind != "histogram" or entry.name.endswith("_seconds")
        assert entry.help.endswith(".")
    assert len({entry.name for entry in METRICS}) == len(METRICS) == len(rows())


def test_only_bounded_collectors_have_labels_with_names_of_users() -> None:
    for entry in METRICS:
        is_open = any(not label.values and label.given_as is None for label in entry.labels)
        assert not is_open or entry in (*SOURCES, *JOBS, *PREDICTIONS, *UNDER_LOAD, *POWER, *HOSTS)


def test_readiness_lag_and_checkpoint_age_come_from_the_service_at_each_scrape(metrics: Metrics) -> None:
    service = FixedService()
    metrics.register(HealthCollector(service))
    role = (("role", "learner"),)
    seen = samples(metrics)
    assert seen["scalewatch_ready", role] == 1.0
    assert seen["scalewatch_event_time_lag_seconds", role] == 1.5
    assert seen["scalewatch_checkpoint_age_seconds", role] == 4.0
    assert seen["scalewatch_role_restarts_total", role] == 0.0
    service.held_health.clear()
    assert ("scalewatch_ready", role) not in samples(metrics)
