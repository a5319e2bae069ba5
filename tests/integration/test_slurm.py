"""What a real Slurm writes to Kafka is read as what its jobs did.

One day at a small centre, once per version of Slurm: two applications at several sizes, a failure, an array, a
cancelled job. The tests look at its records from every side, and last at what the whole agent makes of them.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kafka import KafkaConsumer, TopicPartition

from agent.config.references import read_calendar
from agent.decode.message import DecodeOptions
from agent.decode.slurm import slurm_decoder
from processors.contracts.events import JobCompleted, JobEvent, JobStarted
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.slurm import CORES_PER_NODE, SlurmCluster
from tests.kit.slurm_root import SUITES

pytestmark = [pytest.mark.kafka, pytest.mark.slurm]

_SCALING_S = {"lammps": {1: 3.0, 2: 2.0, 4: 1.0}, "gromacs": {1: 2.0, 2: 1.5}}
_LONG_S = 600  # a job that is cancelled before
_PRIVATE = "hunter2"
_SYSTEM = "centre"
_ARRIVAL_TIMEOUT_S = 120.0  # nothing takes so long where it works


@dataclass(frozen=True)
class Day:
    """What was done, in job ids, and what came out of Kafka."""

    began_ms: int
    over_ms: int
    scaling: dict[str, tuple[str, int]]
    failed: str
    array: str
    cancelled: str
    completed: dict[str, JobCompleted]
    started: dict[str, JobStarted]
    raw: list[bytes]


@pytest.fixture(scope="module")
def day(slurm: SlurmCluster, kafka: KafkaBroker) -> Day:
    began_ms = time.time_ns() // 1_000_000
    scaling = {
        slurm.submit(name, f"srun sleep {run_time_s}  # {_PRIVATE}", nodes=nodes): (name, nodes)
        for name, sizes in _SCALING_S.items()
        for nodes, run_time_s in sizes.items()
    }
    failed = slurm.submit("lammps", "exit 3")
    array = slurm.submit("sweep", "srun sleep 0.2", options=["--array=1-2"])
    cancelled = slurm.submit("gromacs", "true", nodes=2, options=["--hold"])
    slurm.cancel(cancelled)
    slurm.wait_idle()
    ended = read(kafka.bootstrap, slurm.topic, len(scaling) + 4)
    begun = read(kafka.bootstrap, slurm.started_topic, len(scaling) + 3) if writes_starts(slurm) else []
    return Day(
        began_ms, time.time_ns() // 1_000_000, scaling, failed, array, cancelled,
        completed={event.job_id: event for event in decoded(ended) if isinstance(event, JobCompleted)},
        started={event.job_id: event for event in decoded(begun) if isinstance(event, JobStarted)},
        raw=ended + begun,
    )  # fmt: skip


def writes_starts(slurm: SlurmCluster) -> bool:
    return slurm.version >= (26, 5)


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Return the records of a topic when there are `count` of them, or what is there at the deadline."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    found: list[bytes] = []
    deadline = time.monotonic() + _ARRIVAL_TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        found += [record.value for records in consumer.poll(timeout_ms=500).values() for record in records]
    consumer.close()
    return found


def decoded(values: list[bytes]) -> Iterator[JobEvent]:
    """Yield the events; every record of a real Slurm has to be accepted as it is.

    A Slurm without accounting, as this one, does not name the cluster in its records.
    """
    decode = slurm_decoder(DecodeOptions(default_system=_SYSTEM))
    for value in values:
        result = decode(value, time.time_ns() // 1_000_000)
        assert result.rejects == [], value
        yield from result.events


def test_the_version_is_the_one_that_the_suite_stands_for(slurm: SlurmCluster) -> None:
    assert slurm.version >= SUITES[slurm.suite]


def test_every_run_of_an_application_is_read_with_its_size_and_run_time(day: Day) -> None:
    for job, (name, nodes) in day.scaling.items():
        run = day.completed[job]
        assert (run.state, run.evidence.job_name) == ("COMPLETED", name)
        assert run.evidence.sizes["nodes"] == nodes
        assert run.evidence.sizes["cores"] == nodes * CORES_PER_NODE
        assert run.run_time_s is not None
        # it slept so long; Slurm counts whole seconds, and takes its time to start and to end
        assert _SCALING_S[name][nodes] - 1.0 <= run.run_time_s <= (day.over_ms - day.began_ms) / 1000
        assert run.start_ms is not None
        assert run.run_time_s == pytest.approx((run.end_ms - run.start_ms) / 1000, abs=1.0)


def test_a_record_that_names_no_cluster_belongs_to_the_configured_system(day: Day) -> None:
    assert {event.system for event in [*day.completed.values(), *day.started.values()]} == {_SYSTEM}


def test_times_are_utc_although_the_controller_is_in_another_zone(day: Day) -> None:
    for run in day.completed.values():
        assert day.began_ms - 1000 <= run.start_ms <= run.end_ms <= day.over_ms


def test_a_failed_job_is_read_with_its_exit_code(day: Day) -> None:
    run = day.completed[day.failed]
    assert (run.state, run.exit_code) == ("FAILED", 3)


def test_tasks_of_an_array_are_runs_of_their_own_that_know_their_array(day: Day) -> None:
    tasks = [run for run in day.completed.values() if run.evidence.array_job_id == day.array]
    assert len(tasks) == 2
    assert {run.evidence.job_name for run in tasks} == {"sweep"}


def test_a_job_cancelled_while_it_waited_never_ran(day: Day) -> None:
    run = day.completed[day.cancelled]
    assert (run.state, run.run_time_s) == ("CANCELLED", 0.0)


def test_starts_are_the_starts_of_the_same_runs(day: Day, slurm: SlurmCluster) -> None:
    if not writes_starts(slurm):
        assert day.started == {}
        return
    ran = {job: run.run_id for job, run in day.completed.items() if job != day.cancelled}
    assert {job: start.run_id for job, start in day.started.items()} == ran


def test_the_text_of_a_job_script_goes_no_further(day: Day) -> None:
    assert any(_PRIVATE.encode() in value for value in day.raw)
    for event in [*day.completed.values(), *day.started.values()]:
        assert _PRIVATE not in repr(event)


def test_a_reservation_for_maintenance_is_read_as_slurm_prints_it(slurm: SlurmCluster) -> None:
    create = ("scontrol", "create", "reservation", "Users=root", "StartTime=now+86400", "Duration=120")
    slurm.run(*create, "ReservationName=switches", "Nodes=nid[002-003]", "Flags=MAINT,IGNORE_JOBS")
    slurm.run(*create, "ReservationName=course", "Nodes=nid001")
    try:
        windows, problems = read_calendar(slurm.run("scontrol", "show", "reservations", "--json"), "x", [slurm.name])
    finally:
        slurm.run("scontrol", "delete", "ReservationName=switches")
        slurm.run("scontrol", "delete", "ReservationName=course")
    assert problems == []
    (window,) = windows
    assert (window.system, window.hosts, window.comment) == (slurm.name, "nid[002-003]", "reservation switches")
    assert (window.end - window.start).total_seconds() == 120 * 60
    assert window.start.timestamp() == pytest.approx(time.time() + 86_400, abs=_ARRIVAL_TIMEOUT_S)


def test_a_job_in_a_reservation_names_it(slurm: SlurmCluster, kafka: KafkaBroker) -> None:
    create = ("scontrol", "create", "reservation", "ReservationName=course", "Users=root", "StartTime=now")
    slurm.run(*create, "Duration=120", "Nodes=nid001")
    try:
        job = slurm.submit("lesson", "true", options=["--reservation=course"])
        slurm.wait_idle()

        def found() -> list[JobCompleted]:
            events = decoded(read(kafka.bootstrap, slurm.topic, 1))
            return [event for event in events if isinstance(event, JobCompleted) and event.job_id == job]

        (run,) = until(found, _ARRIVAL_TIMEOUT_S, "the job's record")
    finally:
        slurm.run("scontrol", "delete", "ReservationName=course")
    assert run.evidence.reservation == "course"


@pytest.fixture(scope="module")
def agent(
    day: Day, slurm: SlurmCluster, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentProcess]:
    """The whole agent, started in the evening: it reads the day, and then what goes on."""
    topics = [slurm.topic, slurm.started_topic]
    sources = [{"topics": topics, "format": "slurm", "system": _SYSTEM}]
    folder = tmp_path_factory.mktemp(slurm.suite)
    path = write_config(folder, kafka.bootstrap, f"agent-{slurm.suite}", sources, jobs={"settle_max_s": 1.0})
    with AgentProcess(path) as running:
        running.wait_ready()
        yield running


def learned(agent: AgentProcess) -> dict[str, tuple[list[float], int]]:
    """Return sizes and observations by application."""
    rows = agent.rows("/api/v1/applications")
    return {row["application"]: (row["sizes"], row["observations"]) for row in rows}


def published(topics: AgentTopics) -> dict[str, tuple[list[float], int]]:
    """Return the same of the newest predictions on their topic."""
    return {one["application"]: (one["sizes"], one["observations"]) for one in topics.messages("predictions")}


def settled(topics: AgentTopics) -> dict[str, str]:
    """Return the states of the settled runs by job id."""
    return {run["run_id"].partition("/")[2].partition("@")[0]: run["state"] for run in topics.messages("runs")}


def test_the_agent_predicts_both_applications_at_the_sizes_they_ran_at(agent: AgentProcess, day: Day) -> None:
    ran = {name: ([float(nodes) for nodes in sizes], len(sizes)) for name, sizes in _SCALING_S.items()}
    until(
        lambda: ran.items() <= learned(agent).items(), _ARRIVAL_TIMEOUT_S, lambda: f"{learned(agent)}{agent.output()}"
    )
    with AgentTopics(agent.config) as topics:
        until(lambda: ran.items() <= published(topics).items(), _ARRIVAL_TIMEOUT_S, agent.output)
        assert {one["system"] for one in topics.messages("predictions")} == {_SYSTEM}
        until(lambda: settled(topics).keys() >= day.completed.keys(), _ARRIVAL_TIMEOUT_S, agent.output)
        states = settled(topics)
        assert (states[day.failed], states[day.cancelled]) == ("FAILED", "CANCELLED")
        assert topics.messages("deadletters") == []
    answer = agent.get("learner", "/api/v1/predictions?application=lammps&n=1,4")
    assert answer is not None
    times_s = [day.completed[job].run_time_s or 0.0 for job, (name, _) in day.scaling.items() if name == "lammps"]
    for point in answer.json()["points"]:
        assert min(times_s) / 2 <= point["run_time_s"] <= 2 * max(times_s)


def test_a_job_is_forecast_while_it_runs_and_not_learned_when_it_is_cancelled(
    agent: AgentProcess, slurm: SlurmCluster
) -> None:
    until(lambda: "lammps" in learned(agent), _ARRIVAL_TIMEOUT_S, agent.output)
    before = learned(agent)
    job = slurm.submit("lammps", f"srun sleep {_LONG_S}", nodes=4)
    if writes_starts(slurm):
        (forecast,) = until(lambda: agent.rows(f"/api/v1/jobs?job_id={job}"), _ARRIVAL_TIMEOUT_S, agent.output)
        assert (forecast["application"], forecast["n"]) == ("lammps", 4.0)
        assert 0.0 < forecast["run_time_s"] < _LONG_S  # of its application, not of itself
    else:
        until(lambda: slurm.run("squeue", "--noheader", "--states=R").strip(), _ARRIVAL_TIMEOUT_S, "a running job")
    slurm.cancel(job)
    with AgentTopics(agent.config) as topics:
        until(lambda: settled(topics).get(job) == "CANCELLED", _ARRIVAL_TIMEOUT_S, agent.output)
    assert agent.rows("/api/v1/jobs") == []
    assert learned(agent) == before
