"""Health on a real broker: what is behind is not ready, and sources that never spoke are named."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from processors.contracts.events import JournalRecord, Tick, encode_record
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.read_by import text_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
SOON_S = 60.0
MINUTES = 10


def tick(minutes_ago: int) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return encode_record(JournalRecord(Tick("", time_ms=now_ms - minutes_ago * 60_000)))


def test_a_learner_that_is_minutes_behind_is_not_ready_until_it_has_caught_up(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    path = write_config(tmp_path, kafka.bootstrap, fresh("late"), [{"topics": [fresh("jobs")], "format": "native"}])
    with AgentProcess(path, "learner") as agent, AgentTopics(agent.config) as topics:

        def reasons() -> str:
            answer = agent.get("learner", "/readyz")
            return "" if answer is None or answer.status_code == 200 else " ".join(answer.json()["reasons"])

        until(lambda: "no tick" in reasons(), SOON_S, agent.output)
        topics.write(agent.config.topics.journal, [tick(MINUTES)])
        until(lambda: f"{MINUTES} minutes behind" in reasons(), SOON_S, agent.output)
        assert agent.metric("learner", "scalewatch_ready", role="learner") == 0
        topics.write(agent.config.topics.journal, [tick(0)])
        agent.wait_ready("learner", timeout_s=SOON_S)


def test_a_topic_without_messages_is_waited_for_and_the_collector_is_on_the_page(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    empty, source = fresh("empty"), fresh("jobs")
    pattern = f"^{fresh('none')}[.].*"
    sources = [{"topics": [empty, source, pattern], "format": "native", "silent_s": 3}]
    path = write_config(tmp_path, kafka.bootstrap, fresh("waits"), sources)
    with AgentProcess(path) as agent, AgentTopics(agent.config) as topics:
        topics.create(empty)
        topics.create(source)
        agent.wait_ready()
        topics.write(source, [b"no JSON"])

        def page() -> str:
            answer = agent.get("learner", "/agent")
            return "" if answer is None or answer.status_code != 200 else text_of(answer.text)

        until(lambda: f"{empty} has had no message" in page(), SOON_S, page)
        until(lambda: "dead letters 1" in page() and "not-json 1" in page(), SOON_S, page)
        assert pattern in page()

        def messages(topic: str) -> float:
            return agent.metric("collector", "scalewatch_source_messages", topic=topic)

        until(lambda: messages(source) == 1, SOON_S, agent.output)
        assert messages(empty) == 0
        newest_s = agent.metric("collector", "scalewatch_source_newest_message_timestamp_seconds", topic=source)
        assert abs(time.time() - newest_s) < SOON_S
        assert agent.metric("collector", "scalewatch_source_silent_threshold_seconds", topic=source) == 3
        until(lambda: "1 source is silent" in page().lower(), SOON_S, page)
        agent.signal_role("collector", signal.SIGKILL)
        until(lambda: "last report" in page() and "restarts 1" in page(), SOON_S, page)
