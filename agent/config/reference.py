"""The reference page of all configuration keys, generated from the tree: Markdown for people, JSON Schema for editors."""

import functools
import types
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from annotated_types import Ge, Gt, Le, Lt
from pydantic import AwareDatetime, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agent.config.tree import Config
from agent.config.yaml import KeyPath
from processors.contracts.alerts import inherits

_PLAIN: Final = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretStr: "secret",
    AwareDatetime: "time",
}
_COMPOSED: Final[dict[Any, str]] = {
    Annotated: "{0}", Literal: "{all}", Union: "{all} or null", types.UnionType: "{all} or null", dict: "{1} by name",
    tuple: "list of {0}",
}  # fmt: skip


class Key:
    """A configuration key with its type, limits, default and description.

    In `path`, `*` stands for a name that the operator chooses, and `[]` for each item of a list. `site` is True for keys that a
    site usually sets; the reference page lists all remaining keys in its second part.
    """

    def __init__(self, path: tuple[str, ...], field: FieldInfo, default: Any) -> None:
        section = section_model(field.annotation)
        uses_field_default = default is None and field.default is not PydanticUndefined
        self.path, self.site = path, _is_site(path)
        self.type, self.limits = _type_text(field.annotation), _limits(field)
        self.default = field.get_default() if uses_field_default else default
        self.required = field.is_required()
        self.secret = SecretStr in (field.annotation, *get_args(field.annotation))
        self.section = section is not None
        self.meaning = field.description or _summary_line(section)


@functools.cache
def keys(model: type[BaseModel] = Config) -> tuple[Key, ...]:
    """Return all keys of a model in the order of the configuration tree, each section before its keys.

    Keys that alert sections inherit from `alerts.defaults` are listed only under `alerts.defaults`.
    """
    return tuple(_walk(model, (), _example(model)))


@functools.cache
def secret_paths() -> frozenset[tuple[str, ...]]:
    return frozenset(key.path for key in keys() if key.secret)


def model_at(path: KeyPath) -> type[BaseModel] | None:
    """Return the model of the configuration section at `path`; None if there is a plain value or nothing at `path`."""
    annotation: Any = Config
    for part in path:
        model, inner = section_model(annotation), inner_type(annotation)
        if model is not None and part in model.model_fields:
            annotation = model.model_fields[str(part)].annotation
        elif inner is not None:
            annotation = inner
        else:
            return None
    return section_model(annotation)


