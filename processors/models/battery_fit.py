"""What the laws of a battery say of one application: their numbers from its sizes, in seconds."""

import numpy as np
from numpy.typing import NDArray

from processors.models.battery import KNOTS_BEYOND, KNOTS_MAX, Parameters
from processors.models.combination.evidence import Evidence
from processors.models.digits import six_digits
from processors.models.members import adept, barnes, family, local
from processors.models.study import Study

Floats = NDArray[np.float64]

NOTHING: Parameters = ()


def combined(found: Evidence) -> tuple[Parameters, ...]:
    """Return the numbers of the combination's laws on all sizes, in their order.

    >>> from processors.models.combination.curve import Curve
    >>> from processors.models.combination.evidence import evidence
    >>> laws = combined(evidence(Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0))))
    >>> laws[0], laws[3]
    ((1028.24, 1.51165, 0.896087), (606.93, 43.831))
    """
    n, t = found.curve.n[-1], found.curve.median_s[-1]
    a, b, c = (float(value) for value in found.laws.universal[-1])
    two_terms = zip(local.KINDS, found.laws.two_terms[:, -1].tolist(), strict=True)
    return (
        rounded(a * n * t, b * t, c * t / n),
        rounded(n * t),
        rounded(float(found.laws.slope[-1])),
        *(rounded(first * n * t, second * t / n**kind.exponent) for kind, (first, second) in two_terms),
    )


def knots(n: tuple[float, ...]) -> tuple[float, ...]:
    """Return the sizes at which the average of Downey's curves is kept: some of those observed, and some beyond.

    >>> knots((1.0, 2.0, 4.0))
    (1.0, 2.0, 4.0, 8.0, 16.0)
    """
    picked = sorted(set(np.linspace(0, len(n) - 1, min(len(n), KNOTS_MAX)).round().astype(int).tolist()))
    return (*(n[i] for i in picked), *(n[-1] * factor for factor in KNOTS_BEYOND))


def beside(
    n: tuple[float, ...],
    run_time_s: tuple[float, ...],
    at: tuple[float, ...],
    study: Study,
    least_s: tuple[float, ...] | None = None,
) -> tuple[Parameters, ...]:
    """Return the numbers of the laws beside the combination, in the order of BESIDE, of k distinct rising sizes.

    `at` are the knots of Downey's curves, `least_s` the least of repeated run times, which Kazmina and Antonov fit; the
    others fit the typical ones. Laws that need more sizes have none.

    >>> from processors.models.adept import study
    >>> n, t = (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0)
    >>> beside(n, t, (4.0, 32.0), study(n, t))[3]
    (867.448, 31.6794)
    """
    sizes, times = np.array(n), np.array(run_time_s)
    downey = rounded(*study.run_times(np.array(at)).tolist())
    if len(n) < 2:
        return (*(NOTHING,) * 6, downey, NOTHING)
    amdahl, amdahl_log, kazmina, sup5 = family.fit_family(sizes, times).tolist()
    if least_s is not None and least_s != run_time_s:
        kazmina = family.fit_family(sizes, np.array(least_s))[2].tolist()
    logarithmic = n[0] >= 1.0
    return (
        rounded(kazmina[0], kazmina[3], kazmina[4]),
        _barnes(sizes, times, degree=1),
        _barnes(sizes, times, degree=2),
        rounded(*amdahl[:2]),
        rounded(*amdahl_log[:3]) if logarithmic else NOTHING,
        rounded(*sup5) if logarithmic else NOTHING,
        downey,
        _adept(sizes, times, study) if logarithmic else NOTHING,
    )


def _barnes(n: Floats, run_time_s: Floats, *, degree: int) -> Parameters:
    if n.size < barnes.ABILITIES[degree - 1].sizes_min:
        return NOTHING
    law = barnes.fit_barnes(n, run_time_s, degree=degree)
    return rounded(*law.gamma)


def _adept(n: Floats, run_time_s: Floats, study: Study) -> Parameters:
    if n.size < adept.ABILITY.sizes_min or study.phases is not None or study.special is not None:
        return NOTHING
    return rounded(*adept.fit_adept(n, run_time_s, study.posterior, study.envelope, study.noise))


def rounded(*values: float) -> Parameters:
    """Return numbers with the six digits that are kept of them.

    >>> rounded(1028.2411)
    (1028.24,)
    """
    return tuple(six_digits(value) for value in values)
