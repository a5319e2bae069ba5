"""The AsyncAPI document of all topics that others may write or read, made from the code (AsyncAPI 3.0, bindings of Kafka)."""

from typing import Any, Final

from agent import __version__
from agent.config.tree import Config
from agent.schemas import INPUTS, OUTPUTS, schema
from agent.topics import own_topics

BINDING: Final = "0.5.0"
EVENTS: Final = "events"
_KEYS: Final[dict[str, tuple[str, str]]] = {
    "predictions": ("scalewatch.prediction/1", "system/application/input/unit, each escaped as in a URL"),
    "job_predictions": ("scalewatch.job-prediction/1", "system/job_id; removed when the job is over"),
    "answers": ("scalewatch.answer/1", "the id of the request"),
    "alerts": ("scalewatch.alert/1", "the fingerprint"),
    "runs": ("scalewatch.run/1", "the id of the run"),
    "deadletters": ("scalewatch.dead-letter/1", "where the message stood: topic/partition/offset/part"),
}
"""By the name of the topic in the configuration: the schema, and what the key of a record is."""


def document(config: Config) -> dict[str, Any]:
    """Return the AsyncAPI document of an agent; actions are from the agent's point of view.

    >>> made = document(Config())
    >>> made["channels"]["predictions"]["address"], made["operations"]["send_predictions"]["action"]
    ('scalewatch.predictions', 'send')
    """
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
        "operations": _operations(),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _protocol(config: Config) -> str:
    return "kafka" if config.kafka.security.protocol in ("plaintext", "sasl_plaintext") else "kafka-secure"


def _channels(config: Config) -> dict[str, Any]:
    settings = {topic.name: topic for topic in own_topics(config)}
    found: dict[str, Any] = {}
    for name, (schema_name, key) in _KEYS.items():
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
    found[EVENTS] = {
        "address": next((topic for source in config.sources for topic in source.topics), None),
        "description": "Events in the agent's own format; other formats are read, too (`scalewatch describe formats`).",
        "messages": messages,
    }
    return found


def _operations() -> dict[str, Any]:
    found = {f"send_{name}": {"action": "send", "channel": {"$ref": f"#/channels/{name}"}} for name in _KEYS}
    return found | {f"receive_{EVENTS}": {"action": "receive", "channel": {"$ref": f"#/channels/{EVENTS}"}}}


def _messages() -> dict[str, Any]:
    keys = dict(_KEYS.values())
    found: dict[str, Any] = {}
    for schema_name in (*OUTPUTS, *INPUTS):
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
    """Return every schema and what they share, with references inside of this document."""
    found: dict[str, Any] = {}
    for schema_name in (*OUTPUTS, *INPUTS):
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
    """Return a name that may stand in a reference: scalewatch.job-prediction/1 is job-prediction.v1."""
    name, _, version = schema_name.removeprefix("scalewatch.").rpartition("/")
    return f"{name}.v{version}"
