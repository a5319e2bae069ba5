"""The messages that the documentation shows are read as it states."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.decode.formats import DECODERS, TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.reference.nodes import read_nodes
from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.telemetry import SeriesIndex
from tests.kit.docs import DOCS, Block, blocks

PAGES = sorted(path for path in (DOCS / "events").glob("*.md") if path.name != "index.md")
RECEIVED_MS = parse_rfc3339("2026-11-24T00:00:00Z")
READ_AS = "is read as"
OWN = "native"
INVENTED = "the values are made up"
OPTIONS = DecodeOptions(default_system="exa")


def shown(page: str) -> Iterator[tuple[Block, str, Block]]:
    """Yield each message of a page, the file of nodes that stands with it, and what it is said to be read as."""
    message, nodes = None, "host"
    for block in blocks(page):
        if block.title == "nodes.csv":
            nodes = block.text
        elif block.title == READ_AS:
            assert message is not None
            yield message, nodes, block
        else:
            message = block


def source(after: str) -> str:
    """Return what stands right below a block about the source of its message, and "" where nothing does."""
    stated = re.match(r"```\n\nSource: (.*?)\n\n", after, re.DOTALL)
    return " ".join(stated[1].split()) if stated else ""


def is_read(message: Block, nodes: str) -> str:
    """Return what the agent reads in a message of a topic: its samples a line each, or its events as JSON."""
    value = message.text.strip().encode()
    if message.title in TELEMETRY:
        options = TelemetryOptions(decode=OPTIONS, nodes=read_nodes(nodes)[0])
        index = SeriesIndex(100)
        batch = TELEMETRY[message.title](options)([value], [RECEIVED_MS], index)
        assert [rejected for _, other in batch.others for rejected in other.rejects] == []
        columns = (getattr(batch.samples, name).tolist() for name in ("series", "time_ms", "value"))
        found = [
            f"{'/'.join(filter(None, index[number]))}  {rfc3339(time_ms)}  {amount:.10g}"
            for number, time_ms, amount in zip(*columns, strict=True)
        ]
        if found:
            return "\n".join(found) + "\n"
        events = [event for _, other in batch.others for event in other.events]
        if events:
            return as_json(events)
    decoded = DECODERS[message.title](OPTIONS)(value, RECEIVED_MS)
    assert decoded.rejects == []
    return as_json(decoded.events)


def as_json(events: list[Any]) -> str:
    return "".join(f"{json.dumps(filled(json.loads(msgspec.json.encode(each))), indent=1)}\n" for each in events)


def filled(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without what it does not say."""
    plain = {name: filled(value) if isinstance(value, dict) else value for name, value in event.items()}
    return {name: value for name, value in plain.items() if value not in (None, "", [], {})}


def written(page: str) -> str:
    """Return a page with what its messages are read as."""
    for message, nodes, block in reversed(list(shown(page))):
        start, stop = block.span
        page = page[:start] + is_read(message, nodes) + page[stop:]
    return page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_messages_are_read_as_the_page_states(path: Path) -> None:
    page = path.read_text()
    if os.environ.get("SCALEWATCH_UPDATE_CASES") == "1":
        path.write_text(written(page))
        return
    assert written(page) == page
    assert len(list(shown(page))) >= 2


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_message_of_a_producer_has_its_source_and_the_first_is_real(path: Path) -> None:
    page = path.read_text()
    found = [source(page[read.span[1] :]) for message, _, read in shown(page) if message.title != OWN]
    assert all(found), "a line that begins with 'Source: ' stands below what each is read as"
    assert INVENTED not in found[0]


def test_there_is_a_page_for_each_kind_of_event() -> None:
    assert {path.stem for path in PAGES} == {"jobs", "load", "counters", "power"}
