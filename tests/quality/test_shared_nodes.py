"""Bands of an application on shared nodes: its runs go at the pace of a load that lasts, so misses come together."""

from collections import Counter
from itertools import takewhile

import msgspec
import pytest

from agent.app import compose
from agent.app.embedded import Feed
from agent.app.files import ReportedEvent, reported_ms
from agent.app.replay import FAR_FUTURE_MS, SETTLE_MS
from agent.config.tree import Config
from agent.decode.native import native_decoder
from agent.simulation.load import HOUR_MS, SharedNodes
from processors.contracts.events import HostMinute, JobEvent, JournalRecord, Origin, Tick
from processors.contracts.names import parse_rfc3339
from processors.contracts.outputs import Run

START_MS = parse_rfc3339("2026-11-20T10:00:00Z")
HOURS = 30
WARM_UP = 120  # runs


class Centre:
    """A shard that notes which settled runs kept to the band that was published before they ended."""

    def __init__(self) -> None:
        self.shard = compose.make_shard(Config())
        self.held: list[bool] = []

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        self._fold(JournalRecord(event=event, origin=origin))

    def tick(self, time_ms: int) -> None:
        self._fold(JournalRecord(event=Tick(system="", time_ms=time_ms)))

    def _fold(self, record: JournalRecord) -> None:
        for message in self.shard.fold(record):
            if isinstance(message, Run) and message.predicted is not None:
                self.held.append(message.predicted.holds(message.run_time_s))


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.thorough)])
def test_bands_hold_where_the_load_of_shared_nodes_lasts(seed: int) -> None:
    centre = Centre()
    feed, decode = Feed(centre), native_decoder(compose.file_options(Config(), "UTC"))
    until_ms = START_MS + HOURS * HOUR_MS
    for sent in takewhile(lambda each: each.time_ms < until_ms, SharedNodes(seed, START_MS).events()):
        for event in decode(msgspec.json.encode(sent.event), FAR_FUTURE_MS).events:
            feed.take(ReportedEvent(reported_ms(event), event, ""))
    feed.finish(SETTLE_MS)
    counted = Counter(centre.held[WARM_UP:])
    assert counted.total() > 300
    assert counted[True] >= 0.84 * counted.total()
