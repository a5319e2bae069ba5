"""Reference pages generated from the code: formats, processors, metrics, configuration and schemas, as Markdown or as data."""

import inspect
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import combinations
from typing import Any, Final

import msgspec

from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.decode.formats import Format
from agent.decode.native import ARRAYS, Completed, Identified, NetworkReport, Requested, Started
from agent.decode.telemetry.metric import Metric
from agent.decode.telemetry.native import COMPONENT, Counters, Load, Power
from agent.reports.backtest.report import Report
from agent.reports.energy import EnergyReport
from agent.reports.waste import WeekReport
from processors import __version__
from processors.contracts.events import STATES, UNITS
from processors.contracts.outputs import SCHEMAS, TIMES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
INPUTS: Final[dict[str, type[msgspec.Struct]]] = {
    f"scalewatch.event.{event.__struct_config__.tag}/1": event
    for event in (Started, Completed, Identified, Requested, NetworkReport, Load, Power, Counters)
}
FILES: Final[dict[str, type[msgspec.Struct]]] = {
    "scalewatch.backtest/1": Report,
    "scalewatch.energy/1": EnergyReport,
    "scalewatch.week/1": WeekReport,
}
NAMES: Final = (*SCHEMAS, *INPUTS, *FILES)
Fields = dict[str, dict[str, Any]]
FIELDS: Final[dict[str, Fields]] = tomllib.loads(files("agent.describe").joinpath("fields.toml").read_text("utf-8"))
"""The description, unit and example of each field, for `messages`, `events` and `reports`."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a message, event or file. Raise KeyError if `name` is not in NAMES.

    Within a major version, fields are only added, so readers must ignore unknown fields.
    """
    struct = {**SCHEMAS, **INPUTS, **FILES}[name]
    (reference,), parts = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    whole: dict[str, Any] = {"$schema": DIALECT, "$id": name, **parts.pop(reference["$ref"].rpartition("/")[2])}
    if parts:
        whole["$defs"] = parts
    family = FIELDS["events" if name in INPUTS else "reports" if name in FILES else "messages"]
    for title, part in ((short_name(name), whole), *parts.items()):
        _describe_fields(part, title, family)
    if name in INPUTS:
        _name_rules(whole)
    else:
        for time in TIMES & whole["properties"].keys():  # times are RFC 3339 in UTC, but their type is only a string
            whole["properties"][time]["format"] = "date-time"
        text = FIELDS["messages"]["schema"]["text"]
        whole["properties"]["schema"] = {"const": name, "description": text, "examples": [name]}
    return whole


def short_name(schema_name: str) -> str:
    """Return the name of a schema without the product name and the version."""
    return schema_name.removeprefix("scalewatch.").partition("/")[0]


def _describe_fields(part: dict[str, Any], title: str, family: Fields) -> None:
    """Put the description of `part`, taken from its docstring, on one line; add meaning, unit and example to each field."""
    if "description" in part:
        part["description"] = " ".join(part["description"].split())
    for name, form in part.get("properties", {}).items():
        keys = (f"{title}.{name}", name)
        field = next((fields[key] for fields in (family, FIELDS["messages"]) for key in keys if key in fields), None)
        if field is None:
            continue
        form["description"] = field["text"]
        if "unit" in field:
            form["x-unit"] = field["unit"]
        if len(form.get("enum", ())) == 1:
            form["examples"] = [form["enum"][0]]
        elif "example" in field:
            form["examples"] = [field["example"]]


def _name_rules(whole: dict[str, Any]) -> None:
    """Add to a JSON Schema the rules that the decoder checks beyond types: allowed values, and which fields need each other."""
    fields = whole["properties"]
    for name, values in (("unit", UNITS), ("state", STATES)):
        if name in fields:
            described = {key: fields[name][key] for key in ("description", "examples")}
            fields[name] = {"enum": [*values, None], "default": None, **described}
    kind = fields["type"]["enum"][0]
    if kind == "network":
        whole["anyOf"] = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in ARRAYS]
    if kind == "power":
        fields["component"] |= {"type": "string", "pattern": f"^{COMPONENT}$"}
    if kind == "job.started":
        whole["dependentRequired"] = {"n": ["unit"], "unit": ["n"]}
    if kind == "job.completed":
        whole["required"] = [*whole["required"], "n", "unit"]
        whole["anyOf"] = [{"required": list(pair)} for pair in combinations(("start", "end", "run_time_s"), 2)]


