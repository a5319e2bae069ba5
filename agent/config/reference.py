"""The reference of the configuration, from the tree: Markdown for people, JSON Schema for editors."""

import functools
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from annotated_types import Ge, Gt, Le, Lt
from pydantic import AwareDatetime, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agent.config.tree import Config
from agent.config.yaml import KeyPath

_PLAIN: Final = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretStr: "secret",
    AwareDatetime: "time",
}
_COMPOSED: Final[dict[Any, Callable[[list[str]], str]]] = {
    Annotated: lambda texts: texts[0],
    Literal: " or ".join,
    Union: lambda texts: f"{' or '.join(texts)} or null",
    types.UnionType: lambda texts: f"{' or '.join(texts)} or null",
    dict: lambda texts: f"{texts[1]} by name",
    tuple: lambda texts: f"list of {texts[0]}",
}


class Key(msgspec.Struct, frozen=True):
    """One key: where, of what type, within which limits, its default (unset: it has to be given) and its meaning.

    In the path `*` stands for a name that the operator chooses and `[]` for each item of a list.
    """

    path: tuple[str, ...]
    type: str
    limits: str
    default: Any
    required: bool
    secret: bool
    section: bool
    meaning: str


@functools.cache
def keys(model: type[BaseModel] = Config) -> tuple[Key, ...]:
    """Return every key of a model, sections before their keys, in the order of the tree."""
    return tuple(_walk(model, (), _example(model)))


@functools.cache
def secret_paths() -> frozenset[tuple[str, ...]]:
    """Return the paths of keys whose value must never be shown."""
    return frozenset(key.path for key in keys() if key.secret)


def model_at(path: KeyPath) -> type[BaseModel] | None:
    """Return the model that a path leads to, None where it leads to a value."""
    annotation: Any = Config
    for part in path:
        model, inner = section_model(annotation), _inner(annotation)
        if model is not None and part in model.model_fields:
            annotation = model.model_fields[str(part)].annotation
        elif inner is not None:
            annotation = inner
        else:
            return None
    return section_model(annotation)


def section_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a section, None for any other type."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def items_model(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return the model of a list's or a name table's items, None for plain values; and whether it is either."""
    inner = _inner(annotation)
    return section_model(inner), inner is not None


def _walk(model: type[BaseModel], above: tuple[str, ...], example: BaseModel | None) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        path, annotation = (*above, name), field.annotation
        section = section_model(annotation)
        default = None if example is None else getattr(example, name)
        yield _key(path, field, default, section=section is not None)
        inner = items_model(annotation)[0]
        if section is not None:
            yield from _walk(section, path, default if isinstance(default, BaseModel) else None)
        elif inner is not None:
            yield from _walk(inner, (*path, "*" if get_origin(annotation) is dict else "[]"), _example(inner))


def _key(path: tuple[str, ...], field: FieldInfo, default: Any, *, section: bool) -> Key:
    return Key(
        path=path,
        type=_type_text(field.annotation),
        limits=_limits(field),
        default=field.get_default() if default is None and field.default is not PydanticUndefined else default,
        required=field.is_required(),
        secret=SecretStr in (field.annotation, *get_args(field.annotation)),
        section=section,
        meaning=field.description or _summary_line(section_model(field.annotation)),
    )


def _example(model: type[BaseModel]) -> BaseModel | None:
    """Return the model with all defaults, None where a key has to be given."""
    return None if any(field.is_required() for field in model.model_fields.values()) else model()


def _inner(annotation: Any) -> Any:
    """Return the type of a list's items or of a dictionary's values, None for any other type."""
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    return arguments[0] if get_origin(annotation) is tuple else None


def _summary_line(model: type[BaseModel] | None) -> str:
    text = (model.__doc__ or "") if model else ""
    return text.strip().partition("\n")[0].rstrip(".")


def _type_text(annotation: Any) -> str:
    if section_model(annotation):
        return "section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _PLAIN[annotation]
    named = arguments[:1] if origin in (Annotated, tuple) else arguments  # the rest is metadata, or an ellipsis
    texts = [str(part) if origin is Literal else _type_text(part) for part in named if part is not type(None)]
    return _COMPOSED[origin](texts)


def _limits(field: FieldInfo) -> str:
    texts = {Ge: ("at least", "ge"), Gt: ("more than", "gt"), Le: ("at most", "le"), Lt: ("less than", "lt")}
    return ", ".join(
        f"{text} {getattr(limit, attribute):,}".replace(",", " ")
        for limit in field.metadata
        for kind, (text, attribute) in texts.items()
        if isinstance(limit, kind)
    )


Cost = Literal["reload", "restart", "rebuild"]


class Price(msgspec.Struct, frozen=True):
    """The cost of a change and what it means for the operator."""

    cost: Cost
    meaning: str


