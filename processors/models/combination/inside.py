"""Run times between the observed sizes: the law of universal scalability plus the deviation of the observations.

Features of a real curve recur, so the prediction meets each observed size exactly, and the deviation of a size fades towards
the neighbouring sizes. Leaving out each inner size once measures the error; the errors near a size say most about that size.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import LawEvidence, LeftOutErrors
from processors.models.numerics.arrays import Floats, Indices

ERROR_BASE: Final = 0.005
LEFT_OUT_UNKNOWN, LEFT_OUT_WEIGHT = 0.03, 0.3  # error expected before any size was left out, and its weight
REACH: Final = 0.7  # doublings over which the weight of an error falls by a factor e
LN_SCALE_MIN, LN_SCALE_MAX = -7.0, 1.0


class InsideScale(NamedTuple):
    """Coefficients of ln of the error scale inside the observed range, one per feature.

    The features are 1, ln of the mean error of left-out sizes near the target, and ln of the number of sizes.
    """

    constant: float
    left_out: float
    sizes: float


# fitted to the same curves as the gate
INSIDE_SCALE: Final = InsideScale(0.6662, 1.1587, -0.4163)


def deviations(evidence: LawEvidence, x: Floats) -> Floats:
    """Return the observed minus the fitted ln t by the law `usl` at `x` (m,), log2 of relative sizes; shape (m,).

    The deviation is interpolated between the observed sizes that are not in `apart`, and constant below the smallest.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> curve = evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0)))
    >>> deviations(curve, np.array([-1.0])).round(3).tolist()
    [-0.02]
    """
    deviation = evidence.data.y - evidence.ln_fits[-1, 0]
    followed = ~np.isin(evidence.curve.n, evidence.curve.apart)
    return np.asarray(np.interp(x, evidence.data.x[followed], deviation[followed]))


def features_of(left_out: Sequence[LeftOutErrors], curve: Indices, x: Floats) -> Floats:
    """Return the features of m targets for `InsideScale`, (m, 3): `x` (m,) is log2 of the relative size, `curve` (m,) indexes `left_out`.

    The features of a target depend only on its own curve.
    """
    features = np.zeros((x.size, 3))
    count = np.array([errors.x.size for errors in left_out])
    index = np.zeros_like(count)  # index of a curve among the curves with the same number of sizes
    for size in set(count.tolist()):
        same_length = [errors for errors in left_out if errors.x.size == size]
        index[count == size] = np.arange(len(same_length))
        chosen = count[curve] == size
        rows = index[curve[chosen]]
        left_out_x, error = (
            np.array(arrays)[rows]
            for arrays in zip(*((errors.x, np.abs(errors.error)) for errors in same_length), strict=True)
        )
        features[chosen] = _features(error, np.exp(-np.abs(x[chosen, None] - left_out_x) / REACH), size + 2)
    return features


def hindsight_features(left_out: LeftOutErrors) -> Floats:
    """Return the features of each inner size, computed without the error of this size itself, (k - 2, 3)."""
    weight = np.exp(-np.abs(left_out.x[:, None] - left_out.x) / REACH)
    np.fill_diagonal(weight, 0.0)
    return _features(np.abs(left_out.error), weight, left_out.x.size + 1)


def scales(coefficients: InsideScale, features: Floats) -> Floats:
    """Return the scale of the error in ln t from features (m, 3), shape (m,)."""
    ln_scale = (features * np.array(coefficients)).sum(axis=1)
    return np.asarray(np.exp(np.clip(ln_scale, LN_SCALE_MIN, LN_SCALE_MAX)))


def _features(error: Floats, weight: Floats, sizes: int) -> Floats:
    """Return the features for errors weighted by `weight` (m, k - 2) of curves with `sizes` sizes, (m, 3).

    The mean error includes the prior error LEFT_OUT_UNKNOWN with the weight LEFT_OUT_WEIGHT.
    """
    total = (weight * error).sum(axis=1) + LEFT_OUT_WEIGHT * LEFT_OUT_UNKNOWN
    near = np.log(total / (weight.sum(axis=1) + LEFT_OUT_WEIGHT) + ERROR_BASE)
    return np.stack([np.ones_like(near), near, np.full_like(near, np.log(sizes) - 1.6)], axis=-1)