BINDING: Final = "0.5.0"
EVENTS_CHANNEL: Final = "events"
_TOPICS: Final[dict[str, tuple[str, str]]] = {
    "predictions": ("scalewatch.prediction/1", "system/application/input/unit, each escaped as in a URL"),
    "job_predictions": ("scalewatch.job-prediction/1", "system/job_id; deleted when the job has ended"),
    "answers": ("scalewatch.answer/1", "the id of the request"),
    "alerts": ("scalewatch.alert/1", "the fingerprint"),
    "runs": ("scalewatch.run/1", "the id of the run"),
    "hosts": (
        "scalewatch.host/1",
        "system/host; deleted when the host is forgotten, written if hosts.publish_s is set",
    ),
    "deadletters": ("scalewatch.dead-letter/1", "position of the message and reason: topic/partition/offset/reason"),
}
"""The schema and the record key of each topic, by the topic's name in the configuration."""


def document(config: Config) -> dict[str, Any]:
    """Return the AsyncAPI document of an agent; the actions send and receive are from the agent's point of view."""
    plaintext = config.kafka.security.protocol in ("plaintext", "sasl_plaintext")
    channels = _channels(config)
    operations = {
        f"{action}_{name}": {"action": action, "channel": {"$ref": f"#/channels/{name}"}}
        for name in channels
        for action in ("receive" if name == EVENTS_CHANNEL else "send",)
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Scalewatch",
            "version": __version__,
            "description": "The agent's input in its native format, and its output. Records are delivered at least once and in order "
            "per key; a repeated record has the same id and content. Schemas only grow within a major version.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "kafka": {
                "host": config.kafka.bootstrap.split(",")[0],
                "protocol": "kafka" if plaintext else "kafka-secure",
            }
        },
        "channels": channels,
        "operations": operations,
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _channels(config: Config) -> dict[str, Any]:
    """Return the AsyncAPI channels: one for each topic that the agent writes, and one for the events that it reads."""
    topics = {topic.name: topic for topic in own_topics(config)}
    channels: dict[str, Any] = {}
    for name, (schema_name, key) in _TOPICS.items():
        topic = topics.get(getattr(config.topics, name))
        if topic is None:
            continue
        policy: dict[str, Any] = {"cleanup.policy": ["compact"] if topic.compacted else ["delete"]}
        if topic.retention_ms is not None:
            policy["retention.ms"] = topic.retention_ms
        channels[name] = {
            "address": topic.name,
            "description": f"Key of a record: {key}."
            + (" The last record of a key counts." if topic.compacted else ""),
            "messages": _references([schema_name]),
            "bindings": {
                "kafka": {
                    "topic": topic.name,
                    "partitions": topic.partitions,
                    "replicas": config.topics.replication,
                    "topicConfiguration": policy,
                    "bindingVersion": BINDING,
                }
            },
        }
    channels[EVENTS_CHANNEL] = {
        "address": next((topic for source in config.sources for topic in source.topics), None),
        "description": "Events in the agent's native format; `scalewatch describe formats` lists further formats.",
        "messages": _references(INPUTS),
    }
    return channels


def _references(schema_names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in map(_message_name, schema_names)}


def _messages() -> dict[str, Any]:
    keys = dict(_TOPICS.values())
    messages: dict[str, Any] = {}
    for schema_name in (*SCHEMAS, *INPUTS):
        name = _message_name(schema_name)
        messages[name] = {
            "name": schema_name,
            "contentType": "application/json",
            "payload": {"$ref": f"#/components/schemas/{name}"},
        }
        if schema_name in keys:
            key = {"type": "string", "description": keys[schema_name]}
            messages[name]["bindings"] = {"kafka": {"key": key, "bindingVersion": BINDING}}
    return messages


def _schemas() -> dict[str, Any]:
    """Return all schemas and their shared definitions by name; references point to ``#/components/schemas``."""
    schemas: dict[str, Any] = {}
    for schema_name in (*SCHEMAS, *INPUTS):
        whole = schema(schema_name)
        parts = whole.pop("$defs", {})
        del whole["$schema"], whole["$id"]
        schemas |= {**parts, _message_name(schema_name): whole}
    text = msgspec.json.encode(dict(sorted(schemas.items()))).replace(b"#/$defs/", b"#/components/schemas/")
    moved: dict[str, Any] = msgspec.json.decode(text)
    return moved


