"""Samples of Prometheus out of Kafka: hosts, what is no number, and the share of processors from the time they idled."""

import json

import pytest

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.telemetry import processor_time
from processors.contracts.names import rfc3339
from processors.contracts.telemetry import DecodedBatch, MetricMapping, SeriesIndex, Telemetry

TIME_MS = 1_795_168_800_000
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"))


def sample(name: str, value: str, time_ms: int = TIME_MS, **labels: str) -> bytes:
    given = {"__name__": name, "instance": "nid1:9100", **labels}
    return json.dumps({"labels": given, "name": name, "timestamp": rfc3339(time_ms), "value": value}).encode()


def idle(cpu: int, idle_s: float, after_s: int, **labels: str) -> bytes:
    return sample("node_cpu_seconds_total", str(idle_s), TIME_MS + 1000 * after_s, cpu=str(cpu), mode="idle", **labels)


class Decoder:
    """One decoder and what it told."""

    def __init__(self, options: TelemetryOptions = OPTIONS) -> None:
        self.index = SeriesIndex(100)
        self._decode = TELEMETRY["prometheus"](options)

    def batch(self, *values: bytes) -> DecodedBatch:
        return self._decode(values, [TIME_MS + 3_600_000] * len(values), self.index)

    def samples(self, *values: bytes) -> list[tuple[str, int, float]]:
        columns = self.batch(*values).samples
        return [
            ("/".join(self.index[number][1:]), (time_ms - TIME_MS) // 1000, value)
            for number, time_ms, value in zip(
                columns.series.tolist(), columns.time_ms.tolist(), columns.value.tolist(), strict=True
            )
        ]

    def refusals(self, *values: bytes) -> list[str]:
        return [error.reason for _, other in self.batch(*values).others for error in other.rejects]

    def ignored(self, *values: bytes) -> dict[str, int]:
        return next(other.ignored for _, other in self.batch(*values).others if other.ignored)


def test_the_share_of_a_scrape_is_the_mean_over_processors_and_comes_with_the_next_scrape() -> None:
    decoder = Decoder()
    assert decoder.samples(idle(0, 100, 0), idle(1, 700, 0), idle(0, 110, 10), idle(1, 705, 10)) == []
    assert decoder.samples(idle(0, 110, 20)) == [("nid1/cpu_available", 10, 0.75)]
    assert decoder.samples(idle(0, 110, 30)) == [("nid1/cpu_available", 20, 0.0)]  # the other did not come


def test_hosts_have_their_own_shares() -> None:
    values = [idle(0, 10.0 * at * factor, 10 * at, instance=f"n{factor}:9100") for at in range(3) for factor in (0, 1)]
    assert Decoder().samples(*values) == [("n0/cpu_available", 10, 0.0), ("n1/cpu_available", 10, 1.0)]


def test_what_comes_twice_too_late_after_a_reset_or_after_a_long_gap_makes_no_share() -> None:
    assert Decoder().samples(idle(0, 5, 0), idle(0, 5, 0), idle(0, 9, 10), idle(0, 9, 10), idle(0, 5, 0), idle(0, 9, 20)) == [
        ("nid1/cpu_available", 10, 0.4)
    ]  # fmt: skip
    assert Decoder().samples(idle(0, 900, 0), idle(0, 5, 10), idle(0, 15, 20), idle(0, 20, 30)) == [
        ("nid1/cpu_available", 20, 1.0)
    ]
    assert Decoder().samples(idle(0, 5, 0), idle(0, 700, 700), idle(0, 710, 710)) == []


def test_a_share_is_not_above_one_where_seconds_were_cut() -> None:
    assert Decoder().samples(idle(0, 0, 0), idle(0, 15, 14), idle(0, 29, 29)) == [("nid1/cpu_available", 14, 1.0)]


def test_a_time_in_the_future_is_refused_and_does_not_hold_up_the_host() -> None:
    decoder = Decoder()
    assert decoder.refusals(idle(0, 5, 10 * 86_400)) == ["future"]
    assert decoder.samples(idle(0, 5, 0), idle(0, 10, 10), idle(0, 10, 20)) == [("nid1/cpu_available", 10, 0.5)]


def test_a_clock_that_was_an_hour_ahead_and_is_set_back_begins_afresh() -> None:
    ahead = (idle(0, 5, 3600), idle(0, 10, 3610))
    assert Decoder().samples(*ahead, idle(0, 20, 0), idle(0, 25, 10), idle(0, 30, 20)) == [
        ("nid1/cpu_available", 10, 0.5)
    ]


def test_with_too_many_processors_all_begin_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_time, "HOSTS_MAX", 2)
    values = [idle(0, 10.0 * at, 10 * at, instance=f"n{host}") for at in range(3) for host in range(3)]
    assert Decoder().samples(*values) == []
    assert len(Decoder().samples(*[idle(0, 10.0 * at, 10 * at) for at in range(9)])) == 7


