import json
from typing import Any

import pytest

from agent.decode.message import DecodeOptions
from agent.decode.native import native_decoder
from processors.contracts.events import Identity, JobCompleted, JobStarted, PredictionRequested
from processors.contracts.names import parse_rfc3339
from processors.contracts.telemetry import Keep
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS, completed, refusal

DECODE = native_decoder(DecodeOptions())
START_MS = parse_rfc3339("2026-11-20T10:00:00Z")


def only(value: bytes, options: DecodeOptions | None = None) -> Any:
    (event,) = native_decoder(options or DecodeOptions())(value, RECEIVED_MS).events
    return event


def message(**fields: Any) -> bytes:
    return json.dumps({"system": "exa", **fields}).encode()


def test_a_completed_job_is_known_by_system_job_and_start() -> None:
    event = only(completed())
    assert isinstance(event, JobCompleted)
    assert (event.run_id, event.run_time_s, event.state) == (f"exa/812@{START_MS}", 1872.0, "COMPLETED")
    assert event.evidence.sizes == {"nodes": 64.0}


@pytest.mark.parametrize(
    "left_out",
    [{"run_time_s": ...}, {"start": ...}, {"end": ...}],
)
def test_of_start_end_and_run_time_two_give_the_third(left_out: dict[str, Any]) -> None:
    assert only(completed(**left_out)) == only(completed())


@pytest.mark.parametrize(
    "left_out",
    [{"start": ..., "end": ...}, {"end": ..., "run_time_s": ...}, {"n": ...}, {"unit": ...}, {"n": ..., "unit": ...}],
)
def test_a_completed_job_needs_two_of_its_times_and_a_size_with_its_unit(left_out: dict[str, Any]) -> None:
    assert refusal(DECODE, completed(**left_out)).reason == "missing-field"


@pytest.mark.parametrize(
    ("exit_code", "state"),
    [(..., "COMPLETED"), (0, "COMPLETED"), (1, "FAILED")],
)
def test_without_a_state_the_exit_code_reports_how_it_ended(exit_code: Any, state: str) -> None:
    assert only(completed(state=..., exit_code=exit_code)).state == state


def test_numbers_of_stream_processors_and_seconds_since_1970_are_read() -> None:
    assert only(completed(n="64", run_time_s="1872", exit_code=0.0, start=1795168800)) == only(completed(exit_code=0))


@each(
    ("change", "reason"),
    [
        ({"run_time_s": 0}, "out-of-range"),
        ({"run_time_s": -1}, "out-of-range"),
        ({"run_time_s": 1e12}, "out-of-range"),
        ({"n": 0}, "out-of-range"),
        ({"n": 1e10}, "out-of-range"),
        ({"n": 10**400}, "out-of-range"),
        ({"n": "many"}, "wrong-type"),
        ({"n": True}, "wrong-type"),
        ({"n": [64]}, "wrong-type"),
        ({"unit": "sockets"}, "unit"),
        ({"state": "DONE"}, "state"),
        ({"start": "yesterday"}, "time"),
        ({"start": "1970-01-01T00:00:00Z"}, "time"),
        ({"end": "2026-11-20T09:00:00Z"}, "out-of-range"),
        ({"end": "2026-11-23T00:00:00Z"}, "future"),
        ({"system": ""}, "text"),
        ({"system": ...}, "missing-field"),
        ({"job_id": ...}, "missing-field"),
        ({"type": ...}, "missing-field"),
        ({"type": "job.finished"}, "unknown-type"),
        ({"type": 7}, "wrong-type"),
        ({"application": "x" * 257}, "text"),
        ({"system": "exa\n"}, "text"),
        ({"failed_host": "nid1\u0085"}, "text"),
        ({"job_id": "812\u007f"}, "text"),
        ({"application": {"name": "lmp"}}, "wrong-type"),
        ({"hosts": ["nid1\x00"]}, "text"),
        ({"hosts": "nid1"}, "wrong-type"),
        ({"attributes": {f"a{index}": 1 for index in range(33)}}, "out-of-range"),
        ({"attributes": {"build": "x" * 257}}, "text"),
        ({"attributes": {"atoms": 10**400}}, "out-of-range"),
        ({"attributes": {"atoms": [1]}}, "wrong-type"),
        ({"exit_code": 1.5}, "wrong-type"),
    ],
)
def test_a_wrong_field_is_refused_with_its_reason(change: dict[str, Any], reason: str) -> None:
    assert refusal(DECODE, completed(**change)).reason == reason


def test_a_run_that_did_not_complete_may_have_taken_no_time() -> None:
    assert only(completed(state="CANCELLED", run_time_s=0, end="2026-11-20T10:00:00Z")).run_time_s == 0.0


@pytest.mark.parametrize("kind", ["load", "counters", "power", "host.state"])
def test_telemetry_is_refused_as_unsupported(kind: str) -> None:
    assert refusal(DECODE, message(type=kind)).reason == "unsupported-type"


def test_a_profile_of_a_run_comes_from_nobody_else() -> None:
    assert refusal(DECODE, message(type="job.profile")).reason == "unknown-type"


def test_unknown_fields_are_counted_and_left_out() -> None:
    decoded = DECODE(completed(site={"rack": 7}, cooling=None), RECEIVED_MS)
    assert (decoded.unknown_fields, len(decoded.events)) == (2, 1)


@pytest.mark.parametrize("nothing", [{"hosts": None}, {"application": None}, {"attributes": {}}])
def test_a_field_that_states_null_is_a_field_that_is_not_there(nothing: dict[str, Any]) -> None:
    decoded = DECODE(completed(**nothing), RECEIVED_MS)
    assert decoded.unknown_fields == 0
    assert decoded.events[0].run_id == f"exa/812@{START_MS}"


