"""The cause of power that counters do not explain: a host that the deviating runs have in common, or else the application.

The excess power of a faulty host, in watts, does not depend on the application. In a run of many hosts the excess is too small to
see. The excess of a host is therefore estimated by the mean excess of all runs on the host, weighted by 1 / (band width)^2. A joint
fit of the runs to their hosts decides which host of a run is to blame. Hosts that always run together get equal excess in this fit.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, dropwhile
from math import sqrt
from statistics import NormalDist, median
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from processors.models.counters.model import CYCLES
from processors.models.numerics.statistics import six_digits
from processors.models.training.runs import LearnedRun
from processors.power.by_size import COUNTER, LN_N, NIC, RATE, RUN_TIME
from processors.store import PlainProcessor

RUNS_MAX: Final = 64
HOSTS_MAX: Final = 16  # most hosts of a run; in a larger run the excess of a single host is not visible
OFF_MIN: Final = 2  # fewest deviating runs on a host before the host is blamed
SHARE_MIN: Final = 0.4  # least share, among all deviating runs since the first on a host, of those on this host
DEVIATIONS_MIN: Final = 5.0  # least distance of an excess from 0 and from that of another host, in standard deviations
SUSPECTS_MAX: Final = 4  # more hosts with equal evidence are no better lead than the application
ROUNDING_W: Final = 0.1  # a smaller difference between two hosts is a rounding error of the joint fit
OVER_SHARE: Final = 0.5  # share of the original excess below which the host is normal again
OVER_RUNS: Final = 3
NINE_OF_TEN: Final = 1.645  # half-width of a 90 % band, in standard deviations


class JudgedPower(msgspec.Struct, frozen=True, array_like=True):
    """The unexplained power of a run, summed over its hosts: `excess_w` with its standard deviation `deviation_w`, both in W.

    `off` is True if the excess is significant.
    """

    run_id: str
    application_id: str
    hosts: tuple[str, ...]
    excess_w: float
    deviation_w: float
    off: bool


class Blamed(NamedTuple):
    """A host with unexplained power, its excess in W, and the number of runs that show it.

    If the runs cannot tell several hosts apart, `hosts` joins their names by commas, and one of these hosts is to blame.
    """

    hosts: str
    excess_w: float
    runs: int


class PowerBlame(PlainProcessor, omit_defaults=True):
    """Finds hosts with unexplained power from the newest runs of a system that have measured power.

    `runs` are the newest runs, `named` the `hosts` of each `Blamed` with their excess power in W.
    """

    name: ClassVar[str] = "power_blame"
    version: ClassVar[int] = 1

    runs: list[JudgedPower] = msgspec.field(default_factory=list)
    named: dict[str, float] = msgspec.field(default_factory=dict)

    def score(self, fact: Sequence[str]) -> Blamed | None:
        """Return the host in `fact` with unexplained power, more or less than expected; None if no host is to blame.

        Return all hosts that the runs cannot tell apart, but None if there are more than SUSPECTS_MAX.
        """
        candidates = {host: blamed for host in sorted(fact) if (blamed := self._blamed(host)) is not None}
        suspects = self._suspects(sorted(fact), list(candidates)) if candidates else []
        if not 0 < len(suspects) <= SUSPECTS_MAX:
            return None
        known = (names for names in self._named_on(suspects) if set(suspects).issuperset(names.split(",")))
        return candidates[suspects[0]]._replace(hosts=next(known, ",".join(sorted(suspects))))

    def _suspects(self, hosts: Sequence[str], candidates: Sequence[str]) -> list[str]:
        """Return the candidate with the largest excess power in the joint fit, then the `hosts` without clearly less excess.

        The ridge fit uses the runs since the first deviating run on `hosts`; its prior deviation is the largest excess.
        """
        runs = self._since(hosts)
        names = sorted({*hosts, *chain.from_iterable(run.hosts for run in runs)})
        deviation_w = np.array([max(run.deviation_w, 1e-3) for run in runs])
        excess = np.array([run.excess_w for run in runs]) / deviation_w
        uses = np.array([[name in run.hosts for name in names] for run in runs]) / deviation_w[:, None]
        ridge = np.eye(len(runs)) / max(abs(run.excess_w) for run in runs) ** 2
        gains = dict(zip(names, np.linalg.solve(uses @ uses.T + ridge, uses).T, strict=True))
        first = max(candidates, key=lambda host: abs(gains[host] @ excess))
        margins = {host: gains[first] - gains[host] for host in hosts if host != first}
        noise_w = {host: DEVIATIONS_MIN * np.linalg.norm(margin) + ROUNDING_W for host, margin in margins.items()}
        return [first, *(host for host, margin in margins.items() if abs(margin @ excess) <= noise_w[host])]

    def in_a_row(self, application_id: str) -> int:
        """Return the number of consecutive newest runs of an application that deviate."""
        runs = [run.off for run in reversed(self.runs) if run.application_id == application_id]
        return next((count for count, off in enumerate(runs) if not off), len(runs))

    def learn(self, fact: JudgedPower) -> None:
        """Add a run; a repeated run changes nothing."""
        if all(run.run_id != fact.run_id for run in self.runs):
            self.runs = [*self.runs, fact][-RUNS_MAX:]

    def name_hosts(self, blamed: Blamed) -> list[str]:
        """Blame hosts, and return earlier blamed hosts that these hosts replace."""
        replaced = [names for names in self._named_on(blamed.hosts.split(",")) if names != blamed.hosts]
        named = {names: excess_w for names, excess_w in self.named.items() if names not in replaced}
        self.named = {**named, blamed.hosts: round(blamed.excess_w, 1)}
        return replaced

    def over(self, hosts: Sequence[str]) -> list[str]:
        """Return the blamed hosts among `hosts` whose power is normal again, and stop blaming them."""
        gone = [names for names in self._named_on(hosts) if self._are_normal_again(names)]
        self.named = {names: excess_w for names, excess_w in self.named.items() if names not in gone}
        self.runs = [run for run in self.runs if set(",".join(gone).split(",")).isdisjoint(run.hosts)]
        return gone

    def _named_on(self, hosts: Sequence[str]) -> list[str]:
        return [names for names in self.named if not set(hosts).isdisjoint(names.split(","))]

    def _since(self, hosts: Sequence[str]) -> list[JudgedPower]:
        """Return the runs since the first deviating run on one of `hosts`."""
        return list(dropwhile(lambda run: not run.off or set(hosts).isdisjoint(run.hosts), self.runs))

    def _blamed(self, host: str) -> Blamed | None:
        """Return the mean excess power of a host since its first deviating run; None if the excess is not certain."""
        since = self._since([host])
        runs = [run for run in since if host in run.hosts]
        if sum(run.off for run in runs) < max(OFF_MIN, SHARE_MIN * sum(run.off for run in since)):
            return None
        excess_w, deviation_w = _mean(runs)
        return Blamed(host, excess_w, len(runs)) if abs(excess_w) >= DEVIATIONS_MIN * deviation_w else None

    def _are_normal_again(self, names: str) -> bool:
        newest_runs = [[run for run in self.runs if host in run.hosts][-OVER_RUNS:] for host in names.split(",")]
        if any(len(newest) < OVER_RUNS or any(run.off for run in newest) for newest in newest_runs):
            return False
        return all(abs(_mean(newest)[0]) < OVER_SHARE * abs(self.named[names]) for newest in newest_runs)


def _mean(runs: Sequence[JudgedPower]) -> tuple[float, float]:
    """Return the weighted mean excess of runs in W, and its standard deviation."""
    weights = [1.0 / max(run.deviation_w, 1e-3) ** 2 for run in runs]
    total = sum(weights)
    return sum(weight * run.excess_w for weight, run in zip(weights, runs, strict=True)) / total, 1.0 / sqrt(total)


INSTRUCTIONS: Final = ("PAPI_TOT_INS", "instructions", "INSTR_RETIRED_ANY", "INST_RETIRED_ANY", "INST_RETIRED")
BEFORE_MIN: Final = 8  # fewest earlier runs at the sizes of later runs
BEFORE_MAX: Final = 64  # most earlier runs that are used, the newest ones
SINCE_MIN: Final = 2
SAME: Final = 5  # two sizes are equal if ln n agrees to this many decimals
UNDISTURBED: Final = 0.5  # least weight of a run that counts
CHANCE: Final = 0.01  # probability of a false finding over all counters
CHANGE_MIN: Final = math.log(1.05)  # smallest change, in ln, that may explain a shift
FLOOR: Final = 0.01  # least standard deviation in ln, because counters are not more exact
FEW: Final = 10.0  # with this many earlier runs, the assumed noise is twice the observed noise
_NORMAL: Final = 1.4826  # factor from the median absolute deviation to the standard deviation of a normal distribution
_MEDIAN: Final = math.pi / 2  # variance of the median of normal values over that of their mean
PER_INSTRUCTION, PER_CYCLE, PER_SECOND, PER_RUN = "per instruction", "per cycle", "per second", "per run and host"
Quantity = tuple[str, str]
"""A counter and the reference of its amount, such as "per cycle" or "per run"."""


class MovedCounter(NamedTuple):
    """A changed counter.

    `per` is the reference of the counter, for example "per cycle". `before` and `since` are the usual values before and after the
    change, `runs` is the number of runs that show the change, and `deviations` is its size in standard errors.
    """

    counter: str
    per: str
    before: float
    since: float
    runs: int
    deviations: float

    @property
    def text(self) -> str:
        ratio = self.since / self.before
        if ratio >= 2.0:
            return f"{self.counter} {self.per} rose to {ratio:.3g} times as much"
        return f"{self.counter} {self.per} {'rose' if ratio > 1 else 'fell'} by {abs(ratio - 1.0) * 100:.0f} %"


def moved(runs: Sequence[LearnedRun], since_ms: int) -> MovedCounter | None:
    """Return the counter that changed most clearly at `since_ms`; None if no change is significant.

    Runs that ended before `since_ms` are compared with runs that started at `since_ms` or later; later runs count only at sizes
    that were also run before.
    """
    usable = [run for run in runs if RUN_TIME in run.targets and LN_N in run.values]
    later = [run for run in usable if run.time_ms - 1000.0 * run.targets[RUN_TIME] >= since_ms]
    sizes = {_size(run) for run in later}
    earlier = [run for run in usable if run.time_ms < since_ms and run.weight >= UNDISTURBED and _size(run) in sizes]
    if len(later) < SINCE_MIN or len(earlier) < BEFORE_MIN:
        return None
    newest = sorted(earlier, key=lambda run: (-run.time_ms, run.id))[:BEFORE_MAX]
    before, since = ([(_size(run), work(run)) for run in runs_of_period] for runs_of_period in (newest, later))
    quantities = sorted({quantity for _, works in since for quantity in works})
    changes = (_judged(quantity, before, since, len(quantities)) for quantity in quantities)
    return max((change for change in changes if change is not None), key=_clearness, default=None)


def _clearness(change: MovedCounter) -> tuple[bool, float]:
    return not (change.counter in INSTRUCTIONS and change.per == PER_CYCLE), abs(change.deviations)


def work(run: LearnedRun) -> dict[Quantity, float]:
    """Return the counted events of a run, by counter and by the reference that they are divided by, such as "per cycle".

    Only positive values are returned.
    """
    run_time_s = run.targets[RUN_TIME]
    positive = {(*name.partition(":")[::2],): rate for name, rate in run.values.items() if rate > 0}
    counted = {counter: rate for (kind, counter), rate in positive.items() if kind + ":" == COUNTER}
    instructions = next((name for name in INSTRUCTIONS if name in counted), None)
    cycles = next((name for name in CYCLES if counted and run.values.get(RATE + name, 0.0) > 0), None)
    quantities: dict[Quantity, float] = {}
    for counter, rate in counted.items():
        if instructions is not None and counter != instructions:
            quantities[counter, PER_INSTRUCTION] = rate / counted[instructions]
        else:
            quantities[counter, PER_CYCLE] = rate
    if cycles is not None and instructions is not None:
        quantities[instructions, PER_RUN] = counted[instructions] * run.values[RATE + cycles] * run_time_s
    for (kind, counter), rate in positive.items():
        if kind + ":" in (RATE, NIC):
            per, factor = (PER_SECOND, 1.0) if counter == cycles else (PER_RUN, run_time_s)
            quantities[counter, per] = rate * factor
    return quantities


Works = Sequence[tuple[float, Mapping[Quantity, float]]]


def _judged(quantity: Quantity, before: Works, since: Works, quantities: int) -> MovedCounter | None:
    """Return the change of a quantity if the change is significant, else None.

    The change is the median, over later runs, of the distance in ln from the earlier median at the same size.
    """
    usual = defaultdict[float, list[float]](list)
    for size, work in before:
        if quantity in work:
            usual[size].append(math.log(work[quantity]))
    centre = {size: median(values) for size, values in usual.items()}
    scatter = [abs(value - centre[size]) for size, values in usual.items() for value in values]
    changes = [math.log(work[quantity]) - centre[size] for size, work in since if quantity in work and size in centre]
    if len(changes) < SINCE_MIN or len(scatter) < BEFORE_MIN:
        return None
    noise = max(_NORMAL * median(scatter) * (1.0 + (FEW / len(scatter)) ** 2), FLOOR)
    change = median(changes)
    standard_error = math.sqrt(_MEDIAN * (1.0 / len(changes) + len(centre) / len(scatter)))
    deviations = change / (noise * standard_error)
    if abs(deviations) < NormalDist().inv_cdf(1.0 - CHANCE / (2 * quantities)) or abs(change) < max(noise, CHANGE_MIN):
        return None
    reference = math.exp(median(centre.values()))
    return MovedCounter(
        *quantity, six_digits(reference), six_digits(reference * math.exp(change)), len(changes), deviations
    )


def _size(run: LearnedRun) -> float:
    return round(run.values[LN_N], SAME)
