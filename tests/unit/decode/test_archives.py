"""Archives of ClusterCockpit are read job by job, in the order of time."""

import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from agent.decode import archive
from agent.decode.files import read_file
from agent.decode.message import FileRecord, FileTelemetry, TelemetryOptions
from processors.contracts.errors import ConfigError
from processors.contracts.events import JobCompleted, JobStarted
from processors.contracts.telemetry import SeriesIndex
from tests.kit.archives import START_S, job, metric

FAR_FUTURE_MS = 4_000_000_000_000
POWER: dict[str, list[float | None]] = {"e1": [200.0, None, 0.0, 230.0], "e2": [150.0, 151.0, 152.0, 153.0]}


def read(folder: Path) -> tuple[list[FileRecord], SeriesIndex]:
    index = SeriesIndex(1000)
    telemetry = FileTelemetry(TelemetryOptions(), index)
    return list(read_file(str(folder), FAR_FUTURE_MS, telemetry)), index


def predicted(folder: Path) -> list[str]:
    """Return what is told in its order: starts, ends, samples of hosts and resources by the second since the first job."""
    records, index = read(folder)
    lines = []
    for record in records:
        if record.samples is not None:
            for number, time_ms, value in zip(
                *(column.tolist() for column in (record.samples.series, record.samples.time_ms, record.samples.value)),
                strict=True,
            ):
                lines.append(f"{time_ms // 1000 - START_S} {index[number].host} {index[number].resource} {value:g}")
        for event in record.decoded.events:
            if isinstance(event, JobStarted):
                lines.append(f"{event.start_ms // 1000 - START_S} start {event.job_id}")
            elif isinstance(event, JobCompleted):
                lines.append(f"{event.end_ms // 1000 - START_S} end {event.job_id}")
        lines += [
            f"refused {error.reason}" for error in [*record.decoded.rejects, *([record.error] if record.error else [])]
        ]
    return lines


def test_a_job_and_what_its_hosts_measured_come_in_the_order_of_time(tmp_path: Path) -> None:
    place = job(tmp_path, minutes=3, metrics={"cpu_power": metric(POWER)})
    assert predicted(place) == predicted(tmp_path) == [
        "0 e1 power_w>cpu 200", "0 e2 power_w>cpu 150", "0 start 1",
        "60 e2 power_w>cpu 151",
        "120 e1 power_w>cpu 0", "120 e2 power_w>cpu 152",
        "180 e1 power_w>cpu 230", "180 e2 power_w>cpu 153", "180 end 1",
    ]  # fmt: skip


