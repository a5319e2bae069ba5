"""What is made for the chart from elsewhere: the schema of `config` from the agent, the table of values from values.yaml."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from agent.config.reference import json_schema
from tests.kit.chart import CHART

SCHEMA, VALUES, README = CHART / "values.schema.json", CHART / "values.yaml", CHART / "README.md"
TABLE = re.compile(r"(?<=<!-- values -->\n).*?(?=<!-- /values -->)", re.DOTALL)
SECTIONS = ("config", "pod", "collector", "learner")  # a comment above these is about the section


class Value(NamedTuple):
    """A value of the chart: its path, what it is without being set, and the comment above it."""

    path: str
    default: Any
    meaning: str


def chart_schema() -> str:
    """Return the schema of the values with that of the agent's configuration as it is now."""
    schema = json.loads(SCHEMA.read_text())
    own = {name: part for name, part in schema["definitions"].items() if not name[0].isupper()}
    whole = _for_helm(json_schema())
    sections = {"Config": whole, **whole.pop("$defs")}
    schema["definitions"] = {**own, **dict(sorted(sections.items()))}
    return json.dumps(schema, indent=1) + "\n"


def _for_helm(part: Any) -> Any:
    """Return a schema in the dialect that all versions of Helm know, without what checks nothing.

    Secrets may be any text here: a validator shows what it compares. The templates refuse them without a word of them.
    """
    if isinstance(part, list):
        return [_for_helm(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("anyOf") == [{"$ref": "#/$defs/Reference"}]:
        return {"type": ["string", "object"]}
    if "$ref" in part:
        return {"$ref": part["$ref"].replace("/$defs/", "/definitions/")}
    named = {"properties", "patternProperties", "$defs"}
    retained = {key: value for key, value in part.items() if key not in ("$schema", "default", "title", "writeOnly")}
    return {
        key: {name: _for_helm(below) for name, below in value.items()} if key in named else _for_helm(value)
        for key, value in retained.items()
    }


def chart_values() -> list[Value]:
    """Return every value of values.yaml in its order, with the comment lines right above it."""
    root = yaml.compose(VALUES.read_text())
    assert isinstance(root, yaml.MappingNode)
    return list(_values(root, "", VALUES.read_text().splitlines()))


def _values(node: yaml.MappingNode, prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        meaning = _comment(lines, key.start_mark.line)
        filled = isinstance(value, yaml.MappingNode) and bool(value.value)
        if filled and (not meaning or path in SECTIONS):
            yield from _values(value, f"{path}.", lines)
        else:
            yield Value(path, yaml.safe_load(yaml.serialize(value)), meaning)


def _comment(lines: list[str], line: int) -> str:
    found: list[str] = []
    while line and (text := lines[line - 1].strip()).startswith("#"):
        found.insert(0, text.removeprefix("#").strip())
        line -= 1
    return " ".join(found)


def table() -> str:
    """Return the table of values for the README."""
    rows = [f"| `{each.path}` | `{json.dumps(each.default)}` | {each.meaning} |" for each in chart_values()]
    body = "\n".join(rows)
    return f"\n| value | default | meaning |\n|---|---|---|\n{body}\n\n"
