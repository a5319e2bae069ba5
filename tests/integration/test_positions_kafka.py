"""What happens to state and journal behind the agent's back is noticed at the next start, on a real broker."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, JobStarted
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.shard_on_kafka import SOON_S, START_MS, KafkaShard

pytestmark = pytest.mark.kafka


@pytest.fixture
def shard(kafka: KafkaBroker, fresh: Callable[[str], str]) -> KafkaShard:
    return KafkaShard(kafka, fresh("positions"))


@pytest.fixture
def command(shard: KafkaShard, tmp_path: Path) -> Callable[..., Result]:
    """Run a command as an operator does."""
    file = tmp_path / "agent.yaml"
    groups = {"collector": {"group": shard.config.collector.group}, "learner": {"group": shard.config.learner.group}}
    path = write_config(
        tmp_path, shard.config.kafka.bootstrap, shard.config.topics.prefix, [{"topics": ["raw"]}], **groups
    )
    assert path == file
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
    assert command("rebuild").stdout.startswith("shard 0: 0 runs, 1 job not settled")
    shard.live()
    shard.write(shard.state, b"job/exa/2", b"{}")
    assert "states are not those that the last checkpoint left" in refusal(shard)
    assert "1 job that nobody can read" in command("rebuild").stdout
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