def test_one_long_row_among_many_short_ones_needs_no_more_memory_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "DATA_BYTES_MAX", 1 << 20)  # as much is set aside to read into
    rows: dict[str, list[float | None]] = {f"e{i}": [1.0] for i in range(900)}
    job(tmp_path, metrics={"cpu_power": metric({**rows, "e0": [2.0] * 50_000})})
    tracemalloc.start()
    records, _ = read(tmp_path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(len(record.samples.value) for record in records if record.samples is not None) == 900 + 10
    assert peak_bytes < 50_000_000, "900 rows of 50,000 values would need 360 MB"


def test_a_job_of_thirty_years_with_a_value_a_day_is_read_value_by_value(tmp_path: Path) -> None:
    days = 10_000
    job(tmp_path, minutes=1440 * days, metrics={"cpu_power": metric({"e1": [1.0] * days}, step_s=86_400)})
    began_s = time.process_time()
    records, _ = read(tmp_path)
    assert sum(record.samples is not None for record in records) == days
    assert time.process_time() - began_s < 20, "a minute at a time it would be 14 million slices"


@pytest.mark.parametrize("name", ["meta.json", "data.json"])
def test_a_named_pipe_in_an_archive_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    place = job(tmp_path, metrics={"cpu_power": metric(POWER)})
    (place / "data.json.gz").unlink()
    (place / name).unlink(missing_ok=True)
    os.mkfifo(place / name)
    records, _ = read(tmp_path)
    assert [record.error.reason for record in records if record.error] == (["file"] if name == "meta.json" else [])


def test_nulls_and_metrics_of_no_use_are_counted(tmp_path: Path) -> None:
    job(tmp_path, metrics={"cpu_power": metric(POWER), "temperature": metric({"e1": [40.0]})})
    records, _ = read(tmp_path)
    assert [record.decoded.ignored for record in records if record.decoded.events] == [{"null": 1, "metric": 1}, {}]


def test_jobs_that_run_at_the_same_time_are_merged(tmp_path: Path) -> None:
    job(
        tmp_path,
        7001,
        start_s=START_S + 90,
        minutes=1,
        hosts=("e9",),
        metrics={"ipc": metric({"e9": [1.5, 1.6]}, base="IPC")},
    )
    job(tmp_path, 12, minutes=3, hosts=("e1",), metrics={"cpu_power": metric({"e1": [1.0, 2.0, 3.0, 4.0]})})
    lines = predicted(tmp_path)
    assert [line.split()[0] for line in lines if "e1" in line or "e9" in line] == ["0", "60", "90", "120", "150", "180"]
    assert [line for line in lines if "start" in line or "end" in line] == [
        "0 start 12",
        "90 start 7001",
        "150 end 7001",
        "180 end 12",
    ]


def test_between_jobs_that_are_far_apart_no_time_is_spent(tmp_path: Path) -> None:
    for day in range(5):
        job(
            tmp_path,
            day,
            start_s=START_S + day * 86_400 * 30,
            minutes=1,
            metrics={"cpu_power": metric({"e1": [1.0, 1.0]})},
        )
    records, _ = read(tmp_path)
    assert len(records) == 5 * 4
    untils = [record.until_ms for record in records if record.until_ms is not None]
    assert untils == sorted(untils)


def test_values_are_in_base_units_whatever_the_archive_has(tmp_path: Path) -> None:
    metrics = {
        "mem_bw": metric({"e1": [69.5]}, prefix="G", base="B/s"), "clock": metric({"e1": [2400.0]}, prefix="M", base="Hz"),
        "flops_any": {"node": {"timestep": 60, "unit": "MF/s", "series": [{"hostname": "e1", "data": [3.0]}]}},
    }  # fmt: skip
    job(tmp_path, metrics=metrics)
    assert predicted(tmp_path)[:3] == [
        "0 e1 counter_rate>mem_bw 6.95e+10",
        "0 e1 counter_level>clock 2.4e+09",
        "0 e1 counter_rate>flops_any 3e+06",
    ]


def test_of_several_scopes_the_coarsest_counts_and_cores_are_averaged(tmp_path: Path) -> None:
    metrics = {
        "cpu_load": metric({"e1": [7.0]}, base="load"),
        "mem_bw": metric({"e1:0": [1.0], "e1:1": [2.0]}, scope="socket", base="B/s") | metric({"e1:0": [9.0]}, scope="memoryDomain"),
        "flops_dp": metric({f"e1:{core}": [float(core), None] for core in range(4)}, scope="core", base="F/s"),
        "acc_power": metric({"e1:00000000:49:00.0": [300.0]}, scope="accelerator"),
    }  # fmt: skip
    job(tmp_path, metrics=metrics)
    assert set(predicted(tmp_path)[:6]) == {
        "0 e1 counter_level>cpu_load 7", "0 e1 load1 7", "0 e1 counter_rate>mem_bw:0 1", "0 e1 counter_rate>mem_bw:1 2",
        "0 e1 counter_level>flops_dp_per_core 1.5", "0 e1 power_w>gpu:00000000:49:00.0 300",
    }  # fmt: skip


def test_where_only_statistics_are_kept_their_mean_stands_for_each_host(tmp_path: Path) -> None:
    job(
        tmp_path,
        metrics={
            "cpu_power": {
                "node": {"timestep": 60, "statisticsSeries": {"mean": [200.0, 210.0], "min": [1.0], "max": [9.0]}}
            }
        },
    )
    assert predicted(tmp_path)[:2] == ["0 e1 power_w>cpu 200", "0 e2 power_w>cpu 200"]


def test_a_job_without_measurements_is_reported(tmp_path: Path) -> None:
    job(tmp_path, minutes=5)
    assert predicted(tmp_path) == ["0 start 1", "300 end 1"]


def test_what_is_measured_after_the_end_is_none_of_the_job(tmp_path: Path) -> None:
    job(tmp_path, minutes=1, metrics={"cpu_power": metric({"e1": [1.0, 2.0, 3.0]})})
    assert predicted(tmp_path)[-1] == "60 end 1"


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({"jobState": "running"}, ["0 start 1"]),
        ({"jobState": "cancelled", "duration": 0}, ["0 end 1"]),
        ({"jobState": "gone"}, ["refused state"]),
        ({"startTime": None}, ["refused missing-field"]),
        ({"startTime": 7}, ["refused time"]),
        ({"numNodes": -1}, ["refused out-of-range"]),
    ],
)
def test_what_is_reported_of_a_job_is_reported_or_refused(
    tmp_path: Path, more: dict[str, Any], lines: list[str]
) -> None:
    job(tmp_path, 2)
    job(tmp_path, 1, **more)
    found = predicted(tmp_path)
    assert [line for line in found if not line.endswith(" 2")] == lines
    assert len(found) == len(lines) + 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "not-json"), (b"[]", "not-an-object"), (b"\x1f\x8b\x08", "file"),
        (b'{"ipc": {"node": {"timestep": 0}}}', "out-of-range"), (b'{"ipc": {"node": {"series": []}}}', "missing-field"),
        (b'{"ipc": {"node": {"timestep": 60, "series": [{"hostname": "e1", "data": ["x"]}]}}}', "wrong-type"),
        (b'{"ipc": {"node": {"timestep": 60, "series": [{"hostname": "", "data": [1]}]}}}', "text"),
    ],
)  # fmt: skip
def test_damaged_measurements_cost_no_job(tmp_path: Path, data: bytes, reason: str) -> None:
    place = job(tmp_path)
    (place / "data.json").write_bytes(data)
    records, _ = read(tmp_path)
    assert [(record.place, record.error.reason) for record in records if record.error] == [
        (f"{place / 'data.json'}:1", reason)
    ]
    assert predicted(tmp_path) == [f"refused {reason}", "0 start 1", "600 end 1"]


