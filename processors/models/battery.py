"""All laws of run time: the laws that the combination uses, and the classic laws that are reported beside the combination.

A fitted law has a few parameters and predicts the run time at any size in its domain without the data to which it was fitted.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models import laws
from processors.models.adept.study import Study
from processors.models.combination.evidence import ENSEMBLE, LN2, LawEvidence, anchored
from processors.models.downey import two_step
from processors.models.downey.curve import curvature_of_sigma
from processors.models.numerics.arrays import Floats
from processors.models.numerics.statistics import rounded, rounded_rows, six_digits

Parameters = tuple[float, ...]

REFERENCE: Final = ("kazmina", "barnes_linear", "barnes_quadratic", "amdahl", "amdahl_log", "sup5", "downey", "adept")
MEMBERS: Final = (*ENSEMBLE, *REFERENCE)
SIZES_MIN: Final = {
    "usl": 2, "ideal": 1, "last_two": 2, "amdahl_short": 2, "root_short": 2, "linear_short": 2, "amdahl_middle": 2, "flat": 1, "rising": 2,
    "kazmina": 2, "barnes_linear": 3, "barnes_quadratic": 4, "amdahl": 2, "amdahl_log": 2, "sup5": 2, "downey": 1, "adept": 3,
}  # distinct sizes that a law needs  # fmt: skip
NOT_BELOW_ONE: Final = frozenset({"amdahl_log", "sup5", "adept"})  # laws without a prediction below one processor
LARGER_ONLY: Final = frozenset({"adept"})  # laws that predict only beyond the observed sizes
KNOTS_MAX: Final = 12  # observed sizes at which the average of Downey curves is stored
KNOTS_BEYOND: Final = (2.0, 4.0)  # further sizes, as multiples of the largest observed size
# the terms of each law, as indices into 1/n, 1, log2 n, 1/sqrt n, n, sqrt n
_TERMS: Final[dict[str, tuple[int, ...]]] = {
    "usl": (0, 1, 4), "ideal": (0,), "amdahl_short": (0, 1), "root_short": (0, 5), "linear_short": (0, 4),
    "amdahl_middle": (0, 1), "kazmina": (0, 3, 4), "amdahl": (0, 1), "amdahl_log": (0, 1, 2), "sup5": (0, 1, 2, 3, 4), "flat": (1,),
}  # fmt: skip


Basis = tuple[float, float, float, float, float, float]


def _basis(n: float) -> Basis:
    """Return 1/n, 1, log2 n, 1/sqrt n, n and sqrt n, the terms that the indices in _TERMS refer to."""
    return 1.0 / n, 1.0, math.log2(n), n**-0.5, n, n**0.5


class Battery(NamedTuple):
    """The fitted laws of a curve; `parameters` has one entry per law, in the order of MEMBERS, empty for a law that predicts nothing.

    `n_min` and `n_max` are the smallest and largest observed size, `last_s` is the run time at `n_max` in seconds. The parameters
    of `downey` are run times in seconds at the sizes `knots`.

    >>> laws = Battery(1.0, 4.0, 30.0, ((100.0, 5.0, 0.0), (120.0,), *((),) * 15), ())
    >>> [round(math.exp(ln), 1) for ln in laws.ln_run_times(2.0) if ln is not None]
    [55.0, 60.0]
    """

    n_min: float
    n_max: float
    last_s: float
    parameters: Sequence[Parameters]
    knots: Sequence[float]

    def ln_run_times(self, n: float) -> list[float | None]:
        """Return ln of the run time in seconds at size `n` for each law; None for a law without a prediction."""
        basis = _basis(n)
        forecasts = [
            self._alone(name, parameters, n, basis) for name, parameters in zip(MEMBERS, self.parameters, strict=True)
        ]
        return self._anchored(forecasts, n) if n > self.n_max else forecasts

    def _alone(self, name: str, parameters: Parameters, n: float, basis: Basis) -> float | None:
        if not parameters or (n < 1.0 and name in NOT_BELOW_ONE) or (n <= self.n_max and name in LARGER_ONLY):
            return None
        terms = _TERMS.get(name)
        if terms is not None:
            return _ln(sum([factor * basis[term] for factor, term in zip(parameters, terms, strict=True)]))
        return _RULES[name](self, parameters, n)

    def _anchored(self, forecasts: list[float | None], n: float) -> list[float | None]:
        """Return the forecasts at size `n` beyond the observed sizes; each law of ENSEMBLE continues from the run time at the largest size."""
        places = [i for i in range(len(ENSEMBLE)) if forecasts[i] is not None]
        basis = _basis(self.n_max)
        at_last = [self._alone(MEMBERS[i], self.parameters[i], self.n_max, basis) for i in places]
        observed, ahead = math.log(self.last_s), math.log(n / self.n_max)
        there = np.array([forecasts[i] for i in places], dtype=np.float64)
        elasticity = anchored(there, np.array(at_last, dtype=np.float64), observed, np.array(ahead))
        for i, value in zip(places, elasticity.tolist(), strict=True):
            forecasts[i] = observed + value * ahead
        return forecasts


def _last_two(members: Battery, parameters: Parameters, n: float) -> float:
    return math.log(members.last_s) + parameters[0] * math.log(n / members.n_max)


def _barnes(members: Battery, parameters: Parameters, n: float) -> float:
    return LN2 * laws.log2_run_time(parameters, math.log2(n), math.log2(members.n_min), math.log2(members.n_max))


def _downey(members: Battery, parameters: Parameters, n: float) -> float:
    """Return ln of the run time in s at size `n`: linear in ln n between the stored knots, and extrapolated beyond them."""
    if len(parameters) == 1:
        return math.log(parameters[0])
    right = min(max(bisect_left(members.knots, n), 1), len(parameters) - 1)
    left = right - 1
    share = math.log(n / members.knots[left]) / math.log(members.knots[right] / members.knots[left])
    return (1.0 - share) * math.log(parameters[left]) + share * math.log(parameters[right])


def _adept(_members: Battery, parameters: Parameters, n: float) -> float:
    parallelism, sigma, t1_s = parameters
    curvature = float(curvature_of_sigma(sigma))
    low, u = min(curvature, 0.5), 1.0 / n
    linear, between = u + curvature * (1.0 - u) / parallelism, 2.0 * low * u + (1.0 - low * (1.0 + u)) / parallelism
    return math.log(t1_s * max(linear, between, 1.0 / parallelism))


_RULES: Final[dict[str, Callable[[Battery, Parameters, float], float]]] = {
    "last_two": _last_two,
    "rising": _last_two,
    "barnes_linear": _barnes,
    "barnes_quadratic": _barnes,
    "downey": _downey,
    "adept": _adept,
}


def _ln(run_time_s: float) -> float | None:
    return math.log(run_time_s) if 0.0 < run_time_s < math.inf else None


def explained(name: str, parameters: Parameters) -> dict[str, float]:
    """Return the parameters of the law `name` with their common names, times in seconds; {} for a law without parameters or names.

    For `kazmina` and `usl`, `best_n` is the size with the shortest run time, left out if the run time has no minimum.

    >>> explained("usl", (95.0, 4.0, 1.0)), explained("barnes_linear", (10.0, -0.9))
    ({'t1_s': 100.0, 'sigma': 0.05, 'kappa': 0.01, 'best_n': 9.74679}, {'log2_t1_s': 10.0, 'slope': -0.9})
    """
    if not parameters or name not in _NAMES:
        return {}
    if name == "usl":
        t1_s, contention_s, coherence_s = sum(parameters), parameters[1] + parameters[2], parameters[2]
        parameters = (t1_s, contention_s / t1_s, coherence_s / t1_s) if t1_s > 0 else (0.0, 0.0, 0.0)
    best_n = _best_size(name, parameters)
    # usl is the only law whose parameters are not rounded yet
    by_name = dict(zip(_NAMES[name], rounded(*parameters) if name == "usl" else parameters, strict=True))
    return by_name if best_n is None else by_name | {"best_n": six_digits(best_n)}


def _best_size(name: str, parameters: Parameters) -> float | None:
    if name == "kazmina":
        return laws.fastest_size(*parameters)
    if name == "usl" and parameters[2] > 0.0 and parameters[1] < 1.0:
        return math.sqrt((1.0 - parameters[1]) / parameters[2])
    return None


_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "usl": ("t1_s", "sigma", "kappa"), "ideal": ("parallel_s",), "last_two": ("slope",), "flat": ("last_s",), "rising": ("slope",), "amdahl_short": ("parallel_s", "serial_s"),
    "root_short": ("parallel_s", "root_growth_s"), "linear_short": ("parallel_s", "growth_s"),
    "amdahl_middle": ("parallel_s", "serial_s"), "kazmina": ("parallel_s", "root_s", "growth_s"),
    "barnes_linear": ("log2_t1_s", "slope"), "barnes_quadratic": ("log2_t1_s", "slope", "bend"),
    "amdahl": ("parallel_s", "serial_s"), "amdahl_log": ("parallel_s", "serial_s", "logarithmic_s"),
    "sup5": ("parallel_s", "serial_s", "logarithmic_s", "root_s", "growth_s"), "adept": ("A", "sigma", "t1_s"),
}  # fmt: skip

NOTHING: Parameters = ()


def combined(evidence: LawEvidence) -> tuple[Parameters, ...]:
    """Return the parameters of the laws in ENSEMBLE, fitted to all sizes, in this order."""
    n, t = evidence.curve.n[-1], evidence.curve.median_s[-1]
    a, b, c = (float(value) for value in evidence.members.universal[-1])
    two_terms = zip(laws.KINDS, evidence.members.two_terms[:, -1].tolist(), strict=True)
    members = [
        (a * n * t, b * t, c * t / n),
        (n * t,),
        (float(evidence.members.slope[-1]),),
        *((first * n * t, second * t / n**kind.exponent) for kind, (first, second) in two_terms),
        (t,),
        (max(float(evidence.members.slope[-1]), 0.0),),
    ]
    return rounded_rows(members)


def knots(n: tuple[float, ...]) -> tuple[float, ...]:
    """Return the sizes at which the run time of Downey's law is stored: at most KNOTS_MAX observed sizes, and two larger sizes.

    >>> knots((1.0, 2.0, 4.0))
    (1.0, 2.0, 4.0, 8.0, 16.0)
    """
    picked = sorted(set(np.linspace(0, len(n) - 1, min(len(n), KNOTS_MAX)).round().astype(int).tolist()))
    return (*(n[i] for i in picked), *(n[-1] * factor for factor in KNOTS_BEYOND))


def reference(
    n: tuple[float, ...],
    run_time_s: tuple[float, ...],
    at: tuple[float, ...],
    study: Study,
    least_s: tuple[float, ...] | None = None,
) -> tuple[Parameters, ...]:
    """Fit the laws of REFERENCE to distinct ascending sizes `n` (k,), and return their parameters in this order.

    `at` are the sizes at which the run time of Downey's law is stored. The law `kazmina` is fitted to `least_s`, the smallest run
    time of each size, the other laws to `run_time_s`. A law gets empty parameters if k is below its SIZES_MIN, if it is undefined
    at these sizes, or, for `adept`, if the curve has phases or special sizes.
    """
    sizes, times = np.array(n), np.array(run_time_s)
    downey = study.run_times(np.array(at)).tolist()
    if len(n) < 2:
        return (*(NOTHING,) * 6, rounded(*downey), NOTHING)
    amdahl, amdahl_log, kazmina, sup5 = laws.fit_family(sizes, times).tolist()
    if least_s is not None and least_s != run_time_s:
        kazmina = laws.fit_family(sizes, np.array(least_s))[2].tolist()
    logarithmic = n[0] >= 1.0
    members = [
        (kazmina[0], kazmina[3], kazmina[4]),
        _fit_barnes(sizes, times, degree=1),
        _fit_barnes(sizes, times, degree=2),
        amdahl[:2],
        amdahl_log[:3] if logarithmic else NOTHING,
        sup5 if logarithmic else NOTHING,
        downey,
        _fit_adept(sizes, times, study) if logarithmic else NOTHING,
    ]
    return rounded_rows(members)


def _fit_barnes(n: Floats, run_time_s: Floats, *, degree: int) -> Parameters:
    if n.size < SIZES_MIN[("barnes_linear", "barnes_quadratic")[degree - 1]]:
        return NOTHING
    return laws.fit_barnes(n, run_time_s, degree=degree)


def _fit_adept(n: Floats, run_time_s: Floats, study: Study) -> Parameters:
    if n.size < SIZES_MIN["adept"] or study.patterns.phases is not None or study.patterns.special is not None:
        return NOTHING
    return two_step.fit_adept(n, run_time_s, study.posterior, study.envelope, study.noise)
