"""Metrics and events of jobs in ClusterCockpit's lines; values are illustrative."""

import json
from collections.abc import Callable

import pytest

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from processors.contracts.events import Decoded, JobCompleted, JobStarted
from processors.contracts.telemetry import SeriesIndex
from tests.kit.cases import each

TIME_S = 1_740_027_951
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"))
JOB: dict[str, object] = {
    "jobId": 69, "cluster": "ccfront", "startTime": TIME_S - 600, "numNodes": 2, "numHwthreads": 144, "numAcc": 0, "user": "u1",
    "project": "p1", "partition": "main", "subCluster": "a100", "exclusive": 1, "walltime": 86400, "jobState": "running",
    "resources": [{"hostname": "e1208"}, {"hostname": "e1209"}], "metaData": {"jobName": "run 7", "jobScript": "#!/bin/sh"},
}  # fmt: skip


def lines(*values: bytes, options: TelemetryOptions = OPTIONS) -> tuple[dict[str, list[float]], list[Decoded]]:
    index = SeriesIndex(1000)
    batch = TELEMETRY["auto"](options)(values, [TIME_S * 1000] * len(values), index)
    found: dict[str, list[float]] = {}
    for number, value in zip(batch.samples.series.tolist(), batch.samples.value.tolist(), strict=True):
        series = index[number]
        found.setdefault(f"{series.system}/{series.host}/{series.resource}", []).append(value)
    return found, [other for _, other in batch.others]


def line(metric: str, scope: str, part: str, value: float, tags: str = "") -> bytes:
    return f"{metric},hostname=e1208,type={scope},type-id={part}{tags} value={value} {TIME_S}".encode()


@each(
    ("metric", "scope", "resource"),
    [
        ("cpu_power", "socket", "power_w>cpu:1"),
        ("rapl_average_power", "socket", "power_w>cpu:1"),
        ("rapl_package-1_average_power", "socket", "power_w>cpu:1"),
        ("rapl_power", "node", "power_w>cpu"),
        ("mem_power", "socket", "power_w>memory:1"),
        ("acc_power", "accelerator", "power_w>gpu:1"),
        ("node_power", "node", "power_w>system"),
        ("net_bw", "node", "counter_rate>net_bw"),
        ("ipc", "node", "counter_level>ipc"),
        ("cpu_user", "hwthread", "counter_level>cpu_user"),
        ("acc_utilization", "accelerator", "counter_level>acc_utilization"),
    ],
)
def test_a_metric_becomes_a_resource_of_its_host(metric: str, scope: str, resource: str) -> None:
    assert lines(line(metric, scope, "1", 7.5))[0] == {f"exa/e1208/{resource}": [7.5]}


def test_rates_and_frequencies_are_reported_in_base_units() -> None:
    found, _ = lines(
        line("flops_any", "socket", "0", 2.0),
        line("mem_bw", "memoryDomain", "3", 3.0),
        line("clock", "node", "0", 2400.0),
        line("mem_bw", "node", "0", 4.0, ",unit=GB/s"),
    )
    assert found == {
        "exa/e1208/counter_rate>flops_any:0": [2e6],
        "exa/e1208/counter_rate>mem_bw:3": [3e6],
        "exa/e1208/counter_level>clock": [2.4e9],
        "exa/e1208/counter_rate>mem_bw": [4e9],
    }


def test_all_cores_of_a_host_share_a_resource_which_is_that_of_an_average_one() -> None:
    found, _ = lines(*(line("flops_dp", "hwthread", str(core), float(core)) for core in range(128)))
    assert {name: len(values) for name, values in found.items()} == {
        "exa/e1208/counter_level>flops_dp_per_hwthread": 128
    }


def test_the_cluster_that_a_line_names_is_its_system() -> None:
    assert lines(line("ipc", "node", "0", 1.0, ",cluster=fritz"))[0] == {"fritz/e1208/counter_level>ipc": [1.0]}


@pytest.mark.parametrize(
    "value",
    [
        line("temp_package_id_0", "node", "0", 50.0),
        line("core_power", "core", "3", 5.0),
        line("ipc", "rack", "0", 1.0),
        line("ipc", "node", "0#812", 1.0),
        line("lustre_read_bw", "node", "0", 1.0, ",stype=filesystem,stype-id=/home"),
        b'ccb,hostname=m1,type=node,loglevel=info log="done" 1740027951',
    ],
)
def test_what_is_of_no_use_is_counted(value: bytes) -> None:
    found, others = lines(value)
    assert (found, [other.ignored for other in others]) == ({}, [{"metric": 1}])


def quoted(document: dict[str, object]) -> bytes:
    return b'"' + json.dumps(document).replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


def plain(document: dict[str, object]) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "head", ["start_job", "start_job,hostname=m1", "job,hostname=m1,type=node,type-id=0,function=start_job"]
)
@pytest.mark.parametrize("written", [quoted, plain])
def test_a_job_that_starts_is_reported_in_either_spelling(
    head: str, written: Callable[[dict[str, object]], bytes]
) -> None:
    _, others = lines(f"{head} event=".encode() + written(JOB) + f" {TIME_S}".encode())
    (event,) = others[0].events
    assert isinstance(event, JobStarted)
    assert (event.system, event.job_id, event.start_ms) == ("ccfront", "69", (TIME_S - 600) * 1000)
    evidence = event.evidence
    assert evidence.sizes == {"nodes": 2.0, "threads": 144.0}
    assert (evidence.job_name, evidence.user, evidence.account, evidence.partition) == ("run 7", "u1", "p1", "main")
    assert (evidence.hosts, evidence.time_limit_s, evidence.exclusive) == (("e1208", "e1209"), 86400.0, True)
    assert evidence.script is None
    assert evidence.attributes == {"sub_cluster": "a100"}


@pytest.mark.parametrize(
    ("state", "expected"),
    [("completed", "COMPLETED"), ("stopped", "CANCELLED"), ("out_of_memory", "OUT_OF_MEMORY"), ("timeout", "TIMEOUT")],
)
def test_a_job_that_stops_is_reported_where_its_start_is_named(state: str, expected: str) -> None:
    document = quoted({**JOB, "stopTime": TIME_S, "jobState": state})
    for head in (b"stop_job", b"job,function=stop_job"):
        (event,) = lines(head + b" event=" + document)[1][0].events
        assert isinstance(event, JobCompleted)
        assert (event.run_time_s, event.state) == (600.0, expected)


@each(
    ("document", "reason"),
    [
        ({"jobId": 69, "cluster": "c", "stopTime": TIME_S, "jobState": "completed"}, "missing-field"),
        ({**JOB, "jobState": "completed"}, "missing-field"),
        ({**JOB, "jobState": "completed", "stopTime": TIME_S - 601}, "out-of-range"),
        ({**JOB, "jobState": "completed", "stopTime": TIME_S - 600}, "out-of-range"),
        ({**JOB, "jobState": "exploded", "duration": 60}, "state"),
        ({**JOB, "jobState": "failed", "duration": 600_000}, "future"),
        ({**JOB, "startTime": "now", "duration": 60}, "wrong-type"),
        ({**JOB, "jobState": "failed", "duration": 60, "resources": [{"hostname": "a\x1b[2J"}]}, "text"),
        ({**JOB, "jobState": "failed", "duration": 60, "resources": [{"hostname": "a" * 300_000}]}, "hosts"),
    ],
)
def test_an_event_that_does_not_report_which_run_ended_and_how_is_refused(
    document: dict[str, object], reason: str
) -> None:
    _, others = lines(b"stop_job event=" + quoted(document))
    assert [error.reason for other in others for error in other.rejects] == [reason]
