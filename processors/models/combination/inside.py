"""Between the observed sizes: the law of universal scalability, plus what the observations deviate from it.

Real curves have features of their own that come again, so each observed size is met exactly and its deviation fades
towards its neighbours. How far off that is shows when each inner size is left out once; the errors near a size tell most
about it. Where other curves of the application erred alike near a size, their mean error is taken off.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import Ints, LawEvidence, LeftOutErrors, Related, ScaledCurve
from processors.models.numerics.arrays import Floats

ERROR_BASE: Final = 0.005
LEFT_OUT_UNKNOWN, LEFT_OUT_WEIGHT = 0.03, 0.3  # what is expected before any size was left out, and what that weighs
REACH: Final = 0.7  # doublings, over which the weight of an error falls by a factor e
RELATED_CURVES_REACH: Final = 0.6
RELATED_CURVES_SHRINKAGE: Final = 1.0
RELATED_CURVES_ERROR_MAX: Final = 0.3
LN_SCALE_MIN, LN_SCALE_MAX = -7.0, 1.0
DIGITS: Final = 4  # of what is reported to related curves


class InsideScale(NamedTuple):
    """Coefficients of ln of the scale of errors inside: constant, of ln of the near errors, of ln of the sizes.

    >>> len(INSIDE_SCALE)
    3
    """

    constant: float
    left_out: float
    sizes: float


# fitted to the same curves as the gate
INSIDE_SCALE: Final = InsideScale(0.6662, 1.1587, -0.4163)


def ln_run_times(found: LawEvidence, n: Floats) -> Floats:
    """Return ln of the relative run time at relative sizes (m,) up to the largest, shape (m,).

    Below the smallest size its deviation goes along.

    >>> from processors.models.combination.evidence import Curve
    >>> from processors.models.combination.evidence import evidence
    >>> found = evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0)))
    >>> (63 * np.exp(ln_run_times(found, np.array([12.0, 16.0]) / 32))).round(3).tolist()
    [97.314, 78.5]
    """
    law = found.members.ln_run_times(n)[-1, 0]
    return np.asarray(law + deviations(found, np.log2(n)))


def deviations(found: LawEvidence, x: Floats) -> Floats:
    """Return what the observations deviate from the law at log2 of relative sizes (m,), by straight lines, shape (m,).

    >>> from processors.models.combination.evidence import Curve, evidence
    >>> found = evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0)))
    >>> deviations(found, np.array([-1.0])).round(3).tolist()
    [-0.02]
    """
    return np.asarray(np.interp(x, found.data.x, found.data.y - found.ln_fits[-1, 0]))


def left_out_errors(found: LawEvidence) -> tuple[tuple[float, float, float], ...]:
    """Return what a curve reports to its related curves: log2 n, error and bow of each inner size left out.

    >>> from processors.models.combination.evidence import Curve
    >>> from processors.models.combination.evidence import evidence
    >>> left_out_errors(evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0))))[0][::2]
    (3.0, 1.0)
    """
    own = found.left_out
    rows = np.stack([own.x + np.log2(found.curve.n[-1]), own.error, own.bow], axis=-1).round(DIGITS)
    return tuple((x, error, bow) for x, error, bow in rows.tolist())


def common_errors(found: LawEvidence, related: Related, n: Floats) -> Floats:
    """Return the error that the related curves had in common near relative sizes (m,), 0 at observed sizes, shape (m,).

    Their mean, shrunk by one related curve, and by the square of how far their errors cancel each other.

    >>> from processors.models.combination.evidence import Curve, RelatedCurve, evidence
    >>> found = evidence(Curve("a", "s", (4.0, 16.0), (262.0, 78.5)))
    >>> alike = Related(tuple(RelatedCurve(key, "s", (), ((3.0, 0.05, 1.0),)) for key in "bcde"))
    >>> common_errors(found, alike, np.array([0.25, 0.5, 1.0])).round(4).tolist()
    [0.0, 0.0316, 0.0]
    """
    owner, reported = related.inside
    trust = related.trust_in_unit(found.curve.key, found.curve.system, found.curve.unit)[owner]
    x, (there, error, width) = np.log2(n), reported.T
    far = (there - np.log2(found.curve.n[-1]) - x[:, None]) / RELATED_CURVES_REACH
    weight = trust * np.exp(-(far**2))
    bent = np.minimum(_bows(found.data, x)[:, None] / width, 1.0)
    felt = weight * np.clip(error, -RELATED_CURVES_ERROR_MAX, RELATED_CURVES_ERROR_MAX) * bent
    total = RELATED_CURVES_SHRINKAGE + weight.sum(axis=1)
    mean, size = felt.sum(axis=1) / total, np.abs(felt).sum(axis=1) / total
    return np.asarray(mean * (mean / (size + ERROR_BASE)) ** 2)


def features(own: LeftOutErrors, sizes: int, x: Floats) -> Floats:
    """Return what the coefficients multiply at log2 of relative sizes (m,), shape (m, 3).

    >>> features(LeftOutErrors(*np.zeros((3, 0))), 2, np.array([-0.5])).round(2).tolist()
    [[1.0, -3.35, -0.91]]
    """
    return _features(np.abs(own.error), np.exp(-np.abs(x[:, None] - own.x) / REACH), sizes)


def features_of(own: Sequence[LeftOutErrors], curve: Ints, x: Floats) -> Floats:
    """Return the features of the curves `curve` (m,), each as if it were alone, shape (m, 3).

    >>> features_of([LeftOutErrors(*np.zeros((3, 0)))], np.array([0]), np.array([-0.5])).round(2).tolist()
    [[1.0, -3.35, -0.91]]
    """
    found = np.zeros((x.size, 3))
    count = np.array([each.x.size for each in own])
    place = np.zeros_like(count)  # of a curve among those with as many sizes
    for size in set(count.tolist()):
        alike = [each for each in own if each.x.size == size]
        place[count == size] = np.arange(len(alike))
        chosen = count[curve] == size
        of = place[curve[chosen]]
        there, error = (
            np.array(rows)[of] for rows in zip(*((each.x, np.abs(each.error)) for each in alike), strict=True)
        )
        found[chosen] = _features(error, np.exp(-np.abs(x[chosen, None] - there) / REACH), size + 2)
    return found


def hindsight_features(own: LeftOutErrors) -> Floats:
    """Return the features that each inner size would have had, had it been left out, (k - 2, 3).

    >>> hindsight_features(LeftOutErrors(np.array([-2.0, -1.0]), np.array([0.03, 0.03]), np.ones(2))).round(2).tolist()
    [[1.0, -3.35, -0.5], [1.0, -3.35, -0.5]]
    """
    weight = np.exp(-np.abs(own.x[:, None] - own.x) / REACH)
    np.fill_diagonal(weight, 0.0)
    return _features(np.abs(own.error), weight, own.x.size + 1)


def scales(coefficients: InsideScale, given: Floats) -> Floats:
    """Return the scale of the error in ln t from features (m, 3), shape (m,).

    >>> scales(InsideScale(0.0, 1.0, 0.0), np.array([[1.0, 0.0, 0.0]])).tolist()
    [1.0]
    """
    ln_scale = (given * np.array(coefficients)).sum(axis=1)
    return np.asarray(np.exp(np.clip(ln_scale, LN_SCALE_MIN, LN_SCALE_MAX)))


def _features(error: Floats, weight: Floats, sizes: int) -> Floats:
    """Return the features from the mean error by weights (m, k - 2), with what is expected before any error."""
    total = (weight * error).sum(axis=1) + LEFT_OUT_WEIGHT * LEFT_OUT_UNKNOWN
    near = np.log(total / (weight.sum(axis=1) + LEFT_OUT_WEIGHT) + ERROR_BASE)
    return np.stack([np.ones_like(near), near, np.full_like(near, np.log(sizes) - 1.6)], axis=-1)


def _bows(data: ScaledCurve, x: Floats) -> Floats:
    after = np.clip(np.searchsorted(data.x, x), 1, data.x.size - 1)
    return np.maximum((x - data.x[after - 1]) * (data.x[after] - x), 0.0)
