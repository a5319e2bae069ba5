"""Who listens: the agent's own subscriber, and a foreign client that knows nothing of it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.app.compose import encode
from agent.app.kafka import kafka_settings
from agent.cli import main
from agent.config.load import load
from agent.config.topics import create
from agent.log.kafka.log import KafkaLog
from sinks.table import Predictions
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import WAIT_S
from tests.kit.messages import alert, curve_point, prediction
from tests.kit.tools import tool

pytestmark = pytest.mark.kafka


@pytest.fixture
def config(kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path) -> Iterator[Path]:
    """A configuration whose topics hold two predictions, one of them taken back, and an alert."""
    path = tmp_path / "agent.yaml"
    path.write_text(f"kafka: {{bootstrap: '{kafka.bootstrap}'}}\ntopics: {{prefix: '{fresh('heard')}'}}\n")
    settings = load(path.as_posix())
    log = KafkaLog(kafka_settings(settings))
    try:
        create(log, settings)
        producer = log.producer()
        lammps = encode(prediction(curve=(curve_point(1, 1000.0), curve_point(4, 250.0))))
        nektar = encode(prediction("nektar", input=""))
        for key, value in ((lammps.key, lammps.value), (nektar.key, nektar.value), (nektar.key, None)):
            producer.send(settings.topics.predictions, value, key.encode())
        slow = encode(alert())
        producer.send(settings.topics.alerts, slow.value, slow.key.encode())
        producer.flush(WAIT_S)
        yield path
    finally:
        log.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["subscribe", *arguments, "--once"])


def test_each_message_is_a_line(config: Path) -> None:
    result = run("-c", str(config))
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["value"] and line["value"]["application"] for line in lines] == ["lammps", "nektar", None]
    assert lines[0]["key"] == "archer2/lammps/rhodo/nodes"


def test_another_topic_is_named(config: Path) -> None:
    result = run("-c", str(config), "alerts")
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["value"]["labels"]["alertname"] == "SlowSize"


def test_a_table_holds_what_the_topic_holds(config: Path, tmp_path: Path) -> None:
    table, lines = tmp_path / "p.sqlite", tmp_path / "p.jsonl"
    for _ in range(2):  # a second time nothing is there twice
        result = run("-c", str(config), "--sqlite", str(table), "--jsonl", str(lines))
        assert result.exit_code == 0, result.output
    found = Predictions(table).at(2, "archer2", "lammps", "rhodo")
    assert found is not None
    assert found.run_time_s == pytest.approx(500.0)
    assert [json.loads(line)["application"] for line in lines.read_text().splitlines()] == ["lammps", "lammps"]


def test_a_table_is_only_of_predictions(config: Path, tmp_path: Path) -> None:
    result = run("-c", str(config), "alerts", "--sqlite", str(tmp_path / "a.sqlite"))
    assert result.exit_code == 2
    assert "--sqlite and --jsonl need the topic predictions" in result.stderr


@pytest.mark.tools
def test_a_foreign_client_reads_keys_and_json(config: Path, kafka: KafkaBroker) -> None:
    topic = load(str(config)).topics.predictions
    arguments = ["-b", kafka.bootstrap, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-J"]
    printed = subprocess.run([tool("kcat"), *arguments], capture_output=True, check=True, timeout=WAIT_S).stdout
    records = [json.loads(line) for line in printed.splitlines()]
    assert [record["key"] for record in records] == ["archer2/lammps/rhodo/nodes", *["archer2/nektar//nodes"] * 2]
    assert json.loads(records[0]["payload"])["curve"][0]["run_time_s"] == 1000.0
    assert records[2]["payload"] is None
