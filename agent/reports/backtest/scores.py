"""Errors of many predictions in bounded memory: sums, counts, and a sketch for the median."""

import math
from collections import Counter, OrderedDict
from typing import Final

import msgspec

from processors.contracts.events import Evidence
from processors.models.numerics.statistics import pinball, quantile_of_band

USERS_MAX: Final = 100_000
REQUESTED: Final = "requested"
LAST_TWO: Final = "last_two"
BASELINES: Final = (REQUESTED, LAST_TWO)


class Baseline(msgspec.Struct, frozen=True):
    """The two baselines of one job, in seconds, as known at its start."""

    requested: float | None = None
    last_two: float | None = None

    def of(self, name: str) -> float | None:
        return self.requested if name == REQUESTED else self.last_two


class LastTwo:
    """The last two ended jobs of each user; beyond USERS_MAX users the least recent are forgotten."""

    def __init__(self) -> None:
        self._ended: OrderedDict[tuple[str, str], tuple[float, ...]] = OrderedDict()

    def baseline(self, system: str, evidence: Evidence) -> Baseline:
        """Return the baselines of a job that starts now.

        The mean of the user's last two jobs is at most the requested time; for a user's first job it is the requested time.
        """
        requested = evidence.time_limit_s
        ended = self._ended.get((system, evidence.user)) if evidence.user else None
        if evidence.user is None or ended is None:
            return Baseline(requested, requested if evidence.user else None)
        mean_s = sum(ended) / len(ended)
        return Baseline(requested, mean_s if requested is None else min(mean_s, requested))

    def learn(self, system: str, evidence: Evidence, run_time_s: float) -> None:
        if evidence.user is None:
            return
        key = (system, evidence.user)
        self._ended[key] = (*self._ended.get(key, ()), run_time_s)[-2:]
        self._ended.move_to_end(key)
        if len(self._ended) > USERS_MAX:
            self._ended.popitem(last=False)


