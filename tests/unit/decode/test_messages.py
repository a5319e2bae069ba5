import json
import tracemalloc
from typing import Any

import pytest

from agent.decode.formats import DECODERS
from agent.decode.message import SHOWN_MAX, DecodeOptions
from tests.kit.job_records import RECEIVED_MS, completed, refusal, slurm_record

JSON_FORMATS = ["auto", "native", "slurm", "sonar"]
DEEP = 100_000


@pytest.mark.parametrize("name", JSON_FORMATS)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "empty"),
        (None, "empty"),
        (b"\0", "empty"),
        (b" \n", "empty"),
        (b"null", "not-an-object"),
        (b"7", "not-an-object"),
        (b'"text"', "not-an-object"),
        (b"{", "not-json"),
        (b"{'a': 1}", "not-json"),
        (b'{"n": NaN}', "not-json"),
        (b'{"n": -Infinity}', "not-json"),
        (b'{"n": 01}', "not-json"),
        (b"[1, 2", "not-json"),
        (b"\xef\xbb\xbf{}", "encoding"),
        ("{}".encode("utf-16"), "encoding"),
        (b"\xff", "not-json"),
        (b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}", "nesting"),
        (b'{"a": ' * DEEP + b"1" + b"}" * DEEP, "nesting"),
        (b"[" * DEEP + b"]" * DEEP, "nesting"),
        (b"[" + b"1," * 10_000 + b"1]", "array-bomb"),
        (b"[" + b'{"padding": 1},' * 10_000 + b"{}]", "array-bomb"),
        (b"[" + b"1," * 2_000_000 + b"1]", "array-bomb"),
        (b" " * 5_000_000, "too-large"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_message_is_refused_with_a_reason(name: str, value: bytes, reason: str) -> None:
    assert refusal(DECODERS[name](DecodeOptions()), value).reason == reason


@pytest.mark.parametrize(
    "value", [b'{"type": "\xff"}', b'{"type": "\xed\xa0\x80"}', b'{"type": "job.started", "\xff": 1}']
)
def test_broken_utf_8_is_refused(value: bytes) -> None:
    assert refusal(DECODERS["native"](DecodeOptions()), value).reason in ("encoding", "unknown-type", "missing-field")


def test_broken_utf_8_in_a_field_that_nobody_knows_does_not_cost_the_run() -> None:
    value = completed(site="SITE").replace(b"SITE", b"\xff")
    assert DECODERS["native"](DecodeOptions())(value, RECEIVED_MS).unknown_fields == 1


def test_each_element_of_a_batch_stands_for_itself() -> None:
    value = b"[" + b",".join([completed(), completed(n=0), b"7", completed(job_id=813)]) + b"]"
    decoded = DECODERS["native"](DecodeOptions())(value, RECEIVED_MS)
    assert [event.job_id for event in decoded.events] == ["812", "813"]
    assert [error.reason for error in decoded.rejects] == ["out-of-range", "not-an-object"]


def test_an_empty_batch_is_no_error() -> None:
    assert DECODERS["auto"](DecodeOptions())(b" [ ]", RECEIVED_MS).events == []


def test_a_batch_may_have_as_many_elements_as_the_options_allow() -> None:
    decode = DECODERS["native"](DecodeOptions(elements_max=3))
    assert len(decode(b"[" + b",".join([completed()] * 3) + b"]", RECEIVED_MS).events) == 3
    assert refusal(decode, b"[" + b",".join([completed()] * 4) + b"]").reason == "array-bomb"


def test_a_bomb_is_refused_before_it_fills_the_memory() -> None:
    decode, bomb = DECODERS["auto"](DecodeOptions()), b"[" + b"1," * 2_000_000 + b"1]"
    tracemalloc.start()
    refusal(decode, bomb)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 3 * len(bomb)


def test_formats_are_recognised_also_where_a_batch_mixes_them() -> None:
    value = b"[" + b",".join([completed(), slurm_record(), b'{"metrics": []}']) + b"]"
    decoded = DECODERS["auto"](DecodeOptions())(value, RECEIVED_MS)
    assert [event.job_id for event in decoded.events] == ["812", "8421337"]
    assert [error.reason for error in decoded.rejects] == ["unknown-format"]


@pytest.mark.parametrize("name", [*JSON_FORMATS, "sacct", "swf"])
@pytest.mark.parametrize("field", ["type", "state", "unit", "start", "application", "system", "n", "exit_code"])
def test_an_error_repeats_no_more_than_forty_characters_of_a_payload(name: str, field: str) -> None:
    secret = "s3cr3t-" * 100
    for value in (completed(**{field: secret}), completed(**{field: {secret: secret}}), secret.encode()):
        text = str(refusal(DECODERS[name](DecodeOptions()), value))
        assert (secret * 2)[: SHOWN_MAX + 1] not in text
        assert text.endswith(".")
        assert len(text) < 400


@pytest.mark.parametrize("change", [{}, {"n": 0}])
def test_a_message_without_a_time_stamp_is_read_like_any_other(change: dict[str, Any]) -> None:
    value = completed(**change)
    decode = DECODERS["native"](DecodeOptions())
    if change:
        assert refusal(decode, value, -1).reason == "out-of-range"
    else:
        assert decode(value, -1).events == decode(value, RECEIVED_MS).events


def test_a_site_may_bound_the_times_it_believes() -> None:
    strict = DecodeOptions(earliest_ms=RECEIVED_MS, future_ms=0)
    assert refusal(DECODERS["native"](strict), completed()).reason == "time"
    old = refusal(DECODERS["native"](DecodeOptions(future_ms=0)), completed(), received_ms=RECEIVED_MS - 86_400_000)
    assert old.reason == "future"


def test_a_batch_in_any_white_space_is_a_batch() -> None:
    text = json.dumps([json.loads(completed())], indent=2).encode()
    assert len(DECODERS["auto"](DecodeOptions())(b"\r\n\t " + text, RECEIVED_MS).events) == 1


def test_two_objects_in_one_message_are_refused() -> None:
    assert refusal(DECODERS["auto"](DecodeOptions()), completed() + b" " + completed()).reason == "not-json"


@pytest.mark.parametrize("name", ["native", "sonar"])
def test_depth_near_the_limit_is_read_or_refused(name: str) -> None:
    decode = DECODERS[name](DecodeOptions())
    for depth in range(100, 1000, 7):
        nested = b'{"a": ' * depth + b'{"b": 1, "b": 2}' + b"}" * depth
        value = completed(data="NESTED").replace(b'"NESTED"', nested)
        assert refusal(decode, value).reason in ("nesting", "duplicate-key", "missing-field")


def test_a_part_that_should_be_an_object_has_the_wrong_type() -> None:
    assert refusal(DECODERS["sonar"](DecodeOptions()), b'{"meta": {}, "data": 7}').reason == "wrong-type"