@pytest.mark.parametrize(
    "twice",
    [
        b'{"type": "identity", "system": "a", "system": "b", "job_id": 1, "source": "x"}',
        b'{"type": "identity", "system" : "a", "system" : "b", "job_id": 1, "source": "x"}',
        b'{"type": "identity", "system": "a", "job_id": 1, "source": "x", "attributes": {"n": 1, "n": 2}}',
        b'{"type": "identity", "system": "a", "job_id": 1, "source": "x", "site": {"n": {"n": 1, "n": 2}}}',
        b'{"type": "identity", "system": "a", "job_id": 1, "source": "x", "site": 1, "site": 2}',
        b'{"type": "identity", "type": "identity", "system": "a", "job_id": 1, "source": "x"}',
        b'{"type": "identity", "system": "a", "job_id": 1, "source": "x", "module": null, "module": "m"}',
    ],
)
def test_a_key_named_twice_is_refused_wherever_it_stands(twice: bytes) -> None:
    assert refusal(DECODE, twice).reason == "duplicate-key"


def test_what_looks_like_a_key_inside_a_text_is_no_key() -> None:
    assert only(completed(application='a":"b')).evidence.application == 'a":"b'


def test_a_started_job_may_leave_its_size_open() -> None:
    event = only(message(type="job.started", job_id=812, start="2026-11-20T10:00:00Z", exclusive=True))
    assert isinstance(event, JobStarted)
    assert (event.run_id, event.evidence.sizes, event.evidence.exclusive) == (f"exa/812@{START_MS}", {}, True)


def test_a_reservation_may_be_named() -> None:
    assert only(completed(reservation="course")).evidence.reservation == "course"


def test_identity_states_what_another_source_knows() -> None:
    event = only(message(type="identity", job_id="812", source="xalt", module="lammps/2024"))
    assert isinstance(event, Identity)
    assert (event.identity, event.evidence.module) == ("identity:exa/812:xalt", "lammps/2024")


@pytest.mark.parametrize(("n", "sizes"), [([64, 128], (64.0, 128.0)), (32, (32.0,))])
def test_a_request_asks_for_one_size_or_several(n: Any, sizes: tuple[float, ...]) -> None:
    event = only(message(type="prediction.requested", request_id="r9", n=n, unit="nodes", job_name="run7"))
    assert isinstance(event, PredictionRequested)
    assert (event.n, event.unit, event.evidence.job_name) == (sizes, "nodes", "run7")


@pytest.mark.parametrize(("n", "reason"), [([], "out-of-range"), ([0], "out-of-range"), ([1] * 257, "out-of-range")])
def test_a_request_for_no_size_or_too_many_is_refused(n: list[float], reason: str) -> None:
    assert refusal(DECODE, message(type="prediction.requested", request_id="r9", n=n)).reason == reason


def test_a_request_may_report_the_features_of_a_placement() -> None:
    value = message(type="prediction.requested", request_id="r", n=1, features={"max_fifo": 5}, attributes={"atoms": 9})
    decoded = DECODE(value, RECEIVED_MS)
    event = only(value)
    assert isinstance(event, PredictionRequested)
    assert (event.features, event.evidence.attributes) == ({"max_fifo": 5.0}, {"atoms": 9})
    assert (decoded.unknown_fields, decoded.ignored) == (0, {})


@pytest.mark.parametrize(
    "features", [[1.0], {"max_fifo": "many"}, {"": 1.0}, {f"f{i}": 1.0 for i in range(65)}, {"a\x01b": 1.0}]
)
def test_features_are_a_bounded_object_of_numbers(features: Any) -> None:
    value = message(type="prediction.requested", request_id="r", n=1, features=features)
    assert refusal(DECODE, value).reason in {"wrong-type", "out-of-range", "text"}


def test_private_fields_are_dropped_unless_asked_for() -> None:
    value = completed(script="#!/bin/sh\nsrun lmp", comment="rhodo", work_dir="/scratch/u1")
    evidence = only(value).evidence
    assert (evidence.script, evidence.comment, evidence.work_dir) == (None, None, None)
    requested = only(value, DecodeOptions(keep=Keep(script=True, comment=True, paths=True))).evidence
    assert (requested.script, requested.comment, requested.work_dir) == ("#!/bin/sh\nsrun lmp", "rhodo", "/scratch/u1")


def test_hosts_are_kept_as_sent_and_bounded() -> None:
    assert only(completed(hosts=["nid[1-3]", "login1"])).evidence.hosts == ("nid[1-3]", "login1")
    assert refusal(DECODE, completed(hosts=["x" * 200_000, "y" * 200_000])).reason == "hosts"


def test_nanoseconds_and_zones_are_read() -> None:
    value = completed(start="2026-11-20T11:00:00.123456789+01:00")
    assert only(value).start_ms == START_MS + 123


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029", "\u007f", "\u001b"])
def test_control_characters_become_spaces_escaped_or_not(character: str) -> None:
    for value in (
        completed(application=f"a{character}b", attributes={f"k{character}y": f"v{character}w"}),
        completed(application="a?b", attributes={"k?y": "v?w"}).replace(b"?", character.encode()),
    ):
        evidence = only(value).evidence
        assert (evidence.application, evidence.attributes) == ("a b", {"k y": "v w"})


def test_a_name_in_any_script_is_a_name() -> None:
    value = completed(application="Wärme-模型 🌡").replace(b"\\u00e4", "ä".encode())
    assert only(value).evidence.application == "Wärme-模型 🌡"
