"""The reference of the configuration, from the tree: Markdown for people, JSON Schema for editors."""

from typing import Any, Final

import msgspec
from pydantic import SecretStr

from agent.config.costs import price
from agent.config.keys import Key, keys
from agent.config.tree import Config

HEAD: Final = """# Configuration

A YAML file. Every key may be left out unless the table says *required*; unknown keys are refused.
In a text, `${env:NAME}` stands for an environment variable, and `{file: PATH}` in the place of a text for the content
of a file, next to the configuration where the path is relative. Secrets can be given in no other way.
`*` in a key stands for a name of your choice, `[]` for each entry of a list.
*Change* says what a new value costs: a `restart` of the role, or a `rebuild` from the runs.
A running agent does not read its configuration again.
"""


def markdown() -> str:
    """Return the reference page: one table for each section.

    >>> "| `port` | whole number, at least 0, at most 65 535 | `8080` | restart |" in markdown()
    True
    """
    meanings = {key.path: key.meaning for key in keys()}
    sections: dict[tuple[str, ...], list[Key]] = {}
    for key in keys():
        if not key.section:
            sections.setdefault(key.path[:-1], []).append(key)
    lines = [HEAD]
    for path, rows in sorted(sections.items(), key=lambda item: bool(item[0])):
        above = meanings.get(path) or meanings.get(path[:-1])
        lines += ["", f"## {'.'.join(path)}" if path else "## Top level", "", f"{_sentence(above)}\n" if above else ""]
        lines += ["| key | type | default | change | meaning |", "|---|---|---|---|---|", *map(_row, rows)]
    return "\n".join(lines) + "\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration file.

    >>> json_schema()["properties"]["log"]["$ref"]
    '#/$defs/LogSettings'
    """
    schema = Config.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Scalewatch configuration"
    _allow_references(schema)
    return schema


def _row(key: Key) -> str:
    kind = ", ".join(part for part in (key.type, key.limits) if part)
    cells = (f"`{key.path[-1]}`", kind, _default(key), price(key.path).cost, _sentence(key.meaning))
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _default(key: Key) -> str:
    if key.required:
        return "*required*"
    if isinstance(key.default, SecretStr) or key.default in (None, (), {}, ""):
        return "none"
    return f"`{msgspec.json.encode(key.default).decode()}`"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _allow_references(schema: dict[str, Any]) -> None:
    """Let every text be a reference; a secret can be nothing else."""
    reference = {"$ref": "#/$defs/Reference"}
    for node in _nodes(schema):
        if "description" in node and isinstance(node["description"], str):
            node["description"] = node["description"].partition("\n\n>>>")[0]
        if node.get("type") == "string":
            node.pop("writeOnly", None)
            secret = node.pop("format", None) == "password"
            form = {name: node.pop(name) for name in _FORM if name in node}
            node["anyOf"] = [reference] if secret else [form, reference]
    schema["$defs"]["Reference"] = _REFERENCE


def _nodes(schema: Any) -> list[dict[str, Any]]:
    found = [schema] if isinstance(schema, dict) else []
    below = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return found + [node for part in below for node in _nodes(part)]


_FORM: Final = ("type", "pattern", "maxLength", "minLength", "enum")
_REFERENCE: Final = {
    "description": "${env:NAME} in a text, or {file: PATH} in its place",
    "anyOf": [
        {"type": "string", "pattern": r"\$\{env:[A-Za-z_][A-Za-z0-9_]*\}"},
        {
            "type": "object",
            "properties": {"file": {"type": "string"}},
            "required": ["file"],
            "additionalProperties": False,
        },
    ],
}
