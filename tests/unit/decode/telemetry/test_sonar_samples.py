"""Samples of Sonar: what nodes measure, and which programs run in jobs."""

import json
from typing import Any

import pytest

from agent.decode import sonar
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.sonar import sonar_samples_decoder
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import DecodedBatch, SeriesIndex, Telemetry
from tests.kit.cases import each

RECEIVED_MS = 1_795_168_860_000


def sample(*jobs: dict[str, Any], system: dict[str, Any] | None = None, **fields: Any) -> bytes:
    attributes = {
        "time": "2026-11-20T10:00:00+00:00",
        "cluster": "saga",
        "node": "c1-10",
        "jobs": jobs,
        "system": system,
        **fields,
    }
    return json.dumps({"meta": {"producer": "sonar"}, "data": {"type": "sample", "attributes": attributes}}).encode()


def job(number: int, epoch: int = 0, **seconds: float) -> dict[str, Any]:
    processes = [{"cmd": cmd, "cpu_time": time_s} if time_s else {"cmd": cmd} for cmd, time_s in seconds.items()]
    return {"job": number, "processes": processes} | ({"epoch": epoch} if epoch else {})


class Decoder:
    """One decoder and what it told."""

    def __init__(self, options: TelemetryOptions | None = None) -> None:
        self.index = SeriesIndex(100)
        self._decode = sonar_samples_decoder(options or TelemetryOptions())

    def batch(self, *values: bytes) -> DecodedBatch:
        return self._decode(values, [RECEIVED_MS] * len(values), self.index)

    def samples(self, *values: bytes) -> dict[str, float]:
        batch = self.batch(*values)
        names = ["/".join(self.index[number]) for number in batch.samples.series.tolist()]
        return dict(zip(names, batch.samples.value.tolist(), strict=True))

    def programs(self, *values: bytes) -> list[tuple[str, str | None]]:
        events = [found for _, other in self.batch(*values).others for found in other.events]
        return [(found.job_id, found.evidence.executable) for found in events]


def test_a_load_of_nothing_is_left_out_by_the_producer_and_still_a_load() -> None:
    assert Decoder().samples(sample(system={"existing_entities": 300})) == {
        "saga/c1-10/load1": 0.0, "saga/c1-10/cpu_available>load": 1.0,
    }  # fmt: skip
    assert Decoder().samples(sample(system={"used_memory": 5})) == {}  # of a version that tells no loads


def test_the_share_of_a_processor_goes_by_those_that_are_listed() -> None:
    nodes = Nodes([Node("c1-10", cores=2)])
    busy = {"load1": 3, "existing_entities": 9}
    for options, system, share in (
        (TelemetryOptions(), busy, 0.25),
        (TelemetryOptions(taken=Telemetry(host_cpus=3)), busy, 0.75),
        (TelemetryOptions(nodes=nodes), busy, 0.5),
        (TelemetryOptions(nodes=nodes), {**busy, "cpus": [1, 2, 3, 4]}, 1.0),
    ):
        assert Decoder(options).samples(sample(system=system))["saga/c1-10/cpu_available>load"] == share


def test_each_gpu_has_a_power_and_the_first_has_no_index() -> None:
    gpus = [{"power": 300}, {"index": 1, "power": 290.5}, {"index": 3}]
    assert Decoder().samples(sample(system={"gpus": gpus})) == {
        "saga/c1-10/power_w>gpu:0": 300.0, "saga/c1-10/power_w>gpu:1": 290.5, "saga/c1-10/power_w>gpu:3": 0.0,
    }  # fmt: skip


def test_memory_in_use_comes_in_bytes_where_a_site_wants_it() -> None:
    options = TelemetryOptions(taken=Telemetry(resources=("memory_used",)))
    assert Decoder(options).samples(sample(system={"used_memory": 2})) == {"saga/c1-10/memory_used": 2048.0}


def test_the_program_with_the_most_processor_time_is_reported_once_of_each_job() -> None:
    decoder = Decoder()
    early, late = sample(job(812, bash=1.0, gmx_mpi=0.0)), sample(job(812, bash=1.0, gmx_mpi=926.0))
    assert decoder.programs(early, late, late) == [("812", "bash"), ("812", "gmx_mpi")]
    assert decoder.programs(late, sample(job(813, gmx_mpi=5.0))) == [("813", "gmx_mpi")]


@pytest.mark.parametrize(
    "one", [job(812, epoch=3, sshd=9.0), job(0, kthreadd=4.0), job(812), job(812, gmx=0.0), job(812, 0, **{"": 3.0})]
)
def test_processes_outside_of_jobs_and_those_that_did_nothing_are_no_evidence(one: dict[str, Any]) -> None:
    assert Decoder().programs(sample(one)) == []


def test_a_program_whose_name_would_break_a_line_is_no_evidence_and_refuses_nothing() -> None:
    batch = Decoder().batch(sample(job(812, 0, **{"\x1b[2J": 9.0})))
    assert batch.others == []


def test_what_was_reported_is_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonar, "PROGRAMS_MAX", 3)
    decoder = Decoder()
    jobs = [sample(job(number, gmx=5.0)) for number in range(1, 6)]
    assert len(decoder.programs(*jobs)) == 5
    assert [number for number, _ in decoder.programs(*jobs[::-1])] == ["2", "1"]  # the oldest are forgotten


@each(
    ("value", "reason"),
    [
        (sample(system={"load1": -1, "existing_entities": 3}), "out-of-range"),
        (sample(node=7), "wrong-type"),
        (sample(time="now", system={"existing_entities": 3}), "time"),
        (sample(*[job(1)] * 30), "array-bomb"),
        (sample(system={"gpus": [{}] * 30}), "array-bomb"),
        (b'{"meta": {}, "data": {"type": "sample"}}', "not-an-object"),
        (b'{"meta": {}, "data": 1}', "wrong-type"),
        (b"{", "not-json"),
    ],
)
def test_what_is_no_sample_is_refused(value: bytes, reason: str) -> None:
    batch = Decoder(TelemetryOptions(decode=DecodeOptions(elements_max=20))).batch(value)
    assert [error.reason for _, other in batch.others for error in other.rejects] == [reason]


@pytest.mark.parametrize(("kind", "reason"), [("sysinfo", "sysinfo"), ("cluster", "cluster"), ("other", "event")])
def test_messages_about_the_nodes_themselves_are_counted(kind: str, reason: str) -> None:
    value = json.dumps({"meta": {}, "data": {"type": kind, "attributes": {"nodes": []}}}).encode()
    assert [other.ignored for _, other in Decoder().batch(value).others] == [{reason: 1}]