def test_a_value_that_cannot_be_is_left_out_and_counted(tmp_path: Path) -> None:
    job(tmp_path, metrics={"cpu_power": metric({"e1": [1e300, 5.0, -1.0]})})
    assert predicted(tmp_path)[:2] == ["0 start 1", "60 e1 power_w>cpu 5"]
    records, _ = read(tmp_path)
    assert [record.decoded.ignored for record in records if record.decoded.ignored] == [
        {"too_large": 1},
        {"negative": 1},
    ]


def test_a_load_that_cannot_be_is_refused_alone(tmp_path: Path) -> None:
    job(tmp_path, metrics={"cpu_load": metric({"e1": [-1.0, 5.0]}, base="load")})
    assert predicted(tmp_path)[0] == "refused out-of-range"
    assert predicted(tmp_path)[-3:-1] == ["60 e1 counter_level>cpu_load 5", "60 e1 load1 5"]


def test_jobs_for_whose_measurements_there_is_no_room_are_reported_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "VALUES_MAX", 5)
    for number in (1, 2):
        job(tmp_path, number, minutes=2, metrics={"cpu_power": metric({"e1": [1.0, 2.0, 3.0]})})
    lines = predicted(tmp_path)
    assert lines.count("refused too-large") == 1
    assert [line for line in lines if "end" in line] == ["120 end 1", "120 end 2"]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job(tmp_path, metrics={"cpu_power": metric({"e1": [1.0] * 100})})
    monkeypatch.setattr(archive, "DATA_BYTES_MAX", 99)
    assert predicted(tmp_path) == ["refused too-large", "0 start 1", "600 end 1"]


def test_a_folder_without_a_job_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps({"name": "emmy"}))
    with pytest.raises(
        ConfigError,
        match=r"holds no job of ClusterCockpit: neither the folder nor a folder below it has a file meta\.json\.",
    ):
        read(tmp_path)


def test_an_archive_with_too_many_jobs_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        job(tmp_path, number)
    monkeypatch.setattr(archive, "JOBS_MAX", 2)
    with pytest.raises(ConfigError, match="holds more than 2 jobs; list its subfolders one by one"):
        read(tmp_path)
