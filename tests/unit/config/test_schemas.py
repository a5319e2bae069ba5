"""Settings of the schema registry: what contradicts itself is named with its line, and secrets are references."""

from pathlib import Path

import pytest

from agent.config.checks import notes
from agent.config.load import loads
from agent.config.yaml import InvalidConfigError
from tests.kit.cases import each

SOURCE = "sources: [{topics: [ldms], format: ldms, encoding: avro}]\n"
SCHEMA = '{"type": "record", "name": "row", "fields": []}'


def problems(text: str, folder: Path | None = None) -> list[str]:
    with pytest.raises(InvalidConfigError) as error:
        loads(text, folder=folder, environment={"PASSWORD": "s3cret"})
    return [f"{'.'.join(map(str, each.path))} {each.message}" for each in error.value.problems]


def test_a_registry_with_a_log_in_and_a_schema_in_a_file_are_taken(tmp_path: Path) -> None:
    (tmp_path / "row.avsc").write_text(SCHEMA)
    text = """
schema_registry:
  url: https://registry.example.org:8081
  username: reader
  password: ${env:PASSWORD}
  schemas: [{id: 37, text: {file: row.avsc}}]
"""
    found = loads(text + SOURCE, folder=tmp_path, environment={"PASSWORD": "s3cret"}).schema_registry
    assert found.texts == {37: SCHEMA.encode()}
    assert found.password is not None
    assert found.password.get_secret_value() == "s3cret"


def test_a_file_of_a_schema_need_not_be_there_to_check_a_configuration_elsewhere() -> None:
    text = "schema_registry: {schemas: [{id: 37, text: {file: row.avsc}}]}\n"
    assert loads(text + SOURCE, reveal_secrets=False).sources[0].encoding == "avro"
    assert problems(text + SOURCE) == [
        "schema_registry.schemas.0.text the file 'row.avsc' cannot be read: No such file or directory.",
    ]


@each(
    ("text", "problem"),
    [
        (SOURCE, "sources.0.encoding is avro, which needs schema_registry.url or schema_registry.schemas."),
        ("schema_registry: {url: 'http://registry:8081'}", "schema_registry has no effect: no source has the encoding avro."),
        (SOURCE + "schema_registry: {url: registry:8081}", "schema_registry.url must be an address such as https://registry:8081, not 'registry:8081'."),
        (SOURCE + "schema_registry: {url: 'http://me:s3cret@registry:8081'}", "schema_registry.url must not contain a log-in, which would be readable by everybody; set username and password."),
        (SOURCE + "schema_registry: {url: 'http://a', ca_file: ca.pem}", "schema_registry.ca_file has no effect with http; use https."),
        (SOURCE + "schema_registry: {url: 'http://a', username: me}", "schema_registry set username and password together."),
        (SOURCE + "schema_registry: {url: 'https://a', cert_file: me.pem}", "schema_registry set cert_file and key_file together."),
        (SOURCE + "schema_registry: {url: 'https://a', token: '${env:PASSWORD}', username: me, password: '${env:PASSWORD}'}", "schema_registry set token or username, not both."),
        (SOURCE + "schema_registry: {url: 'https://a', token: s3cret}", "schema_registry.token is a secret: write ${env:NAME} or {file: PATH} here, never the secret itself."),
        (SOURCE + f"schema_registry: {{schemas: [{{id: 1, text: '{SCHEMA}'}}, {{id: 1, text: '{SCHEMA}'}}]}}", "schema_registry.schemas.1.id 1 is the id of more than one schema."),
        (SOURCE + "schema_registry: {schemas: [{id: 1, text: '{}'}]}", "schema_registry.schemas.0.text The Avro schema is of no record."),
        (SOURCE + f"schema_registry: {{ca_file: ca.pem, schemas: [{{id: 1, text: '{SCHEMA}'}}]}}", "schema_registry.url is missing, so the log-in has no effect."),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_named(text: str, problem: str) -> None:
    assert problems(text) == [problem]


def test_a_log_in_without_encryption_is_worth_a_note() -> None:
    registry = "schema_registry: {url: 'URL', token: '${env:PASSWORD}'}"
    for url, noted in (("http://registry:8081", True), ("https://registry:8081", False)):
        config = loads(SOURCE + registry.replace("URL", url), environment={"PASSWORD": "s3cret"})
        text = "is http: the log-in travels unencrypted."
        assert ((("schema_registry", "url"), text) in [*notes(config)]) is noted
