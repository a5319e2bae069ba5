"""A short history of a centre, by a seed: what producers send, with repeats, corrections, late and bad messages."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from processors.contracts.names import rfc3339

START_MS = 1_795_168_800_000
MINUTE_MS = 60_000
SYSTEM = "sim"
APPLICATIONS = ("alpha", "beta", "gamma")
HOSTS = tuple(f"n{number}" for number in range(10))
GARBAGE = (b"", b"{", b"[1,2", b'{"type":"job.completed"}', b"\xff\xfe", b'{"type":"load","system":"sim"}', b"null")


@dataclass
class History:
    """Messages in the order of sending, and what has to come of them.

    `runs` are the completed runs by id with their application, size and last reported time; `bad` counts the messages
    that nobody can use.
    """

    messages: list[bytes] = field(default_factory=list)
    runs: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    bad: int = 0
    end_ms: int = START_MS


def history(seed: int, jobs: int = 24) -> History:
    """Return the history of a seed."""
    dice = random.Random(seed)  # noqa: S311 - a history has to come again with its seed
    reported = History()
    for number in range(jobs):
        _job(reported, dice, str(100 + number))
        if dice.random() < 0.1:
            reported.messages.append(dice.choice(GARBAGE))
            reported.bad += 1
        if dice.random() < 0.15:
            reported.messages.append(_request(dice, f"q{number}"))
    late = [message for message in reported.messages if dice.random() < 0.15]
    reported.messages += late  # Slurm sends again what it is not sure about
    reported.bad += sum(message in GARBAGE for message in late)
    return reported


def _job(reported: History, dice: random.Random, job_id: str) -> None:
    application, n = dice.choice(APPLICATIONS), float(dice.choice((1, 2, 4, 8)))
    start_ms = (
        reported.end_ms
        + dice.choice((0, 0, 1, 1, 1)) * MINUTE_MS  # about as fast as time passes: hosts measure meanwhile
    )  # some share their hosts, and hosts measure meanwhile
    state = "COMPLETED" if dice.random() < 0.85 else dice.choice(("FAILED", "CANCELLED", "TIMEOUT"))
    run_time_s = round(600.0 / n + 30.0, 3) * dice.choice((1.0, 1.0, 1.01, 0.99, 2.0))
    end_ms = start_ms + round(run_time_s * 1000)
    reported.end_ms = max(reported.end_ms, start_ms)
    job = {"system": SYSTEM, "job_id": job_id, "n": n, "unit": "nodes", "start": rfc3339(start_ms)}
    named = job | ({"application": application} if dice.random() < 0.7 else {"job_name": application})
    if dice.random() < 0.8:
        named |= {"hosts": dice.sample(HOSTS, 1 + (n > 4))}
    if dice.random() < 0.6:
        reported.messages.append(_bytes(named | {"type": "job.started", "time_limit_s": 3600}))
    if dice.random() < 0.2:
        program = {"type": "identity", "system": SYSTEM, "job_id": job_id, "source": "xalt"}
        reported.messages.append(_bytes(program | {"executable": f"/opt/{application}"}))
    ended = named | {"type": "job.completed", "end": rfc3339(end_ms), "run_time_s": run_time_s, "state": state}
    reported.messages.append(_bytes(ended))
    if dice.random() < 0.1:
        run_time_s += 1.0
        reported.messages.append(_bytes(ended | {"run_time_s": run_time_s}))
    if state == "COMPLETED":
        reported.runs[f"{SYSTEM}/{job_id}@{start_ms}"] = (application, n, run_time_s)


def _request(dice: random.Random, request_id: str) -> bytes:
    requested = {"type": "prediction.requested", "system": SYSTEM, "request_id": request_id, "unit": "nodes"}
    return _bytes(requested | {"application": dice.choice((*APPLICATIONS, "nobody")), "n": [2, 16]})


def _bytes(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


def shuffled(messages: Sequence[bytes], partitions: int, dice: random.Random) -> list[list[bytes]]:
    """Return the messages spread over partitions, each in its order: producers send without a key."""
    spread: list[list[bytes]] = [[] for _ in range(partitions)]
    for message in messages:
        dice.choice(spread).append(message)
    return spread
