"""Growth: what one unit costs while shards, processes, applications and hosts get more; it should stay the same.

Each size is measured in processes of their own, so that memory is that of the size alone. `--short` leaves the largest
sizes out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.bench.result import Row

WITHIN: Final = 1.2  # of the smallest size: what a unit costs may grow by a fifth
SHARDS: Final = (1, 4, 16)
PROCESSES: Final = (1, 2, 4)
APPLICATIONS: Final = (1_000, 10_000, 100_000)
HOSTS: Final = (1_000, 10_000, 50_000)
Found = dict[str, float]


def run(*, quick: bool, short: bool = False) -> Iterator[Row]:
    """Yield time, memory and restore of each size by the unit, and how many times those of the smallest they are."""
    less = quick or short
    yield from _table("applications", APPLICATIONS[:2] if less else APPLICATIONS, quick=quick)
    yield from _table("hosts", (100, 1_000) if quick else HOSTS[:2] if less else HOSTS, quick=quick)
    yield from _shards(SHARDS[:2] if less else SHARDS, PROCESSES[:2] if less else PROCESSES, quick=quick)


def _table(what: str, sizes: Sequence[int], *, quick: bool) -> Iterator[Row]:
    found = [measured([(what, str(size), str(int(quick)))]) for size in sizes]
    for size, (values,) in zip(sizes, found, strict=True):
        yield from _rows(f"{size:,} {what}", values, found[0][0])


def _shards(shards: Sequence[int], processes: Sequence[int], *, quick: bool) -> Iterator[Row]:
    smallest: Found | None = None
    for count in shards:
        for among in (each for each in processes if each <= count):
            each = measured([("shards", str(count // among), str(int(quick)))] * among)
            values = {name: sum(part[name] for part in each) / among for name in each[0]}
            smallest = smallest or values
            yield from _rows(f"{count} shards over {among} processes", values, smallest)


def _rows(name: str, values: Found, smallest: Found) -> Iterator[Row]:
    for key, value in values.items():
        what, _, unit = key.rpartition(", ")
        times = value / smallest[key]
        limit = WITHIN * smallest[key] if value is not smallest[key] else None
        yield Row(f"{what}, {name}", value, unit, f"{times:.2f} times that of the smallest", limit)


def measured(cases: Sequence[tuple[str, ...]]) -> list[Found]:
    """Measure cases side by side, each in a process of its own."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.growth.sizes", *case],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        for case in cases
    ]
    shown = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"A size could not be measured: {cases[0]}.")
    found: list[Any] = [json.loads(each) for each in shown]
    sys.stderr.write(
        f"  {' '.join(cases[0][:2])} in {len(cases)} processes: {found[0]}\n"
    )  # the whole may take an hour
    return found
