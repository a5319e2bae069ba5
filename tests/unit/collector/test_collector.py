"""What the collector does with messages that cannot be used, whole or in parts: what it writes, and how much of it."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.collector.collector import Collector
from agent.collector.deadletters import BURST_S
from agent.collector.reading import SourceDecoders
from agent.config.topics import own_topics
from agent.config.tree import Config, Source, System
from agent.decode.guard import guarded
from agent.log.memory import MemoryLog
from processors.contracts.events import DeadLetter, Decoded, Evidence, JobCompleted, Tick, decode_record
from processors.contracts.log import Batch, TopicSettings
from processors.contracts.names import rfc3339
from tests.kit.clock import FakeClock

NOW_MS = 1_795_168_800_000
JOB = {
    "type": "job.completed", "system": "exa", "job_id": "1", "application": "lammps", "n": 4, "unit": "nodes",
    "start": "2026-11-20T09:00:00Z", "end": "2026-11-20T09:10:00Z", "state": "COMPLETED",
}  # fmt: skip


class Centre:
    """A topic, a collector that reads it, and what it wrote; `changes` are those of its routes."""

    def __init__(self, config: Config, **changes: Any) -> None:
        self.config, self.clock, self.log = config, FakeClock(NOW_MS), MemoryLog()
        self.metrics = compose.metrics(config)
        self.log.create([*own_topics(config), TopicSettings("raw", 1, compacted=False)])
        routes = msgspec.structs.replace(compose.routes(config), **changes)
        self._collector = Collector(self.log, routes, self.metrics, "one", monotonic_s=self.clock.monotonic_s)
        self._producer = self.log.producer()

    def send(self, *values: bytes) -> None:
        """Send messages, and collect them."""
        for value in values:
            self._producer.send("raw", value, None, 0, NOW_MS)
        self._producer.flush(1.0)
        for _ in range(3):
            self._collector.step(NOW_MS, 0.0)

    def records(self, topic: str) -> list[bytes]:
        """Return the values of a topic."""
        found: list[Batch] = []
        self.log.read(topic, 0, found.append)
        return [value for batch in found for value in batch.values if value]

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters."""
        return [msgspec.json.decode(value, type=DeadLetter) for value in self.records(self.config.topics.deadletters)]

    def reasons(self) -> list[str]:
        """Return their reasons."""
        return [dead_letter.reason for dead_letter in self.dead_letters()]

    def jobs(self) -> int:
        """Return how many jobs are in the journal."""
        return sum(b"job.completed" in value for value in self.records(self.config.topics.journal))


def config(format_name: str = "native", **given: Any) -> Config:
    return Config(sources=(Source(topics=("raw",), format=format_name, system="exa"),), **given)


def decoded_by(decode: Callable[[bytes, int], Decoded]) -> Callable[[str], SourceDecoders]:
    """Return the decoders of every topic: this one, with the backstop."""
    return lambda topic: SourceDecoders(topic, guarded(decode))


def loads(values: Sequence[object], **changes: object) -> bytes:
    """Return a batch of samples."""
    sample = {"type": "load", "system": "exa", "host": "nid1", "resource": "cpu_available", "time": rfc3339(NOW_MS)}
    return json.dumps([{**sample, "value": value, **changes} for value in values]).encode()


def test_a_job_goes_into_the_journal() -> None:
    centre = Centre(config())
    centre.send(json.dumps(JOB).encode())
    assert (centre.reasons(), centre.jobs()) == ([], 1)


def test_an_event_that_no_record_of_the_journal_can_hold_is_a_dead_letter() -> None:
    centre = Centre(config(), record_bytes_max=50)
    centre.send(json.dumps(JOB).encode())
    assert (centre.reasons(), centre.jobs()) == (["too-large"], 0)


def test_the_hosts_of_a_job_of_2500_nodes_go_into_the_journal() -> None:
    centre = Centre(config())
    centre.send(json.dumps({**JOB, "n": 2500, "hosts": [f"nid{number:06d}" for number in range(1, 2501)]}).encode())
    assert centre.jobs() == 1
    assert any(b'"hosts":["nid[000001-002500]"]' in value for value in centre.records(centre.config.topics.journal))


def test_evidence_that_is_left_out_is_counted() -> None:
    centre = Centre(config())
    hosts = [f"{number * number * 7919}-{'n' * 20}" for number in range(3000)]
    centre.send(json.dumps({**JOB, "hosts": hosts}).encode())
    assert centre.jobs() == 1
    assert centre.metrics.value("scalewatch_bounds_hit_total", bound="evidence_hosts_bytes_max") == 1


def test_an_event_of_a_system_that_is_not_listed_is_a_dead_letter() -> None:
    centre = Centre(config(systems={"other": System()}))
    centre.send(json.dumps(JOB).encode())
    assert (centre.reasons(), centre.jobs()) == (["unknown-system"], 0)
    assert centre.metrics.value("scalewatch_source_dead_letters_total", source="raw") == 1


