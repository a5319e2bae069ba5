"""Whatever comes, in slices of whatever length: nothing is raised, and the same samples and refusals come out."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.decode.formats import TELEMETRY
from agent.decode.message import REASONS, DecodeOptions, TelemetryOptions
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import SeriesIndex
from tests.kit.effort import examples
from tests.kit.sample_records import GOOD

OPTIONS = TelemetryOptions(
    decode=DecodeOptions(default_system="exa", elements_max=20),
    hosts={1: "nid1"},
    nodes=Nodes([Node("nid1", xname="x9c3s0b0n0")]),
)
RECEIVED_MS = 1_795_168_860_000
FORMATS = [*GOOD, "auto"]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    value = bytearray(draw(st.sampled_from([*GOOD.values()])))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(value)))
        value[at : at + draw(st.integers(0, 3))] = draw(
            st.sampled_from(
                [b"", b"\0", b"\xff", b'"', b"\\", b",", b"=", b" ", b"-", b"1e999", b"nan", b"[", b"}", b"null"]
            )
            | st.binary(max_size=3)
        )
    return bytes(value)


def outcome(format_name: str, values: list[bytes], slices: int) -> tuple[object, ...]:
    index = SeriesIndex(1000)
    decode = TELEMETRY[format_name](OPTIONS)
    samples, refusals, ignored, events = [], [], Counter[str](), 0
    for begin in range(0, len(values), slices):
        part = values[begin : begin + slices]
        batch = decode(part, [RECEIVED_MS] * len(part), index)
        columns = (batch.sample_message, batch.samples.series, batch.samples.time_ms, batch.samples.value)
        for message, number, time_ms, value in zip(*(column.tolist() for column in columns), strict=True):
            samples.append((begin + message, index[number], time_ms, value))
        for message, other in batch.others:
            refusals += [(begin + message, error.reason) for error in other.rejects]
            ignored.update(other.ignored)
            ignored["unknown"] += other.unknown_fields
            events += len(other.events)
    assert all(reason in REASONS for _, reason in refusals)
    return samples, sorted(refusals), ignored, events


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=examples(150), deadline=None)
@given(values=st.lists(mutated() | st.binary(max_size=30), min_size=1, max_size=8))
def test_slices_give_what_messages_one_by_one_give(format_name: str, values: list[bytes]) -> None:
    assert outcome(format_name, values, 1) == outcome(format_name, values, len(values))


@pytest.mark.parametrize("format_name", list(GOOD))
@settings(max_examples=examples(150), deadline=None)
@given(bad=mutated() | st.binary(max_size=30))
def test_a_bad_message_never_costs_its_neighbours(format_name: str, bad: bytes) -> None:
    if format_name == "nws" and b"esource" in bad.lower():
        return  # a header
    good = GOOD[format_name]
    samples, refusals, _, _ = outcome(format_name, [good, bad, good], 3)
    alone, _, _, _ = outcome(format_name, [good], 1)
    for at in (0, 2):
        assert [sample[1:] for sample in samples if sample[0] == at] == [sample[1:] for sample in alone]  # type: ignore[attr-defined] # lists
        assert not [refusal for refusal in refusals if refusal[0] == at]  # type: ignore[attr-defined] # lists
