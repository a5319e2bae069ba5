"""Wrong clocks of collectors, on a real broker: the broker's time bounds them, and there is a way back from the future."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.app import compose
from agent.app.roles import CollectorRole, LearnerRole
from agent.cli import main
from agent.clock import SystemClock
from processors.contracts.events import Evidence, JobCompleted, Tick
from processors.contracts.log import TopicSettings
from tests.kit.agent_process import until, write_config
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.shard_on_kafka import SOON_S, KafkaShard

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000
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
        log.create([TopicSettings("raw", 1, compacted=False)])
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
        for _ in range(3):
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
