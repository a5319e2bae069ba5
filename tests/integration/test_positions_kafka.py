"""What happens to state and journal behind the agent's back is noticed at the next start, on a real broker."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.app import compose
from agent.app.roles import CollectorRole
from agent.cli import main
from agent.clock import SystemClock
from agent.log.kafka.client import ClientName
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, HostMinute, JobStarted, decode_record
from processors.contracts.log import Batch, TopicSettings
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.clock import FakeClock
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import expel
from tests.kit.shard_on_kafka import SOON_S, START_MS, KafkaShard

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def shard(kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName) -> KafkaShard:
    return KafkaShard(kafka, fresh("positions"), client=client)


@pytest.fixture
def command(shard: KafkaShard, tmp_path: Path) -> Callable[..., Result]:
    """Run a command as an operator does."""
    file = tmp_path / "agent.yaml"
    kafka = shard.config.kafka
    write_config(tmp_path, kafka.bootstrap, shard.config.topics.prefix, [{"topics": ["raw"]}], kafka.client)
    return lambda *arguments: CliRunner().invoke(main, [*arguments, "-c", str(file)])


def refusal(shard: KafkaShard) -> str:
    """Return why a learner refuses to start."""
    with pytest.raises(ConfigError) as refused, shard.learner():
        pass
    return str(refused.value)


def test_a_state_that_somebody_removed_is_noticed_and_a_rebuild_heals_it(
    shard: KafkaShard, command: Callable[..., Result]
) -> None:
    shard.ticks(1)
    shard.report(
        *(JobStarted("exa", job, f"exa/{job}", START_MS, Evidence(application="lammps")) for job in ("1", "2"))
    )
    shard.live()
    shard.live()  # nothing was lost so far
    shard.write(shard.state, b"job/exa/1", None)
    assert "The state of shard 0 is damaged: it holds" in refusal(shard)
    assert command("rebuild").stdout.startswith("shard 0: 0 runs, 1 unsettled job")
    shard.live()
    shard.write(shard.state, b"job/exa/2", b"{}")
    assert "states are not those that the last checkpoint left" in refusal(shard)
    assert "1 unreadable job" in command("rebuild").stdout
    shard.live()


def test_a_state_topic_that_was_made_anew_is_noticed(shard: KafkaShard, command: Callable[..., Result]) -> None:
    shard.ticks(1, 2, 3)
    shard.live()
    shard.recreate(shard.state)
    assert "it is empty, but learners have folded the journal to 3" in refusal(shard)
    rebuilt = command("rebuild")
    assert "the journal is read from its beginning: there was no checkpoint" in rebuilt.stdout
    shard.live()


def test_a_journal_that_was_made_anew_is_noticed_empty_and_refilled(
    shard: KafkaShard, command: Callable[..., Result]
) -> None:
    shard.ticks(1, 2, 3)
    shard.live()
    shard.recreate(shard.journal)
    assert "it ends at 0, but the last checkpoint at 3" in refusal(shard)
    shard.ticks(11, 12, 13, 14, 15)
    with pytest.raises(ConfigError, match="its record 2 is another"), shard.learner() as role:
        shard.fold(role)
    assert "it is not the journal that the last checkpoint was about" in command("rebuild").stdout
    with shard.learner() as role:
        shard.fold(role)
        assert role.service.health()[0].folded_ms == START_MS + 15_000


def test_a_journal_made_anew_under_a_running_learner_is_noticed(shard: KafkaShard) -> None:
    shard.ticks(1, 2, 3)
    with shard.learner() as role:
        shard.fold(role)
        shard.recreate(shard.journal)
        shard.ticks(11)
        with pytest.raises(ConfigError, match="it goes on at 0 after 3"):
            until(lambda: role.step() or False, SOON_S, "the other journal is noticed")


def test_partitions_added_to_the_journal_are_named_everywhere(
    shard: KafkaShard, command: Callable[..., Result], tmp_path: Path
) -> None:
    shard.ticks(1)
    shard.live()
    shard.add_partition(shard.journal)
    fault = f"The topic {shard.journal} has 2 partitions and topics.journal_partitions is 1"
    assert fault in refusal(shard)
    (tmp_path / "past.jsonl").write_text("")
    for arguments in (("topics",), ("rebuild",), ("backfill", str(tmp_path / "past.jsonl"))):
        refused = command(*arguments)
        assert refused.exit_code != 0
        assert fault in refused.stderr
    agent = AgentProcess(tmp_path / "agent.yaml").start()
    until(lambda: agent.ended() is not None, SOON_S, agent.output)
    assert agent.ended() == 2
    assert fault in agent.log.read_text()


def test_a_partition_added_under_a_running_learner_is_refused(shard: KafkaShard) -> None:
    shard.ticks(1)
    with shard.learner() as role:
        shard.fold(role)
        shard.add_partition(shard.journal)
        with pytest.raises(ConfigError, match="has at least 2 partitions"):
            until(lambda: role.step() or False, SOON_S, "the partition is noticed")


def test_a_rebalance_that_meets_a_commit_does_not_end_the_collector(
    kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName
) -> None:
    shard = KafkaShard(kafka, fresh("positions"), source := fresh("raw"), client)
    with shard.log() as log:
        log.create([TopicSettings(source, 1, compacted=False)])
        role = CollectorRole(shard.config, log, compose.metrics(), SystemClock(), restarts=0)
        role.open()
        shard.write(source, b"", b"not json")
        until(lambda: role.step() or shard.committed(source) == 1, SOON_S, "a first commit")
        shard.write(source, b"", b"not json")
        role.step()
        expel(kafka.bootstrap, shard.config.collector_group)
        role.finish()
        until(lambda: role.step() or shard.committed(source) == 2, SOON_S, "the commit after the rebalance")
        role.close()


def test_a_source_partition_that_stops_speaking_gives_its_offset_free_and_loses_no_minute(
    kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName
) -> None:
    shard = KafkaShard(kafka, fresh("positions"), source := fresh("raw"), client)
    clock = FakeClock()

    def load(second: int) -> bytes:
        sample = {"type": "load", "system": "exa", "host": "nid1", "resource": "cpu_available", "value": 0.5}
        return json.dumps({**sample, "time": rfc3339(clock.now_ms() + second * 1000)}).encode()

    def minutes() -> list[int]:
        found: list[int] = []

        def take(batch: Batch) -> None:
            events = [decode_record(value or b"").event for value in batch.values]
            found.extend(event.minute_ms for event in events if isinstance(event, HostMinute))

        with shard.log() as look:
            look.read(shard.journal, 0, take)
        return found

    with shard.log() as log:
        log.create([TopicSettings(source, 1, compacted=False)])
        role = CollectorRole(shard.config, log, compose.metrics(), clock, restarts=0)
        role.open()
        until(lambda: role.step() or shard.owned(role), SOON_S, "the source is assigned")
        for second in (1, 70):
            shard.write(source, b"", load(second))
        began_ms = clock.now_ms() // 60_000 * 60_000

        def step(seconds: float) -> None:
            clock.advance(seconds)
            role.step()

        until(lambda: step(2.0) or len(minutes()) == 1, SOON_S, "the first minute")
        assert shard.committed(source) == 0
        clock.advance(compose.routes(shard.config).partition_idle_s)
        until(lambda: step(2.0) or shard.committed(source) == 2, SOON_S, "the offset is free")
        assert minutes() == [began_ms, began_ms + 60_000]
        role.finish()
        role.close()
    with shard.log() as log:  # and a collector that starts now tells neither again
        role = CollectorRole(shard.config, log, compose.metrics(), clock, restarts=0)
        role.open()
        until(lambda: role.step() or shard.owned(role), SOON_S, "the source is assigned")
        clock.advance(3600.0)
        for _ in range(3):
            step(2.0)
        role.close()
    assert minutes() == [began_ms, began_ms + 60_000]


def test_two_agents_with_two_prefixes_never_meet_on_one_cluster(
    kafka: KafkaBroker, fresh: Callable[[str], str]
) -> None:
    source = fresh("raw")
    first, second = (KafkaShard(kafka, fresh(name), source) for name in ("first", "second"))
    with first.log() as log:
        log.create([TopicSettings(source, 1, compacted=False)])
    first.write(source, b"", b"not json")
    with first.log() as one, second.log() as two:
        roles = [
            CollectorRole(shard.config, log, compose.metrics(), SystemClock(), restarts=0)
            for shard, log in ((first, one), (second, two))
        ]
        for role in roles:
            role.open()
        for shard in (first, second):  # each reads all of the source
            until(lambda s=shard: [r.step() for r in roles] and s.committed(source) == 1, SOON_S, "all is read")  # type: ignore[misc] # bound to each shard
        for role in roles:
            role.close()
    first.ticks(1)
    with first.learner() as leader, second.learner():  # no fencing: each owns the state of its own
        first.fold(leader)
        leader.finish()


def test_records_that_were_deleted_before_they_were_read_are_counted_by_source(
    kafka: KafkaBroker, fresh: Callable[[str], str], client: ClientName, caplog: pytest.LogCaptureFixture
) -> None:
    shard = KafkaShard(kafka, fresh("positions"), source := fresh("raw"), client)
    metrics, name = compose.metrics(shard.config), "scalewatch_source_records_deleted_total"

    def collect(records: int, *, deleted_before: int | None = None) -> None:
        """Read the source to its end; before that write to it while it is read by nobody, and delete from it."""
        with shard.log() as log:
            role = CollectorRole(shard.config, log, metrics, SystemClock(), restarts=0)
            role.open()
            until(lambda: role.step() or shard.owned(role), SOON_S, "the source is assigned")
            shard.write_many(source, records)
            if deleted_before is not None:
                shard.delete_before(source, deleted_before)
            with shard.log() as look:
                end = look.bounds(source, 0)[1]
            until(lambda: role.step() or shard.committed(source) == end, SOON_S, "all is read")
            role.finish()
            role.close()

    with shard.log() as log:
        log.create([TopicSettings(source, 1, compacted=False)])
    collect(5)
    assert metrics.value(name, source=source) == 0
    shard.write_many(source, 20)
    shard.delete_before(source, 15)
    with caplog.at_level("WARNING"):
        collect(0)
    assert metrics.value(name, source=source) == 10
    assert f"10 records of {source}/0 were deleted before they were read" in caplog.text
    collect(20, deleted_before=43)  # under a collector that is behind
    assert metrics.value(name, source=source) == 28
