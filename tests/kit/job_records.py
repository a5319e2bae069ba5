"""Records of jobs as their producers write them, to be varied by a test."""

import json
from pathlib import Path
from typing import Any

from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decode
from processors.contracts.names import parse_rfc3339

CASES = Path(__file__).parents[1] / "cases" / "decode"
RECEIVED_MS = parse_rfc3339("2026-11-21T00:00:00Z")
COMPLETED: dict[str, Any] = {
    "type": "job.completed",
    "system": "exa",
    "job_id": "812",
    "application": "lammps",
    "n": 64,
    "unit": "nodes",
    "start": "2026-11-20T10:00:00Z",
    "end": "2026-11-20T10:31:12Z",
    "run_time_s": 1872.0,
    "state": "COMPLETED",
}


def completed(**changes: Any) -> bytes:
    """Return a job.completed with some fields changed; a change to `...` leaves the field out."""
    fields = {key: value for key, value in {**COMPLETED, **changes}.items() if value is not ...}
    return json.dumps(fields).encode()


def slurm_record(kind: str = "finish", **changes: Any) -> bytes:
    """Return a record of Slurm 26.05, "start" or "finish", with some fields changed; `...` leaves a field out."""
    lines = (CASES / "slurm-26.05" / "input.jsonl").read_text().splitlines()
    fields = json.loads(lines[1 if kind == "start" else 3])
    fields = {key: value for key, value in {**fields, **changes}.items() if value is not ...}
    return json.dumps(fields, separators=(",", ":")).encode()


def refusal(decode: Decode, value: bytes, received_ms: int = RECEIVED_MS) -> InvalidInputError:
    """Return the error that a decoder raises."""
    try:
        decoded = decode(value, received_ms)
    except InvalidInputError as error:
        return error
    raise AssertionError(f"nothing was refused: {decoded}")
