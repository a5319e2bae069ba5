"""Windows of hosts for Prometheus: what is there, what leaves, and that bounds hold whatever is sent."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from processors.contracts.hosts import HostView, quantile
from sinks.prometheus.registry import RESOURCES_MAX, HostCollector, Metrics
from tests.kit.messages import host_view, host_window, resource_view
from tests.kit.service import FixedService

Series = dict[str, list[tuple[dict[str, str], float]]]
LIVE_MS = host_window().until_ms


def scrape(hosts: list[HostView], hosts_max: int = 10) -> Series:
    metrics = Metrics(formats=(), reasons=(), processors=())
    metrics.register(HostCollector(FixedService(hosts=hosts), hosts_max))
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in families
        if family.name.startswith("scalewatch_host")
    }


def hosts_of(seen: Series) -> set[str]:
    return {labels["host"] for labels, _ in seen["scalewatch_host_window"]}


def test_a_window_shows_its_mean_its_ends_and_three_quantiles_of_its_histogram() -> None:
    seen = scrape([host_view()])
    stats = {labels["stat"]: round(value, 9) for labels, value in seen["scalewatch_host_window"]}
    assert stats == {"mean": 0.8, "low": 0.5, "high": 1.0, "q05": 0.55, "q50": 0.825, "q95": 0.975}
    names = {"system": "archer2", "host": "nid001000", "resource": "cpu_available"}
    assert seen["scalewatch_host_window_samples"] == [(names, 30.0)]
    assert seen["scalewatch_host_forecast"] == [(names, 0.83)]
    tails = {labels["level"]: value for labels, value in seen["scalewatch_host_forecast_level"]}
    assert tails == {"0.05": 0.79, "0.5": 0.83, "0.95": 0.86}
    assert seen["scalewatch_host_anomaly_score"] == [(names, 0.25), (names | {"resource": "*"}, 0.1)]


def test_samples_that_are_all_alike_have_one_quantile() -> None:
    assert quantile(host_window(edges=(0.7,), shares=(1.0,)), 0.05) == 0.7
    assert quantile(host_window(edges=(), shares=()), 0.5) is None


def test_nothing_is_asked_and_nothing_shown_unless_it_is_wanted() -> None:
    seen = scrape([host_view()], hosts_max=0)
    assert {name: values for name, values in seen.items() if values} == {
        "scalewatch_hosts_shown": [({}, 0.0)],
        "scalewatch_hosts_left_out": [({}, 0.0)],
    }


def test_hosts_above_the_bound_are_left_out_and_that_is_reported() -> None:
    seen = scrape([host_view(f"nid{number}") for number in range(5)], hosts_max=3)
    assert hosts_of(seen) == {"nid0", "nid1", "nid2"}
    assert seen["scalewatch_hosts_shown"] == [({}, 3.0)]
    assert seen["scalewatch_hosts_left_out"] == [({}, 1.0)]


def test_a_host_whose_window_is_stale_or_too_old_leaves() -> None:
    stale = host_view("stale", resources=(resource_view(window=host_window(stale=True)),))
    old = host_view("old", resources=(resource_view(window=host_window(until_ms=LIVE_MS - 300_000)),))
    seen = scrape([stale, old, host_view("alive")])
    assert hosts_of(seen) == {"alive"}
    assert {labels["host"] for labels, _ in seen["scalewatch_host_anomaly_score"]} == {"alive"}


names = st.text(max_size=200)


@given(
    st.lists(st.tuples(names, st.lists(names, max_size=40, unique=True)), max_size=12, unique_by=lambda host: host[0]),
    st.integers(0, 6),
)
def test_whatever_hosts_are_named_and_however_many_there_are_the_series_are_bounded(
    reported: list[tuple[str, list[str]]], hosts_max: int
) -> None:
    hosts = [host_view(name, resources=tuple(resource_view(resource) for resource in of)) for name, of in reported]
    seen = scrape(hosts, hosts_max)
    series = sum(len(values) for name, values in seen.items() if not name.startswith("scalewatch_hosts"))
    assert series <= hosts_max * (14 * RESOURCES_MAX + 1)
