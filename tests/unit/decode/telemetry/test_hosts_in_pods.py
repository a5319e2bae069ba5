"""Hosts behind Kubernetes: labels of the node go before those of a pod or an address, in every format that has labels."""

import json
from collections.abc import Callable

import pytest

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, HostsReported, TelemetryOptions
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import SeriesIndex, Telemetry

TIME_S = 1_795_168_800
PLAIN = TelemetryOptions(decode=DecodeOptions(default_system="exa"))
LISTED = TelemetryOptions(decode=PLAIN.decode, nodes=Nodes([Node("n3"), Node("n4", aliases=("10.4.1.4",))]))


def prometheus(labels: dict[str, str]) -> bytes:
    message = {"name": "node_load1", "value": "1", "timestamp": "2026-11-20T10:00:00Z", "labels": labels}
    return json.dumps(message).encode()


def telegraf(labels: dict[str, str]) -> bytes:
    return json.dumps({"name": "system", "tags": labels, "fields": {"load1": 1}, "timestamp": TIME_S}).encode()


def line(labels: dict[str, str]) -> bytes:
    return f"system,{','.join(f'{name}={text}' for name, text in labels.items())} load1=1 {TIME_S}".encode()


def attributes(labels: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": name, "value": {"stringValue": text}} for name, text in labels.items()]


def otlp(labels: dict[str, str], of_point: dict[str, str] | None = None) -> bytes:
    point = {"timeUnixNano": str(TIME_S * 10**9), "asDouble": 1.0, "attributes": attributes(of_point or {})}
    metric = {"name": "system.cpu.load_average.1m", "gauge": {"dataPoints": [point]}}
    resource = {"resource": {"attributes": attributes(labels)}, "scopeMetrics": [{"metrics": [metric]}]}
    return json.dumps({"resourceMetrics": [resource]}).encode()


def host(format_name: str, message: bytes, options: TelemetryOptions = PLAIN) -> str | None:
    index = SeriesIndex(9)
    TELEMETRY[format_name](options)([message], [TIME_S * 1000], index)
    return index[0].host if len(index) else None


POD = {"instance": "10.4.1.8:9100", "Hostname": "exporter-7xyz", "host": "telegraf-abc12", "host.name": "collector-5d"}


@pytest.mark.parametrize(
    ("format_name", "message"),
    [("prometheus", prometheus), ("telegraf", telegraf), ("line-protocol", line), ("otlp", otlp)],
)
@pytest.mark.parametrize(
    "label", ["node", "nodename", "kubernetes_node", "node_name", "exported_node", "exported_instance", "exported_host"]
)
def test_the_label_of_the_node_goes_before_pod_and_address(
    format_name: str, message: Callable[[dict[str, str]], bytes], label: str
) -> None:
    assert host(format_name, message({**POD, label: "n3"})) == "n3"


def test_the_node_in_kubernetes_goes_before_the_host_of_a_collector_in_otlp() -> None:
    assert host("otlp", otlp({"host.name": "collector-5d", "k8s.node.name": "n3"})) == "n3"
    assert host("otlp", otlp({"server.address": "10.4.1.8"}, {"node": "n3"})) == "n3"
    assert host("otlp", otlp({"host.name": "nid1"}, {"device": "eth0"})) == "nid1"


def test_a_listed_host_goes_before_all_others_and_a_name_before_an_address() -> None:
    assert host("prometheus", prometheus({"node": "pool-a", "Hostname": "pod", "instance": "n4:9100"}), LISTED) == "n4"
    assert host("prometheus", prometheus({"instance": "10.4.1.4:9100"}), LISTED) == "n4"
    assert host("prometheus", prometheus({"node": "0", "instance": "n3:9100"})) == "n3"  # of a processor's memory
    assert host("prometheus", prometheus({"node": "10.0.0.7", "instance": "n3:9100"})) == "n3"
    assert host("prometheus", prometheus({"instance": "10.4.1.8:9100"})) == "10.4.1.8"


def test_the_labels_can_be_configured() -> None:
    options = TelemetryOptions(decode=PLAIN.decode, taken=Telemetry(host_labels=("machine", "instance")))
    assert host("prometheus", prometheus({"machine": "n3", "node": "x", "instance": "y"}), options) == "n3"
    assert host("prometheus", prometheus({"exported_machine": "n4", "machine": "n3"}), options) == "n4"


def test_addresses_are_not_cut_at_the_domain() -> None:
    options = TelemetryOptions(decode=PLAIN.decode, taken=Telemetry(short_hosts=True))
    assert host("prometheus", prometheus({"instance": "10.4.1.8:9100"}), options) == "10.4.1.8"
    assert host("prometheus", prometheus({"instance": "n3.example.org:9100"}), options) == "n3"


@pytest.mark.parametrize("listed", [True, False])
def test_a_pod_or_an_address_is_reported_once(listed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    reported: list[str] = []
    options = TelemetryOptions(
        decode=PLAIN.decode, nodes=(LISTED if listed else PLAIN).nodes, missed=HostsReported(reported.append)
    )
    decode, index = TELEMETRY["prometheus"](options), SeriesIndex(99)
    messages = [
        prometheus({"instance": name, "job": str(job)}) for name in ("10.4.1.8:9100", "pod-7", "n3") for job in range(3)
    ]
    for _ in range(2):
        decode(messages, [TIME_S * 1000] * len(messages), index)
    assert reported == (["10.4.1.8", "pod-7"] if listed else ["10.4.1.8"])