_RELOAD: Final = Price("reload", "taken over by a reload")
_FOLLOW: Final = Price("restart", "subscribers have to follow to the new topic; the old one keeps what it has")
_NEW_TOPICS: Final = Price("restart", "topics that exist keep theirs; use Kafka's own tools")
_TAKEN_OVER: Final = (
    "kafka", "jobs", "run_time", "hosts", "under_load", "profiles", "alerts", "collector", "learner", "http", "pages", "metrics",
    "alertmanager", "log",
)  # fmt: skip
PRICES: Final[dict[tuple[str, ...], Price]] = {
    **{(section,): _RELOAD for section in _TAKEN_OVER},
    ("systems", "*", "partition"): Price(
        "rebuild", "the system's events move to another shard, whose models start from nothing until a rebuild"
    ),
    ("systems", "*", "aliases"): Price("rebuild", "runs that came under the alias keep its name until a rebuild"),
    ("systems",): Price("reload", "events of the system are taken or refused from then on"),
    ("other_systems",): Price("reload", "events of other systems are taken or refused from then on"),
    ("sources",): Price("reload", "messages that were already read are not read again"),
    ("schema_registry",): Price("reload", "messages that were already read are not read again"),
    ("reference",): Price(
        "reload", "samples have their new hosts and units from then on; what was told keeps its names"
    ),
    ("topics", "journal"): Price("rebuild", "the learner starts at the new journal with no position"),
    ("topics", "journal_partitions"): Price("rebuild", "the agent refuses to start until `scalewatch rebuild` has run"),
    ("topics", "state"): Price("rebuild", "the learner finds no state in the new topic"),
    ("topics", "runs"): Price("restart", "a rebuild reads the new topic and no longer the old one"),
    ("topics", "replication"): Price("restart", "topics that exist keep theirs; change them with Kafka's own tools"),
    ("topics", "journal_retention_s"): _NEW_TOPICS,
    ("topics", "answers_retention_s"): _NEW_TOPICS,
    ("topics", "deadletters_retention_s"): _NEW_TOPICS,
    ("topics",): _FOLLOW,
    ("identify",): Price(
        "rebuild", "new jobs follow it at once; runs already learned keep their names until a rebuild"
    ),
    ("features",): Price("reload", "runs already learned keep the attributes that they were learned with"),
    ("collector", "group"): Price("reload", "the new group starts at the beginning of every source"),
    ("http", "access"): Price("reload", "who was let in or kept out is so until a reload"),
    ("energy",): Price("reload", "the next report reckons with it; the agent itself does not read it"),
    ("privacy",): Price("reload", "what is already written stays as it is"),
}


def needs_restart(path: KeyPath) -> bool:
    """Return whether a reload leaves a key as it was: the agent makes its topics, and finds its place in them, at its start."""
    return path[0] == "topics"


def price(path: KeyPath) -> Price:
    """Return the price of changing a key: that of the nearest entry above it."""
    pattern = tuple("*" if index == 1 and path[0] == "systems" else str(part) for index, part in enumerate(path))
    return next(PRICES[pattern[:length]] for length in range(len(pattern), 0, -1) if pattern[:length] in PRICES)


HEAD: Final = """# Configuration

A YAML file. Every key may be left out unless the table says *required*; unknown keys are refused.
In a text, `${env:NAME}` stands for an environment variable, and `{file: PATH}` in the place of a text for the content
of a file, next to the configuration where the path is relative. Secrets can be given in no other way.
`*` in a key stands for a name of your choice, `[]` for each entry of a list.
*Change* says what a new value costs: a `reload`, a `restart` of the agent, or a `rebuild` from the runs.
A running agent reads the file again when it gets SIGHUP, and with `run --watch` when the file changes. It takes over every key but those
of `topics`, which wait for a restart. A key that costs a `rebuild` is taken over as well: the table says what holds until the rebuild.
"""


def markdown() -> str:
    """Return the reference page: one table for each section."""
    meanings = {key.path: key.meaning for key in keys()}
    sections: dict[tuple[str, ...], list[Key]] = {}
    for key in keys():
        if not key.section:
            sections.setdefault(key.path[:-1], []).append(key)
    lines = [HEAD]
    for path, rows in sorted(sections.items(), key=lambda item: bool(item[0])):
        above = meanings.get(path) or meanings.get(path[:-1])
        lines += ["", f"## {'.'.join(path)}" if path else "## Top level", "", f"{_message(above)}\n" if above else ""]
        lines += ["| key | type | default | change | meaning |", "|---|---|---|---|---|", *map(_row, rows)]
    return "\n".join(lines) + "\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration file."""
    schema = Config.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Scalewatch configuration"
    _allow_references(schema)
    return schema


def _row(key: Key) -> str:
    kind = ", ".join(part for part in (key.type, key.limits) if part)
    cells = (f"`{key.path[-1]}`", kind, _default(key), price(key.path).cost, _message(key.meaning))
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _default(key: Key) -> str:
    if key.required:
        return "*required*"
    if isinstance(key.default, SecretStr) or key.default in (None, (), {}, ""):
        return "none"
    return f"`{msgspec.json.encode(key.default).decode()}`"


def _message(text: str) -> str:
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
