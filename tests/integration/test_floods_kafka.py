"""A flood of new names on a real broker: the application of somebody else is published long before the flood is through."""

from collections.abc import Callable

import pytest

from processors.contracts.events import Evidence, JobCompleted
from processors.contracts.names import run_id
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.shard_on_kafka import START_MS, KafkaShard

pytestmark = pytest.mark.kafka
NAMES = 1000
FITS = 64  # at a tick: far fewer than the names
MINUTE_MS = 60_000


def completed(job: str, application: str, user: str, run_time_s: float, end_ms: int) -> JobCompleted:
    start_ms = end_ms - round(run_time_s * 1000)
    evidence = Evidence(application=application, user=user, sizes={"nodes": 4.0})
    return JobCompleted("exa", job, run_id("exa", job, start_ms), start_ms, end_ms, run_time_s, "COMPLETED", evidence)


def test_another_users_application_does_not_wait_for_a_flood_of_names(
    kafka: KafkaBroker, fresh: Callable[[str], str]
) -> None:
    shard = KafkaShard(kafka, fresh("flood"), broker_time=False, settings=f"run_time: {{fits_per_tick_max: {FITS}}}")
    shard.ticks(0)
    for run in range(2):
        end_ms = START_MS + run
        shard.report(
            *(completed(f"f{run}-{i}", f"new-{i:04d}x", "mallory", 60.0 + run, end_ms) for i in range(NAMES)),
            producer_ms=START_MS,
        )
    shard.ticks(10)
    shard.report(
        *(completed(f"a{i}", "lammps", "alice", 100.0 + i, START_MS + 10_000) for i in range(2)), producer_ms=START_MS
    )
    shard.ticks(20)
    with shard.learner() as role:
        shard.fold(role)
        (health,) = role.service.health()
        assert any("user mallory of exa" in found for found in health.floods)
        role.finish()
    published = [prediction["application"] for prediction in AgentTopics(shard.config).messages("predictions")]
    before, after = published[:FITS], published[FITS:]
    assert "lammps" not in before, "it had not run yet"
    assert after.index("lammps") <= 1, "it is among the first of its tick, though 900 names have waited for longer"
    assert len(after) == FITS

    assert shard.metrics.value("scalewatch_fits_waiting", lane="longest") == NAMES - FITS - (FITS - 1)
    with shard.learner() as role:
        shard.ticks(30)
        shard.fold(role)
        learner = role.service.learner  # type: ignore[attr-defined] # the role's own service
        assert learner.shards()[0].fold.sizes()["run_time"] == NAMES + 1, "nothing is lost"
