"""What the machine is, from the configuration and from what Slurm reports of jobs; and where a curve may bend on it."""

from typing import Any

import pytest

from agent.config.references import with_machines
from agent.decode.message import DecodeOptions
from agent.decode.sacct import sacct_decoder
from agent.decode.slurm import slurm_decoder
from agent.reference.nodes import read_nodes
from processors.contracts.names import ApplicationKey, parse_rfc3339
from processors.contracts.settings import IdentifySettings, RunTimeSettings
from processors.pipeline.alerts import Warnings
from processors.pipeline.completions import Forgetting
from processors.pipeline.inputs import Machines
from processors.run_time.machine import (
    PARTITIONS_MAX,
    RUNS_MIN,
    Machine,
    NodeShapes,
    RunAllocation,
    allocation,
    machine_of,
)
from tests.kit.job_records import slurm_record
from tests.kit.scenario import SYSTEM, Scenario, completed, moment_ms

HEADER = "JobIDRaw|Cluster|Partition|JobName|State|Start|ElapsedRaw|AllocTRES"
START_MS = moment_ms("07:00")
MACHINE = {"cores_per_node": 128, "sockets_per_node": 2, "memory_domains_per_node": 8}


def centre_of(unit: str, **run_time: Any) -> Scenario:
    return Scenario(identify=IdentifySettings(unit=unit), run_time=run_time).at("08:00")


def sacct_reports(centre: Scenario, name: str, partition: str, *, cores: int, nodes: int, runs: int = RUNS_MIN) -> None:
    """Report runs as sacct writes them, with cores and nodes in AllocTRES."""
    first = len(centre.events)
    rows = [
        f"{first + i}|{SYSTEM}|{partition}|{name}|COMPLETED|2026-11-20T07:{i:02d}:00|{60 + i}|billing={cores},cpu={cores},mem=9G,node={nodes}"
        for i in range(runs)
    ]
    decoded = sacct_decoder(DecodeOptions())("\n".join([HEADER, *rows]).encode(), parse_rfc3339("2026-11-20T08:00:00Z"))
    assert not decoded.rejects
    for event in decoded.events:
        centre.fold(event)


def bends(centre: Scenario, application: str, unit: str) -> tuple[float, ...]:
    key = ApplicationKey(application=application, system=SYSTEM, input="", unit=unit)
    return Machines(centre.shard.state).bends(key)


def test_threads_fill_the_parts_of_a_configured_machine() -> None:
    centre = centre_of("threads", machines={SYSTEM: MACHINE, "other": {"cores_per_node": 36}})
    assert bends(centre, "gemm", "threads") == (16.0, 64.0, 128.0)
    assert bends(centre, "gemm", "nodes") == bends(centre, "gemm", "gpus") == ()
    assert bends(Scenario(), "gemm", "threads") == ()


def test_one_setting_for_all_systems_is_a_machine_too() -> None:
    assert bends(centre_of("cores", cores_per_node=64), "cfd", "cores") == (64.0,)


def test_the_cores_of_a_node_come_from_the_jobs_that_had_most_of_it() -> None:
    centre = centre_of("cores")
    sacct_reports(centre, "post", "shared", cores=4, nodes=1)
    assert bends(centre, "post", "cores") == (4.0,)
    sacct_reports(centre, "cfd", "shared", cores=512, nodes=4)
    assert bends(centre, "post", "cores") == bends(centre, "cfd", "cores") == (128.0,)


def test_one_wrong_record_is_no_machine() -> None:
    centre = centre_of("cores")
    sacct_reports(centre, "cfd", "standard", cores=256, nodes=2)
    sacct_reports(centre, "cfd", "standard", cores=4096, nodes=2, runs=RUNS_MIN - 1)
    assert bends(centre, "cfd", "cores") == (128.0,)


def test_an_application_runs_on_the_nodes_of_the_partition_of_most_of_its_runs() -> None:
    centre = centre_of("cores")
    sacct_reports(centre, "cfd", "thin", cores=48, nodes=2)
    sacct_reports(centre, "cfd", "fat", cores=128, nodes=1, runs=RUNS_MIN + 1)
    sacct_reports(centre, "post", "thin", cores=24, nodes=1)
    assert (bends(centre, "cfd", "cores"), bends(centre, "post", "cores")) == ((128.0,), (24.0,))


def test_what_is_configured_goes_before_what_jobs_show() -> None:
    centre = centre_of("cores", machines={SYSTEM: {"cores_per_node": 128, "sockets_per_node": 2}})
    sacct_reports(centre, "cfd", "standard", cores=256, nodes=1)  # Slurm counts hardware threads
    assert bends(centre, "cfd", "cores") == (64.0, 128.0)


def test_a_partition_may_have_nodes_of_its_own() -> None:
    centre = centre_of("cores", machines={SYSTEM: MACHINE, f"{SYSTEM}/thin": {"cores_per_node": 24}})
    sacct_reports(centre, "cfd", "thin", cores=8, nodes=1)
    sacct_reports(centre, "post", "fat", cores=8, nodes=1)
    assert (bends(centre, "cfd", "cores"), bends(centre, "post", "cores")) == ((24.0,), (16.0, 64.0, 128.0))


def test_the_file_of_nodes_fills_what_is_not_configured() -> None:
    rows = ["n1,exa,thin,24,2", "n2,exa,thin,24,2", "n3,exa,fat,128,2", "n4,mega,,64,1", "n5,,,8,1"]
    nodes, wrong = read_nodes("\n".join(["host,system,partition,cores,sockets", *rows]))
    assert not wrong
    given = RunTimeSettings.model_validate(
        {"machines": {"exa/fat": {"cores_per_node": 256}, "mega": {"memory_domains_per_node": 4}}}
    )
    settings = with_machines(given, nodes)
    machines = [
        machine_of(settings, *place) for place in (("exa", None, "thin"), ("exa", None, "fat"), ("mega",), ("exa",))
    ]
    assert machines == [Machine(24, 2), Machine(256, 2), Machine(64, 1, 4), Machine()]


