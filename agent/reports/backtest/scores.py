"""Scores of many predictions: errors, bias, coverage, and predicted probabilities compared with observed frequencies."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import Evidence
from processors.facts import Band

Floats = npt.NDArray[np.float64]
BaselineName = Literal["requested", "last_two"]
BASELINES: Final[tuple[BaselineName, ...]] = ("requested", "last_two")
USERS_MAX: Final = 100_000
_NORMAL: Final = NormalDist()
_Z90: Final = _NORMAL.inv_cdf(0.95)  # half-width of a 90 % band in standard deviations
_Z95: Final = 1.959964  # half-width of a 95 % interval in standard deviations
_LEAST_S: Final = 1e-3  # shorter times count as 1 ms, because a logarithmic scale has no 0
_TOUCH: Final = 1e-9  # tolerance, so that a run time on the edge of a band is inside


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of the predictions of past jobs. Without any prediction, `scored` is 0 and all other fields are None."""

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


class Frequency(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted probability and the observed frequency with its 95 % Wilson interval."""

    predicted: float
    observed: float
    low: float
    high: float
    runs: int


def figures(observed_s: Sequence[float], bands: Sequence[Band]) -> Figures:
    """Return the scores of predictions with bands; `bands` and `observed_s` have the same order."""
    if not bands:
        return Figures(scored=0)
    observed, (median, low, high) = np.array(observed_s), columns(bands)
    _, _, high_90 = at_level(bands, 0.8)
    above = observed > high * (1 + _TOUCH)
    below = ~above & (observed < low * (1 - _TOUCH))
    widths = np.log(np.maximum(high, _LEAST_S) / np.maximum(low, _LEAST_S))
    inside = len(bands) - int(above.sum()) - int(below.sum())
    coverage_low, coverage_high = interval(inside, len(bands))
    return msgspec.structs.replace(
        _errors(observed, median, high_90),
        coverage_90=inside / len(bands),
        coverage_low=coverage_low,
        coverage_high=coverage_high,
        below=float(below.mean()),
        above=float(above.mean()),
        ln_width=float(widths.mean()),
        median_ln_width=_lower_median(widths),
    )


def figures_of_numbers(observed_s: Sequence[float], predicted_s: Sequence[float]) -> Figures:
    """Return the scores of predictions without bands; every quantile of such a prediction is the predicted run time itself."""
    predicted = np.array(predicted_s)
    return _errors(np.array(observed_s), predicted, predicted) if len(predicted) else Figures(scored=0)


def _errors(observed_s: Floats, predicted_s: Floats, high_90_s: Floats) -> Figures:
    observed, predicted = np.maximum(observed_s, _LEAST_S), np.maximum(predicted_s, _LEAST_S)
    errors = np.abs(predicted / observed - 1.0)
    return Figures(
        scored=len(observed),
        median_error=_lower_median(errors),
        mean_error=float(errors.mean()),
        mae_s=float(np.abs(predicted - observed).mean()),
        bias=float(np.log(observed / predicted).mean()),
        accuracy=float((np.minimum(predicted, observed) / np.maximum(predicted, observed)).mean()),
        pinball_50_s=_pinball(observed, predicted, 0.5),
        pinball_90_s=_pinball(observed, high_90_s, 0.9),
    )


def _pinball(observed: Floats, quantile: Floats, level: float) -> float:
    """Return the mean pinball loss of a quantile (Koenker and Bassett, 1978)."""
    beyond = observed - quantile
    return float(np.maximum(level * beyond, (level - 1.0) * beyond).mean())


def _lower_median(values: Floats) -> float:
    place = (len(values) - 1) // 2
    return float(np.partition(values, place)[place])


def columns(bands: Sequence[Band]) -> Floats:
    """Return the medians, lower bounds and upper bounds of run time bands, shape (3, bands)."""
    return np.array([(band.run_time_s, band.low_s, band.high_s) for band in bands], np.float64).reshape(-1, 3).T


def at_level(bands: Sequence[Band], level: float) -> Floats:
    """Return the medians, lower and upper bounds of central bands with the probability `level`, shape (3, bands).

    The logarithm of the run time is assumed to be normal on either side of the median.
    """
    median, low, high = columns(bands)
    median = np.maximum(median, _LEAST_S)
    ends = np.array([np.clip(low, _LEAST_S, median), np.maximum(high, median)])
    return np.array([median, *(median * (ends / median) ** (_NORMAL.inv_cdf((1 + level) / 2) / _Z90))])


def shares_inside(observed_s: Sequence[float], bands: Sequence[Band], level: float) -> Floats:
    """Return 1 for each run inside its band at probability `level`, edges included, and 0 for other runs."""
    observed, (_, low, high) = np.array(observed_s), at_level(bands, level)
    inside = (observed <= high * (1 + _TOUCH)) & (observed >= low * (1 - _TOUCH))
    return np.where(inside, 1.0, 0.0)


def shares_below(observed_s: Sequence[float], quantiles_s: Floats) -> Floats:
    """Return 1 for each run time below its quantile, 0 above, and 0.5 if both are equal, because many run times may equal the quantile."""
    distance = np.array(observed_s) - quantiles_s
    on_quantile = np.abs(distance) <= _TOUCH * quantiles_s
    return np.where(on_quantile, 0.5, np.where(distance < 0, 1.0, 0.0))


def frequency(predicted: Floats | Sequence[float], outcomes: Floats | Sequence[float]) -> Frequency:
    """Return the mean prediction and the observed frequency; an outcome is 1 or 0, or 0.5 for a tie."""
    low, high = interval(float(np.sum(outcomes)), len(outcomes))
    means = (float(np.mean(values)) for values in (predicted, outcomes))
    return Frequency(predicted=next(means), observed=next(means), low=low, high=high, runs=len(outcomes))


def interval(hits: float, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval (1927) of a share; 0 to 1 if there are no trials."""
    if not trials:
        return 0.0, 1.0
    share, z2 = hits / trials, _Z95 * _Z95
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    reach = _Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return min(max(centre - reach, 0.0), share), max(min(centre + reach, 1.0), share)  # guards against rounding errors


Time = TypeVar("Time", int, float)


def even_edges(times: Sequence[Time], count_max: int, size_min: int) -> list[Time]:
    """Return the start of each of at most `count_max` periods with equal numbers of `times` (ascending), at least `size_min` each."""
    count = max(1, min(count_max, len(times) // size_min))
    return [times[len(times) * place // count] for place in range(count)] if times else []


class LastTwo:
    """The last two ended jobs of each of at most USERS_MAX users; the users whose last job ended longest ago are dropped."""

    def __init__(self) -> None:
        self._ended: OrderedDict[tuple[str, str], tuple[float, ...]] = OrderedDict()

    def expected_s(self, system: str, evidence: Evidence) -> float | None:
        """Return the mean run time in s of the user's last two jobs, but at most the requested time; None for a job without a user.

        If no job of the user has ended, return the requested time.
        """
        requested_s = evidence.time_limit_s
        ended = self._ended.get((system, evidence.user or ""))
        if not evidence.user or ended is None:
            return requested_s if evidence.user else None
        mean_s = sum(ended) / len(ended)
        return mean_s if requested_s is None else min(mean_s, requested_s)

    def learn(self, system: str, evidence: Evidence, run_time_s: float) -> None:
        if not evidence.user:
            return
        key = (system, evidence.user)
        self._ended[key] = (*self._ended.get(key, ()), run_time_s)[-2:]
        self._ended.move_to_end(key)
        if len(self._ended) > USERS_MAX:
            self._ended.popitem(last=False)
