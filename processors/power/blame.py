"""Whose power it is that counters do not explain: a host's, where the runs that are off share it, else the application's.

What a host draws too much is the same in watts whatever runs on it, and in a run of many hosts it is lost in the band. So runs
are weighed by how exactly their power was known: the excess of a host is the mean over its runs of what all hosts drew
beyond the expected, weighed by the inverse square of the band.
"""

from collections.abc import Sequence
from math import sqrt
from typing import ClassVar, Final, NamedTuple

import msgspec

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
