"""Single bad records on a real broker: in a source, and in the agent's own output topics. Nothing stops, and it is told."""

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agent.config.topics import create
from processors.contracts.events import JobCompleted, decode_record
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SYSTEM = "centre"
SOON_S = 120.0  # nothing takes so long where it works
PAGES = ("/", "/jobs", "/alerts", "/agent", "/api/v1/applications", "/api/v1/jobs", "/api/v1/alerts", "/metrics")
GARBAGE: list[tuple[bytes | None, bytes | None]] = [
    (b"x", b"{}"),
    (b"y", b"\xff\x00 no JSON"),
    (b"\xff\xfe", b"{}"),
    (b"z", b"{}"),
    (b"z", None),
]
UNREADABLE = 4  # of these
NETWORK = {"type": "network", "system": SYSTEM, "job_id": "812", "time": "2026-11-20T10:31:12Z"}
BOMBS: dict[str, list[bytes]] = {  # hours of a processor, or GB of memory, to a decoder without bounds
    "line-protocol": [
        b"cpu,host=n1 usage_idle=3i 1795168800000000000",
        b"cpu,host=n1 usage_idle=" + b"." * 900_000 + b" 1795168800000000000",
        b"job," * 20_000 + b" x",
        b"job,hostname=m2," + b"function=start_job," * 40_000,
    ],
    "native": [
        json.dumps(NETWORK | {"mapping": mapping}).encode()
        for mapping in (
            {"text": "0-999999," * 100, "hosts": ["n[1-60000]"], "ranks_per_host": 65_536},
            {"text": "0,1", "hosts": ["n[1-60000]"] * 1_000, "ranks_per_host": 2},
        )
    ],
    "ldms": [
        b'{"schema":"slurm_step_data","event":"step_init","timestamp":1795168800,"data":{"job_id":7,"job_name":"a","nnodes":1'
        + b"0" * 400 + b"}}",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def source(_numbers: Iterator[int]) -> str:
    return f"bad-records-{next(_numbers)}"


@pytest.fixture(scope="module")
def agent(kafka: KafkaBroker, source: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that starts on output topics with garbage in them."""
    sources = [
        {"topics": [source if name == "auto" else f"{source}-{name}"], "format": name, "system": SYSTEM}
        for name in ("auto", *BOMBS)
    ]
    settings: dict[str, dict[str, Any]] = {"jobs": {"settle_max_s": 2.0}}
    path = write_config(tmp_path_factory.mktemp("bad"), kafka.bootstrap, f"{source}-own", sources, **settings)
    running = AgentProcess(path)
    with AgentTopics(running.config) as topics:
        create(topics.log, running.config)
        for each in sources:
            topics.create(each["topics"][0])
        producer = topics.log.producer()
        for name in ("predictions", "job_predictions", "alerts", "runs"):
            for key, value in GARBAGE:
                producer.send(getattr(running.config.topics, name), value, key)
        producer.flush(SOON_S)
        producer.close()
    with running:
        running.wait_ready()
        yield running


@pytest.fixture(scope="module")
def topics(agent: AgentProcess) -> Iterator[AgentTopics]:
    with AgentTopics(agent.config) as connected:
        yield connected


def completed(job_id: str, **facts: Any) -> bytes:
    """Return a run that has just ended."""
    end_ms = time.time_ns() // 1_000_000
    times = {"start": rfc3339(end_ms - 60_000), "end": rfc3339(end_ms)}
    return json.dumps(
        {"type": "job.completed", "system": SYSTEM, "job_id": job_id, "n": 1, "unit": "nodes", **times, **facts}
    ).encode()


def journalled(topics: AgentTopics, job_id: str) -> JobCompleted | None:
    events = (decode_record(value).event for value in topics.journal())
    return next((event for event in events if isinstance(event, JobCompleted) and event.job_id == job_id), None)


def test_garbage_in_output_topics_is_left_out_counted_and_named(agent: AgentProcess) -> None:
    for page in PAGES:
        answer = agent.get("learner", page)
        assert answer is not None
        assert answer.status_code == 200, (page, agent.output())
    for kind in ("predictions", "job_predictions", "alerts", "runs"):
        assert agent.metric("learner", "scalewatch_outputs_unreadable_total", topic=kind) == UNREADABLE
    named = [line["record"] for line in agent.lines("a record of an output topic cannot be read")]
    assert f"{agent.config.topics.alerts}/0/0" in named
    assert agent.metric("learner", "scalewatch_role_restarts_total", role="learner") == 0


def test_a_job_with_a_number_of_hundreds_of_digits_counts_and_the_collector_goes_on(
    agent: AgentProcess, topics: AgentTopics, source: str
) -> None:
    ended_ms = time.time_ns() // 1_000_000
    job = {
        "job_id": 4711, "job_state": "COMPLETED", "job_name": "gmx", "start_time": rfc3339(ended_ms - 60_000),
        "end_time": rfc3339(ended_ms), "requested_cpus": 10**400, "requested_node_count": 2,
    }  # fmt: skip
    sonar = {"meta": {}, "data": {"type": "job", "attributes": {"cluster": SYSTEM, "slurm_jobs": [job]}}}
    topics.write(source, [json.dumps(sonar).encode(), completed("after")])
    until(lambda: journalled(topics, "after"), SOON_S, agent.output)
    counted = journalled(topics, "4711")
    assert counted is not None
    assert counted.evidence.sizes == {"nodes": 2.0}
    assert agent.metric("collector", "scalewatch_role_restarts_total", role="collector") == 0


def test_fifty_bad_samples_of_a_batch_are_one_dead_letter(
    agent: AgentProcess, topics: AgentTopics, source: str
) -> None:
    sample = {"type": "load", "system": SYSTEM, "host": "nid1", "resource": "cpu_available", "value": 0.5}
    sample["time"] = rfc3339(time.time_ns() // 1_000_000)
    batch = json.dumps([sample] * 150 + [sample | {"value": 7.5}] * 50).encode()
    topics.write(source, [batch, completed("after the batch")])
    until(lambda: journalled(topics, "after the batch"), SOON_S, agent.output)
    (written,) = [one for one in topics.messages("deadletters") if one["topic"] == source]
    assert (written["reason"], written["count"], len(written["places"])) == ("out-of-range", 50, 20)
    assert len(json.dumps(written)) < 1.5 * len(batch)


def test_no_record_holds_the_collector_and_those_behind_it_are_read(
    agent: AgentProcess, topics: AgentTopics, source: str
) -> None:
    began_s = time.monotonic()
    for name, bombs in BOMBS.items():
        topics.write(source, bombs)
        topics.write(f"{source}-{name}", bombs)
    topics.write(source, [completed("behind the bombs")])
    topics.write(f"{source}-native", [completed("behind the bombs of its format")])
    until(lambda: journalled(topics, "behind the bombs"), SOON_S, agent.output)
    until(lambda: journalled(topics, "behind the bombs of its format"), SOON_S, agent.output)
    assert time.monotonic() - began_s < SOON_S, "each of them took minutes to hours"
    for reason, count in (("mapping", 4), ("columns", 4), ("not-json", 2)):
        assert len(_reasons_of(topics, source, reason)) == count, reason
    assert _reasons_of(topics, source, "decoder") == []
    assert agent.metric("collector", "scalewatch_role_restarts_total", role="collector") == 0


def _reasons_of(topics: AgentTopics, source: str, reason: str) -> list[str]:
    """Return the topics of the dead letters of a reason."""
    refused = (one for one in topics.messages("deadletters") if one["topic"].startswith(source))
    return [one["topic"] for one in refused if one["reason"] == reason]


def test_the_hosts_of_a_job_of_2500_nodes_are_in_the_journal(
    agent: AgentProcess, topics: AgentTopics, source: str
) -> None:
    hosts = [f"nid{number:06d}" for number in range(1, 2501)]
    topics.write(source, [completed("large", application="lammps", n=2500, unit="nodes", hosts=hosts)])
    event = until(lambda: journalled(topics, "large"), SOON_S, agent.output)
    assert event.evidence.hosts == ("nid[000001-002500]",)


def test_a_learner_that_starts_again_reads_past_the_garbage(agent: AgentProcess) -> None:
    agent.signal_role("learner", signal.SIGKILL)
    until(lambda: agent.metric("learner", "scalewatch_role_restarts_total", role="learner") == 1, SOON_S, agent.output)
    agent.wait_ready("learner")
    assert len(agent.lines("role ended")) == 1, "it starts again once, and stays"