def test_sockets_are_known_once_the_jobs_show_the_cores() -> None:
    centre = centre_of("cores", machines={SYSTEM: {"sockets_per_node": 2}})
    assert bends(centre, "cfd", "cores") == ()
    sacct_reports(centre, "cfd", "standard", cores=128, nodes=1)
    assert bends(centre, "cfd", "cores") == (64.0, 128.0)


def test_processes_with_threads_fill_a_node_sooner() -> None:
    centre = centre_of("processes", machines={SYSTEM: MACHINE})
    decode = slurm_decoder(DecodeOptions())
    for i in range(2):
        record = slurm_record(jobid=100 + i, cpus_per_task=8, job_name="hybrid", **{"@start": f"2026-08-20T09:1{i}:00"})
        for event in decode(record, parse_rfc3339("2026-11-21T00:00:00Z")).events:
            centre.fold(event)
    (name,) = {ApplicationKey.parse(each).application for each in centre.shard.state.models.keys()}  # noqa: SIM118
    assert bends(centre, name, "processes") == (2.0, 8.0, 16.0)


def test_the_curve_of_an_application_knows_where_its_machine_is_full() -> None:
    centre = centre_of("cores", machines={SYSTEM: MACHINE})
    for cores in (8, 16, 32):
        sacct_reports(centre, "cfd", "standard", cores=cores, nodes=1, runs=2)
    key = ApplicationKey(application="cfd", system=SYSTEM, input="", unit="cores")
    model = centre.model("cfd", "cores")
    assert model is not None
    found = model.evidence(key.id, key.system, Machines(centre.shard.state).bends(key))
    assert found is not None
    assert found.curve.bends == (16.0, 64.0, 128.0)
    again = model.evidence(key.id, key.system)
    assert again is found
    other = model.evidence(key.id, key.system, (24.0,))
    assert other is not None
    assert other.curve.bends == (24.0,)


def test_the_machine_survives_a_restart_and_forgotten_applications_leave_nothing() -> None:
    centre = centre_of("cores")
    sacct_reports(centre, "cfd", "standard", cores=256, nodes=2)
    centre.restart()
    assert bends(centre, "cfd", "cores") == (128.0,)
    state = centre.shard.state
    list(Forgetting(state, Warnings(state)).forget(f"{SYSTEM}/cfd//cores"))
    assert list(centre.shard.state.allocations.keys()) == []


def test_corrected_and_failed_runs_count_no_further() -> None:
    centre = centre_of("cores")
    for run_time_s in (60.0, 61.0, 62.0):
        centre.fold(completed("1", START_MS, run_time_s, application="cfd", sizes={"nodes": 1.0, "cores": 64.0}))
    for i in range(RUNS_MIN):
        centre.ran(f"f{i}", "cfd", None, 5.0, state="FAILED", sizes={"nodes": 1.0, "cores": 64.0})
    assert bends(centre, "cfd", "cores") == ()


def test_a_run_of_another_application_takes_its_allocation_along() -> None:
    centre = centre_of("cores")
    given: dict[str, Any] = {"sizes": {"nodes": 1.0, "cores": 48.0}, "partition": "thin"}
    for i in range(RUNS_MIN):
        centre.fold(completed(str(i), START_MS, 60.0, application="cfd", **given))
    assert bends(centre, "cfd", "cores") == (48.0,)
    centre.fold(completed("0", START_MS, 60.0, application="post", **given))
    assert (bends(centre, "cfd", "cores"), bends(centre, "post", "cores")) == ((48.0,), (48.0,))
    assert len(centre.shard.state.allocations.open(f"{SYSTEM}/cfd//cores")) == RUNS_MIN - 1
    centre.fold(completed("0", START_MS, 60.0, "FAILED", application="post", **given))
    assert bends(centre, "cfd", "cores") == bends(centre, "post", "cores") == ()


@pytest.mark.parametrize(
    ("sizes", "cores"),
    [
        ({"nodes": 2.0, "cores": 256.0}, 128),
        ({"nodes": 3.0, "cores": 256.0}, 0),
        ({"cores": 256.0}, 0),
        ({"nodes": 0.5, "cores": 64.0}, 0),
        ({"nodes": 1.0, "cores": 1e9}, 0),
    ],
)
def test_only_equal_whole_shares_of_nodes_show_what_a_node_is(sizes: dict[str, float], cores: int) -> None:
    assert allocation(completed("1", START_MS, 60.0, sizes=sizes)).cores_per_node == cores


@pytest.mark.parametrize("each", [0, -1, 2.5, "8", 10**9])
def test_cores_of_a_process_that_cannot_be_true_are_left_out(each: object) -> None:
    assert allocation(completed("1", START_MS, 60.0, attributes={"cpus_per_task": each})).cores_each == 0


def test_a_memory_domain_that_is_a_socket_is_one_bend() -> None:
    assert Machine(24, 2, 2).bends("threads") == (12.0, 24.0)
    assert Machine(24, 2, 24).bends("threads") == (12.0, 24.0)


def test_any_number_of_partitions_and_shares_takes_a_bounded_state_in_which_large_shares_stay() -> None:
    shown = NodeShapes()
    for i in range(5000):
        shown.learn(RunAllocation(i, i, "standard", 128 if i < RUNS_MIN else 1 + i % 127))
        shown.learn(RunAllocation(i, i, f"p{i}", 4))
    assert len(shown.snapshot().runs) <= PARTITIONS_MAX
    assert shown.score("standard") == 128
