"""Commands that ask a broker, on a real one: topics are made and checked, dead letters listed and sent again."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from agent.app.kafka import kafka_settings
from agent.cli import main
from agent.config.load import load
from agent.decode.message import dead_letter
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Origin, Refusal, Refused
from processors.contracts.log import Batch, TopicSettings
from processors.contracts.names import parse_rfc3339
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import WAIT_S

pytestmark = pytest.mark.kafka


@pytest.fixture
def source(fresh: Callable[[str], str]) -> str:
    return fresh("cli-jobs")


@pytest.fixture
def config(kafka: KafkaBroker, fresh: Callable[[str], str], source: str, tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(
        f"kafka: {{bootstrap: '{kafka.bootstrap}'}}\n"
        f"topics: {{prefix: '{fresh('cli')}', journal_partitions: 2}}\n"
        f"sources: [{{topics: ['{source}']}}]\n"
    )
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_topics_are_named_while_missing_then_made_then_good(config: Path, source: str) -> None:
    settings = load(config)
    before = run("topics", "-c", str(config))
    assert before.exit_code == 1
    assert (
        f"The topic {settings.topics.journal} does not exist; `scalewatch topics --create` makes it." in before.stderr
    )
    made = run("topics", "-c", str(config), "--create")
    assert made.exit_code == 0
    assert f"created {settings.topics.state}\n" in made.stdout
    assert f"The topic {source} does not exist" in made.stderr
    log = KafkaLog(kafka_settings(settings))
    try:
        log.create([TopicSettings(source, 1, compacted=False)])
        assert log.partitions(settings.topics.state) == 2
    finally:
        log.close()
    assert run("topics", "-c", str(config)).exit_code == 0
    config.write_text(config.read_text().replace("journal_partitions: 2", "journal_partitions: 3"))
    changed = run("topics", "-c", str(config))
    assert changed.exit_code == 1
    assert f"The topic {settings.topics.journal} has 2 partitions and topics.journal_partitions is 3" in changed.stderr


def test_a_dead_letter_is_listed_and_its_bytes_go_back_to_where_they_came_from(config: Path, source: str) -> None:
    settings = load(config)
    run("topics", "-c", str(config), "--create")
    refused = Refused(InvalidInputError("not-json", "It is no JSON."))
    noon_ms = parse_rfc3339("2026-11-20T12:00:00Z")
    entry = dead_letter(Refusal(Origin(source, 0, 41), refused, "slurm", b"\x00\xffraw", noon_ms))
    log = KafkaLog(kafka_settings(settings))
    try:
        log.create([TopicSettings(source, 1, compacted=False)])
        producer = log.producer()
        producer.send(settings.topics.deadletters, msgspec.json.encode(entry))
        producer.flush(WAIT_S)
        listed = run("deadletter", "list", "-c", str(config), "--reason", "not-json")
        assert f"not-json  {source}/0/41  slurm, 5 bytes: It is no JSON.\n1 dead letter.\n" in listed.stdout
        reported = run("deadletter", "list", "-c", str(config), "--json", "--since", "2026-11-20T11:00:00Z")
        assert json.loads(reported.stdout)["offset"] == 41
        assert run("deadletter", "replay", "-c", str(config), "--dry-run").stdout == "Would send 1 message again.\n"
        assert run("deadletter", "replay", "-c", str(config)).stdout == "Sent 1 message again.\n"
        values: list[bytes | None] = []

        def take(batch: Batch) -> None:
            values.extend(batch.values)

        log.read(source, 0, take)
        assert values == [b"\x00\xffraw"]
    finally:
        log.close()


def test_a_broker_that_is_not_there_is_one_message_and_a_failure(config: Path) -> None:
    config.write_text("kafka: {bootstrap: '127.0.0.1:1'}\n")
    result = run("topics", "-c", str(config))
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("since", ["yesterday", "1970-01-01T00:00:00Z"])
def test_a_time_that_is_none_is_wrong_usage(config: Path, since: str) -> None:
    result = run("deadletter", "list", "-c", str(config), "--since", since)
    assert result.exit_code == 2
    assert "--since" in result.stderr


def test_a_backfill_that_leaves_everything_out_fails_with_the_remedy(config: Path, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("JobID|State|Start|Elapsed|NNodes|Cluster\n812|COMPLETED|2026-11-20T10:00:00|60|4|tera\n")
    config.write_text(f"{config.read_text()}systems: {{exa: {{}}, giga: {{}}}}\n")
    left_out = run("backfill", str(jobs), "-c", str(config))
    assert (left_out.exit_code, left_out.stdout) == (1, "0 runs written; left out: 1 unknown-system\n")
    assert "because the configuration does not list the system tera; add the name under `systems`" in left_out.stderr
    jobs.write_text(jobs.read_text().replace("|Cluster", "").replace("|tera", ""))
    without = run("backfill", str(jobs), "-c", str(config))
    assert (without.exit_code, without.stdout) == (2, "")
    assert f"{jobs}:2 names no system, and there are several (exa, giga): choose one with --system." in without.stderr
    named = run("backfill", str(jobs), "-c", str(config), "--system", "giga")
    assert (named.exit_code, named.stdout) == (0, "1 run written\n")
