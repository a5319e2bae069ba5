"""The report of a week from what a running agent has published."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.app.compose import encode, hashed
from agent.app.kafka import kafka_settings
from agent.cli import main
from agent.config.load import load
from agent.config.topics import create
from agent.log.kafka.log import KafkaLog
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import WAIT_S
from tests.kit.week_runs import curve, settled

pytestmark = pytest.mark.kafka
MARY = hashed("mary", b"sea")


@pytest.fixture
def config(kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path) -> Iterator[Path]:
    """A configuration whose topics hold a curve, a run on too many nodes, and a record that is nobody's."""
    path = tmp_path / "agent.yaml"
    (tmp_path / "salt").write_text("sea")
    path.write_text(
        f"kafka: {{bootstrap: '{kafka.bootstrap}'}}\ntopics: {{prefix: '{fresh('week')}'}}\nprivacy: {{salt: {{file: salt}}}}\n"
    )
    settings = load(path.as_posix())
    log = KafkaLog(kafka_settings(settings))
    try:
        create(log, settings)
        producer = log.producer()
        known = encode(curve())
        producer.send(settings.topics.predictions, known.value, known.key.encode())
        for each in (settled("1", 128.0, user=MARY), settled("2", user="u-other")):
            producer.send(settings.topics.runs, each.value, each.key.encode())
        producer.send(settings.topics.runs, b"no run", b"x")
        producer.flush(WAIT_S)
        yield path
    finally:
        log.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", "--week", "2026-W47", *arguments])


def test_a_user_of_a_running_agent_gets_the_week_and_what_nobody_can_read_is_named(config: Path) -> None:
    shown = run("-c", str(config), "--user", "mary")
    assert shown.exit_code == 0, shown.output
    assert "1 run, 22.7 node-hours; lost about 6.4" in shown.stdout
    assert "was skipped because it cannot be read" in shown.stderr


def test_topics_that_do_not_exist_are_a_wrong_configuration(config: Path) -> None:
    config.write_text(config.read_text().replace("prefix: '", "prefix: 'other-"))
    shown = run("-c", str(config))
    assert shown.exit_code == 2
    assert "does not exist. Is this the configuration of the running agent?" in shown.stderr
