import base64

import pytest

from agent.decode.message import VALUE_BYTES_MAX, dead_letter
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import DeadLetter, Origin, Refusal, Refused


def refused(value: bytes | None = b"{}", timestamp_ms: int = 1795168800000, detail: str = "It is wrong.") -> DeadLetter:
    refused = Refused(InvalidInputError("state", detail), count=2, places=("slurm_jobs[3]", "slurm_jobs[7]"))
    return dead_letter(Refusal(Origin("slurm.jobs", 2, 71), refused, "slurm", value, timestamp_ms))


def test_a_dead_letter_states_why_and_where() -> None:
    written = refused()
    assert (written.id, written.reason, written.detail) == ("slurm.jobs/2/71/state", "state", "It is wrong.")
    assert (written.count, written.places) == (2, ("slurm_jobs[3]", "slurm_jobs[7]"))
    assert (written.topic, written.partition, written.offset, written.format) == ("slurm.jobs", 2, 71, "slurm")
    assert (written.time, base64.b64decode(written.value_base64)) == ("2026-11-20T10:00:00Z", b"{}")


@pytest.mark.parametrize("more", [0, 1, 5_000_000])
def test_a_large_value_is_cut_and_reports_it(more: int) -> None:
    written = refused(b"\xff" * (VALUE_BYTES_MAX + more))
    assert len(base64.b64decode(written.value_base64)) == VALUE_BYTES_MAX
    assert (written.value_bytes, written.truncated) == (VALUE_BYTES_MAX + more, more > 0)


def test_a_tombstone_has_no_bytes() -> None:
    assert (refused(None).value_base64, refused(None).value_bytes) == ("", 0)


@pytest.mark.parametrize("timestamp_ms", [-1, -(2**63), 2**63 - 1])
def test_a_time_stamp_that_no_calendar_has_still_gives_a_dead_letter(timestamp_ms: int) -> None:
    assert refused(timestamp_ms=timestamp_ms).time in ("1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z")


def test_the_detail_is_bounded() -> None:
    assert len(refused(detail="x" * 10_000).detail) == 500
