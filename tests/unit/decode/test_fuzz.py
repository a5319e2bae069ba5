"""Whatever comes in, a decoder yields sound events or refuses with a reason of the list; it never does anything else."""

import io
import json
import math
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.decode.files import default_telemetry, read_source
from agent.decode.formats import DECODERS, TELEMETRY
from agent.decode.message import REASONS, DecodeOptions, TelemetryOptions
from agent.decode.opening import OpenSource
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import (
    STATES,
    UNITS,
    Decoded,
    HostState,
    JobCompleted,
    JournalRecord,
    Network,
    decode_record,
    encode_record,
)
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import Keep, SeriesIndex
from tests.kit.effort import THOROUGH, examples
from tests.kit.job_records import CASES, COMPLETED, RECEIVED_MS, slurm_record
from tests.kit.sample_records import GOOD

OPTIONS = DecodeOptions(default_system="exa", keep=Keep(script=True, comment=True, paths=True))
DECODES = {name: factory(OPTIONS) for name, factory in DECODERS.items()}
TAKEN = TelemetryOptions(decode=OPTIONS, hosts={1: "nid1"}, nodes=Nodes([Node("nid1", xname="x9c3s0b0n0")]))
SAMPLES = sorted(next(case.glob("input.*")).read_bytes() for case in CASES.iterdir())
ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, 2**31, 2**53, 2**63, 2**64 - 2, 10**30, 10**400, "", " ", "None", "Unknown",
    "0", "1:0", "0:9", "2026-08-20T09:12:44", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "COMPLETED",
    "CANCELLED by 0", "nid[1-3]", "nid[", "a" * 300, "\x00", "\x1b[2J", "\u2028", "\ud800", "\U0001f600", [], {}, [[]], {"a": {}},
]  # fmt: skip
NATIVE_FIELDS = [
    *COMPLETED, "input", "executable", "module", "container", "job_name", "user", "hosts", "time_limit_s", "submit",
    "exclusive", "array_job_id", "attributes", "exit_code", "failed_host", "source", "request_id", "features", "script",
]  # fmt: skip
ODDITIES = st.sampled_from(ODD) | st.integers() | st.floats() | st.text(max_size=5)
JSON_VALUES = st.recursive(
    ODDITIES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def check(decoded: Decoded) -> None:
    """Refuse events that the journal could not hold or that contradict themselves."""
    assert all(error.reason in REASONS for error in decoded.rejects)
    for event in decoded.events:
        assert decode_record(encode_record(JournalRecord(event=event))).event == event
        assert event.system
        if not isinstance(event, HostState | Network):  # these have no evidence
            assert all(unit in UNITS and 0 < count <= 1e9 for unit, count in event.evidence.sizes.items())
        if isinstance(event, JobCompleted):
            assert event.start_ms <= event.end_ms
            assert event.state in STATES
            assert 0 <= event.run_time_s <= 1e10
            assert math.isfinite(event.run_time_s)


def read(name: str, value: bytes) -> None:
    try:
        decoded = DECODES[name](value, RECEIVED_MS)
    except InvalidInputError as error:
        assert error.reason in REASONS  # noqa: PT017 - either outcome is right
        assert str(error).endswith(".")  # noqa: PT017
    else:
        check(decoded)


@pytest.mark.parametrize("name", DECODES)
@given(value=st.binary(max_size=200))
@example(value=b"")
def test_random_bytes(name: str, value: bytes) -> None:
    read(name, value)


@pytest.mark.parametrize("name", DECODES)
@given(data=st.data())
@settings(max_examples=examples(150))
def test_bytes_of_real_records_changed_here_and_there(name: str, data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(value) - 1))
        value[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    read(name, bytes(value))


@given(value=JSON_VALUES)
def test_random_json(value: Any) -> None:
    for name in DECODES:
        read(name, json.dumps(value).encode())


@given(
    st.dictionaries(st.sampled_from(NATIVE_FIELDS), JSON_VALUES, max_size=4), st.sampled_from(["started", "completed"])
)
@settings(max_examples=examples(400))
def test_native_events_with_odd_fields(changes: dict[str, Any], kind: str) -> None:
    read("auto", json.dumps({**COMPLETED, "type": f"job.{kind}", **changes}).encode())


@given(
    st.dictionaries(
        st.sampled_from(["request_id", "n", "unit", "job_id", "source", "features", "hosts"]), JSON_VALUES, max_size=4
    ),
    st.sampled_from(["identity", "prediction.requested"]),
)
def test_questions_and_identities_with_odd_fields(changes: dict[str, Any], kind: str) -> None:
    fields = {"type": kind, "system": "exa", "job_id": 1, "source": "xalt", "request_id": "r", "n": [1]}
    read("native", json.dumps({**fields, **changes}).encode())


@given(st.dictionaries(st.sampled_from(sorted(json.loads(slurm_record()))), JSON_VALUES, max_size=4))
@settings(max_examples=examples(400))
def test_slurm_records_with_odd_fields(changes: dict[str, Any]) -> None:
    read("slurm", slurm_record(**changes))


@given(
    st.dictionaries(
        st.sampled_from(["job_id", "job_state", "nodes", "start_time", "end_time", "time_limit", "sacct", "exit_code"]),
        JSON_VALUES,
    )
)
def test_sonar_jobs_with_odd_fields(changes: dict[str, Any]) -> None:
    envelope = json.loads((CASES / "sonar-jobs" / "input.json").read_text())
    envelope["data"]["attributes"]["slurm_jobs"][-3].update(changes)
    read("sonar", json.dumps(envelope).encode())


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a document that holds nothing else, and of every part that does."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from leaves(part, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], by)
    return copied


def without(value: Any, name: str) -> Any:
    """Return a document without the fields of this name, wherever they are."""
    if isinstance(value, dict):
        return {key: without(part, name) for key, part in value.items() if key != name}
    return [without(part, name) for part in value] if isinstance(value, list) else value


def documents() -> Iterator[Any]:
    """Yield a JSON document of each producer: the cases' first lines, and samples of each format of telemetry.

    One more of each comes without the figures of accounting: what stands in for them is read only then.
    """
    for value in (*SAMPLES, *GOOD.values()):
        for text in (value, value.partition(b"\n")[0]):
            with suppress(ValueError):
                document = json.loads(text)
                yield from (document, *([without(document, "sacct")] if b'"sacct"' in text else []))
                break


@pytest.mark.parametrize("odd", [*ODD, -(10**400), 2**64, -(2**63) - 1], ids=lambda odd: ascii(odd)[:12])
def test_one_value_of_a_real_record_replaced(odd: Any) -> None:
    every = 1 if THOROUGH else 4  # else each value stands at every fourth place, and other values at those between
    places = count(zlib.crc32(ascii(odd).encode()))
    index, decode = SeriesIndex(10_000), TELEMETRY["auto"](TAKEN)
    for document in documents():
        for path in leaves(document):
            if next(places) % every:
                continue
            text = json.dumps(replaced(document, path, odd)).encode()
            read("auto", text)
            for _, other in decode([text], [RECEIVED_MS], index).others:
                check(other)


CELLS = st.sampled_from([str(value) for value in ODD] + ["1-02:03:04", "UNLIMITED", "812.batch", "812_[1-4]", "812+1"])
COLUMNS = (
    "JobID", "JobIDRaw", "JobName", "State", "Start", "End", "Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw", "NNodes",
    "NodeList", "NCPUS", "AllocTRES", "ExitCode", "Partition", "Submit", "Cluster", "User",
)  # fmt: skip


@given(st.lists(CELLS, min_size=len(COLUMNS), max_size=len(COLUMNS)), st.sampled_from("|;^,"))
def test_rows_of_sacct_with_odd_cells(cells: list[str], delimiter: str) -> None:
    row = {**dict(zip(COLUMNS, cells, strict=True)), "State": "COMPLETED", "Start": "2026-08-20T09:12:44"}
    text = f"{delimiter.join(row)}\n{delimiter.join(row.values())}"
    read("sacct", text.encode(errors="surrogatepass"))
    read("sacct", ",".join(f'"{name}={value}"' for name, value in row.items()).encode(errors="surrogatepass"))


@given(
    st.lists(
        st.sampled_from(["-1", "0", "1", "5", "60", "1e5", "nan", "-inf", "٣", "9" * 18, "0.5", "-0"]),
        min_size=17,
        max_size=18,
    )
)
def test_rows_of_a_workload_log_with_odd_numbers(cells: list[str]) -> None:
    read("swf", ("; UnixStartTime: 843480031\n" + " ".join(cells)).encode())


@given(
    st.binary(max_size=300)
    | st.sampled_from(SAMPLES).flatmap(lambda sample: st.integers(0, len(sample)).map(lambda end: sample[end:]))
)
def test_files_of_anything(value: bytes) -> None:

    for record in read_source(
        "jobs", OpenSource(io.BufferedReader(io.BytesIO(value))), RECEIVED_MS, default_telemetry(OPTIONS)
    ):
        assert record.error is None or record.error.reason in REASONS
        check(record.decoded)