Z95: Final = 1.959964  # two-sided
_LEAST_S: Final = 1e-3  # shorter times count as a millisecond, because a logarithmic scale has no 0
_STEP: Final = math.log(1.02)  # the sketch resolves values to 2 %
_LEAST: Final = 1e-9
_LARGEST: Final = 1e12
_ZERO: Final = -(10**9)
_TOUCH: Final = 1e-9  # a run time on the edge of a band is inside


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How good predictions were; None without predictions.

    `median_error` and `mean_error` are |predicted / observed - 1|, `bias` is the mean of ln(observed / predicted): above 0
    runs took longer than predicted. `accuracy` is the mean of the smaller over the larger of both. Pinball losses are of
    the quantiles .5 and .9, in seconds; `coverage_90` is the share of runs inside the 90 % band, with its 95 % interval
    after Wilson; `ln_width` is the mean of ln(high / low), `median_ln_width` its median, which a few wide bands do not move.
    """

    scored: int
    median_error: float | None = None
    mean_error: float | None = None
    mae_s: float | None = None
    bias: float | None = None
    accuracy: float | None = None
    pinball_50_s: float | None = None
    pinball_90_s: float | None = None
    coverage_90: float | None = None
    coverage_low: float | None = None
    coverage_high: float | None = None
    below: float | None = None
    above: float | None = None
    ln_width: float | None = None
    median_ln_width: float | None = None


class Band(msgspec.Struct, frozen=True):
    """A predicted run time with its 5 % and 95 % quantiles, in seconds."""

    run_time_s: float
    low_s: float
    high_s: float

    def holds(self, observed_s: float) -> bool:
        """Return whether a run time lies inside, edges included."""
        return not self.above(observed_s) and not observed_s < self.low_s * (1 - _TOUCH)

    def above(self, observed_s: float) -> bool:
        return observed_s > self.high_s * (1 + _TOUCH)

    def at_level(self, level: float) -> "Band":
        """Return the central band that holds this share of the runs, if ln T is normal on either side."""
        median_s = max(self.run_time_s, _LEAST_S)
        share = (1 + level) / 2  # of the runs below its upper end
        low_s, high_s = min(max(self.low_s, _LEAST_S), median_s), max(self.high_s, median_s)
        return Band(median_s, quantile_of_band(median_s, low_s, share), quantile_of_band(median_s, high_s, share))

    @property
    def high_90_s(self) -> float:
        """The .9 quantile, if ln T is normal between the median and the .95 quantile."""
        least_s = max(self.run_time_s, _LEAST_S)
        return quantile_of_band(least_s, max(self.high_s, least_s), 0.9)


class Sketch:
    """Counts positive numbers on a logarithmic scale: their median to 1 %, in at most about 2,500 counts."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """Add a number; tiny numbers count as 0."""
        place = _ZERO if value < _LEAST else round(math.log(min(value, _LARGEST)) / _STEP)
        self._counts[place] += 1

    def median(self) -> float | None:
        """Return the lower median; None without numbers."""
        rank, passed = (self._counts.total() + 1) // 2, 0
        for place in sorted(self._counts):
            passed += self._counts[place]
            if passed >= rank:
                return 0.0 if place == _ZERO else math.exp(place * _STEP)
        return None


class Tally:
    """Sums up errors; its size does not grow with the number of runs."""

    __slots__ = ("_above", "_bands", "_below", "_errors", "_scored", "_sums", "_width", "_widths")

    def __init__(self) -> None:
        self._scored = self._bands = self._below = self._above = 0
        self._sums = [0.0] * 6  # |error| s, |relative error|, ln ratio, min / max, pinball .5, pinball .9
        self._width = 0.0
        self._errors, self._widths = Sketch(), Sketch()

    def add(self, observed_s: float, prediction: Band) -> None:
        self._point(observed_s, prediction.run_time_s, prediction.high_90_s)
        self._bands += 1
        above = prediction.above(observed_s)
        self._above += above
        self._below += not above and not prediction.holds(observed_s)
        width = math.log(max(prediction.high_s, _LEAST_S) / max(prediction.low_s, _LEAST_S))
        self._width += width
        self._widths.add(width)

    def add_number(self, observed_s: float, predicted_s: float) -> None:
        """Score a prediction that is a single number, used for every quantile."""
        self._point(observed_s, predicted_s, predicted_s)

    def figures(self) -> Figures:
        if not self._scored:
            return Figures(scored=0)
        sums = [total / self._scored for total in self._sums]
        point = Figures(
            scored=self._scored, median_error=self._errors.median(), mae_s=sums[0], mean_error=sums[1], bias=sums[2],
            accuracy=sums[3], pinball_50_s=sums[4], pinball_90_s=sums[5],
        )  # fmt: skip
        if not self._bands:
            return point
        inside = self._bands - self._below - self._above
        low, high = interval(inside, self._bands)
        return msgspec.structs.replace(
            point, coverage_90=inside / self._bands, coverage_low=low, coverage_high=high,
            below=self._below / self._bands, above=self._above / self._bands, ln_width=self._width / self._bands,
            median_ln_width=self._widths.median(),
        )  # fmt: skip

    def _point(self, observed_s: float, predicted_s: float, high_90_s: float) -> None:
        observed, prediction = max(observed_s, _LEAST_S), max(predicted_s, _LEAST_S)
        error = abs(prediction / observed - 1.0)
        self._scored += 1
        values = (
            abs(prediction - observed), error, math.log(observed / prediction), min(prediction, observed) / max(prediction, observed),
            pinball(observed, prediction, 0.5), pinball(observed, high_90_s, 0.9),
        )  # fmt: skip
        for index, value in enumerate(values):
            self._sums[index] += value
        self._errors.add(error)


def interval(hits: float, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927); 0 to 1 without trials."""
    if not trials:
        return 0.0, 1.0
    share, z2 = hits / trials, Z95 * Z95
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    reach = Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return min(max(centre - reach, 0.0), share), max(min(centre + reach, 1.0), share)  # against rounding
