"""Native events about what the network did for a job."""

import json
from typing import Any

import pytest

from agent.decode.message import DecodeOptions
from agent.decode.native import NUMBERS_MAX, native_decoder
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import JournalRecord, Network, encode_record
from tests.kit.cases import each

TIME_MS = 1_795_170_672_000
DECODE = native_decoder(DecodeOptions())
LINKS = {"bytes": [10.0, 0.0], "buffered": [1, 0], "received": [5, 0]}


def network(**fields: Any) -> bytes:
    reported = {"type": "network", "system": "exa", "job_id": "812", "time": "2026-11-20T10:31:12Z"} | fields
    return json.dumps(reported).encode()


def test_features_and_arrays_are_one_event_of_the_job() -> None:
    decoded = DECODE(
        network(features={"max_fifo": 5}, links=LINKS, messages={"hops": [2], "bytes": [8192]}, fifo_messages=[3, 4]),
        TIME_MS,
    )
    assert decoded.unknown_fields == 0
    assert decoded.events == [
        Network(
            "exa",
            "812",
            TIME_MS,
            features={"max_fifo": 5.0},
            links=((10.0, 0.0), (1.0, 0.0), (5.0, 0.0)),
            messages=((2.0,), (8192.0,)),
            fifo_messages=(3.0, 4.0),
        )
    ]


def test_what_is_not_reported_is_empty() -> None:
    (event,) = DECODE(network(job_id=7, fifo_messages=[1]), TIME_MS).events
    assert isinstance(event, Network)
    assert (event.job_id, event.features, event.links, event.messages) == ("7", {}, ((), (), ()), ((), ()))


@each(
    ("fields", "reason"),
    [
        ({}, "missing-field"),
        ({"features": None}, "missing-field"),
        ({"features": {"a": "b"}}, "wrong-type"),
        ({"features": {"a": None}}, "wrong-type"),
        ({"features": {str(i): 1 for i in range(65)}}, "out-of-range"),
        ({"features": {"": 1}}, "text"),
        ({"features": {"a\u0007": 1}}, "text"),
        ({"links": {"bytes": [1]}}, "missing-field"),
        ({"links": LINKS | {"bytes": [1]}}, "columns"),
        ({"messages": {"hops": [1, 2], "bytes": [1]}}, "columns"),
        ({"fifo_messages": [-1]}, "out-of-range"),
        ({"fifo_messages": [1.0] * (NUMBERS_MAX + 1)}, "out-of-range"),
        ({"fifo_messages": [1], "time": "2099-01-01T00:00:00Z"}, "future"),
        ({"fifo_messages": [1], "job_id": ""}, "text"),
    ],
)
def test_a_wrong_event_is_refused_with_its_reason(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        DECODE(network(**fields), TIME_MS)
    assert caught.value.reason == reason


def test_no_number_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        DECODE(network(features={"a": float("nan")}), TIME_MS)


@pytest.mark.parametrize("within", [{"links": LINKS}, {"features": {"a": 1}}])
def test_a_key_named_twice_is_refused(within: dict[str, Any]) -> None:
    (name,) = within
    twice = network(**within).replace(f'"{name}"'.encode(), f'"{name}": null, "{name}"'.encode())
    with pytest.raises(InvalidInputError, match="twice"):
        DECODE(twice, TIME_MS)


def test_unknown_fields_are_counted_and_left_out() -> None:
    assert DECODE(network(features={"a": 1}, switch="x1"), TIME_MS).unknown_fields == 1


def test_the_largest_event_fits_into_a_record_of_the_journal() -> None:
    numbers = [1.234567890123e5 + i for i in range(NUMBERS_MAX)]
    (event,) = DECODE(network(fifo_messages=numbers), TIME_MS).events
    assert len(encode_record(JournalRecord(event=event))) < 400_000


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "Infinity"])
@pytest.mark.parametrize("field", ["features", "links", "messages", "fifo_messages"])
def test_a_number_that_is_not_finite_is_refused(number: str, field: str) -> None:
    fields = {
        "features": {"max_fifo": number},
        "links": LINKS | {"bytes": [10.0, number]},
        "messages": {"hops": [number], "bytes": [8192]},
        "fifo_messages": [number],
    }
    with pytest.raises(InvalidInputError):
        DECODE(network(**{field: fields[field]}), TIME_MS)
