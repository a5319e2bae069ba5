"""The AsyncAPI document: right by its own standard, whole, and true of the topics that the agent makes."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator, Draft202012Validator

from agent.cli import main
from agent.config.topics import own_topics
from agent.config.tree import Config, Source
from agent.describe.describe import document
from sinks.topics import emission
from tests.kit.messages import alert, job, prediction

STANDARD = Path(__file__).parent / "asyncapi" / "3.0.0.json.gz"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return document(Config(sources=(Source(topics=("exa.events",), format="native"),)))


def test_it_is_right_by_the_standard(made: dict[str, Any]) -> None:
    standard = json.loads(gzip.decompress(STANDARD.read_bytes()))
    faults = [
        f"{list(fault.absolute_path)}: {fault.message[:200]}" for fault in Draft7Validator(standard).iter_errors(made)
    ]
    assert faults == []


def test_the_standard_would_find_a_fault(made: dict[str, Any]) -> None:
    standard = json.loads(gzip.decompress(STANDARD.read_bytes()))
    wrong = {**made, "operations": {"send_predictions": {"action": "shout"}}}
    assert not Draft7Validator(standard).is_valid(wrong)


def test_every_reference_leads_somewhere(made: dict[str, Any]) -> None:
    found = list(references(made))
    assert len(found) > 20
    for reference in found:
        part: Any = made
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]


def test_its_topics_are_those_that_the_agent_makes(made: dict[str, Any]) -> None:
    reported = {
        channel["address"]: channel["bindings"]["kafka"]
        for channel in made["channels"].values()
        if "bindings" in channel
    }
    topics = {topic.name: topic for topic in own_topics(Config())}
    assert set(topics) - set(reported) == {"scalewatch.journal", "scalewatch.state"}  # the agent's own business
    for name, binding in reported.items():
        compacted = binding["topicConfiguration"]["cleanup.policy"] == ["compact"]
        assert (compacted, binding["partitions"]) == (topics[name].compacted, topics[name].partitions)


@pytest.mark.parametrize(
    "message",
    [
        prediction(schema="scalewatch.prediction/1"),
        job(schema="scalewatch.job-prediction/1"),
        alert(schema="scalewatch.alert/1"),
    ],
    ids=["prediction", "job-prediction", "alert"],
)
def test_messages_that_are_sent_are_as_it_states(made: dict[str, Any], message: Any) -> None:
    (channel,) = (each for name, each in made["channels"].items() if name == emission(message).kind)
    (name,) = channel["messages"]
    payload = made["components"]["messages"][name]["payload"]
    Draft202012Validator({**payload, "components": made["components"]}).validate(
        json.loads(emission(message).value or b"")
    )


def test_the_command_prints_it_for_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("topics: {prefix: exa}\nsources: [{topics: [raw]}]\n")
    result = CliRunner().invoke(main, ["describe", "asyncapi", "-c", str(config)])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["channels"]["events"]["address"] == "raw"
    assert json.loads(result.stdout)["channels"]["alerts"]["address"] == "exa.alerts"


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)
