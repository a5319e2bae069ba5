"""Profiles of runs whose telemetry was read late, on a real broker: topics that were filled before, stops, late producers.

The clock of the collector is the test's: hours pass in seconds, and the records lie in the past of the broker.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import pytest

from agent.app.kafka import kafka_settings
from agent.app.roles import CollectorRole
from agent.clock import BrokerClock, SystemClock
from agent.log.kafka.client import ClientName
from agent.log.kafka.log import KafkaLog
from processors.contracts.log import TopicSettings
from processors.contracts.names import rfc3339
from tests.kit.agent_process import until
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.shard_on_kafka import SOON_S, KafkaShard

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MINUTE_MS = 60_000
HOSTS = 4
JOBS, POWER = 0, (1, 2)  # partitions of the source
EVERY_MS = 5 * MINUTE_MS  # from the start of a run to that of the next one on its host
RUN_MS = 4 * MINUTE_MS
SAMPLE_MS = 10_000
SETTLE_MS = 180_000
LATE_MS = 10 * MINUTE_MS
STEP_MS = 15_000


class MovedClock(BrokerClock):
    """A clock that the test moves on; the broker's is another one."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(SystemClock())
        self._started_ms = self._moved_ms = now_ms
        self.monotonic_s = self._moved_s

    def now_ms(self) -> int:
        return self._moved_ms

    def compare(self, written_ms: int, within_s: float) -> None:
        pass

    def move_to(self, now_ms: int) -> None:
        self._moved_ms = now_ms

    def _moved_s(self) -> float:
        return SystemClock().monotonic_s() + (self._moved_ms - self._started_ms) / 1000


