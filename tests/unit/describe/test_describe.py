"""The reference is made from the code, so nothing of the code can be missing in it."""

import json

import jsonschema
import pytest
from click.testing import CliRunner

from agent.app.compose import FORMAT_LABELS
from agent.cli import main
from agent.config.reference import keys
from agent.config.tree import Source
from agent.decode.formats import DECODERS, FORMATS, TELEMETRY
from agent.describe.describe import NAMES
from processors.pipeline.shard import STATEFUL
from sinks.prometheus.table import METRICS


def described(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["describe", *arguments])
    assert result.exit_code == 0
    return result.output


def test_every_format_is_described_with_a_meaning() -> None:
    rows = {row["name"]: row["meaning"] for row in json.loads(described("formats", "--json"))}
    assert list(rows) == list(FORMATS)
    assert set(rows) < set(FORMAT_LABELS)
    assert all(len(meaning) > 10 for meaning in rows.values())
    page = described("formats")
    assert all(form.sample.decode() in page for form in FORMATS.values())
    assert "`node_load1`" in page


def test_formats_that_the_configuration_knows_have_decoders() -> None:
    known = Source.model_fields["format"].annotation.__args__
    assert set(known) <= {*DECODERS, *TELEMETRY}


def test_every_metric_is_described() -> None:
    page = described("metrics")
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.kind} | {', '.join(metric.label_names)} | {metric.help} |" in page


def test_every_processor_of_the_fold_is_described() -> None:
    assert [row["name"] for row in json.loads(described("processors", "--json"))] == [kind.name for kind in STATEFUL]


def test_every_key_of_the_configuration_is_described() -> None:
    page = described("config")
    assert page.count("\n| `") == sum(not key.section for key in keys())
    jsonschema.Draft202012Validator.check_schema(json.loads(described("config", "--json")))


def test_every_event_and_message_is_described() -> None:
    page = described("schemas")
    for name in NAMES:
        assert f"## {name}\n" in page
    assert list(json.loads(described("schemas", "--json"))) == list(NAMES)
    assert json.loads(described("schemas", "scalewatch.alert/1"))["$id"] == "scalewatch.alert/1"


@pytest.mark.parametrize(
    ("arguments", "prediction"),
    [
        (
            ["schemas", "scalewatch.alert/9"],
            "There is no schema 'scalewatch.alert/9'; the schemas are scalewatch.prediction/1,",
        ),
        (["metrics", "scalewatch_ready"], "`describe metrics` takes no NAME; leave out 'scalewatch_ready'."),
    ],
)
def test_a_name_that_is_none_is_refused(arguments: list[str], prediction: str) -> None:
    result = CliRunner().invoke(main, ["describe", *arguments])
    assert result.exit_code == 2
    assert prediction in result.stderr
