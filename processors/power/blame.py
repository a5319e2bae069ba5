"""Whose power it is that counters do not explain: a host's, where the runs that are off share it, else the application's.

What a host draws too much is the same in watts whatever runs on it, and in a run of many hosts it is lost in the band. So runs
are weighed by how exactly their power was known: the excess of a host is the mean over its runs of what all hosts drew
beyond the expected, weighed by the inverse square of the band.
"""

import math
from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import NormalDist, median
from typing import ClassVar, Final, NamedTuple

import msgspec

from processors.models.counters.model import CYCLES
from processors.models.numerics.statistics import six_digits
from processors.models.training.runs import LearnedRun
from processors.power.by_size import COUNTER, LN_N, NIC, RATE, RUN_TIME
from processors.store import Untimed

RUNS_MAX: Final = 64
HOSTS_MAX: Final = 16  # of a run: the share of one of more is not seen, so none of them is blamed
OFF_MIN: Final = 2  # runs off that share a host, before it is named
SHARE_MIN: Final = 0.4  # of all runs off since the first of these: where they are off everywhere, it is no host
DEVIATIONS_MIN: Final = 5.0  # of the mean excess from none
OVER_SHARE: Final = 0.5  # of the excess: a host whose newest runs drew less too much than this is as others again
OVER_RUNS: Final = 3
NINE_OF_TEN: Final = 1.645  # standard deviations in half a band that holds nine of ten


class JudgedPower(msgspec.Struct, frozen=True, array_like=True):
    """A run: its hosts, what they drew in all beyond what was expected, the deviation of that, and whether that is far off."""

    run_id: str
    application_id: str
    hosts: tuple[str, ...]
    excess_w: float
    deviation_w: float
    off: bool


class Blamed(NamedTuple):
    """A host that draws so much beyond what its counters explain, by how many of its runs."""

    host: str
    excess_w: float
    runs: int


class PowerBlameState(msgspec.Struct, omit_defaults=True):
    """Stored form: the newest runs, and the hosts that were named with what they drew too much."""

    runs: list[JudgedPower] = []
    named: dict[str, float] = {}


class PowerBlame(Untimed):
    """The newest runs of a system whose power was measured and explained or not."""

    name: ClassVar[str] = "power_blame"
    version: ClassVar[int] = 1

    def __init__(self, state: PowerBlameState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: PowerBlameState | None = None) -> "PowerBlame":
        """Return the runs of a stored state, or none."""
        return cls(msgspec.structs.replace(state) if state else PowerBlameState())

    def score(self, fact: Sequence[str]) -> Blamed | None:
        """Return which of these hosts draws more, or less, than its counters explain; None where none is known to."""
        found = [blamed for host in fact if (blamed := self._blamed(host)) is not None]
        return max(found, key=lambda one: (abs(one.excess_w), one.host), default=None)

    def in_a_row(self, application_id: str) -> int:
        """Return how many of the newest runs of an application are off, one after the other."""
        runs = [run.off for run in reversed(self._state.runs) if run.application_id == application_id]
        return next((count for count, off in enumerate(runs) if not off), len(runs))

    def learn(self, fact: JudgedPower) -> None:
        """Take a run in; a repeat changes nothing."""
        if all(run.run_id != fact.run_id for run in self._state.runs):
            self._state.runs = [*self._state.runs, fact][-RUNS_MAX:]

    def name_host(self, blamed: Blamed) -> None:
        """Note that a host was named."""
        self._state.named = {**self._state.named, blamed.host: round(blamed.excess_w, 1)}

    def over(self, hosts: Sequence[str]) -> list[str]:
        """Return which of these hosts were named and are as others again; they are named no more."""
        gone = [host for host in hosts if host in self._state.named and self._as_others(host)]
        if gone:
            self._state.named = {host: each for host, each in self._state.named.items() if host not in gone}
            self._state.runs = [run for run in self._state.runs if not set(gone) & set(run.hosts)]
        return gone

    def snapshot(self) -> PowerBlameState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state)

    def _of(self, host: str) -> list[JudgedPower]:
        return [run for run in self._state.runs if host in run.hosts]

    def _blamed(self, host: str) -> Blamed | None:
        """Return what a host draws too much since the first of its runs that was off; None where that is not sure."""
        known = self._state.runs
        first = next((place for place, run in enumerate(known) if run.off and host in run.hosts), len(known))
        off = sum(run.off for run in known[first:])
        runs = [run for run in known[first:] if host in run.hosts]
        of_host = sum(run.off for run in runs)
        if of_host < OFF_MIN or of_host < SHARE_MIN * off:
            return None
        excess_w, deviation_w = _mean(runs)
        return Blamed(host, excess_w, len(runs)) if abs(excess_w) >= DEVIATIONS_MIN * deviation_w else None

    def _as_others(self, host: str) -> bool:
        newest = self._of(host)[-OVER_RUNS:]
        if len(newest) < OVER_RUNS or any(run.off for run in newest):
            return False
        named_w = self._state.named[host]
        return abs(_mean(newest)[0]) < OVER_SHARE * abs(named_w)


def _mean(runs: Sequence[JudgedPower]) -> tuple[float, float]:
    """Return the mean excess of runs in W, weighed by how exactly each was known, and its standard deviation."""
    weights = [1.0 / max(run.deviation_w, 1e-3) ** 2 for run in runs]
    total = sum(weights)
    return sum(weight * run.excess_w for weight, run in zip(weights, runs, strict=True)) / total, 1.0 / sqrt(total)


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


class MovedCounter(NamedTuple):
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


def moved(runs: Sequence[LearnedRun], since_ms: int) -> MovedCounter | None:
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


def _clearness(each: MovedCounter) -> tuple[bool, float]:
    return not (each.counter in INSTRUCTIONS and each.per == PER_CYCLE), abs(each.deviations)


def work(run: LearnedRun) -> dict[Quantity, float]:
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


def _judged(quantity: Quantity, before: Works, since: Works, quantities: int) -> MovedCounter | None:
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
    return MovedCounter(
        *quantity, six_digits(reference), six_digits(reference * math.exp(change)), len(off), deviations
    )


def _size(run: LearnedRun) -> float:
    return round(run.values[LN_N], SAME)
