"""The values of the Helm chart: each described, each checked, the agent's own configuration among them.

`SCALEWATCH_UPDATE_CHART=1 pytest tests/deploy/test_chart_values.py` writes anew what is made from the code.
"""

import json
import os
from typing import Any

import jsonschema
import pytest
import yaml

from agent.config.tree import Config
from tests.kit.chart import CHART
from tests.kit.chart_values import README, SCHEMA, TABLE, VALUES, chart_schema, chart_values, table

UPDATE = os.environ.get("SCALEWATCH_UPDATE_CHART") == "1"
COMMAND = "run SCALEWATCH_UPDATE_CHART=1 pytest tests/deploy/test_chart_values.py"


def test_the_schema_knows_the_configuration_of_today() -> None:
    if UPDATE:
        SCHEMA.write_text(chart_schema())
    assert SCHEMA.read_text() == chart_schema(), COMMAND


def test_the_readme_has_the_table_of_today() -> None:
    if UPDATE:
        README.write_text(TABLE.sub(lambda _: table(), README.read_text()))
    assert table() in README.read_text(), COMMAND


def test_every_value_states_what_it_is_for() -> None:
    assert [value.path for value in chart_values() if not value.meaning.endswith((".", ")"))] == []
    assert len(chart_values()) > 60


def test_the_schema_is_one_and_takes_the_defaults() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(VALUES.read_text()))


def test_every_value_is_in_the_schema_and_no_other_key_is_taken() -> None:
    schema = json.loads(SCHEMA.read_text())
    for value in chart_values():
        changed = yaml.safe_load(VALUES.read_text())
        *sections, key = value.path.split(".")
        place = changed
        for section in sections:
            place = place[section]
        place[key + "x"] = place.pop(key)
        found = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(changed)]
        assert any(f"{key}x" in message for message in found), value.path


@pytest.mark.parametrize("section", list(Config.model_fields))
def test_a_misspelt_key_of_the_configuration_is_refused(section: str) -> None:
    schema = json.loads(SCHEMA.read_text())
    values: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    values["config"][section + "s_"] = {}
    (error,) = jsonschema.Draft7Validator(schema).iter_errors(values)
    assert section + "s_" in error.message


def test_examples_are_left_out_of_the_package() -> None:
    assert {"/ci/", "/tests/"} <= set((CHART / ".helmignore").read_text().splitlines())