def section_model(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def inner_type(annotation: Any) -> Any:
    """Return the type of the items of a list or of the values of a name table; None for any other type."""
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    return arguments[0] if get_origin(annotation) is tuple else None


def _walk(model: type[BaseModel], above: tuple[str, ...], example: BaseModel | None) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        if inherits(model, name):
            continue
        path, annotation = (*above, name), field.annotation
        section = section_model(annotation)
        default = None if example is None else getattr(example, name)
        yield Key(path, field, default)
        inner = section_model(inner_type(annotation))
        if section is not None:
            yield from _walk(section, path, default if isinstance(default, BaseModel) else None)
        elif inner is not None:
            yield from _walk(inner, (*path, "*" if get_origin(annotation) is dict else "[]"), _example(inner))


# The keys in the first part of the reference page: keys that depend on the site. `*` stands for any one part of a path.
SITE: Final = (
    "systems", "other_systems", "sources", "schema_registry", "reference", "energy", "privacy", "log", "pages", "http",
    "kafka.bootstrap", "kafka.client", "kafka.security", "kafka.compression",
    "topics.prefix", "topics.journal_partitions", "topics.replication", "topics.journal_retention_s", "topics.answers_retention_s",
    "topics.deadletters_retention_s",
    "identify", "features.attributes", "run_time.allowed_sizes", "run_time.cores_per_node", "run_time.machines", "hosts.publish_s",
    "under_load.models", "alerts.defaults", "alerts.*.enabled", "alerts.*.dry_run", "alerts.exclusions", "alerts.maintenance",
    "alerts.rack_anomaly.pattern", "alerts.peer_difference.resources", "alerts.runbook_url",
    "alertmanager.urls", "alertmanager.username", "alertmanager.password", "alertmanager.token", "alertmanager.ca_file",
    "alertmanager.external_url", "metrics.hosts_max",
)  # fmt: skip


def _is_site(path: tuple[str, ...]) -> bool:
    above = [".".join(path[:length]) for length in range(1, len(path) + 1)]
    return any(fnmatchcase(key, pattern) for key in above for pattern in SITE)


def _example(model: type[BaseModel]) -> BaseModel | None:
    """Return an instance of the model with all defaults; None if the model has a required key."""
    return None if any(field.is_required() for field in model.model_fields.values()) else model()


def _summary_line(model: type[BaseModel] | None) -> str:
    text = (model.__doc__ or "") if model else ""
    return text.strip().partition("\n")[0].rstrip(".")


def _type_text(annotation: Any) -> str:
    if section_model(annotation):
        return "section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _PLAIN[annotation]
    # skip metadata of Annotated and the ellipsis of a tuple
    named = arguments[:1] if origin in (Annotated, tuple) else arguments
    texts = [str(part) if origin is Literal else _type_text(part) for part in named if part is not type(None)]
    return _COMPOSED[origin].format(*texts, all=" or ".join(texts))


def _limits(field: FieldInfo) -> str:
    texts = {Ge: ("at least", "ge"), Gt: ("more than", "gt"), Le: ("at most", "le"), Lt: ("less than", "lt")}
    return ", ".join(
        f"{text} {getattr(limit, attribute):,}".replace(",", " ")
        for limit in field.metadata
        for kind, (text, attribute) in texts.items()
        if isinstance(limit, kind)
    )


Cost = Literal["reload", "restart", "rebuild"]
Price = tuple[Cost, str]
"""The action that a changed key needs, and the effect until that action."""

_RELOAD: Final[Price] = ("reload", "takes effect with a reload")
_NEW_MESSAGES: Final[Price] = ("reload", "messages that were already read are not read again")
_NEW_EVENTS: Final[Price] = ("reload", "applies to events after the reload")
_NEW_TOPICS: Final[Price] = ("restart", "existing topics keep their retention; change it with Kafka's own tools")
_AT_ONCE: Final = (
    "kafka", "jobs", "run_time", "hosts", "under_load", "profiles", "alerts", "collector", "learner", "http", "pages", "metrics",
    "alertmanager", "log",
)  # fmt: skip
PRICES: Final[dict[str, Price]] = {
    **dict.fromkeys(_AT_ONCE, _RELOAD),
    "systems": _NEW_EVENTS,
    "systems.*.partition": (
        "rebuild",
        "the system's events move to another shard, which has no models until a rebuild",
    ),
    "systems.*.aliases": ("rebuild", "runs that came under the alias keep that name until a rebuild"),
    "other_systems": _NEW_EVENTS,
    "sources": _NEW_MESSAGES,
    "schema_registry": _NEW_MESSAGES,
    "reference": ("reload", "applies to samples after the reload; stored records keep their names"),
    "topics": ("restart", "subscribers must switch to the new topic; the old topic keeps its records"),
    "topics.journal": ("rebuild", "the learner has no position in the new journal"),
    "topics.journal_partitions": ("rebuild", "the agent refuses to start until `scalewatch rebuild` has run"),
    "topics.state": ("rebuild", "the learner finds no state in the new topic"),
    "topics.replication": ("restart", "existing topics keep their replication; change it with Kafka's own tools"),
    "topics.journal_retention_s": _NEW_TOPICS,
    "topics.answers_retention_s": _NEW_TOPICS,
    "topics.deadletters_retention_s": _NEW_TOPICS,
    "identify": ("rebuild", "applies to new jobs at once; learned runs keep their names until a rebuild"),
    "features": ("reload", "learned runs keep the attributes that they were learned with"),
    "energy": ("reload", "applies to the next report; the agent itself does not use it"),
    "privacy": ("reload", "applies to new records; existing records stay unchanged"),
}


def needs_restart(path: KeyPath) -> bool:
    """Return whether a key takes effect only after a restart, because the agent opens its topics when it starts."""
    return path[0] == "topics"


def price(path: KeyPath) -> Price:
    """Return the cost of changing a key, from the entry of PRICES for the key itself or for the nearest section above it."""
    parts = ["*" if index == 1 and path[0] == "systems" else str(part) for index, part in enumerate(path)]
    keys_above = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next(PRICES[key] for key in keys_above if key in PRICES)


HEAD: Final = """# Configuration

The configuration is a YAML file. Every key is optional unless the table says *required*; unknown keys are errors.
In a text, `${env:NAME}` inserts an environment variable. `{file: PATH}` instead of a text inserts the content of a file; a relative path
starts at the configuration file. Secrets must use one of these two forms.
In the names of keys, `*` stands for a name of your choice and `[]` for each entry of a list.
*Change* names the action that a new value needs: a `reload`, a `restart` of the agent, or a `rebuild` from the stored runs.
A running agent reloads the file on SIGHUP, and with `run --watch` when the file changes. All keys take effect then, except those
of `topics`, which need a restart. Keys that need a `rebuild` take effect for new jobs at once.

The keys come in two parts: [keys that a site sets](#keys-that-a-site-sets), and
[keys that rarely need a change](#keys-that-rarely-need-a-change), which are limits and tuning values with good defaults.
Each alert section also accepts the keys of `alerts.defaults`, to override them.
"""
PARTS: Final = {True: "Keys that a site sets", False: "Keys that rarely need a change"}


def markdown() -> str:
    """Return the reference page in two parts, each with one table per section."""
    meanings = {key.path: key.meaning for key in keys()}
    lines = [HEAD]
    for site, title in PARTS.items():
        lines += ["", f"## {title}"]
        sections: dict[tuple[str, ...], list[Key]] = {}
        for key in keys():
            if not key.section and key.site == site:
                sections.setdefault(key.path[:-1], []).append(key)
        for path, rows in sorted(sections.items(), key=lambda item: bool(item[0])):
            above = meanings.get(path) or meanings.get(path[:-1])
            lines += ["", f"### {'.'.join(path) or 'Top level'}", "", f"{_message(above)}\n" if above else ""]
            lines += ["| key | type | default | change | meaning |", "|---|---|---|---|---|", *map(_row, rows)]
    return "\n".join(lines) + "\n"


def json_schema() -> dict[str, Any]:
    schema = Config.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Scalewatch configuration"
    _allow_references(schema)
    return schema


def _row(key: Key) -> str:
    kind = ", ".join(part for part in (key.type, key.limits) if part)
    cells = (f"`{key.path[-1]}`", kind, _default(key), price(key.path)[0], _message(key.meaning))
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
    """Allow a reference in place of any text in the JSON schema; a secret must be a reference."""
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
    dictionaries = [schema] if isinstance(schema, dict) else []
    below = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return dictionaries + [node for part in below for node in _nodes(part)]


_FORM: Final = ("type", "pattern", "maxLength", "minLength", "enum")
_REFERENCE: Final = {
    "description": "${env:NAME} within a text, or {file: PATH} instead of a text",
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
