"""Counters, powers and network counters as producers write them (values are illustrative), and what they become."""

import json
from typing import Any

import pytest

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from processors.contracts.telemetry import TAKEN, MetricMapping, SeriesIndex, Telemetry
from tests.kit.cases import each

RECEIVED_MS = 1_787_217_300_000
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"), hosts={1042: "nid001042"})
HEAD = {"timestamp": 1787217284.001733, "component_id": 1042, "job_id": 8421337, "app_id": 0}
PAPI = {
    "job_state": 2, "job_start": 1787217164, "job_end": 0, "task_count": 2, "task_pids": [118101, 118102],
    "task_ranks": [0, 1], "PAPI_TOT_INS": [918234455123, 917999123412], "PAPI_L1_DCM": [1283123, 1299812],
}  # fmt: skip
SYSPAPI = {"PAPI_TOT_INS": [18234455123, 17999123412, 18001239812], "PAPI_TOT_CYC": [12001239811, 12000812390, 1]}
VARIORUM = {
    "power.node_watts": 712, "power.socket_ID": 0, "power.cpu_watts": 221.5, "power.gpu_watts": -1,
    "power.mem_watts": 31.25,
}  # fmt: skip
NIC = {"nics.name": "cxi0", "nics.ixe_rx_tcp_pkt": 812391, "nics.ixe_rx_ptl_msgs": 99123812}
CPU_ROW = {"cpu_list.name": "cpu0", "cpu_list.user": 901234, "cpu_list.idle": 8123991, "ctxt": 88123912}
PMU = {
    "fields": {"enabled": 2871237051, "raw": 1171711, "running": 2871237051, "scaled": 1171712}, "name": "pmu_metric",
    "tags": {"cpu": "0", "event": "CPU_CLK_THREAD_UNHALTED.REF_XCLK", "events_tag": "unhalted", "host": "nid001042"},
    "timestamp": 1787217284,
}  # fmt: skip
POWERSTAT = "powerstat_package,host=nid001042,package_id=0 current_power_consumption_watts=35,thermal_design_power_watts=160 1606494744000000000"
TURBOSTAT = (
    "turbostat,core=-,cpu=-,die=-,package=-,host=nid001042 ipc=1.01,package_power=87 1787217284000000000\n"
    "turbostat,core=0,cpu=0,die=0,package=0,host=nid001042 ipc=1.01,package_power=87 1787217284000000000"
)
INFINIBAND = (
    "infiniband,device=mlx5_0,host=nid001042,port=1 VL15_dropped=0i,port_xmit_data=85450192i,port_xmit_packets=423015i,"
    "port_xmit_wait=1871i,symbol_error=0i 1787217284000000000"
)
COLLECTD = {
    "values": [84.5], "dstypes": ["gauge"], "dsnames": ["value"], "time": 1787217284.001, "interval": 10.0,
    "host": "nid001042", "plugin": "turbostat", "plugin_instance": "pkg00", "type": "power", "type_instance": "",
}  # fmt: skip


def row(*parts: dict[str, Any], **more: Any) -> bytes:
    whole = HEAD.copy()
    for part in (*parts, more):
        whole |= part
    return json.dumps(whole, separators=(",", ":")).encode()


def predicted(
    format_name: str, *values: bytes | str, options: TelemetryOptions = OPTIONS
) -> tuple[dict[str, float], dict[str, int]]:
    """Decode twice, as the first record of a kind takes another way; return values by resource, and what was left out."""
    index, decode = SeriesIndex(2_000), TELEMETRY[format_name](options)
    raw = [value.encode() if isinstance(value, str) else value for value in values]
    for _ in range(2):
        batch = decode(raw, [RECEIVED_MS] * len(raw), index)
        assert all(not other.rejects for _, other in batch.others)
    numbers, found = batch.samples.series.tolist(), batch.samples.value.tolist()
    resources = {index[number].resource: value for number, value in zip(numbers, found, strict=True)}
    assert {index[number].host for number in numbers} <= {"nid001042"}
    return resources, {what: count for _, other in batch.others for what, count in other.ignored.items()}


