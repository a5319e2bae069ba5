"""Messages that freeze or end the process of the collector, on a real broker: they become dead letters that name them."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.config.topics import create
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics, ended_runs
from tests.kit.hostile_agent import CRASH, ENTRY, FREEZE, KILL
from tests.kit.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SYSTEM = "centre"
SOON_S = 180.0  # nothing takes so long where it works
SETTINGS: dict[str, dict[str, Any]] = {"jobs": {"settle_max_s": 2.0}, "kafka": {"session_timeout_s": 6.0}}
STARTS_MAX = 5


def completed(job_id: int) -> bytes:
    end_ms = time.time_ns() // 1_000_000
    times = {"start": rfc3339(end_ms - 60_000), "end": rfc3339(end_ms)}
    job = {"type": "job.completed", "system": SYSTEM, "job_id": str(job_id), "application": "gmx", "n": 1}
    return json.dumps(job | times | {"unit": "nodes"}).encode()


def healthy(first: int) -> list[bytes]:
    return [completed(number) for number in range(first, first + 20)]


def refused(topics: AgentTopics) -> dict[int, tuple[str, str, int]]:
    """Return the dead letters by their offset."""
    return {one["offset"]: (one["reason"], one["topic"], one["partition"]) for one in topics.messages("deadletters")}


@pytest.mark.parametrize("client", ["kafka-python", pytest.param("confluent", marks=pytest.mark.thorough)])
def test_messages_that_end_the_collector_are_dead_letters_and_all_others_count_once(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: Any
) -> None:
    source = fresh("hostile")
    path = write_config(tmp_path, kafka.bootstrap, f"{source}-own", [{"topics": [source]}], client, **SETTINGS)
    messages = [*healthy(0), FREEZE, *healthy(20), CRASH, *healthy(40)]
    with AgentProcess(path, entry=ENTRY) as agent, AgentTopics(agent.config) as topics:
        create(topics.log, agent.config)
        topics.create(source)
        agent.wait_ready("collector")
        topics.write(source, messages)
        until(lambda: len(topics.newest("runs")) == 60, SOON_S, agent.output)
        assert refused(topics) == dict.fromkeys((20, 41), ("decoder", source, 0))
        assert len(ended_runs(topics.journal())) == len(topics.messages("runs")) == 60
        killed = [line["reading"] for line in agent.lines("role hangs and is killed")]
        assert [reading.rpartition(" for ")[0] for reading in killed][-1] == f"{source}/0/20"
        ends = [line for line in agent.lines("role ended") if line["child"] == "collector"]
        assert {line["exit_code"] for line in ends} == {-9, -11}
        assert len(ends) <= 4, "each of both ended two processes"
        assert agent.metric("learner", "scalewatch_role_restarts_total", role="learner") == 0


def test_a_role_without_a_parent_finds_such_a_message_too(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    source = fresh("hostile")
    path = write_config(tmp_path, kafka.bootstrap, f"{source}-own", [{"topics": [source]}], **SETTINGS)
    agent = AgentProcess(path, "collector", entry=ENTRY)
    with AgentTopics(agent.config) as topics:
        create(topics.log, agent.config)
        topics.create(source)
        topics.write(source, [*healthy(0), FREEZE, *healthy(20), KILL, *healthy(40)])

        def worked_off() -> bool:
            if not agent.running():
                assert agent.starts <= 2 * STARTS_MAX, agent.output()
                agent.start()
            return len(ended_runs(topics.journal())) == 60

        try:
            until(worked_off, SOON_S, agent.output)
            assert refused(topics) == dict.fromkeys((20, 41), ("decoder", source, 0))
            assert f"{source}/0/20" in [
                line["reading"] for line in agent.lines("the previous process ended while it read records")
            ]
        finally:
            agent.__exit__()
