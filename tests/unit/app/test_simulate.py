"""The simulated centre as a producer: its past first, then what happens as it happens; a restart goes on where it was."""

import json
import threading
from typing import Any

import pytest

from agent.cli.simulate import Destinations, Simulator, destinations
from agent.config.tree import Config, Source, System
from agent.log.memory import MemoryLog
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.log import Batch
from processors.contracts.telemetry import MetricMapping, Telemetry
from tests.kit.clock import FakeClock

HOUR_S = 3600.0
TO = Destinations("jobs", "load", "energy")
RAPL = Telemetry(metrics=(MetricMapping(measurement="rapl", field="joules", resource="energy_total"),))


class Stopped(threading.Event):
    """Is set by a clock: after so many seconds."""

    def __init__(self, clock: FakeClock, after_s: float) -> None:
        super().__init__()
        self._clock, self._end_s = clock, clock.monotonic_s() + after_s

    def is_set(self) -> bool:
        return self._clock.monotonic_s() >= self._end_s


def simulator(log: MemoryLog, clock: FakeClock, *, seed: int = 1, past_s: float = 4 * HOUR_S) -> Simulator:
    return Simulator(log, TO, clock, seed=seed, past_s=past_s, speed=1200.0, system="simulated")


def predicted(log: MemoryLog, topic: str) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []

    def take(batch: Batch) -> None:
        pairs = zip(batch.timestamps_ms, batch.values, strict=True)
        found.extend((at, value) for at, value in pairs if value is not None)

    log.read(topic, 0, take)
    return found


def ids(log: MemoryLog) -> list[tuple[Any, ...]]:
    events = [json.loads(value) for _, value in predicted(log, "jobs")]
    return [(event["type"], event["job_id"], event["start"]) for event in events]


def test_the_past_is_reported_at_the_chosen_speed_and_nothing_before_it_happens() -> None:
    log, clock = MemoryLog(), FakeClock()
    now_ms = clock.now_ms()
    running = simulator(log, clock)
    running.run(Stopped(clock, 6.0))  # two hours of four
    last_ms = predicted(log, "jobs")[-1][0]
    assert now_ms - 2.2 * HOUR_S * 1000 < last_ms < now_ms - 1.8 * HOUR_S * 1000
    assert predicted(log, "load") == []
    running.run(Stopped(clock, 30.0))
    assert running.live
    assert max(at for at, _ in predicted(log, "load")) == pytest.approx(clock.now_ms(), abs=11_000)
    assert all(at <= clock.now_ms() for topic in TO if topic for at, _ in predicted(log, topic))


def test_hosts_are_measured_once_the_present_is_reached() -> None:
    log, clock = MemoryLog(), FakeClock()
    simulator(log, clock).run(Stopped(clock, 600.0))
    assert len(predicted(log, "load")) > 50
    assert len(predicted(log, "energy")) >= 8


def test_a_restart_goes_on_after_the_last_job_that_was_reported() -> None:
    whole, parts, clock, other = MemoryLog(), MemoryLog(), FakeClock(), FakeClock()
    simulator(whole, clock).run(Stopped(clock, 40.0))
    first = simulator(parts, other)
    first.run(Stopped(other, 5.0))
    again = simulator(parts, other, past_s=HOUR_S)
    assert again.centre.began_ms == first.centre.began_ms
    again.run(Stopped(other, 35.0))
    repeated = ids(parts)
    assert list(dict.fromkeys(repeated)) == ids(whole)[: len(set(repeated))]
    assert len(repeated) - len(set(repeated)) <= 3  # those of the last moment


@pytest.mark.parametrize(("seed", "days"), [(2, 0), (1, 8)], ids=["another seed", "an old one"])
def test_another_centre_and_an_old_one_begin_anew(seed: int, days: int) -> None:
    log, clock = MemoryLog(), FakeClock()
    first = simulator(log, clock)
    first.run(Stopped(clock, 5.0))
    clock.advance(days * 86_400.0 + 60.0)
    assert simulator(log, clock, seed=seed).centre.began_ms > first.centre.began_ms


def test_messages_of_others_in_the_topic_of_jobs_are_no_place() -> None:
    log, clock = MemoryLog(), FakeClock()
    simulator(log, clock)
    producer = log.producer()
    for key in (None, b"", b"simulated:x", b"simulated:1:2", b"\xff"):
        producer.send("jobs", b"{}", key, 0, clock.now_ms())
    producer.flush(1.0)
    assert simulator(log, clock).reported_ms == simulator(MemoryLog(), clock).reported_ms


class Failing(MemoryLog):
    """A log of whose producers the first ones cannot flush."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def producer(self) -> Any:
        made: Any = super().producer()
        flush = made.flush

        def failing(timeout_s: float) -> None:
            if self.failures:
                self.failures -= 1
                raise UnavailableError("away")
            flush(timeout_s)

        made.flush = failing
        return made


def test_what_the_broker_did_not_take_is_sent_again() -> None:
    log, clock = Failing(1), FakeClock()
    running = simulator(log, clock)
    batch = next(iter(running.due(clock.now_ms() - 3 * 3_600_000)))
    with pytest.raises(UnavailableError):
        running.send(batch)
    running.send(batch)
    assert len(predicted(log, "jobs")) >= len(batch)
    assert running.reported_ms == batch[-1].time_ms


def source(*topics: str, form: str = "native", **more: Any) -> Source:
    return Source(topics=topics, format=form, **more)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([source("a", "b")], ("a", "b", None)),
        ([source("a")], ("a", "a", None)),
        ([source("^x"), source("a", "^y"), source("b", form="auto")], ("a", "b", None)),
        ([source("e", form="line-protocol", system="simulated", telemetry=RAPL), source("a")], ("a", "a", "e")),
        ([source("e", form="line-protocol", system="other", telemetry=RAPL), source("a")], ("a", "a", None)),
        ([source("e", form="line-protocol", system="simulated"), source("a")], ("a", "a", None)),
    ],
)
def test_it_writes_into_the_topics_that_the_agent_understands(
    sources: list[Source], expected: tuple[str, str, str | None]
) -> None:
    assert destinations(Config(sources=tuple(sources)), "simulated") == expected


def test_a_configuration_that_would_not_take_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a source with the format native"):
        destinations(Config(sources=(source("a", form="slurm"),)), "simulated")
    closed = Config(sources=(source("a"),), systems={"centre": System()}, other_systems="reject")
    with pytest.raises(ConfigError, match="does not accept the system simulated"):
        destinations(closed, "simulated")
