"""Reference pages from the code: formats, processors, metrics, configuration and schemas, as Markdown or as data."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import msgspec

from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.decode.formats import Format
from agent.decode.native import ARRAYS, Completed, Identified, NetworkReport, Requested, Started
from agent.decode.telemetry.metric import Metric
from agent.decode.telemetry.native import COMPONENT, Counters, Load, Power
from agent.describe.fields import EVENTS, MESSAGES, REPORTS, Field, field
from agent.reports.backtest.report import Report
from agent.reports.energy import EnergyReport
from agent.reports.waste import WeekReport
from processors import __version__
from processors.contracts.events import STATES, UNITS
from processors.contracts.outputs import SCHEMAS, TIMES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
INPUTS: Final[dict[str, type[msgspec.Struct]]] = {
    "scalewatch.event.job.started/1": Started,
    "scalewatch.event.job.completed/1": Completed,
    "scalewatch.event.identity/1": Identified,
    "scalewatch.event.prediction.requested/1": Requested,
    "scalewatch.event.network/1": NetworkReport,
    "scalewatch.event.load/1": Load,
    "scalewatch.event.power/1": Power,
    "scalewatch.event.counters/1": Counters,
}
FILES: Final[dict[str, type[msgspec.Struct]]] = {
    "scalewatch.backtest/1": Report,
    "scalewatch.energy/1": EnergyReport,
    "scalewatch.week/1": WeekReport,
}
NAMES: Final = (*SCHEMAS, *INPUTS, *FILES)


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a message, event or file; schemas only grow within a major version, so readers ignore unknown fields.

    Raise KeyError if the name is not in NAMES.
    """
    struct = {**SCHEMAS, **INPUTS, **FILES}[name]
    (reference,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    own = reference["$ref"].rpartition("/")[2]
    whole: dict[str, Any] = {"$schema": DIALECT, "$id": name, **components.pop(own)}
    if components:
        whole["$defs"] = components
    for title, part in ((short_name(name), whole), *components.items()):
        _plain_text(part)
        _describe_fields(part, title, _family(name))
    if name in INPUTS:
        _name_rules(whole)
    else:
        _name_times(whole)
        whole["properties"]["schema"] = {"const": name, "description": MESSAGES["schema"].text, "examples": [name]}
    return whole


def short_name(schema_name: str) -> str:
    """Return the name of a schema without the product name and the version."""
    return schema_name.removeprefix("scalewatch.").partition("/")[0]


def _family(schema_name: str) -> dict[str, Field]:
    return EVENTS if schema_name in INPUTS else REPORTS if schema_name in FILES else MESSAGES


def _describe_fields(part: dict[str, Any], title: str, family: dict[str, Field]) -> None:
    """Add to each field its meaning, unit and an example."""
    for name, form in part.get("properties", {}).items():
        known = field(family, title, name)
        if known is None:
            continue
        form["description"] = known.text
        if known.unit is not None:
            form["x-unit"] = known.unit
        example = form["enum"][0] if len(form.get("enum", ())) == 1 else known.example
        if example is not None:
            form["examples"] = [example]


def _plain_text(part: dict[str, Any]) -> None:
    """Join the description, a docstring, into one line."""
    if "description" in part:
        part["description"] = " ".join(part["description"].split())


def _name_rules(whole: dict[str, Any]) -> None:
    """Add the rules that the decoder checks beyond types: closed lists, and fields that require each other."""
    for name, values in (("unit", UNITS), ("state", STATES)):
        if name in whole["properties"]:
            described = {key: whole["properties"][name][key] for key in ("description", "examples")}
            whole["properties"][name] = {"enum": [*values, None], "default": None, **described}
    kind = whole["properties"]["type"]["enum"][0]
    if kind == "network":
        whole["anyOf"] = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in ARRAYS]
    if kind == "power":
        whole["properties"]["component"] |= {"type": "string", "pattern": f"^{COMPONENT}$"}
    if kind == "job.started":
        whole["dependentRequired"] = {"n": ["unit"], "unit": ["n"]}
    if kind == "job.completed":
        whole["required"] = [*whole["required"], "n", "unit"]
        whole["anyOf"] = [{"required": list(pair)} for pair in combinations(("start", "end", "run_time_s"), 2)]


def _name_times(whole: dict[str, Any]) -> None:
    """Add the time format, RFC 3339 in UTC, to time fields, because their type is only a string."""
    for name in TIMES & whole["properties"].keys():
        whole["properties"][name] = {**whole["properties"][name], "format": "date-time"}


BINDING: Final = "0.5.0"
EVENTS_CHANNEL: Final = "events"
_KEYS: Final[dict[str, tuple[str, str]]] = {
    "predictions": ("scalewatch.prediction/1", "system/application/input/unit, each escaped as in a URL"),
    "job_predictions": ("scalewatch.job-prediction/1", "system/job_id; removed when the job is over"),
    "answers": ("scalewatch.answer/1", "the id of the request"),
    "alerts": ("scalewatch.alert/1", "the fingerprint"),
    "runs": ("scalewatch.run/1", "the id of the run"),
    "hosts": (
        "scalewatch.host/1",
        "system/host; removed when the host is forgotten, written where hosts.publish_s asks for it",
    ),
    "deadletters": ("scalewatch.dead-letter/1", "where the message stood, and why: topic/partition/offset/reason"),
}
"""By the name of the topic in the configuration: the schema, and what the key of a record is."""


