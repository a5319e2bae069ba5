"""What `scalewatch plan` reckons with: memory of a learner by its hosts, and bytes of what is written, by kind."""

import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from agent.app import compose
from agent.app.embedded import Embedded
from agent.clock import SystemClock
from processors.contracts.events import JournalRecord, Origin, Tick, encode_record
from processors.contracts.outputs import Emission
from processors.models.numerics import scipy_functions
from tests.bench import hosts
from tests.bench.result import Row
from tests.bench.workload import START_MS, Load, config, events, messages

MB: Final = 1e6
FEW, MANY = 500, 2_500  # hosts: the difference is what hosts cost, the rest is what a process costs


def run(*, quick: bool) -> Iterator[Row]:
    """Yield memory and bytes per unit of what a centre has."""
    yield from _memory(1 if not quick else 2)
    yield from _journal()
    yield from _messages(1_000 if quick else 4_000)


def _memory(divisor: int) -> Iterator[Row]:
    few, many = FEW // divisor, MANY // divisor
    series = (many - few) * len(hosts.RESOURCES)
    (at_rest_few, peak_few), (at_rest_many, peak_many) = _process_bytes(few), _process_bytes(many)
    at_rest, peak = (at_rest_many - at_rest_few) / series, (peak_many - peak_few) / series
    base = at_rest_few - at_rest * few * len(hosts.RESOURCES)
    yield Row("process without hosts", base / MB, "MB", "resident: the program, its libraries and an empty fold")
    yield Row("resource of a host, learner", at_rest, "bytes", f"resident, of {series:,} after {hosts.MINUTES} minutes")
    yield Row("resource of a host, learner, peak", peak, "bytes", "while what is learned of hosts is saved")


def _process_bytes(count: int) -> tuple[float, float]:
    """Return the resident memory of a process of its own that has learned so many hosts, and its largest while it saves."""
    shown = subprocess.run(
        [sys.executable, "-m", "tests.bench.footprint", str(count)], check=True, capture_output=True, text=True
    )
    at_rest, peak = shown.stdout.split()
    return float(at_rest), float(peak)


def resident_bytes() -> float:
    """Return the resident memory of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return float(line.split()[1]) * 1024


def _journal() -> Iterator[Row]:
    """Yield bytes in the journal."""
    empty, full = (_minute_bytes(count) for count in (0, len(hosts.RESOURCES)))
    each = (full - empty) / len(hosts.RESOURCES)
    yield Row("minute of a host", empty, "bytes", "in the journal, without its resources")
    yield Row("minute of a resource", each, "bytes", "in the journal, besides its host")
    stream = events(messages(Load(50, 500, starts=True)))
    sizes = [len(encode_record(JournalRecord(event, Origin("slurm", 0, 0)))) for event in stream]
    tick = encode_record(JournalRecord(Tick("", time_ms=START_MS)))
    yield Row("tick", float(len(tick)), "bytes", "in the journal")
    yield Row("job in the journal", 2 * sum(sizes) / len(sizes), "bytes", "its start and its completion")


def _minute_bytes(resources: int) -> float:
    level = np.random.default_rng(1).random((50, len(hosts.RESOURCES)))
    found = []
    for record in hosts.reported_minute(level, 0, np.random.default_rng(2)):
        if hasattr(record.event, "resources"):
            retained = dict(list(record.event.resources.items())[:resources])
            found.append(
                len(
                    encode_record(
                        msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, resources=retained))
                    )
                )
            )
    return sum(found) / len(found)


def _messages(jobs: int) -> Iterator[Row]:
    """Yield bytes per job of each kind of output, ticks every ten seconds."""
    sent, count = Counter[str](), Counter[str]()

    def reported(emission: Emission) -> None:
        sent[emission.kind] += len(emission.value or b"") + len(emission.key)
        count[emission.kind] += 1

    agent = Embedded(config(), SystemClock(), reported)
    stream = events(messages(Load(50, jobs, starts=True, rate_per_s=0.25)))
    tick_ms = 0
    for number, event in enumerate(stream):
        now_ms = getattr(event, "end_ms", None) or event.start_ms
        while tick_ms + 10_000 <= now_ms:
            tick_ms = tick_ms + 10_000 if tick_ms else now_ms
            agent.tick(tick_ms)
        agent.write(event, Origin("slurm", 0, number))
        if number % 500 == 0:
            agent.step()
    agent.step()
    agent.close()
    for kind in ("runs", "job_predictions", "predictions"):
        yield Row(f"{kind}, a job", sent[kind] / jobs, "bytes", f"written; {count[kind] / jobs:.2f} messages a job")
        yield Row(f"{kind}, a message", sent[kind] / max(1, count[kind]), "bytes", "with its key")


def _measure(count: int) -> None:
    """Learn so many hosts and print the resident memory in bytes, then the largest so far while all of it is saved."""
    scipy_functions.load()  # as every learner does soon
    shard, _, _ = hosts.learned(count)
    at_rest = resident_bytes()
    states = shard.unsaved(with_hosts=True).states()
    peak = max(resident_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0)
    if not states:
        raise AssertionError("Nothing was saved.")
    sys.stdout.write(f"{at_rest} {peak}\n")


if __name__ == "__main__":
    compose.make_shard(config())
    _measure(int(sys.argv[1]))