def _message_name(schema_name: str) -> str:
    """Return a schema name that is valid in a reference: scalewatch.job-prediction/1 becomes job-prediction.v1."""
    name, _, version = schema_name.removeprefix("scalewatch.").rpartition("/")
    return f"{name}.v{version}"


MetricRow = tuple[str, str, Sequence[str], str]


def formats(table: Mapping[str, Format]) -> list[dict[str, Any]]:
    """Return the name, meaning, contents and a sample of every format, and the metrics decoded without configuration."""
    rows = []
    for name, form in table.items():
        contents = {"jobs": form.jobs or form.folder, "measurements": form.samples or form.folder}
        rows.append(
            {
                "name": name,
                "meaning": form.reads,
                "holds": " and ".join(content for content, decoder in contents.items() if decoder is not None),
                "sample": form.sample.decode(),
                "metrics": list(dict.fromkeys(map(_metric_name, form.metrics))),
            }
        )
    return rows


def _metric_name(metric: Metric) -> str:
    name = metric.measurement if metric.field == "value" else f"{metric.measurement} {metric.field}"
    return name.replace("\0", "")


def formats_page(table: Mapping[str, Format]) -> str:
    """Return the formats as Markdown: one table, then a sample of each format with its decoded metrics."""
    rows = formats(table)
    lines = [markdown("Formats", [{key: row[key] for key in ("name", "meaning", "holds")} for row in rows])]
    for row in rows:
        if row["sample"]:
            lines += ["", f"## {row['name']}", "", "```text", row["sample"], "```"]
        if row["metrics"]:
            lines += ["", "Taken without configuration: " + ", ".join(f"`{name}`" for name in row["metrics"]) + "."]
    return "\n".join(lines)


def processors(classes: Iterable[type]) -> list[dict[str, Any]]:
    """Return name, state version and meaning of every processor."""
    return [
        {"name": kind.name, "state version": kind.version, "meaning": str(inspect.getdoc(kind)).partition("\n")[0]}  # type: ignore[attr-defined]  # of the Processor protocol
        for kind in classes
    ]


def metrics(rows: Iterable[MetricRow]) -> list[dict[str, Any]]:
    """Return name, kind, labels and meaning of every metric."""
    return [
        {"name": name, "kind": kind, "labels": ", ".join(labels), "meaning": text} for name, kind, labels, text in rows
    ]


def markdown(title: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a Markdown page with one table."""
    head = list(rows[0])
    lines = [f"# {title}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        name, *others = (str(cell).replace("|", "&#124;") for cell in row.values())
        lines.append(f"| {' | '.join((f'`{name}`', *others))} |")
    return "\n".join(lines)


def schemas_page() -> str:
    """Return the fields of every event and message as Markdown."""
    lines = ["# Events and messages"]
    for name in NAMES:
        whole = schema(name)
        parts = {f"## {name}": whole, **{f"### {title}": part for title, part in whole.get("$defs", {}).items()}}
        for heading, part in parts.items():
            lines += ["", heading, "", part.get("description", ""), "", *_fields_table(part)]
    return "\n".join(lines)


def _fields_table(part: dict[str, Any]) -> list[str]:
    lines = ["| field | type | unit | required | meaning |", "|---|---|---|---|---|"]
    for name, form in part.get("properties", {}).items():
        required = "yes" if name in part.get("required", ()) else "no"
        meaning = form.get("description", "").replace("|", "&#124;")
        lines.append(f"| `{name}` | {_kind(form)} | {form.get('x-unit', '')} | {required} | {meaning} |")
    return lines


def _kind(form: dict[str, Any]) -> str:
    if "$ref" in form:
        return str(form["$ref"]).rpartition("/")[2]
    if "const" in form:
        return f"`{form['const']}`"
    if "enum" in form:
        return ", ".join("null" if word is None else f"`{word}`" for word in form["enum"])
    if "anyOf" in form:
        return " or ".join(_kind(part) for part in form["anyOf"])
    if form.get("type") == "array":
        return f"list of {_kind(form['items'])}" if form.get("items") else "list"
    return str(form.get("format") or form.get("type") or "any")
