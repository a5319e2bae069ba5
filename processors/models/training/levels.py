"""Whether all runs of an application take longer or shorter since a time, whatever their attributes are: a build became faster.

What runs of before tell of attributes stays true; only their level does not. So they are not forgotten: they count as if
they had been run at the new level. A shift is found by the sums of `processors.models.drift` over ratios of observed to
answered run times, and is one only if no configuration explains it alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple

from processors.models.drift import Cusum, began, clipped, explained_by_one, matters, noise_after, risen
from processors.models.numerics.statistics import six_digits

RATIOS_MAX: Final = 32  # newest, in which the begin of a shift is looked for
RUNS_MIN: Final = 10  # that tell a shift
NOISES_MIN: Final = 1.5  # that it is large: a model of few runs is off by less in whole regions
AGREEING: Final = 0.9  # the share of these runs that are off to its side
CONFIGURATIONS_MIN: Final = 3  # that they have, where there are so many
NOISE: Final = 0.2  # of ln, as long as nothing is known


class Shift(NamedTuple):
    """Runs that ended before `before_ms` were at another level; e to the `ln_factor` times as long they are at that of now."""

    before_ms: int
    ln_factor: float


class Ratio(NamedTuple):
    """A run that was compared: when it ended, which configuration it was of, and ln(observed / answered)."""

    time_ms: int
    configuration: int
    ln_ratio: float


@dataclass(slots=True)
class LevelWatch:
    """The newest ratios of an application, their usual scatter, and both sums.

    >>> watch = LevelWatch()
    >>> for i in range(40):
    ...     shift = watch.learn(Ratio(i, i % 5, (0.02 if i % 2 else -0.02) - 0.5 * (i >= 30)), 0.05)
    ...     if shift:
    ...         print(shift.before_ms, round(shift.ln_factor, 1))
    30 -0.5
    """

    noise: float = NOISE
    runs: int = 0
    cusum: Cusum = field(default_factory=Cusum)
    ratios: list[Ratio] = field(default_factory=list)

    def learn(self, ratio: Ratio, deviation: float) -> Shift | None:
        """Take a comparison in, whose answer had this deviation; return the shift that it makes certain, if any."""
        scatter = max(self.noise, deviation)
        self.ratios = [*self.ratios, ratio._replace(ln_ratio=six_digits(ratio.ln_ratio * self.noise / scatter))]
        del self.ratios[:-RATIOS_MAX]
        self.runs = min(self.runs + 1, 1000)
        direction = self.cusum.add(clipped(ratio.ln_ratio, scatter))
        if direction is None:
            self.noise = six_digits(noise_after(self.noise, ratio.ln_ratio, self.runs))
            return None
        known = [each.ln_ratio for each in self.ratios]
        since = self.ratios[len(known) - max(risen(known, self.noise, direction), 1) :]
        newest = since[began([each.ln_ratio for each in since], self.noise) :]
        if len(newest) < RUNS_MIN:
            return None
        self.cusum, self.ratios = Cusum(), []
        return _shift(newest, self.noise)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data.

        >>> LevelWatch.build(LevelWatch().snapshot()) == LevelWatch()
        True
        """
        sums = [six_digits(self.cusum.up), six_digits(self.cusum.down)]
        return {"noise": self.noise, "runs": self.runs, "sums": sums, "ratios": [list(each) for each in self.ratios]}

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "LevelWatch":
        """Return what a snapshot was taken of."""
        ratios = [Ratio(int(time_ms), int(of), float(ratio)) for time_ms, of, ratio in state["ratios"]]
        return cls(state["noise"], state["runs"], Cusum(*state["sums"]), ratios)


def _shift(newest: list[Ratio], noise: float) -> Shift | None:
    ratios, configurations = [each.ln_ratio for each in newest], [each.configuration for each in newest]
    several = len(set(configurations)) >= CONFIGURATIONS_MIN
    factor = six_digits(median(ratios))
    agreeing = sum(each * factor > 0 for each in ratios) >= AGREEING * len(ratios)
    large = matters(factor, noise) and abs(factor) > NOISES_MIN * noise
    if not (several and agreeing and large) or explained_by_one(ratios, configurations, noise) is not None:
        return None
    return Shift(newest[0].time_ms, factor)


def at_level_of_now(time_ms: int, shifts: list[Shift]) -> float:
    """Return by how much a run of then would take longer or shorter now.

    >>> at_level_of_now(5, [Shift(3, 0.5), Shift(9, math.log(2.0))])
    2.0
    """
    return math.exp(sum(shift.ln_factor for shift in shifts if time_ms < shift.before_ms))