def test_whatever_a_decoder_raises_is_a_dead_letter_and_the_messages_around_it_count(
    caplog: pytest.LogCaptureFixture,
) -> None:

    def decode(value: bytes, received_ms: int) -> Decoded:
        if b"bad" in value:
            raise OverflowError("int too large to convert to float")
        return Decoded([JobCompleted("exa", "1", "exa/1@0", 0, 1000, 1.0, "COMPLETED", Evidence())])

    centre = Centre(config(), source=decoded_by(decode))
    centre.send(b"good", b"bad", b"good", b"bad", b"bad", b"bad")
    assert (centre.reasons(), centre.jobs()) == (["decoder"] * 4, 2)
    first = centre.dead_letters()[0]
    assert (first.topic, first.partition, first.offset) == ("raw", 0, 1)
    assert first.detail == "The decoder raised OverflowError: int too large to convert to float"
    assert centre.metrics.value("scalewatch_dead_letters_total", reason="decoder") == 4
    assert [record.args[0] for record in caplog.records if record.args] == ["raw/0/1", "raw/0/3", "raw/0/5"]  # type: ignore[index]


def test_an_event_that_cannot_be_encoded_is_a_dead_letter_too() -> None:
    def decode(value: bytes, received_ms: int) -> Decoded:
        evidence = Evidence(job_name="\ud800")
        return Decoded([JobCompleted("exa", "1", "exa/1@0", 0, 1000, 1.0, "COMPLETED", evidence)])

    centre = Centre(config(), source=decoded_by(decode))
    centre.send(b"one")
    assert (centre.reasons(), centre.jobs()) == (["decoder"], 0)


def test_a_batch_with_fifty_bad_samples_is_one_dead_letter_that_states_how_many_and_where() -> None:
    batch = loads([0.5] * 150 + [7.5] * 50)
    centre = Centre(config())
    centre.send(batch)
    (dead_letter,) = centre.dead_letters()
    assert (dead_letter.reason, dead_letter.count, len(dead_letter.places)) == ("out-of-range", 50, 20)
    assert set(dead_letter.places) == {"nid1 cpu_available"}
    assert len(centre.records(centre.config.topics.deadletters)[0]) < 1.5 * len(batch)
    assert centre.metrics.value("scalewatch_dead_letters_total", reason="out-of-range") == 50
    events = {"role": "collector", "format": "native"}
    assert centre.metrics.value("scalewatch_events_total", outcome="rejected", **events) == 50


def test_a_message_with_faults_of_two_kinds_is_two_dead_letters_with_the_elements_at_fault() -> None:
    values = [*json.loads(loads([0.5, 0.5])), {"type": "load"}, *json.loads(loads([0.5], time="soon")), 7]
    centre = Centre(config())
    centre.send(json.dumps(values).encode())
    found = {dead_letter.reason: (dead_letter.count, dead_letter.places) for dead_letter in centre.dead_letters()}
    assert found == {
        "missing-field": (1, ("[2]",)),
        "time": (1, ("[3]",)),
        "not-an-object": (1, ("[4]",)),
    }
    assert len({dead_letter.id for dead_letter in centre.dead_letters()}) == 3


def test_beyond_the_allowance_dead_letters_are_counted_only_until_time_has_passed() -> None:
    centre = Centre(config(), deadletter_bytes_per_s_max=10.0)
    centre.send(*[b"no JSON" * 100] * 60)
    written = centre.records(centre.config.topics.deadletters)
    assert 0 < sum(map(len, written)) <= 10.0 * BURST_S
    assert centre.metrics.value("scalewatch_dead_letters_total", reason="not-json") == 60
    left_out = centre.metrics.value("scalewatch_bounds_hit_total", bound="deadletter_bytes_per_s_max")
    assert left_out == 60 - len(written) > 0
    centre.clock.advance(BURST_S)
    centre.send(b"no JSON")
    assert len(centre.records(centre.config.topics.deadletters)) == len(written) + 1


@pytest.mark.parametrize("resource", ["power_w>system", "bandwidth>group3"])
def test_a_name_as_the_page_shows_it_is_taken(resource: str) -> None:
    centre = Centre(config())
    own, _, peer = resource.partition(">")
    centre.send(loads([1.0], resource=resource), loads([2.0], resource=own, peer=peer))
    assert centre.dead_letters() == []
    centre.clock.advance(60.0)
    centre.send()
    assert centre.metrics.value("scalewatch_collector_series") == 1, "both are of the same series"


def test_a_name_with_two_peers_is_refused() -> None:
    centre = Centre(config())
    centre.send(
        loads([1.0], resource="bandwidth>a", peer="b"), loads([1.0], resource=">a"), loads([1.0], resource="a>")
    )
    assert Counter(centre.reasons()) == {"text": 3}


def test_a_collector_whose_clock_was_set_back_ticks_on() -> None:
    log, settings = MemoryLog(), config()
    log.create([*own_topics(settings), TopicSettings("raw", 1, compacted=False)])
    collector = Collector(log, compose.routes(settings), compose.metrics(), "one", monotonic_s=FakeClock().monotonic_s)
    times_ms = [NOW_MS, NOW_MS + 86_400_000, NOW_MS + 1000, NOW_MS + 1100, NOW_MS + 2000]
    for now_ms in times_ms:
        collector.step(now_ms, 0.0)
    found: list[Batch] = []
    log.read(settings.topics.journal, 0, found.append)
    ticks = [decode_record(value or b"").event for batch in found for value in batch.values]
    assert ticks == [Tick("", time_ms, "one") for time_ms in times_ms if not time_ms % 200]
