"""What rows of LDMS tell of jobs, and what share of the processors they say was idle."""

import json
from typing import Any

import pytest

from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.telemetry import ldms
from agent.decode.telemetry.ldms import CPU_TICKS, ldms_decoder, ldms_names
from agent.identify import Identifier
from processors.contracts.events import Evidence, Identity
from processors.contracts.settings import IdentifySettings
from processors.contracts.telemetry import DecodedBatch, SeriesIndex

TIME_S = 1_795_168_800
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"))


class Decoder:
    """One decoder and what it reported."""

    def __init__(self, options: TelemetryOptions = OPTIONS) -> None:
        self.index = SeriesIndex(100)
        self._decode = ldms_decoder(options)

    def batch(self, *rows: dict[str, Any]) -> DecodedBatch:
        values = [json.dumps(row | {"timestamp": row.get("timestamp", TIME_S + 0.5)}).encode() for row in rows]
        return self._decode(values, [(TIME_S + 3600) * 1000] * len(values), self.index)

    def events(self, *rows: dict[str, Any]) -> list[Identity]:
        return [event for _, other in self.batch(*rows).others for event in other.events if isinstance(event, Identity)]

    def ignored(self, *rows: dict[str, Any]) -> dict[str, int]:
        return next((other.ignored for _, other in self.batch(*rows).others if other.ignored), {})

    def refusals(self, *rows: dict[str, Any]) -> list[str]:
        return [error.reason for _, other in self.batch(*rows).others for error in other.rejects]

    def samples(self, *rows: dict[str, Any]) -> list[tuple[str, int, float]]:
        columns = self.batch(*rows).samples
        numbers, times, values = columns.series.tolist(), columns.time_ms.tolist(), columns.value.tolist()
        names = ["/".join(self.index[number][1:]) for number in numbers]
        return list(zip(names, [time_ms // 1000 - TIME_S for time_ms in times], values, strict=True))


def job(job_id: int = 812, **columns: Any) -> dict[str, Any]:
    return {"component_id": 1042, "job_id": job_id, "job_name": "gmx_prod_07", "user": "alice", **columns}


def process(exe: str, ticks: float, job_id: int = 812, **columns: Any) -> dict[str, Any]:
    started = {"component_id": 1042, "job_id": job_id, "task_rank": 0, "is_thread": 0, "exe": exe}
    return {**started, "stat_utime": ticks, "stat_stime": 0, **columns}


def ticks(after_s: int, idle: int, user: int, cpu: str = "cpu", host: str = "nid1") -> dict[str, Any]:
    columns = dict.fromkeys(CPU_TICKS, 0) | {"cpu_list.idle": idle, "cpu_list.user": user, "cpu_list.guest": user}
    return {"timestamp": float(TIME_S + after_s), "producer": host, "cpu_list.name": cpu, **columns}


def test_a_row_about_a_job_needs_no_host_and_names_its_application() -> None:
    decoder = Decoder()
    (named,) = decoder.events(job(node_count=4, job_size=64))
    (executable,) = decoder.events(process("/apps/gromacs/2024.2/bin/gmx_mpi", 100))
    found = Identifier(IdentifySettings()).identify(Evidence(sizes={"nodes": 4.0}), "exa", [named])
    assert (found.application, found.n, found.unit) == ("gmx_prod_#", 4.0, "nodes")
    found = Identifier(IdentifySettings()).identify(Evidence(sizes={"nodes": 4.0}), "exa", [named, executable])
    assert (found.application, found.source) == ("gmx_mpi", "executable from ldms-process")


def test_what_was_reported_of_a_job_is_not_reported_again_by_each_of_its_nodes() -> None:
    decoder = Decoder()
    assert len(decoder.events(job(), job(component_id=1043), job(813))) == 2
    assert decoder.ignored(job(), job(813)) == {"repeat": 2}


def test_a_later_step_that_is_smaller_or_has_less_takes_nothing_away() -> None:
    decoder = Decoder()
    decoder.events(job(node_count=4, job_size=64, job_tag="water"))
    assert decoder.events(job(node_count=1, job_size=1, job_tag="", user="")) == []
    (larger,) = decoder.events(job(node_count=8, job_size=1))
    assert larger.evidence.sizes == {"nodes": 8.0, "processes": 64.0}
    assert larger.evidence.attributes == {"job_tag": "water"}


def test_a_job_that_has_no_step_yet_or_no_number_is_counted() -> None:
    assert Decoder().ignored(job(job_name="", user="")) == {"no-step": 1}
    assert Decoder().ignored(job(0), job(2**64), {**job(), "job_id": None}) == {"no-job": 3}
    (named,) = Decoder().events(job(job_name="run\n7"))
    assert (named.evidence.job_name, named.evidence.user) == ("run 7", "alice")


def test_of_the_processes_of_a_job_the_one_with_the_most_time_names_it() -> None:
    decoder = Decoder()
    rows = [process("/bin/bash", 5), process("/apps/cp2k", 900), process("/bin/bash", 6), process("/apps/cp2k", 950)]
    assert [event.evidence.executable for event in decoder.events(*rows)] == ["/bin/bash", "/apps/cp2k"]
    assert decoder.ignored(process("/apps/other", 920), process("", 99), process("/apps/cp2k", 960)) == {
        "smaller-process": 1, "no-program": 1, "repeat": 1,
    }  # fmt: skip


def test_rows_without_ticks_of_processes_report_the_first_program() -> None:
    rows = [{"component_id": 1, "job_id": 812, "task_rank": 0, "is_thread": 0, "exe": exe} for exe in ("/a/b", "/c/d")]
    assert [event.evidence.executable for event in Decoder().events(*rows)] == ["/a/b"]


def test_counts_of_a_step_that_no_job_has_cost_the_count_alone() -> None:
    data = {"job_id": 812, "job_name": "gmx", "nnodes": 10**400, "total_tasks": 64}
    events = Decoder().events({"schema": "slurm_step_data", "event": "step_init", "data": data})
    assert [(event.job_id, event.evidence.sizes) for event in events] == [("812", {"processes": 64.0})]


def test_a_source_without_a_system_refuses_jobs() -> None:
    assert Decoder(TelemetryOptions()).refusals(job()) == ["system"]


def test_what_is_remembered_of_jobs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldms, "JOBS_MAX", 4)
    decoder = Decoder()
    rows = [row for number in (1, 2, 3) for row in (job(number), process("/a/b", 5, number))]
    assert len(decoder.events(*rows)) == 6
    assert len(decoder.events(job(1), job(3))) == 1  # the oldest was forgotten


def test_columns_of_jobs_that_avro_has_bent_have_their_names_again() -> None:
    name_of = ldms_names(TelemetryOptions())
    assert [name_of(name) for name in ("job_list_job_name", "job_list_job_id", "cpu_list_idle", "cpu_list_name")] == [
        "job_list.job_name", "job_list.job_id", "cpu_list.idle", "cpu_list.name",
    ]  # fmt: skip


def test_the_share_of_ticks_that_were_idle_is_known_with_the_next_row_of_all_processors() -> None:
    decoder = Decoder()
    assert decoder.samples(ticks(0, 100, 900), ticks(10, 400, 1000)) == [("nid1/cpu_available", 10, 0.75)]
    assert decoder.samples(ticks(10, 400, 1000), ticks(5, 300, 950)) == []  # came twice, and overtaken
    assert decoder.samples(ticks(20, 10, 5), ticks(30, 20, 35)) == [("nid1/cpu_available", 30, 0.25)]  # it was reset


def test_rows_of_single_processors_count_where_none_adds_them_up() -> None:
    each = [ticks(t, t * (1 + cpu), t * (1 - cpu), f"cpu{cpu}") for t in (10, 20, 30) for cpu in (0, 1)]
    assert Decoder().samples(*each) == [("nid1/cpu_available", 20, 0.75)]
    whole = [row for t in (0, 10, 20) for row in (ticks(t, t, 3 * t), ticks(t, 4 * t, 0, "cpu7"))]
    assert Decoder().samples(*whole) == [("nid1/cpu_available", 10, 0.25), ("nid1/cpu_available", 20, 0.25)]


def test_ticks_that_are_none_or_stand_still_make_no_share() -> None:
    broken = {**ticks(10, 5, 5), "cpu_list.irq": None}
    assert Decoder().samples(ticks(0, 5, 5), broken, ticks(20, 5, 5)) == []
    assert Decoder().refusals(ticks(10 * 86_400, 5, 5)) == ["future"]
