"""The pages of the reference, made from the code: what `scalewatch describe` prints, the topics, and the help of the commands."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click
import msgspec

from agent.cli import main
from agent.config import reference
from agent.config.tree import Config
from agent.decode.formats import FORMATS
from agent.describe import describe
from processors.pipeline.shard import STATEFUL
from sinks.prometheus.table import rows

FOLDER: Final = "reference"
_DAY_MS: Final = 86_400_000
_INDEX: Final = """\
# Reference

These pages are made from the code when the site is built, so they are of this version.

| page | same as |
|---|---|
| [Metrics](metrics.md) | `scalewatch describe metrics` |
| [Topics](topics.md) | `scalewatch describe asyncapi`, also [as a file](asyncapi.json) |
| [Messages](messages.md) | `scalewatch describe schemas`, with JSON Schemas |
| [Configuration](configuration.md) | `scalewatch describe config`, with a [JSON Schema](configuration.json) for editors |
| [Formats](formats.md) | `scalewatch describe formats` |
| [Kinds of state](state.md) | `scalewatch describe processors` |
| [Commands](commands.md) | `scalewatch --help`, and that of each command |
"""


def topics() -> str:
    """Return the page of the topics, with the names and the settings of an agent that sets none."""
    document = describe.document(Config.model_validate({"kafka": {"bootstrap": "127.0.0.1:9092"}}))
    lines = [
        "# Topics",
        "",
        "What an agent writes, with the names and settings that it has without `topics` in its configuration.",
        "`scalewatch topics -c agent.yaml` shows those of yours, and whether they are as they should be.",
        "",
        "| topic | holds | key of a record | partitions | kept |",
        "|---|---|---|---|---|",
    ]
    lines += [_topic_row(channel) for name, channel in document["channels"].items() if name != describe.EVENTS_CHANNEL]
    lines += ["", "## What it reads", "", document["channels"][describe.EVENTS_CHANNEL]["description"], ""]
    lines += [f"- {_schema_link(name)}" for name in describe.INPUTS]
    lines += ["", "[The AsyncAPI document](asyncapi.json) says the same to programs.", ""]
    return "\n".join(lines)


def _topic_row(channel: Mapping[str, Any]) -> str:
    settings = channel["bindings"]["kafka"]
    policy = settings["topicConfiguration"]
    retention = "the last of each key" if "compact" in policy["cleanup.policy"] else "for a time"
    if "retention.ms" in policy:
        retention = f"{policy['retention.ms'] / _DAY_MS:g} days"
    key = channel["description"].removeprefix("Key of a record: ").partition(".")[0]
    (message,) = channel["messages"]
    name, _, version = message.rpartition(".v")
    schema = _schema_link(f"scalewatch.{name}/{version}")
    return f"| `{channel['address']}` | {schema} | {key} | {settings['partitions']} | {retention} |"


def _schema_link(name: str) -> str:
    """Return a link to the heading of a schema on the page of messages."""
    slug = "".join(each for each in name.lower() if each.isalnum() or each in "-_")
    return f"[{name}](messages.md#{slug})"


def messages() -> str:
    """Return the page of all events and messages, with a link to the JSON Schema of each."""
    lines = []
    for line in describe.schemas_page().splitlines():
        lines.append(line)
        if line.startswith("## ") and line.removeprefix("## ") in describe.NAMES:
            lines += ["", f"[JSON Schema]({_schema_file(line.removeprefix('## '))})"]
    return "\n".join(lines) + "\n"


def _schema_file(name: str) -> str:
    return f"schemas/{name.replace('/', '-v')}.json"


def commands() -> str:
    """Return the page of the commands, each with its help."""
    lines = ["# Commands", "", "Each prints the same with `--help`.", ""]
    for name, command in _commands(main, "scalewatch"):
        context = click.Context(command, info_name=name, terminal_width=110, max_content_width=110)
        lines += [f"## {name}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(lines)


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None and not found.hidden:
                yield from _commands(found, f"{name} {each}")


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "index.md": lambda: _INDEX,
    "metrics.md": lambda: describe.markdown("Metrics", describe.metrics(rows())),
    "topics.md": topics,
    "messages.md": messages,
    "configuration.md": reference.markdown,
    "formats.md": lambda: describe.formats_page(FORMATS),
    "state.md": lambda: describe.markdown("Kinds of state", describe.processors(STATEFUL)),
    "commands.md": commands,
}
"""What makes each page, by its name below `reference`."""


def made() -> dict[str, str]:
    """Return the text of every page and file of the reference, by its place in the site."""
    found = {name: page() for name, page in PAGES.items()}
    found["asyncapi.json"] = _json(describe.document(Config.model_validate({"kafka": {"bootstrap": "127.0.0.1:9092"}})))
    found["configuration.json"] = _json(reference.json_schema())
    found |= {_schema_file(name): _json(describe.schema(name)) for name in describe.NAMES}
    return {f"{FOLDER}/{name}": text for name, text in found.items()}
