"""Every field of every schema says what it means, in which unit, and gives an example that fits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from jsonschema import Draft202012Validator

from agent.cli import main
from agent.describe.describe import FIELDS, FILES, INPUTS, NAMES, schema, short_name
from tests.kit.cases import each

NUMBERS = {"integer", "number"}
PLACES = {"dead-letter.offset", "dead-letter.partition", "event.job.completed.exit_code"}  # numbers that count nothing


def fields(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    whole = schema(name)
    for title, part in ((short_name(name), whole), *whole.get("$defs", {}).items()):
        for field, form in part.get("properties", {}).items():
            yield f"{title}.{field}", form


def kinds(form: dict[str, Any]) -> set[str]:
    """Return what values of a field are: types of JSON, or a part of the message."""
    if "anyOf" in form:
        return {kind for each in form["anyOf"] for kind in kinds(each)} - {"null"}
    if form.get("type") == "array" and form.get("items"):
        return kinds(form["items"])
    return {"part" if "$ref" in form else form.get("type", "any")}


@each("name", NAMES)
def test_every_field_has_a_description(name: str) -> None:
    assert [field for field, form in fields(name) if not form.get("description", "").endswith(".")] == []


@each("name", NAMES)
def test_every_number_has_a_unit_and_no_text_has_one(name: str) -> None:
    found = [(field, kinds(form), "x-unit" in form) for field, form in fields(name)]
    assert [field for field, kind, has in found if kind <= NUMBERS and not has and field not in PLACES] == []
    assert [field for field, kind, has in found if kind <= {"string", "boolean"} and has] == []


@each("name", NAMES)
def test_every_field_that_is_no_part_of_its_own_has_an_example_that_fits(name: str) -> None:
    whole = schema(name)
    for field, form in fields(name):
        assert "examples" in form or kinds(form) & {"part", "any"}, field
        for example in form.get("examples", ()):
            Draft202012Validator({**form, "$defs": whole.get("$defs", {})}).validate(example)


def test_no_meaning_is_written_for_a_field_that_does_not_exist() -> None:
    for family, names in (("events", INPUTS), ("reports", FILES), ("messages", NAMES)):
        known = {field for name in names for field, _ in fields(name)}
        known |= {field.rpartition(".")[2] for field in known} | {"at_efficiency_0.5"}
        assert set(FIELDS[family]) - known == set()


def test_the_document_of_the_topics_needs_no_secret_and_shows_none(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(
        "kafka:\n  bootstrap: kafka1:9092\n  security: {protocol: sasl_tls, mechanism: SCRAM-SHA-512, username: agent, "
        "password: '${env:A_PASSWORD_THAT_NOBODY_SET}'}\n"
        "http: {access: {tokens: [{name: ops, token: {file: /nowhere/token}, operator: true}]}}\n"
    )
    printed = CliRunner().invoke(main, ["describe", "asyncapi", "-c", str(config)])
    assert printed.exit_code == 0, printed.output
    assert "kafka1:9092" in printed.output
    assert "PASSWORD" not in printed.output
    assert "/nowhere" not in printed.output
