"""From an archive of ClusterCockpit to the profile of a settled run."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.app import compose
from agent.app.files import Remarks
from agent.app.replay import Replay
from agent.cli.backfill import backfill
from agent.config.tree import Config
from agent.decode.message import DecodeOptions
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.events import JobProfile, JournalEvent, decode_record
from processors.contracts.log import Batch
from sinks.topics import JsonLines
from tests.kit.archives import START_S, job, metric

# four nodes of a real job, four hours; source and licence are told beside it
MEASURED = Path(__file__).parents[2] / "quality" / "profiles_data" / "clustercockpit" / "data.json.gz"
MINUTES = 60


def profiles(archive: Path, out: Path) -> list[dict[str, Any]]:
    with JsonLines(out) as sink:
        replay = Replay(Config(), sink)
        replay.run([str(archive)], DecodeOptions())
        replay.agent.close()
    found = {each["key"]: each["value"] for each in map(json.loads, (out / "runs.jsonl").read_text().splitlines())}
    return [run["profile"] for run in found.values()]


@pytest.fixture(scope="module")
def hour() -> dict[str, Any]:
    with gzip.open(MEASURED, "rt") as file:
        metrics: dict[str, Any] = json.load(file)
    for scopes in metrics.values():
        for series in scopes["node"]["series"]:
            series["data"] = series["data"][:MINUTES]
    return metrics


def test_what_a_real_job_measured_becomes_the_profile_of_its_run(tmp_path: Path, hour: dict[str, Any]) -> None:
    hosts = [series["hostname"] for series in hour["ipc"]["node"]["series"]]
    job(tmp_path / "archive", minutes=MINUTES, hosts=hosts, metrics=hour)
    (profile,) = profiles(tmp_path / "archive", tmp_path / "out")

    def mean(name: str) -> float:
        series = hour[name]["node"]["series"]
        return float(np.nanmean(np.array([each["data"] for each in series], dtype=np.float64)))

    assert (profile["hosts"], profile["expected"]) == (4, 4 * MINUTES)
    assert profile["minutes"] > 0.8 * profile["expected"]
    assert profile["power_w"] == {"cpu": pytest.approx(mean("rapl_power"), rel=1e-3)}
    assert profile["energy_j"]["cpu"] == pytest.approx(mean("rapl_power") * 4 * MINUTES * 60, rel=1e-3)
    expected = {"ipc": 1.0, "clock": 1e6, "mem_bw": 1e9, "flops_any": 1e9}
    for name, unit in expected.items():
        assert profile["counters"][name] == pytest.approx(mean(name) * unit, rel=5e-3)  # nulls differ by host


def test_sockets_add_up_cores_are_averaged_and_readings_of_zero_are_left_out(tmp_path: Path) -> None:
    steady = [100.0] * 10
    metrics = {
        "cpu_power": metric({"e1:0": steady, "e1:1": [150.0] * 10, "e2:0": steady, "e2:1": [150.0] * 4 + [0.0] + [150.0] * 5}, scope="socket"),
        "mem_bw": metric({f"{host}:{part}": [1.0 + part] * 10 for host in ("e1", "e2") for part in (0, 1)}, scope="socket", prefix="G", base="B/s"),
        "flops_dp": metric({f"{host}:{core}": [float(core)] * 10 for host in ("e1", "e2") for core in range(5)}, scope="core", base="F/s"),
    }  # fmt: skip
    job(tmp_path / "archive", minutes=10, metrics=metrics)
    (profile,) = profiles(tmp_path / "archive", tmp_path / "out")
    assert profile["power_w"] == {"cpu": pytest.approx(250.0)}
    assert profile["counters"] == {"mem_bw": pytest.approx(3e9), "flops_dp_per_core": pytest.approx(2.0)}
    assert profile["left_out"] == {
        "part": 1,
        "zero": 1,
    }  # of the other socket nothing is taken either: a host is the sum of its parts


def test_jobs_one_after_the_other_on_the_same_hosts_have_profiles_of_their_own(tmp_path: Path) -> None:
    for number in range(3):
        power = metric({host: [100.0 * (number + 1)] * 11 for host in ("e1", "e2")})
        job(tmp_path / "archive", number, start_s=START_S + 900 * number, metrics={"node_power": power})
    found = profiles(tmp_path / "archive", tmp_path / "out")
    assert [profile["power_w"] for profile in found] == [
        {"system": pytest.approx(100.0 * (number + 1))} for number in range(3)
    ]
    assert all(profile["minutes"] >= 0.8 * profile["expected"] for profile in found)


def test_a_backfill_of_an_archive_reports_the_profiles_of_its_runs_after_their_ends(tmp_path: Path) -> None:
    for number in range(2):
        power = metric({host: [100.0 * (number + 1)] * 11 for host in ("e1", "e2")})
        job(tmp_path, number, start_s=START_S + 9000 * number, metrics={"node_power": power})
    log = MemoryLog(MemoryBroker())
    counts = backfill(
        Config(), log, [str(tmp_path)], compose.file_options(Config(), "UTC", unnamed=None), now_ms=(START_S + 90_000) * 1000, on_progress=lambda _: None,
        remarks=Remarks(Config()),
    )  # fmt: skip
    assert counts == {"written": 2, "profiles": 2, "start": 2}
    events: list[JournalEvent] = []

    def take(batch: Batch) -> None:
        events.extend(decode_record(value).event for value in batch.values if value)

    log.read(Config().topics.journal, 0, take)
    reported = [
        (type(event).__name__, event.profile.power_w if isinstance(event, JobProfile) else None) for event in events
    ]
    assert reported == [
        ("JobCompleted", None), ("JobProfile", {"system": pytest.approx(100.0)}),
        ("JobCompleted", None), ("JobProfile", {"system": pytest.approx(200.0)}),
    ]  # fmt: skip
