"""Run times between the observed sizes: the law of universal scalability plus the deviation of the observations.

Features of a real curve recur, so the prediction meets each observed size exactly, and its deviation fades towards the
neighbours. Leaving out each inner size once measures the error; the errors near a size say most about that size. If other
curves of the application erred alike near a size, their mean error is subtracted.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import Ints, LawEvidence, LeftOutErrors, Related, ScaledCurve
from processors.models.numerics.arrays import Floats

ERROR_BASE: Final = 0.005
LEFT_OUT_UNKNOWN, LEFT_OUT_WEIGHT = 0.03, 0.3  # error expected before any size was left out, and its weight
REACH: Final = 0.7  # doublings over which the weight of an error falls by a factor e
RELATED_CURVES_REACH: Final = 0.6
RELATED_CURVES_SHRINKAGE: Final = 1.0
RELATED_CURVES_ERROR_MAX: Final = 0.3
LN_SCALE_MIN, LN_SCALE_MAX = -7.0, 1.0
DIGITS: Final = 4  # of the numbers reported to related curves


class InsideScale(NamedTuple):
    """Coefficients of ln of the scale of errors inside the range: constant, ln of the near errors, ln of the number of sizes."""

    constant: float
    left_out: float
    sizes: float


# fitted to the same curves as the gate
INSIDE_SCALE: Final = InsideScale(0.6662, 1.1587, -0.4163)


def deviations(evidence: LawEvidence, x: Floats) -> Floats:
    """Return how far ln t of the observations lies above the law at `x`, log2 of relative sizes (m,); the result has shape (m,).

    Between observed sizes the deviation is linear. Below the smallest size it is that of the smallest size.

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> curve = evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0)))
    >>> deviations(curve, np.array([-1.0])).round(3).tolist()
    [-0.02]
    """
    deviation = evidence.data.y - evidence.ln_fits[-1, 0]
    followed = ~np.isin(evidence.curve.n, evidence.curve.apart)
    return np.asarray(np.interp(x, evidence.data.x[followed], deviation[followed]))


def left_out_errors(evidence: LawEvidence) -> tuple[tuple[float, float, float], ...]:
    """Return the data for related curves: log2 n, error and bow of each inner size that was left out."""
    errors = evidence.left_out
    rows = np.stack([errors.x + np.log2(evidence.curve.n[-1]), errors.error, errors.bow], axis=-1).round(DIGITS)
    return tuple((x, error, bow) for x, error, bow in rows.tolist())


def common_errors(evidence: LawEvidence, related: Related, n: Floats) -> Floats:
    """Return the common error of the related curves near relative sizes (m,), 0 at observed sizes, shape (m,).

    The common error is the mean, shrunk by one curve and by the square of the degree to which the errors cancel.

    >>> from processors.models.combination.evidence import Curve, RelatedCurve, evidence
    >>> curve = evidence(Curve("a", "s", (4.0, 16.0), (262.0, 78.5)))
    >>> alike = Related(tuple(RelatedCurve(key, "s", (), ((3.0, 0.05, 1.0),)) for key in "bcde"))
    >>> common_errors(curve, alike, np.array([0.25, 0.5, 1.0])).round(4).tolist()
    [0.0, 0.0316, 0.0]
    """
    owner, reported = related.inside
    trust = related.trust_in_unit(evidence.curve.key, evidence.curve.system, evidence.curve.unit)[owner]
    x, (reported_x, error, width) = np.log2(n), reported.T
    apart = (reported_x - np.log2(evidence.curve.n[-1]) - x[:, None]) / RELATED_CURVES_REACH
    weight = trust * np.exp(-(apart**2))
    bent = np.minimum(_bows(evidence.data, x)[:, None] / width, 1.0)
    felt = weight * np.clip(error, -RELATED_CURVES_ERROR_MAX, RELATED_CURVES_ERROR_MAX) * bent
    total = RELATED_CURVES_SHRINKAGE + weight.sum(axis=1)
    mean, size = felt.sum(axis=1) / total, np.abs(felt).sum(axis=1) / total
    return np.asarray(mean * (mean / (size + ERROR_BASE)) ** 2)


def features_of(left_out: Sequence[LeftOutErrors], curve: Ints, x: Floats) -> Floats:
    """Return the features of curves at log2 of relative sizes x (m,), shape (m, 3); `curve` (m,) are indices into `own`.

    Each curve gets the same features as alone.
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
    """Return the features that each inner size would have had if it had been left out, (k - 2, 3)."""
    weight = np.exp(-np.abs(left_out.x[:, None] - left_out.x) / REACH)
    np.fill_diagonal(weight, 0.0)
    return _features(np.abs(left_out.error), weight, left_out.x.size + 1)


def scales(coefficients: InsideScale, features: Floats) -> Floats:
    """Return the scale of the error in ln t from features (m, 3), shape (m,)."""
    ln_scale = (features * np.array(coefficients)).sum(axis=1)
    return np.asarray(np.exp(np.clip(ln_scale, LN_SCALE_MIN, LN_SCALE_MAX)))


def _features(error: Floats, weight: Floats, sizes: int) -> Floats:
    """Return the features from the mean error by weights (m, k - 2), with the error expected before any observation."""
    total = (weight * error).sum(axis=1) + LEFT_OUT_WEIGHT * LEFT_OUT_UNKNOWN
    near = np.log(total / (weight.sum(axis=1) + LEFT_OUT_WEIGHT) + ERROR_BASE)
    return np.stack([np.ones_like(near), near, np.full_like(near, np.log(sizes) - 1.6)], axis=-1)


def _bows(data: ScaledCurve, x: Floats) -> Floats:
    after = np.clip(np.searchsorted(data.x, x), 1, data.x.size - 1)
    return np.maximum((x - data.x[after - 1]) * (data.x[after] - x), 0.0)
