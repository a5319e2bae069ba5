"""Files that say on which host each rank runs, as they are written, and inside an event about a job."""

import json
from typing import Any

import pytest

from agent.decode.message import DecodeOptions
from agent.decode.native import MAPPING_MAX, RANKS_MAX, Ranks, native_decoder, read_mapping
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import JournalRecord, Network, decode_record, encode_record
from tests.kit.cases import each
from tests.kit.docs import DOCS

TIME_MS = 1_795_170_672_000
DECODE = native_decoder(DecodeOptions())
BLOCK = Ranks(("n1", "n2"), (0, 0, 1, 1))
GRID = "# grid_order -R -P -g 4,2 -c 2,2 -m 8 -n 4\n# Region 0: 0,0 (0..7)\n0,1,3,2\n4,5,7,6\n"


@each(
    ("text", "ranks"),
    [
        ("n1\nn1\nn2\nn2\n", BLOCK),
        ("n1,n1,n2,n2", BLOCK),
        ("\n# from srun\nn1 # first\nn2\r\nn1\n", Ranks(("n1", "n2"), (0, 1, 0))),
        ("n1 slots=2\nn2 slots=2 max_slots=4\n", BLOCK),
        ("n1:2\nn2:2\n", BLOCK),
        ("n1 2\nn2 2\n", BLOCK),
        ("rank 0=n1 slot=1:0-2\nrank 1=n1 slot=0:*\nrank 2=n2 slots=1-2\nrank 3=n2 slot=0\n", BLOCK),
        ("rank 1=n1 slot=0\nrank 0=n2 slot=0\n", Ranks(("n2", "n1"), (0, 1))),
        ("x1000c0s0b0n0\nx1000c0s0b0n1\n", Ranks(("x1000c0s0b0n0", "x1000c0s0b0n1"), (0, 1))),
    ],
)
def test_each_form_names_the_host_of_each_rank(text: str, ranks: Ranks) -> None:
    assert read_mapping(text) == ranks


def test_an_order_of_ranks_fills_the_hosts_of_the_job() -> None:
    assert read_mapping("0,2,1,3", ("n[1-2]",), 2) == Ranks(("n1", "n2"), (0, 1, 0, 1))
    assert read_mapping("0-3\n", ("n1", "n2"), 2) == BLOCK
    assert read_mapping("3-0\n", ("n1", "n2"), 2).ranks == (0, 0, 1, 1), "rank 0 is on the second host"
    assert read_mapping("3-0\n", ("n1", "n2"), 2).hosts == ("n2", "n1")
    assert read_mapping(GRID, ("n[1-2]",), 4).ranks == (0, 0, 0, 0, 1, 1, 1, 1)


@each(
    ("text", "hosts", "per_host", "why"),
    [
        ("# nothing\n", (), None, "is empty"),
        ("n1 and n2\n", (), None, "names no host"),
        ("n1\n;\x07\n", (), None, "control characters"),
        ("n1 slots=65537\n", (), None, "more than 65536 ranks"),
        ("rank 0=n1\nn2\n", (), None, "names no rank"),
        ("rank 0=n1\nrank 2=n1\n", (), None, "each of the ranks from 0 to 1 once"),
        ("rank 0=n1\nrank 0=n2\n", (), None, "each of the ranks from 0 to 1 once"),
        ("0,1\n", (), 2, "needs the hosts"),
        ("0,1\n", ("n1",), None, "needs the hosts"),
        ("0,1,2\n", ("n1",), 2, "more ranks than fit on 1 hosts"),
        ("0,1\nn1\n", ("n1",), 2, "not a list of ranks"),
        ("0,0\n", ("n1",), 2, "once"),
        ("0-999999\n", ("n1",), 1, "more ranks than fit"),
        ("0-999999," * 100, ("n[1-60000]",), 65_536, "more than 65536 ranks"),
        ("0,1\n", ("n[1-60000]",) * 1_000, 2, "More than 65536 hosts"),
        ("0,1\n", ("n[1",), 2, "brackets"),
        ("h" * 257, (), None, "more than 256 characters"),
        ("".join(f"{'h' * 250}{number}\n" for number in range(1100)), (), None, "more than 262144 characters"),
    ],
)
def test_what_is_no_mapping_is_refused(text: str, hosts: tuple[str, ...], per_host: int | None, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why) as caught:
        read_mapping(text, hosts, per_host)
    assert caught.value.reason == "mapping"


def event(**fields: Any) -> bytes:
    reported = {"type": "network", "system": "exa", "job_id": "812", "time": "2026-11-20T10:31:12Z"} | fields
    return json.dumps(reported).encode()


def test_a_mapping_and_its_messages_come_through_the_journal() -> None:
    decoded = DECODE(
        event(mapping={"text": "n1\nn1\nn2\n"}, messages={"from": [0, 1], "to": [1, 2], "bytes": [8, 4096]}), TIME_MS
    )
    assert decoded.unknown_fields == 0
    expected = Network(
        "exa", "812", TIME_MS, hosts=("n1", "n2"), ranks=(0, 0, 1), exchanged=((0, 1), (1, 2), (8.0, 4096.0))
    )
    assert decoded.events == [expected]
    assert decode_record(encode_record(JournalRecord(expected))).event == expected


def test_a_mapping_with_the_hosts_of_its_job_has_no_unknown_fields() -> None:
    mapping = {"text": '0,2,1,3\n# ":"\n', "hosts": ["n[1-2]"], "ranks_per_host": 2}
    decoded = DECODE(event(mapping=mapping), TIME_MS)
    assert decoded.unknown_fields == 0
    assert isinstance(decoded.events[0], Network)
    assert decoded.events[0].ranks == (0, 1, 0, 1)


@each(
    ("fields", "reason"),
    [
        ({"mapping": {"text": "?? ??"}}, "mapping"),
        ({"mapping": {"text": ""}}, "text"),
        ({"mapping": {"text": "n" * (MAPPING_MAX + 1)}}, "text"),
        ({"mapping": {"hosts": ["n1"]}}, "missing-field"),
        ({"mapping": {"text": "0", "hosts": ["n1"], "ranks_per_host": RANKS_MAX + 1}}, "out-of-range"),
        ({"messages": {"bytes": [1]}}, "missing-field"),
        ({"messages": {"from": [0], "to": [0], "bytes": [1]}}, "missing-field"),
        ({"messages": {"from": [0], "to": [0], "hops": [1], "bytes": [1]}, "mapping": {"text": "n1"}}, "missing-field"),
        ({"messages": {"from": [0, 1], "to": [0], "bytes": [1]}, "mapping": {"text": "n1,n2"}}, "columns"),
        ({"messages": {"from": [0], "to": [2], "bytes": [1]}, "mapping": {"text": "n1,n2"}}, "out-of-range"),
        ({"messages": {"from": [-1], "to": [0], "bytes": [1]}, "mapping": {"text": "n1"}}, "out-of-range"),
    ],
)
def test_a_wrong_mapping_costs_its_event_with_a_reason(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        DECODE(event(**fields), TIME_MS)
    assert caught.value.reason == reason


def test_the_event_of_the_page_about_placements_is_read() -> None:
    page = (DOCS / "run" / "placement.md").read_text()
    shown = next(line for line in page.splitlines() if line.startswith('{"type": "network"'))
    decoded = DECODE(shown.encode(), TIME_MS)
    (found,) = decoded.events
    assert isinstance(found, Network)
    assert (decoded.unknown_fields, found.hosts, found.ranks) == (0, ("nid001000", "nid001001"), (0, 0, 1))
    assert found.exchanged == ((0, 1), (1, 2), (8192.0, 4096.0))