class Centre:
    """Four hosts with one run after the other, and what their producers have written so far."""

    def __init__(self, broker: KafkaBroker, prefix: str, client: ClientName, since_ms: int) -> None:
        self.shard = KafkaShard(broker, prefix, f"{prefix}-raw", client)
        self.source, self._since_ms = f"{prefix}-raw", since_ms
        self._jobs_ms = self._power_ms = since_ms
        self._log = KafkaLog(kafka_settings(self.shard.config))
        self._log.create([TopicSettings(self.source, 1 + len(POWER), compacted=False)])
        self._producer = self._log.producer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def write(self, until_ms: int, late_ms: int = 0) -> None:
        """Write what happened until a time; samples come so much later."""
        jobs = self._between(self._jobs(until_ms), self._jobs_ms, until_ms)
        power = self._between(self._power(until_ms - late_ms), self._power_ms, until_ms - late_ms)
        self._jobs_ms, self._power_ms = until_ms, max(until_ms - late_ms, self._power_ms)
        for time_ms, partition, event in jobs:
            self._producer.send(self.source, json.dumps(event).encode(), None, partition, time_ms)
        for time_ms, partition, event in power:
            self._producer.send(self.source, json.dumps(event).encode(), None, partition, time_ms + late_ms)
        self._producer.flush(SOON_S)

    def settled(self, now_ms: int) -> int:
        """Return how many runs settle until a time."""
        return sum(end_ms + SETTLE_MS <= now_ms for _, _, end_ms in self._runs(now_ms))

    def outcomes(self) -> dict[str, float]:
        """Return how many profiles were learned, and how many runs had no telemetry."""
        values = {
            name: self.shard.metrics.value("scalewatch_profiles_total", outcome=name)
            for name in ("learned", "no_telemetry", "coverage")
        }
        return {name: value for name, value in values.items() if value}

    def _runs(self, until_ms: int) -> Iterator[tuple[int, int, int]]:
        for host in range(HOSTS):
            for start_ms in range(self._since_ms + host * MINUTE_MS + 7_000, until_ms, EVERY_MS):
                yield host, start_ms, start_ms + RUN_MS

    def _jobs(self, until_ms: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
        for host, start_ms, end_ms in self._runs(until_ms):
            job = {
                "system": "exa", "job_id": f"{host}{start_ms}", "application": "lammps", "n": 1, "unit": "nodes",
                "start": rfc3339(start_ms), "hosts": [f"nid{host}"],
            }  # fmt: skip
            yield start_ms, JOBS, {"type": "job.started"} | job
            ended = {"type": "job.completed", "end": rfc3339(end_ms), "run_time_s": RUN_MS / 1000, "state": "COMPLETED"}
            yield end_ms, JOBS, ended | job

    def _power(self, until_ms: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
        for time_ms in range(self._since_ms, until_ms, SAMPLE_MS):
            for host in range(HOSTS):
                sample = {"type": "power", "component": "system", "power_w": 300.0 + host, "time": rfc3339(time_ms)}
                yield time_ms, POWER[host % 2], {"system": "exa", "host": f"nid{host}"} | sample

    @staticmethod
    def _between(
        events: Iterator[tuple[int, int, dict[str, Any]]], from_ms: int, until_ms: int
    ) -> list[tuple[int, int, dict[str, Any]]]:
        return sorted((event for event in events if from_ms <= event[0] < until_ms), key=lambda event: event[0])


@contextmanager
def collector(centre: Centre, clock: MovedClock) -> Iterator[CollectorRole]:
    """Yield a collector that has read what there is."""
    with centre.shard.log() as log:
        ends = log.ends([centre.source])[centre.source]
        role = CollectorRole(centre.shard.config, log, centre.shard.metrics, clock, restarts=0)
        try:
            role.open()
            until(lambda: role.step() or is_current(role, ends), SOON_S, "the source is read")
            yield role
            role.finish()
        finally:
            role.close()


def is_current(role: CollectorRole, ends: Mapping[int, int]) -> bool:
    """Return whether a collector has read a source to these ends."""
    taken = role._collector.taken() if role._collector is not None else {}
    return {number: at.next_offset for (_, number), at in taken.items()} == ends


def read(centre: Centre, now_ms: int) -> None:
    """Let a collector and a learner start at a time, work off what there is, and end."""
    clock = MovedClock(now_ms)
    with centre.shard.learner() as learner:
        with collector(centre, clock) as role:
            clock.move_to(now_ms + 1000)
            role.step()
        centre.shard.fold(learner)
        learner.finish()


@pytest.fixture
def now_ms() -> int:
    return SystemClock().now_ms() // MINUTE_MS * MINUTE_MS


def test_a_first_start_on_filled_topics_and_long_stops_cost_no_profile(
    kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName, now_ms: int
) -> None:
    times_ms = [now_ms - minutes * MINUTE_MS for minutes in (35, 29, 4)]  # stops of 6 and of 25 minutes follow
    with Centre(kafka, fresh("backlog"), client, now_ms - 100 * MINUTE_MS) as centre:
        for time_ms in times_ms:
            centre.write(time_ms)
            read(centre, time_ms)
            assert centre.outcomes() == {"learned": centre.settled(time_ms)}


def test_samples_that_come_ten_minutes_late_cost_no_profile(
    kafka: KafkaBroker, fresh: Callable[[str], str], now_ms: int
) -> None:
    start_ms, end_ms = now_ms - 10 * MINUTE_MS, now_ms
    with Centre(kafka, fresh("late"), "kafka-python", now_ms - 40 * MINUTE_MS) as centre:
        centre.write(start_ms, LATE_MS)
        clock = MovedClock(start_ms)
        with centre.shard.learner() as learner, collector(centre, clock) as role:
            for time_ms in range(start_ms, end_ms, STEP_MS):
                centre.write(time_ms, LATE_MS)
                clock.move_to(time_ms)
                role.step()
            centre.shard.fold(learner)
            assert learner.service.health()[0].ready, "the learner is not behind: its sources are"
        learned = centre.outcomes()
        assert set(learned) == {"learned"}
        assert learned["learned"] == pytest.approx(centre.settled(end_ms - LATE_MS), abs=2)
