"""Text typed by users costs no run, whatever it holds and whoever hands it on; names of jobs, systems and hosts stay strict."""

import json
from typing import Any

import pytest

from agent.decode.formats import DECODERS
from agent.decode.message import DecodeOptions
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import Keep
from tests.kit.job_records import RECEIVED_MS, completed, refusal, slurm_record

TEXTS = {
    "line-feed-and-tab": (b"two\nlines\tand a tab", "two lines and a tab"),
    "escaped-line-feed": (rb"two\nlines", "two lines"),
    "escape-sequence": (rb"red\u001b[31m", "red [31m"),
    "nul": (rb"a\u0000b", "a b"),
    "latin-1": (b"m\xfcller", "m\ufffdller"),
    "utf-8-cut-in-two": (b"m\xc3", "m\ufffd"),
    "half-a-surrogate-pair": (rb"a\ud83db", "a\ufffdb"),
    "whole-surrogate-pair": (rb"\ud83d\ude80\n", "\U0001f680"),
    "line-separator": ("a\u2028b".encode(), "a b"),
    "backslash-of-a-path": (rb"C:\data\2026", r"C:\data\2026"),
    "pipes-and-quotes": (rb"a|b \"c\" \\d", 'a|b "c" \\d'),
}


def sonar(name: str) -> bytes:
    job = {
        "job_id": 812,
        "job_name": name,
        "job_state": "COMPLETED",
        "start_time": "2026-08-20T09:12:44Z",
        "end_time": "2026-08-20T10:40:01Z",
    }
    attributes = {"cluster": "saga", "slurm_jobs": [job]}
    return json.dumps({"meta": {}, "data": {"type": "job", "attributes": attributes}}).encode()


RECORDS = {
    "slurm": slurm_record(job_name="NAME", username="NAME", account="NAME"),
    "native": completed(job_name="NAME", user="NAME", account="NAME"),
    "sonar": sonar("NAME"),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("decoder", ["named", "auto"])
def test_a_run_arrives_whatever_its_name_holds(decoder: str, name: str, *, batch: bool, kind: str) -> None:
    raw, cleaned = TEXTS[kind]
    value = RECORDS[name].replace(b"NAME", raw)
    decode = DECODERS[name if decoder == "named" else "auto"](DecodeOptions(keep=Keep(comment=True)))
    decoded = decode(b"[" + value + b"]" if batch else value, RECEIVED_MS)
    assert [event.evidence.job_name for event in decoded.events] == [cleaned]
    assert decoded.rejects == []


def test_an_executable_of_xalt_with_a_line_feed_names_the_job_all_the_same() -> None:
    value = b'{"userT": {"syshost": "exa", "job_id": "812", "exec_path": "/home/u/m\xfcller\nx/a.out"}}'
    (event,) = DECODERS["xalt"](DecodeOptions())(value, RECEIVED_MS).events
    assert event.evidence.executable == "/home/u/m\ufffdller x/a.out"


@pytest.mark.parametrize("change", [{"cluster": "NAME"}, {"nodes": "NAME"}, {"failed_node": "NAME"}])
@pytest.mark.parametrize("raw", [b"n\xfc1", rb"n\u001b1", rb"n\ud8001"])
def test_names_of_systems_and_hosts_stay_strict(change: dict[str, Any], raw: bytes) -> None:
    value = slurm_record(**change).replace(b"NAME", raw)
    assert refusal(DECODERS["slurm"](DecodeOptions()), value).reason == "text"


def test_a_private_comment_is_cleaned_too() -> None:
    value = slurm_record(comment="NAME", work_dir="/home/NAME").replace(b"NAME", b"a\xfc\nb")
    (event,) = DECODERS["slurm"](DecodeOptions(keep=Keep(comment=True, paths=True)))(value, RECEIVED_MS).events
    assert (event.evidence.comment, event.evidence.work_dir) == ("a\ufffd b", "/home/a\ufffd b")


def test_what_is_no_json_after_its_repair_is_refused_as_before() -> None:
    with pytest.raises(InvalidInputError):
        DECODERS["auto"](DecodeOptions())(b'{"jobid": 7, "job_name": "a\n', RECEIVED_MS)
