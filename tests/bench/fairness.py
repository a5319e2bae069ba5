"""Fairness: how long quiet systems wait for what they asked, alone and beside one loud system.

The learner folds five systems. Four of them end a few jobs a second; the fifth, where it is there, ends twenty times as many
of new names, or sends records that no processor can take. Measured are the event time from the first two runs of a name of a
quiet system to its published curve, and the processor time that a second of all takes, which is what a question may wait.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

from processors.contracts.events import Evidence, JobCompleted, JournalRecord, Origin, encode_record
from processors.contracts.names import run_id
from processors.contracts.outputs import Prediction
from processors.pipeline.shard import Shard
from tests.bench.growth.driven import Driven, settings_for
from tests.bench.result import Row, quantile
from tests.bench.workload import START_MS, TOPIC

QUIET: Final = tuple(f"quiet{number}" for number in range(4))
LOUD: Final = "loud"
EACH_PER_S: Final = 2  # completions of a quiet system: one new name a second
TIMES_AS_LOUD: Final = 20
SECONDS: Final = 120
LEFT_S: Final = 120  # without new runs, until all that is due is published
WITHIN: Final = 1.2


def run(*, quick: bool) -> Iterator[Row]:
    """Yield how long curves of quiet systems take to be published, and what the loud system takes of the processor."""
    seconds = SECONDS // 4 if quick else SECONDS
    alone_s: float | None = None
    for name, loud in (
        ("alone", None),
        ("beside a flood of names", _names),
        ("beside unparsable records", _unparsable),
    ):
        waits_s, spent_s = _waits(seconds, loud)
        p50, p99 = quantile(waits_s, 0.5), quantile(waits_s, 0.99)
        limit = None if alone_s is None else WITHIN * alone_s
        alone_s = alone_s or p99
        meaning = f"event time to the curve of a new name of {len(QUIET)} quiet systems; p50 {p50:.0f} s, {len(waits_s)} names"
        yield Row(f"quiet systems {name}, curve, p99", p99, "s", meaning, limit)
        meaning = "processor time of a second of event time; a question waits for one record of it at most"
        yield Row(f"quiet systems {name}, a second", spent_s / seconds * 1000, "ms", meaning)


def _waits(seconds: int, loud: Any) -> tuple[list[float], float]:
    """Return the seconds that each name of a quiet system waited, and the processor seconds of all of it."""
    driven = Driven(settings_for(0))
    driven.now_ms = START_MS
    driven.second(())
    known_ms: dict[str, int] = {}
    waits_s: dict[str, float] = {}
    fold: Shard = driven.fold(0)
    original = fold.fold

    def folded(record: JournalRecord) -> list[Any]:
        found = original(record)
        for message in found:
            if isinstance(message, Prediction) and message.application in known_ms:
                waits_s.setdefault(message.application, (driven.now_ms - known_ms[message.application]) / 1000)
        return found

    fold.fold = folded  # type: ignore[method-assign]
    began_s = time.process_time()
    for second in range(seconds + LEFT_S):
        values: list[bytes] = []
        if second < seconds:
            values += [] if loud is None else loud(second, driven.now_ms)
            for system in QUIET:
                name = f"{system}app{_spelled(second)}"
                known_ms[name] = driven.now_ms
                values += [
                    _completed(system, name, f"{second}-{k}", driven.now_ms, 60.0 + k) for k in range(EACH_PER_S)
                ]
        driven.second((0, value) for value in values)
    spent_s = time.process_time() - began_s
    missing = known_ms.keys() - waits_s.keys()
    return [*waits_s.values(), *(float(seconds + LEFT_S) for _ in missing)], spent_s


def _names(second: int, now_ms: int) -> list[bytes]:
    """Return the completions of the loud system: each two of a name that nobody had before."""
    count = TIMES_AS_LOUD * EACH_PER_S
    return [
        _completed(LOUD, f"flood{_spelled(second * count + k // 2)}", f"{second}-{k}", now_ms, 60.0 + k % 2)
        for k in range(count)
    ]


def _unparsable(second: int, _now_ms: int) -> list[bytes]:
    count = TIMES_AS_LOUD * EACH_PER_S
    return [b'{"event": {"type": "job_completed", "run_id": %d}}' % (second * count + k) for k in range(count)]


def _completed(system: str, application: str, job: str, end_ms: int, run_time_s: float) -> bytes:
    start_ms = end_ms - round(run_time_s * 1000)
    evidence = Evidence(application=application, user=f"user of {system}", sizes={"nodes": 4.0})
    event = JobCompleted(
        system, job, run_id(system, job, start_ms), start_ms, end_ms, run_time_s, "COMPLETED", evidence
    )
    return encode_record(JournalRecord(event, Origin(TOPIC, 0, 0)))


def _spelled(number: int) -> str:
    """Return a name without digits: these may be taken for a number of a run."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))
