"""A learner that sleeps beyond its session and wakes up: its successor's state stays, and it comes back as a standby."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.app.kafka import kafka_settings
from agent.config.load import load
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.decode.message import DecodeOptions
from agent.decode.native import native_decoder
from agent.learner.learner import Learner
from agent.log.kafka.client import ClientName
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import FencedError
from processors.contracts.events import JournalRecord, encode_record
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics, folded, observations, states
from tests.kit.clock import FakeClock
from tests.kit.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

END_MS = 1_795_168_800_000
SOON_S = 120.0  # nothing takes so long where it works


def run(application: str, number: int, n: float) -> bytes:
    ended = {"n": n, "unit": "nodes", "end": rfc3339(END_MS + number * 60_000), "run_time_s": 600.0 / n + number}
    named = {"type": "job.completed", "system": "centre", "job_id": f"{application}-{number}"}
    return json.dumps(named | {"application": application} | ended).encode()


def runs(application: str) -> list[bytes]:
    return [run(application, number, n) for number, n in enumerate((1.0, 2.0, 4.0, 8.0))]


class Sleeper:
    """A learner in this process that sleeps whenever nobody steps it, and loses its shard when it does so too long."""

    def __init__(self, config: Config, may_sleep_s: float) -> None:
        settings = msgspec.structs.replace(
            kafka_settings(config), session_timeout_s=12.0, work_timeout_s=may_sleep_s, metadata_age_s=1.0
        )
        clock = FakeClock()
        self.log = KafkaLog(settings)
        self.learner = Learner(
            self.log, compose.plan(config), compose.metrics(), "learner",
            on_emission=lambda _: None, monotonic_s=clock.monotonic_s,
        )  # fmt: skip

    def step_until(self, done: Callable[[], bool], what: str) -> None:
        """Step until something is true."""

        def look() -> bool:
            self.learner.step(0.0, 0.2)  # the clock stands still: no checkpoint comes by itself
            return done()

        until(look, SOON_S, what)

    def owns(self) -> bool:
        return bool(self.learner.shards())

    def folded(self, offset: int) -> bool:
        """Return whether everything up to an offset of the journal was folded."""
        return self.owns() and self.learner.shards()[0].offset >= offset


@pytest.fixture
def topics(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: ClientName
) -> Iterator[AgentTopics]:
    sources = [{"topics": [fresh("unread")]}]
    path = write_config(
        tmp_path, kafka.bootstrap, fresh("sleep"), sources, client, learner={"checkpoint_interval_s": 3600.0}
    )
    with AgentTopics(load(str(path))) as connected:
        connected.log.create(own_topics(connected.config))
        yield connected


def journal(topics: AgentTopics, values: list[bytes]) -> None:
    """Write events into the journal, as the collector does."""
    decode = native_decoder(DecodeOptions())
    decoded = [event for value in values for event in decode(value, END_MS).events]
    topics.write(topics.config.topics.journal, [encode_record(JournalRecord(event=event)) for event in decoded])


def test_the_checkpoint_of_a_learner_that_was_succeeded_is_fenced(topics: AgentTopics) -> None:
    sleeper, successor = Sleeper(topics.config, 3.0), Sleeper(topics.config, 300.0)
    try:
        journal(topics, runs("before"))
        sleeper.step_until(lambda: sleeper.folded(4), "four records folded")
        successor.step_until(successor.owns, "the successor owns the shard")  # the sleeper does not poll
        journal(topics, runs("meanwhile"))
        successor.step_until(lambda: successor.folded(8), "eight records folded")
        successor.learner.checkpoint(0.0)
        with pytest.raises(FencedError):
            sleeper.learner.checkpoint(0.0)
        saved = topics.marker()
        assert saved is not None
        assert (saved.number, saved.offset) == (1, 8)
        journal(topics, runs("after"))
        successor.step_until(lambda: successor.folded(12), "twelve records folded")
        successor.learner.checkpoint(0.0)
    finally:
        sleeper.log.close()
        successor.log.close()
    restored = topics.take_over()
    shard, _ = folded(topics.config, topics.journal())
    assert restored.states == states(shard)
    assert observations(shard) == {"before": 4, "meanwhile": 4, "after": 4}
    assert restored.marker is not None
    assert (restored.marker.number, restored.marker.offset) == (2, 12)


def test_a_process_that_sleeps_beyond_its_session_comes_back_as_a_standby(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: ClientName
) -> None:
    source, prefix = fresh("jobs"), fresh("zombie")
    sources = [{"topics": [source], "format": "native"}]
    settings: dict[str, dict[str, Any]] = {
        "learner": {"checkpoint_interval_s": 5.0}, "kafka": {"session_timeout_s": 6.0}
    }  # fmt: skip
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = AgentProcess(write_config(tmp_path / "here", kafka.bootstrap, prefix, sources, client, **settings))
    there = AgentProcess(
        write_config(tmp_path / "there", kafka.bootstrap, prefix, sources, client, **settings), "learner"
    )
    with AgentTopics(here.config) as topics:
        topics.create(source)
        with here:
            here.wait_ready()
            topics.write(source, runs("before"))
            until(lambda: knows(here, "before"), SOON_S, here.output)
            until(topics.marker, SOON_S, "a checkpoint")
            here.signal_role("learner", signal.SIGSTOP)
            with there:
                there.wait_ready("learner")  # once the session of the zombie is over
                topics.write(source, runs("meanwhile"))
                until(lambda: knows(there, "meanwhile"), SOON_S, there.output)
                successors = until(
                    lambda: there.metric("learner", "scalewatch_checkpoints_total", outcome="confirmed"),
                    SOON_S,
                    "a checkpoint of the successor",
                )
                assert successors >= 1
                here.signal_role("learner", signal.SIGCONT)
                until(lambda: one_of_two(here, there), SOON_S, here.output)
                topics.write(source, runs("after"))
                until(lambda: knows(here, "after") or knows(there, "after"), SOON_S, here.output)
                lines = here.lines("role ends")
                print(f"\nthe zombie: {lines[0]['reason'] if lines else 'it gave the shard up and lives'}")  # noqa: T201
                until(lambda: len(here.lines("role restarted")) >= len(lines), SOON_S, here.output)
                assert here.stop() == 0
                until(topics.saved, SOON_S, "a checkpoint at the end of the journal")
                assert there.stop() == 0
        restored = topics.take_over()
        shard, emissions = folded(topics.config, topics.journal())
        assert restored.states == states(shard)
        for kind, records in topics.outputs().items():
            assert set(records) == {(one.key, one.value) for one in emissions if one.kind == kind}


def knows(agent: AgentProcess, application: str) -> bool:
    """Return whether a learner owns the shard and has learned all runs of an application."""
    answer = agent.get("learner", f"/api/v1/predictions?application={application}&n=2")
    return answer is not None and answer.status_code == 200 and answer.json()["observations"] == 4


def one_of_two(*agents: AgentProcess) -> bool:
    """Return whether one learner is ready and the other says that it waits for a shard."""
    answers = [answer for agent in agents if (answer := agent.get("learner", "/readyz")) is not None]
    waiting = [answer for answer in answers if "no shard to process" in answer.text]
    return sorted(answer.status_code for answer in answers) == [200, 503] and len(waiting) == 1
