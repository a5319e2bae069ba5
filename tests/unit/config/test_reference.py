"""The reference of the configuration is made from the code and says everything."""

import jsonschema
import pytest
import yaml

from agent.config.load import loads
from agent.config.reference import json_schema, keys, markdown
from agent.config.tree import Config
from processors.contracts.errors import ConfigError


def test_every_key_has_a_meaning() -> None:
    assert [".".join(key.path) for key in keys() if len(key.meaning) <= 5] == []


def test_the_page_names_every_key_with_its_default() -> None:
    page = markdown()
    for key in keys():
        if not key.section:
            assert f"| `{key.path[-1]}` | {key.type}" in page
    assert '| `bootstrap` | text | `"127.0.0.1:9092"` | reload |' in page
    assert "| `topics` | list of text | *required* | reload |" in page
    assert "SecretStr" not in page


def test_the_schema_is_valid_and_takes_the_defaults() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    defaults = Config().model_dump(mode="json", exclude={"privacy"})
    defaults["kafka"]["security"].pop("password")
    jsonschema.validate(defaults, schema)


@pytest.mark.parametrize(
    "text",
    [
        "http: {prot: 1}",
        "http: {port: 99999}",
        "sources: [{format: slurm}]",
        "log: {level: loud}",
        "privacy: {salt: plain}",
        "jobs: {settle_max_s: -1}",
    ],
)
def test_the_schema_refuses_what_the_agent_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), json_schema())
    with pytest.raises(ConfigError):
        loads(text)


def test_the_schema_takes_references_wherever_a_text_may_stand() -> None:
    text = "kafka: {bootstrap: '${env:BROKERS}', security: {password: {file: secret}}}\nprivacy: {salt: '${env:SALT}'}"
    jsonschema.validate(yaml.safe_load(text), json_schema())
