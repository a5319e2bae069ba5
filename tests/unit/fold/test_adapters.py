"""What adapters of a run's hosts counted, as features of its communication: from their names to the record of a model."""

import numpy as np
import pytest

from processors.contracts.events import JobProfile
from processors.contracts.hosts import Profile
from processors.models.features.communication import counted_features
from processors.pipeline.features import Features
from tests.kit.scenario import Scenario

KEY = "exa/halo//nodes"
RUNS = 60


def test_slingshot_and_infiniband_report_the_same_of_the_same_traffic() -> None:
    slingshot = {
        "hni_sts_tx_ok_octets": 4e9, "hni_pkts_sent_by_tc_0": 9e5, "hni_pkts_sent_by_tc_1": 1e5,
        "hni_tx_paused_0": 4e5, "hni_tx_paused_1": 1e5, "hni_rx_paused_0": 7e5, "ixe_rx_tcp_pkt": 3.0,
    }  # fmt: skip
    infiniband = {"xmit_data": 1e9, "xmit_packets": 1e6, "xmit_wait": 5e5, "rcv_data": 2e9}
    expected = {"nic_bytes": 4e11, "nic_packets": 1e8, "nic_delay": 0.5}
    assert counted_features(slingshot, 100.0) == pytest.approx(expected)
    exported = infiniband | {"xmit_bytes": 4e9}
    del exported["xmit_data"]
    assert counted_features(infiniband, 100.0) == pytest.approx(expected)
    assert counted_features(exported, 100.0) == pytest.approx(expected)


def test_what_is_not_counted_is_no_feature() -> None:
    assert counted_features({"ixe_rx_ptl_msgs": 5.0}, 100.0) == {}
    assert counted_features({"xmit_data": 1.0, "xmit_wait": 3.0}, 10.0) == {"nic_bytes": 40.0}
    assert counted_features({"xmit_packets": 0.0, "xmit_wait": 3.0}, 10.0)["nic_delay"] == 0.0


def test_the_busiest_adapter_is_a_feature_of_its_own() -> None:
    busiest = {"bytes": 3e9, "waits": 2000.0, "of_a_later_version": 1.0}
    assert counted_features({}, 100.0, busiest) == {"nic_busiest_bytes": 3e11, "nic_busiest_waits": 2e5}


def test_a_run_time_that_follows_the_busiest_adapter_and_not_the_mean_is_explained_by_it() -> None:
    centre = Scenario().at("00:00")
    for number in range(RUNS):
        rng = np.random.default_rng(number)
        mean_gb, busiest_gb = rng.uniform(50, 200), rng.uniform(200, 800)
        time_s = 60.0 + 0.2 * busiest_gb
        centre.at_ms(centre.now_ms + 900_000)
        event = centre.ran(f"j{number}", "halo", 16, time_s)
        nic, busiest = {"xmit_data": mean_gb * 1e9 / 4 / time_s}, {"bytes": busiest_gb * 1e9 / time_s, "waits": 1e3}
        profile = Profile(hosts=16, minutes=100, expected=100, nic=nic, nic_busiest=busiest)
        centre.fold(JobProfile("exa", f"j{number}", event.run_id, profile))
    centre.at_ms(centre.now_ms + 3_600_000)
    (adapters,) = (each for each in centre.topic("predictions")[KEY]["features"] if each["features"] == "adapters")
    assert adapters["model"] in {"busiest", "busiest_bytes"}
    assert adapters["error"] < 0.2 * adapters["curve_error"]
    assert max(adapters["importances"], key=adapters["importances"].get) == "nic_busiest_bytes"


def run_of(centre: Scenario, number: int, *, coverage: float = 1.0) -> None:
    """A run whose time is 60 s, and half a second for each GB a host sent, times how long its packets waited."""
    rng = np.random.default_rng(number)
    sent_gb, delay = rng.uniform(50, 200), rng.uniform(0.0, 2.0)
    time_s = 60.0 + 0.5 * sent_gb + 40.0 * delay
    nic = {"xmit_data": sent_gb * 1e9 / 4 / time_s, "xmit_packets": 1e6, "xmit_wait": 1e6 * delay}
    centre.at_ms(centre.now_ms + 900_000)
    event = centre.ran(f"j{number}", "halo", 16, time_s)
    profile = Profile(hosts=16, minutes=round(100 * coverage), expected=100, nic=nic)
    centre.fold(JobProfile("exa", f"j{number}", event.run_id, profile))


def test_a_run_time_that_follows_what_adapters_counted_is_explained_by_it() -> None:
    centre = Scenario().at("00:00")
    for number in range(RUNS):
        run_of(centre, number)
    centre.at_ms(centre.now_ms + 3_600_000)
    reported = {each["features"]: each for each in centre.topic("predictions")[KEY]["features"]}
    adapters = reported["adapters"]
    assert adapters["model"] == "bytes_and_delay"
    assert adapters["rcc_symmetric"] > 0.95
    assert adapters["r_squared"] > 0.9
    assert adapters["error"] < 0.3 * adapters["curve_error"]
    assert set(adapters["importances"]) == {"nic_bytes", "nic_delay"}
    assert "communication" not in reported


def test_runs_of_which_too_little_was_seen_are_not_learned_from() -> None:
    centre = Scenario().at("00:00")
    for number in range(20):
        run_of(centre, number, coverage=0.5)
    centre.at_ms(centre.now_ms + 3_600_000)
    assert Features(centre.shard.state).model(KEY) is None
