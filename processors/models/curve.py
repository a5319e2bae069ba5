"""The production curve of one set of sizes: the Bayes average of Downey curves, anchored at the observations.

Real applications deviate from every law by more than their noise, and tomorrow's run deviates like yesterday's. So the
prediction is the average plus what the observations deviate from it, interpolated in ln n.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.bayes import Posterior, posterior

Floats = NDArray[np.float64]

LEVELS = (0.05, 0.95)
NOISE_MIN = 1e-3  # of ln t, where the caller says none: clocks and medians are no better
MISFIT = 0.02  # relative error of the model that the weights of the observations assume
# The band: quantiles of the mixture, widened by a factor, plus a share of ln(n*/n_max) that grows with the distance in
# log2. Chosen so that 90 % of the runs of CASTEP, OpenSBLI and VASP on British systems, MAESTRO and two Spark jobs fall
# inside (beyond four times the largest size there were 54 points only). On 16 other applications the bands then held 94 %
# of the runs inside the range, 96 % up to twice, 94 % up to four times and 99 % beyond; the mixture's own quantiles held
# 92, 86, 80 and 83 %.
WIDENING = 1.2
BAND_DEVIATIONS = 1.645  # of a normal distribution hold 90 %
DISTANCE_LOG2 = np.array([1.0, 2.0, 3.0])
DISTANCE_SHARE = np.array([0.27, 0.46, 0.70])


class CurvePrediction(NamedTuple):
    """ln of run time, low and high end of the 90 % band of a single run; each of the shape (m,) of the targets.

    >>> CurvePrediction(np.array([1.0]), np.array([0.9]), np.array([1.1])).ln_run_time.tolist()
    [1.0]
    """

    ln_run_time: Floats
    ln_low: Floats
    ln_high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class AnchoredCurve:
    """The posterior over Downey curves given the sizes `n`, and the part of their deviation that will come again.

    `anchor` (k,) is that part of ln t, `offset` is added to every prediction (ln of the slow-down of other sizes),
    `unexplained` a standard deviation of ln t that widens the band: what a pattern explains in hindsight only.

    >>> curve = anchored_curve(np.array([4.0, 8.0, 16.0]), np.array([262.0, 139.0, 78.5]), np.ones(3), 0.03)
    >>> np.exp(curve.predict(np.array([8.0])).ln_run_time).round(0).tolist()
    [139.0]
    """

    posterior: Posterior
    n: Floats
    anchor: Floats
    offset: float = 0.0
    unexplained: float = 0.0

    def predict(self, targets: Floats) -> CurvePrediction:
        """Return the prediction at each target, shape (m,), positive and finite.

        Outside the sizes the deviation of the nearest one goes along.
        """
        return _predict(self, targets)

    def ln_run_time(self, targets: Floats) -> Floats:
        """Return ln of the run time at each target, shape (m,), at a third of the cost of a prediction with its band."""
        mean = self.posterior.mean_ln_run_times(targets)
        return np.asarray(mean + np.interp(np.log(targets), np.log(self.n), self.anchor) + self.offset)

    def sd_ln(self, targets: Floats) -> Floats:
        """Return the standard deviation of ln T at each target, without the noise of a run, shape (m,)."""
        return self.posterior.predict(targets, ()).sd_ln


def anchored_curve(
    n: Floats, run_time_s: Floats, weight: Floats, noise: float, *, unexplained: float = 0.0
) -> AnchoredCurve:
    """Return the curve of `k` >= 1 sizes; `n` (sorted, distinct), `run_time_s` and `weight` have shape (k,).

    `noise` is the standard deviation of ln t; a size's weight says how sure its run time is.

    >>> curve = anchored_curve(np.array([8.0]), np.array([100.0]), np.ones(1), 0.03)
    >>> np.exp(curve.predict(np.array([16.0])).ln_run_time).round(1).tolist()
    [62.5]
    """
    spread = max(noise, NOISE_MIN)
    belief = posterior(n, run_time_s, weight, spread)
    deviation = np.log(run_time_s) - belief.mean_ln_run_times(n)
    return AnchoredCurve(belief, n, _lasting(deviation, weight, spread), unexplained=unexplained)


def parallel_curve(
    curve: AnchoredCurve, n: Floats, run_time_s: Floats, weight: Floats, *, noise: float, slowdown: float
) -> AnchoredCurve:
    """Return the curve of other sizes of the same application, slower than `curve` by the share `slowdown`.

    Arguments as for `anchored_curve`; the Downey curves are those of `curve`.

    >>> fast = anchored_curve(np.array([4.0, 8.0, 16.0]), np.array([262.0, 139.0, 78.5]), np.ones(3), 0.03)
    >>> slow = parallel_curve(fast, np.array([12.0]), np.array([130.0]), np.ones(1), noise=0.03, slowdown=0.3)
    >>> round(slow.offset, 3)
    0.262
    """
    belief, offset = curve.posterior, float(np.log1p(slowdown))
    deviation = np.log(run_time_s) - belief.mean_ln_run_times(n) - offset
    return AnchoredCurve(belief, n, _lasting(deviation, weight, max(noise, NOISE_MIN)), offset, curve.unexplained)


def _lasting(deviation: Floats, weight: Floats, noise: float) -> Floats:
    """Return which part of each size's deviation comes again: the share of misfit in its variance, not of noise."""
    misfit = float(np.mean(deviation**2))
    of_median = (MISFIT**2 + noise**2) / np.maximum(weight, 1e-9) - MISFIT**2  # what the weights were made of
    return np.asarray(deviation * misfit / (misfit + np.maximum(of_median, (0.1 * NOISE_MIN) ** 2)))


def _predict(curve: AnchoredCurve, targets: Floats) -> CurvePrediction:
    average = curve.posterior.predict(targets, LEVELS)
    ln_targets, ln_n = np.log(targets), np.log(curve.n)
    mean, ends = np.log(average.mean_s), np.log(average.quantiles_s)
    distance = np.maximum(np.maximum(ln_targets - ln_n[-1], ln_n[0] - ln_targets), 0.0)
    extra = distance * np.interp(distance / np.log(2.0), DISTANCE_LOG2, DISTANCE_SHARE)
    least, hindsight = 0.5 * curve.posterior.noise, BAND_DEVIATIONS * curve.unexplained
    below = WIDENING * np.hypot(np.maximum(mean - ends[:, 0], least), hindsight) + extra
    above = WIDENING * np.hypot(np.maximum(ends[:, 1] - mean, least), hindsight) + extra
    point = mean + np.interp(ln_targets, ln_n, curve.anchor) + curve.offset
    return CurvePrediction(point, point - below, point + above)