@each(
    ("value", "expected"),
    [
        (
            row(PAPI),
            {"counter_total>PAPI_TOT_INS#8421337": 1836233578535.0, "counter_total>PAPI_L1_DCM#8421337": 2582935.0},
        ),
        (row(PAPI, job_id=0), {}),
        (row(SYSPAPI), {"counter_delta>PAPI_TOT_INS": 54234818347.0, "counter_delta>PAPI_TOT_CYC": 24002052202.0}),
        (row(VARIORUM), {"power_w>system": 712.0, "power_w>cpu:0": 221.5, "power_w>memory:0": 31.25}),
        (row(VARIORUM, {"power.socket_ID": 1}), {"power_w>cpu:1": 221.5, "power_w>memory:1": 31.25}),
        (row(energy=812391234, power=473), {"energy_total>system": 812391234.0, "power_w>system": 473.0}),
        (row(power=473), {}),
        (row({"energy(J)": 812391234, "power(W)": 473}), {"energy_total>system": 812391234.0, "power_w>system": 473.0}),
        (
            row({"rapl:::PACKAGE_ENERGY:PACKAGE0": 5_000_000_000, "rapl:::DRAM_ENERGY:PACKAGE1": 1_000_000_000}),
            {"energy_total>cpu:0": 5.0, "energy_total>memory:1": 1.0},
        ),
        (row(NIC), {"nic_total>cxi0:ixe_rx_tcp_pkt": 812391.0, "nic_total>cxi0:ixe_rx_ptl_msgs": 99123812.0}),
        (row(gpu_id=2, power_usage=301.5), {"power_w>gpu:2": 301.5}),
        (row(CPU_ROW), {}),
    ],
)  # fmt: skip
def test_a_row_of_ldms_is_counters_and_powers_of_its_host_or_its_job(value: bytes, expected: dict[str, float]) -> None:
    for name in ("ldms", "auto"):
        found, _ = predicted(name, value)
        assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("format_name", "value", "expected"),
    [
        ("telegraf", json.dumps(PMU), {"counter_total>CPU_CLK_THREAD_UNHALTED.REF_XCLK:0": 1171712.0}),
        ("line-protocol", POWERSTAT, {"power_w>cpu:0": 35.0}),
        (
            "line-protocol",
            INFINIBAND,
            {
                "nic_total>mlx5_0:xmit_data": 85450192.0,
                "nic_total>mlx5_0:xmit_packets": 423015.0,
                "nic_total>mlx5_0:xmit_wait": 1871.0,
            },
        ),
        ("line-protocol", TURBOSTAT, {"power_w>cpu": 87.0}),
        ("line-protocol", "nvidia_smi,host=nid001042,index=3 power_draw=55.5 1787217284", {"power_w>gpu:3": 55.5}),
        ("collectd", json.dumps([COLLECTD]), {"power_w>cpu:pkg00": 84.5}),
        ("collectd", json.dumps([COLLECTD | {"type_instance": "DRAM"}]), {"power_w>memory:pkg00": 84.5}),
    ],
)
def test_plugins_report_counters_and_powers_of_parts_of_their_host(
    format_name: str, value: str, expected: dict[str, float]
) -> None:
    assert predicted(format_name, value)[0] == expected


def test_what_is_no_reading_is_counted_by_what_it_is_and_left_out() -> None:
    missing = row(PAPI, PAPI_TOT_INS=[1, None], PAPI_L1_DCM=None)
    found, left_out = predicted("ldms", row(VARIORUM), missing, row(energy=5, power=-8888))
    assert found == {
        "power_w>system": 712.0, "power_w>cpu:0": 221.5, "power_w>memory:0": 31.25, "energy_total>system": 5.0,
    }  # fmt: skip
    assert (left_out["null"], left_out["negative"]) == (3, 1)


def test_a_row_that_prints_no_number_costs_that_number_alone() -> None:
    found, left_out = predicted("ldms", row(energy=5.0, power=473).replace(b":473", b":-nan"))
    assert (found, left_out["null"]) == ({"energy_total>system": 5.0}, 1)


def test_a_counter_of_64_bits_is_a_number() -> None:
    assert predicted("ldms", row(PAPI_TOT_CYC=[2**64 - 1]))[0] == {"counter_delta>PAPI_TOT_CYC": 2.0**64}


def test_a_site_states_which_columns_are_counters_and_whether_they_grow() -> None:
    named = TelemetryOptions(
        decode=OPTIONS.decode,
        hosts=OPTIONS.hosts,
        taken=Telemetry(counters=("cycles", "perf::*"), counters_cumulative=True),
    )
    value = row({"cycles": [5, 6], "perf::INSTRUCTIONS": 7, "perf::name": "x", "PAPI_TOT_CYC": 8})
    assert predicted("ldms", value, options=named)[0] == {
        "counter_total>cycles": 11.0,
        "counter_total>perf::INSTRUCTIONS": 7.0,
    }


@pytest.mark.parametrize("left_out", ["power_w", "counter_delta", "nic_total", "energy_total", "counter_total"])
def test_what_is_not_asked_for_is_left_out(left_out: str) -> None:
    fewer = TelemetryOptions(
        decode=OPTIONS.decode, hosts=OPTIONS.hosts, taken=Telemetry(resources=tuple(TAKEN - {left_out}))
    )
    values = (row(PAPI), row(SYSPAPI), row(VARIORUM), row(NIC), row(energy=1, power=2))
    found, _ = predicted("ldms", *values, options=fewer)
    assert {name.partition(">")[0] for name in predicted("ldms", *values)[0]} - {
        name.partition(">")[0] for name in found
    } == {left_out}


def test_a_site_maps_its_own_power_sensor() -> None:
    mapping = MetricMapping(
        measurement="ipmi_sensor", field="value", resource="power_w", only={"name": "total_power"}, peer="system"
    )
    site = TelemetryOptions(decode=OPTIONS.decode, taken=Telemetry(metrics=(mapping,)))
    lines = [
        f"ipmi_sensor,host=nid001042,name={name},unit=watts value=110 1787217284" for name in ("total_power", "psu_1")
    ]
    assert predicted("line-protocol", *lines, options=site)[0] == {"power_w>system": 110.0}


def test_names_of_columns_are_bounded() -> None:
    value = row({f"PAPI_{i}": i for i in range(400)})
    found, left_out = predicted("ldms", value)
    assert (len(found), left_out["metric"]) == (256, 144)