def document(config: Config) -> dict[str, Any]:
    """Return the AsyncAPI document of an agent; actions are from the agent's point of view."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Scalewatch",
            "version": __version__,
            "description": "What the agent reads in its own format, and what it says. Records are delivered at least once, "
            "with the same id and content on repeat, in order per key; schemas only grow within a major version.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"kafka": {"host": config.kafka.bootstrap.split(",")[0], "protocol": _protocol(config)}},
        "channels": _channels(config),
        "operations": _operations(config),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _protocol(config: Config) -> str:
    return "kafka" if config.kafka.security.protocol in ("plaintext", "sasl_plaintext") else "kafka-secure"


def _channels(config: Config) -> dict[str, Any]:
    settings = {topic.name: topic for topic in own_topics(config)}
    found: dict[str, Any] = {}
    for name in _written(config):
        schema_name, key = _KEYS[name]
        topic = settings[getattr(config.topics, name)]
        policy: dict[str, Any] = {"cleanup.policy": ["compact"] if topic.compacted else ["delete"]}
        if topic.retention_ms is not None:
            policy["retention.ms"] = topic.retention_ms
        binding = {
            "topic": topic.name,
            "partitions": topic.partitions,
            "replicas": config.topics.replication,
            "topicConfiguration": policy,
            "bindingVersion": BINDING,
        }
        own = _message_name(schema_name)
        found[name] = {
            "address": topic.name,
            "description": f"Key of a record: {key}."
            + (" The last record of a key counts." if topic.compacted else ""),
            "messages": {own: {"$ref": f"#/components/messages/{own}"}},
            "bindings": {"kafka": binding},
        }
    messages = {own: {"$ref": f"#/components/messages/{own}"} for own in map(_message_name, INPUTS)}
    found[EVENTS_CHANNEL] = {
        "address": next((topic for source in config.sources for topic in source.topics), None),
        "description": "Events in the agent's own format; other formats are read, too (`scalewatch describe formats`).",
        "messages": messages,
    }
    return found


def _written(config: Config) -> list[str]:
    """Return the topics that an agent writes; the topic of hosts only if it is enabled."""
    names = {topic.name for topic in own_topics(config)}
    return [name for name in _KEYS if getattr(config.topics, name) in names]


def _operations(config: Config) -> dict[str, Any]:
    written = _written(config)
    found = {f"send_{name}": {"action": "send", "channel": {"$ref": f"#/channels/{name}"}} for name in written}
    return found | {
        f"receive_{EVENTS_CHANNEL}": {"action": "receive", "channel": {"$ref": f"#/channels/{EVENTS_CHANNEL}"}}
    }


def _messages() -> dict[str, Any]:
    keys = dict(_KEYS.values())
    found: dict[str, Any] = {}
    for schema_name in (*SCHEMAS, *INPUTS):
        own = _message_name(schema_name)
        message: dict[str, Any] = {
            "name": schema_name,
            "contentType": "application/json",
            "payload": {"$ref": f"#/components/schemas/{own}"},
        }
        if schema_name in keys:
            key = {"type": "string", "description": keys[schema_name]}
            message["bindings"] = {"kafka": {"key": key, "bindingVersion": BINDING}}
        found[own] = message
    return found


def _schemas() -> dict[str, Any]:
    """Return all schemas and their shared definitions, with references inside this document."""
    found: dict[str, Any] = {}
    for schema_name in (*SCHEMAS, *INPUTS):
        whole = schema(schema_name)
        parts = whole.pop("$defs", {})
        whole.pop("$schema"), whole.pop("$id")
        found |= {name: _moved(part) for name, part in parts.items()}
        found[_message_name(schema_name)] = _moved(whole)
    return dict(sorted(found.items()))


def _moved(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(value)
            for key, value in part.items()
        }
    return [_moved(each) for each in part] if isinstance(part, list) else part


def _message_name(schema_name: str) -> str:
    """Return a schema name that is valid in a reference: scalewatch.job-prediction/1 becomes job-prediction.v1."""
    name, _, version = schema_name.removeprefix("scalewatch.").rpartition("/")
    return f"{name}.v{version}"


MetricRow = tuple[str, str, Sequence[str], str]


def formats(table: Mapping[str, Format]) -> list[dict[str, Any]]:
    """Return for every format its name, meaning, contents, a sample, and the metrics decoded without configuration."""
    return [
        {
            "name": name,
            "meaning": form.reads,
            "holds": " and ".join(_contents(form)),
            "sample": form.sample.decode(),
            "metrics": list(dict.fromkeys(map(_metric_name, form.metrics))),
        }
        for name, form in table.items()
    ]


def _contents(form: Format) -> list[str]:
    kinds = {"jobs": form.jobs or form.folder, "measurements": form.samples or form.folder}
    return [kind for kind, decoder in kinds.items() if decoder is not None]


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
        {"name": kind.name, "state version": kind.version, "meaning": _summary_line(kind)}  # type: ignore[attr-defined]  # of the Processor protocol
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
        found = schema(name)
        lines += [
            "",
            f"## {name}",
            "",
            found.get("description", ""),
            "",
            *_fields_table(found),
        ]
        for part_name, part in found.get("$defs", {}).items():
            lines += ["", f"### {part_name}", "", part.get("description", ""), "", *_fields_table(part)]
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


def _summary_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
