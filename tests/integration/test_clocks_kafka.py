"""Wrong clocks of collectors, on a real broker: the broker's time bounds them, and there is a way back from the future."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.app import compose
from agent.app.roles import CollectorRole, LearnerRole
from agent.cli import main
from agent.clock import SystemClock
from agent.log.kafka.client import ClientName
from processors.contracts.events import Evidence, JobCompleted, Tick
from processors.contracts.log import TopicSettings
from processors.contracts.names import rfc3339
from tests.kit.agent_process import READY_S, AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.shard_on_kafka import SOON_S, KafkaShard

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000
DAY_S = 86_400.0
NEAR_S = 60.0  # what a busy machine may take between two looks


class ShiftedClock(SystemClock):
    """A clock that is wrong."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


@contextmanager
def collector(shard: KafkaShard, ahead_ms: int) -> Iterator[CollectorRole]:
    """Yield a collector whose clock is so far ahead."""
    with shard.log() as log:
        log.create([TopicSettings("raw", 2, compacted=False)])
        role = CollectorRole(shard.config, log, compose.metrics(), ShiftedClock(ahead_ms), restarts=0)
        try:
            role.open()
            yield role
        finally:
            role.close()


def lag_s(role: LearnerRole) -> float:
    (health,) = role.service.health()
    assert health.lag_s is not None
    return health.lag_s


def test_of_two_collectors_the_faster_clock_does_not_rule(kafka: KafkaBroker, fresh: Callable[[str], str]) -> None:
    shard = KafkaShard(kafka, fresh("clocks"))
    with collector(shard, 0) as right, collector(shard, HOUR_MS) as fast, shard.learner() as learner:
        for _ in range(12):  # a member without partitions writes no tick
            right.step()
            fast.step()
            shard.fold(learner)
        assert -6.0 < lag_s(learner) < NEAR_S
    assert shard.metrics.value("scalewatch_ticks_refused_total") >= 2


def test_one_tick_from_the_future_is_refused_and_time_goes_on(kafka: KafkaBroker, fresh: Callable[[str], str]) -> None:
    shard = KafkaShard(kafka, fresh("clocks"))
    future_ms = SystemClock().now_ms() + 365 * 24 * HOUR_MS
    shard.report(Tick("", time_ms=future_ms), producer_ms=future_ms)
    with shard.learner() as learner:
        shard.fold(learner)
        before = learner.service.health()[0].folded_ms
        until(lambda: SystemClock().now_ms() > (before or 0) + 1000, SOON_S, "the next second")
        shard.report(Tick("", time_ms=SystemClock().now_ms()))
        shard.fold(learner)
        assert (learner.service.health()[0].folded_ms or 0) > (before or 0)
        assert -6.0 < lag_s(learner) < NEAR_S
    assert shard.metrics.value("scalewatch_ticks_refused_total") == 1


def test_a_rebuild_brings_a_learner_back_from_the_future(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    shard = KafkaShard(kafka, fresh("clocks"), broker_time=False)  # as an earlier version made the journal
    now_ms = SystemClock().now_ms()
    job = JobCompleted(
        "exa", "1", "exa/1", now_ms - 60_000, now_ms - 1_000, 59.0, "COMPLETED",
        Evidence(application="lammps", sizes={"nodes": 4.0}),
    )  # fmt: skip
    ahead_ms = now_ms + HOUR_MS // 2
    shard.report(job, Tick("", time_ms=ahead_ms), producer_ms=ahead_ms)
    with shard.learner() as learner:
        shard.fold(learner)
        assert lag_s(learner) < -NEAR_S
        learner.finish()
    file = write_config(tmp_path, kafka.bootstrap, shard.config.topics.prefix, [{"topics": ["raw"]}])
    rebuilt = CliRunner().invoke(main, ["rebuild", "-c", str(file)])
    assert rebuilt.stdout.startswith("shard 0: 1 run")
    with shard.learner() as learner:
        shard.report(Tick("", time_ms=SystemClock().now_ms()))
        shard.fold(learner)
        assert -6.0 < lag_s(learner) < NEAR_S


@pytest.mark.slow
@pytest.mark.parametrize("shifted_s", [DAY_S, pytest.param(-DAY_S, marks=pytest.mark.thorough)])
def test_an_agent_whose_clock_is_a_day_wrong_names_it_and_works_by_the_clock_of_the_broker(
    kafka: KafkaBroker, client: ClientName, fresh: Callable[[str], str], tmp_path: Path, shifted_s: float
) -> None:
    fault = f"The clock of this host is 1 day {'ahead of' if shifted_s > 0 else 'behind'} the broker's."
    name = fresh("day")
    sources = [{"topics": [f"{name}-jobs"], "format": "native", "system": "exa"}]
    config = write_config(tmp_path, kafka.bootstrap, name, sources, client, jobs={"settle_max_s": 2.0})
    with AgentProcess(config, shifted_s=shifted_s) as agent, AgentTopics(agent.config) as topics:
        topics.create(f"{name}-jobs")
        for role in ("learner", "collector"):
            until(lambda role=role: fault in state(agent, role)["reasons"], READY_S, agent.output)  # type: ignore[misc] # bound to each role
        end_ms = SystemClock().now_ms()
        start, end = rfc3339(end_ms - 60_000), rfc3339(end_ms)
        run = (
            '{"type": "job.completed", "system": "exa", "job_id": "1", "application": "lammps", '
            f'"n": 4, "unit": "nodes", "start": "{start}", "end": "{end}", "run_time_s": 60}}'
        )
        topics.write(f"{name}-jobs", [run.encode()])
        until(lambda: topics.messages("runs"), READY_S, agent.output)
        assert abs(state(agent, "learner")["lag_s"]) < NEAR_S
        assert abs(agent.metric("learner", "scalewatch_clock_ahead_seconds") - shifted_s) < NEAR_S
        page = agent.get("learner", "/agent")
        assert page is not None
        assert fault.replace("'", "&#39;") in page.text
        assert len(agent.lines("the clock of this host is wrong")) == 2, "one line of each role"
        assert [line["child"] for line in agent.lines("role ended")] == [], agent.output()


def state(agent: AgentProcess, role: str) -> dict[str, Any]:
    """Return what a role says of its readiness."""
    answer = agent.get(role, "/readyz")
    roles: list[dict[str, Any]] = answer.json()["roles"] if answer is not None else []
    return roles[0] if roles else {"reasons": []}
