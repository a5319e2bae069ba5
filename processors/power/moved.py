"""Which counter moved with the run times of an application: runs since a moment against those of their sizes before it.

A run that takes longer at the same work has lower rates per second of everything, so what counts is what it did for its work:
a counter per instruction, or per cycle where no instructions are counted; instructions, and what has no cycles, per run and host;
cycles per second, which is how fast the processors went. Instructions per cycle come last: they fall with whatever slows a run.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist, median
from typing import Final, NamedTuple

from processors.models.counters.model import CYCLES
from processors.models.numerics.statistics import six_digits
from processors.models.training.runs import Run
from processors.power.by_size import COUNTER, LN_N, NIC, RATE, RUN_TIME

INSTRUCTIONS: Final = ("PAPI_TOT_INS", "instructions", "INSTR_RETIRED_ANY", "INST_RETIRED_ANY", "INST_RETIRED")
BEFORE_MIN: Final = 8  # runs of sizes that were run since, and
BEFORE_MAX: Final = 64  # the newest of them
SINCE_MIN: Final = 2
SAME: Final = 5  # digits of ln n
UNDISTURBED: Final = 0.5  # the weight of a run that counts
CHANCE: Final = 0.01  # that one of all counters is named which has not moved
CHANGE_MIN: Final = math.log(1.05)  # what moved by less explains nothing
FLOOR: Final = 0.01  # of ln: counters are not more exact than this
FEW: Final = 10.0  # of so many runs the median deviation is twice as far off
_NORMAL: Final = 1.4826  # from the median absolute deviation to that of a normal distribution
_MEDIAN: Final = math.pi / 2  # the variance of a median of normal values, of that of their mean
PER_INSTRUCTION, PER_CYCLE, PER_SECOND, PER_RUN = "per instruction", "per cycle", "per second", "per run and host"
Quantity = tuple[str, str]
"""A counter, and what it is relative to."""


class Moved(NamedTuple):
    """A counter that moved: what it is relative to, its usual value before and since, and how many runs show it."""

    counter: str
    per: str
    before: float
    since: float
    runs: int
    deviations: float

    @property
    def text(self) -> str:
        """What moved, by how much."""
        ratio = self.since / self.before
        if ratio >= 2.0:
            return f"{self.counter} {self.per} rose to {ratio:.3g} times as much"
        return f"{self.counter} {self.per} {'rose' if ratio > 1 else 'fell'} by {abs(ratio - 1.0) * 100:.0f} %"


def moved(runs: Sequence[Run], since_ms: int) -> Moved | None:
    """Return the counter that moved most clearly since; None where none did by more than chance and its own noise.

    A run is of the time since where it started then. Runs at sizes that were not run before tell nothing.
    """
    known = [run for run in runs if RUN_TIME in run.targets and LN_N in run.values]
    later = [run for run in known if run.time_ms - 1000.0 * run.targets[RUN_TIME] >= since_ms]
    sizes = {_size(run) for run in later}
    earlier = [run for run in known if run.time_ms < since_ms and run.weight >= UNDISTURBED and _size(run) in sizes]
    if len(later) < SINCE_MIN or len(earlier) < BEFORE_MIN:
        return None
    newest = sorted(earlier, key=lambda run: (-run.time_ms, run.id))[:BEFORE_MAX]
    before, since = ([(_size(run), work(run)) for run in each] for each in (newest, later))
    quantities = sorted({quantity for _, each in since for quantity in each})
    found = [each for quantity in quantities if (each := _judged(quantity, before, since, len(quantities))) is not None]
    return max(found, key=_clearness, default=None)


def _clearness(each: Moved) -> tuple[bool, float]:
    return not (each.counter in INSTRUCTIONS and each.per == PER_CYCLE), abs(each.deviations)


def work(run: Run) -> dict[Quantity, float]:
    """Return what a run did for its work, by counter and what it is relative to; only what is above 0."""
    values, run_time_s = run.values, run.targets[RUN_TIME]
    counted = {
        name.removeprefix(COUNTER): rate for name, rate in values.items() if name.startswith(COUNTER) and rate > 0
    }
    instructions = next((name for name in INSTRUCTIONS if name in counted), None)
    cycles = next((name for name in CYCLES if counted and values.get(RATE + name, 0.0) > 0), None)
    found: dict[Quantity, float] = {}
    for name, rate in counted.items():
        if instructions is not None and name != instructions:
            found[name, PER_INSTRUCTION] = rate / counted[instructions]
        else:
            found[name, PER_CYCLE] = rate
    if cycles is not None and instructions is not None:
        found[instructions, PER_RUN] = counted[instructions] * values[RATE + cycles] * run_time_s
    for name, rate in values.items():
        if name.startswith((RATE, NIC)) and rate > 0:
            counter = name.partition(":")[2]
            found[(counter, PER_SECOND) if counter == cycles else (counter, PER_RUN)] = (
                rate if counter == cycles else rate * run_time_s
            )
    return found


Works = Sequence[tuple[float, Mapping[Quantity, float]]]


def _judged(quantity: Quantity, before: Works, since: Works, quantities: int) -> Moved | None:
    """Return whether a quantity moved: the median of how far runs since are off the median of their size before."""
    usual: dict[float, list[float]] = {}
    for size, each in before:
        if quantity in each:
            usual.setdefault(size, []).append(math.log(each[quantity]))
    centre = {size: median(values) for size, values in usual.items()}
    rest = [abs(value - centre[size]) for size, values in usual.items() for value in values]
    off = [math.log(each[quantity]) - centre[size] for size, each in since if quantity in each and size in centre]
    if len(off) < SINCE_MIN or len(rest) < BEFORE_MIN:
        return None
    noise = max(_NORMAL * median(rest) * (1.0 + (FEW / len(rest)) ** 2), FLOOR)
    change = median(off)
    certain = math.sqrt(_MEDIAN * (1.0 / len(off) + len(centre) / len(rest)))
    deviations = change / (noise * certain)
    if abs(deviations) < NormalDist().inv_cdf(1.0 - CHANCE / (2 * quantities)) or abs(change) < max(noise, CHANGE_MIN):
        return None
    reference = math.exp(median(centre.values()))
    return Moved(*quantity, six_digits(reference), six_digits(reference * math.exp(change)), len(off), deviations)


def _size(run: Run) -> float:
    return round(run.values[LN_N], SAME)