def test_what_is_no_number_is_counted_and_a_word_is_refused() -> None:
    values = [sample("node_load1", value) for value in ("NaN", "+Inf", "-Inf")]
    assert Decoder().ignored(*values) == {"null": 3}
    assert Decoder().refusals(*values) == []
    texts = ("busy", "", "1_0", "0x1p-2", " 1", "\u0661", "nan", "9" * 500)
    assert Decoder().refusals(*(sample("node_load1", text) for text in texts)) == ["wrong-type"] * len(texts)


def test_metrics_that_nobody_asked_for_are_counted_whatever_their_values() -> None:
    assert Decoder().ignored(sample("go_goroutines", "9"), sample("node_cpu_seconds_total", "9", mode="user")) == {
        "metric": 2
    }


@pytest.mark.parametrize(
    ("labels", "host"),
    [
        ({"instance": "nid7.hpc.example:9100"}, "nid7.hpc.example"),
        ({"instance": "nid7"}, "nid7"),
        ({"instance": "[fd00::7]:9100"}, "fd00::7"),
        ({"instance": "10.0.0.7:9400", "Hostname": "nid7"}, "nid7"),
        ({"instance": "10.0.0.7:28282", "node_name": "nid7"}, "nid7"),
    ],
)
def test_the_host_is_the_instance_without_its_port_or_what_an_exporter_names(labels: dict[str, str], host: str) -> None:
    assert Decoder().samples(sample("node_load1", "1.5", TIME_MS, **labels)) == [(f"{host}/load1", 0, 1.5)]


def test_a_sample_without_a_host_is_refused_or_of_the_one_that_is_given() -> None:
    nobody = json.loads(sample("node_load1", "1.5"))
    nobody["labels"] = {}
    assert Decoder().refusals(json.dumps(nobody).encode()) == ["missing-field"]
    given = TelemetryOptions(decode=OPTIONS.decode, host="nid9")
    assert Decoder(given).samples(json.dumps(nobody).encode()) == [("nid9/load1", 0, 1.5)]


def test_a_site_maps_metrics_of_its_own_and_may_take_processor_time_as_it_is() -> None:
    mapped = tuple(
        MetricMapping(measurement=name, field="value", resource=resource, instance=instance)
        for name, resource, instance in (
            ("room_celsius", "room_temperature", None),
            ("node_cpu_seconds_total", "cpu_seconds_total", "cpu"),
        )
    )
    site = TelemetryOptions(decode=OPTIONS.decode, taken=Telemetry(metrics=mapped))
    assert Decoder(site).samples(sample("room_celsius", "21.5"), idle(3, 77, 0))[:2] == [
        ("nid1/room_temperature", 0, 21.5), ("nid1/cpu_seconds_total>3", 0, 77.0),
    ]  # fmt: skip


def test_a_key_that_is_named_twice_is_refused() -> None:
    assert Decoder().refusals(sample("node_load1", "1").replace(b'"value"', b'"value": "2", "value"')) == [
        "duplicate-key"
    ]


def test_ports_of_infiniband_are_counters_of_adapters() -> None:
    counted = {"data_transmitted_bytes": "9e11", "packets_transmitted": "4e8", "transmit_wait": "1871"}
    values = [
        sample(f"node_infiniband_port_{name}_total", value, device="mlx5_0", port="1")
        for name, value in counted.items()
    ]
    assert sorted(Decoder().samples(*values)) == [
        ("nid1/nic_total>mlx5_0:xmit_bytes", 0, 9e11),
        ("nid1/nic_total>mlx5_0:xmit_packets", 0, 4e8),
        ("nid1/nic_total>mlx5_0:xmit_wait", 0, 1871.0),
    ]
