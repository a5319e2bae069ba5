"""ADEPT's verdict on a prediction: it is not trusted if the observations leave the curve undecided.

The fits in this module have no prior, because a prior would hide that the observations leave the curve open. The second part holds
the sentences for people: one for each reason of a verdict and for each unusual feature of a curve.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from processors.models.downey.curve import ParallelismProfile
from processors.models.downey.fit import profiles
from processors.models.numerics.arrays import Floats, read_only

REACH = 2.0  # times the largest size: ADEPT predicts well up to twice the number of nodes


def number(value: float) -> str:
    return f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class FitEvidence:
    """How well Downey curves fit the observations of one curve: the facts on which a verdict rests.

    `rms` and `rms_ideal` are the relative errors of the best curve and of perfect speed-up. `acceptable` holds every curve, at
    most one per A, whose sum of squared errors exceeds that of the best curve by at most k `misfit`^2. Between the two sizes of
    `superlinear` the work n t falls. `worst_n` is the size with the largest error.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0])
    >>> (evidence,) = gather_many([ObservedCurve(n, 100.0 / n)])
    >>> evidence.count, evidence.superlinear
    (4, None)
    """

    count: int
    largest_n: float
    rms: float
    rms_ideal: float
    acceptable: ParallelismProfile
    superlinear: tuple[float, float] | None
    worst_n: float
    misfit: float


def _run_next(next_n: float | None, purpose: str) -> str:
    return f"; run it at {number(next_n)} {purpose}." if next_n is not None else "."


def _insufficient_advice(evidence: FitEvidence, next_n: float | None) -> str:
    sizes = "one size has" if evidence.count == 1 else f"{evidence.count} sizes have"
    return f"Only {sizes} been run, but three are needed" + _run_next(next_n, "next")


def _high_error_advice(evidence: FitEvidence, _next_n: float | None) -> str:
    error = f"typical error {evidence.rms * 100:.0f} %, worst at {number(evidence.worst_n)}"
    return (
        f"No scaling curve fits these run times ({error}); "
        "check whether different inputs, builds or machines are mixed under this name."
    )


def _linear_advice(evidence: FitEvidence, next_n: float | None) -> str:
    return f"It still scales at {number(evidence.largest_n)}" + _run_next(next_n, "to find where it stops")


def _runner_up_advice(evidence: FitEvidence, next_n: float | None) -> str:
    apart = f"{np.expm1(disagreement(evidence)) * 100:.0f} % at {number(REACH * evidence.largest_n)}"
    return f"Different curves fit equally well but differ by {apart}" + _run_next(next_n, "to decide between them")


def _superlinear_advice(evidence: FitEvidence, _next_n: float | None) -> str:
    first, second = map(number, evidence.superlinear or (0.0, 0.0))
    return (
        f"From {first} to {second} the speed-up exceeds the growth in size; memory or caches can explain this, a scaling "
        "curve cannot."
    )


# The sentence that tells a user what a reason means and what to do, from the evidence and the size to run next. The reasons are
# sorted by severity: superlinear data often look linear too, but no curve can follow them, which is graver.
ADVICE: dict[str, Callable[[FitEvidence, float | None], str]] = {
    "insufficient": _insufficient_advice,
    "high_error": _high_error_advice,
    "superlinear": _superlinear_advice,
    "linear": _linear_advice,
    "runner_up": _runner_up_advice,
}


def anomaly_message(n: float, deviation: float) -> str:
    """Return advice on a deviating size; `deviation` is relative to the curve of the other sizes.

    >>> anomaly_message(8.0, 0.5)
    'At 8 it takes 50 % longer than the other sizes suggest; check placement and contention of those runs.'
    """
    change = f"{abs(deviation) * 100:.0f} % {'longer' if deviation > 0 else 'less'}"
    return (
        f"At {number(n)} it takes {change} than the other sizes suggest; check placement and contention of those runs."
    )


def slowdown_message(largest_n: float, fastest_n: float) -> str:
    """Return advice on a curve that rises at its largest sizes; this does not put the prediction in doubt.

    >>> slowdown_message(32.0, 16.0)
    'It is slower at 32 than at 16; do not allocate more than 16.'
    """
    largest, fastest = number(largest_n), number(fastest_n)
    return f"It is slower at {largest} than at {fastest}; do not allocate more than {fastest}."


def special_message(name: str, slowdown: float) -> str:
    """Return advice on a class of sizes that the application favours.

    >>> special_message("pow2", 0.3)
    'It favours powers of two: other sizes take about 30 % longer; allocate powers of two.'
    """
    plural = {"pow2": "powers of two", "square": "square numbers"}.get(name, name.replace("multiple", "multiples"))
    return f"It favours {plural}: other sizes take about {slowdown * 100:.0f} % longer; allocate {plural}."


def jump_message(before_n: float, after_n: float, jump: float) -> str:
    """Return advice on a step in the curve; `jump` is relative to the law of the smaller sizes.

    >>> jump_message(8.0, 10.0, 0.4)
    'Between 8 and 10 the run time jumps by +40 %; each side has its own curve.'
    """
    return f"Between {number(before_n)} and {number(after_n)} the run time jumps by {jump * 100:+.0f} %; each side has its own curve."


SIZES_MIN = 3  # ADEPT
MISFIT = 0.02  # relative error of a correct model
HIGH_ERROR = 0.10
PARALLELISM_RATIO = 1.5  # between the largest and the smallest acceptable A
DISAGREEMENT = 0.10  # in ln T: curves further apart count as different
FLATNESS = 1.25  # perfect speed-up may fit this much worse than the best curve and still explain the data
NOISE_FLOOR = 0.03  # standard deviation of ln t that these constants allow for
STEP_FLOOR = 0.05  # share by which work n t may fall, or run time rise, without counting
GRID = 129
AT_ONCE = 8  # curves whose grids are searched together: the arrays of more curves exceed the caches


def candidate_sizes(n: Floats, allowed_sizes: tuple[float, ...] | None = None) -> Floats:
    """Return the candidate sizes for the next run, sorted: sizes without runs, at most twice the largest observed size.

    `n` (sorted) has shape (k,). Without `allowed_sizes` the candidates are powers of two.

    >>> candidate_sizes(np.array([4.0, 8.0, 16.0])).tolist()
    [1.0, 2.0, 32.0]
    >>> candidate_sizes(np.array([4.0, 8.0, 16.0]), (8.0, 24.0, 64.0)).tolist()
    [24.0]
    """
    reach, run = REACH * float(n[-1]), set(n.tolist())
    if allowed_sizes:
        allowed = sorted(set(map(float, allowed_sizes)))
    else:
        allowed = [2.0**power for power in range(max(math.floor(math.log2(reach)), 0) + 1)]
    return np.array([size for size in allowed if 0.0 < size <= reach and size not in run], dtype=np.float64)


def next_size(n: Floats, allowed_sizes: tuple[float, ...], sd_ln: Callable[[Floats], Floats]) -> float | None:
    """Return the candidate size with the least certain run time, or the smallest of equally uncertain sizes; None without a candidate.

    `sd_ln` returns the standard deviation of ln T at each candidate, (m,). Candidates below the smallest observed size are used
    only if there are no others, because users seldom request smaller sizes.

    >>> next_size(np.array([4.0, 8.0]), (2.0, 12.0, 16.0), lambda sizes: np.log(sizes))
    16.0
    """
    candidates = candidate_sizes(n, allowed_sizes)
    larger = candidates > n[0]
    chosen = np.flatnonzero(larger if larger.any() else ~larger)
    if chosen.size <= 1:
        return float(candidates[chosen[0]]) if chosen.size else None
    return float(candidates[chosen[sd_ln(candidates)[chosen].argmax()]])


class ObservedCurve(NamedTuple):
    """The observations of one curve: distinct ascending sizes (k,), at least 1, run times (k,), and the standard deviation of ln t.

    A standard deviation below NOISE_FLOOR has no effect.
    """

    n: Floats
    run_time_s: Floats
    noise: float = 0.0


def gather_many(curves: Sequence[ObservedCurve]) -> list[FitEvidence]:
    """Return the evidence of each curve.

    Curves with the same number of sizes are computed together, which is faster. The caller must leave out anomalous sizes and sizes that belong to another curve of the same application.
    Source of the reasons: ADEPT (Deshmeh, Machina, Sodan 2010); the constants are this project's.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0])
    >>> (evidence,) = gather_many([ObservedCurve(n, 100.0 / n + 1.0)])
    >>> round(evidence.rms, 6), evidence.acceptable.parallelism.round().max().item()
    (0.0, 128.0)
    """
    by_sizes: dict[int, list[int]] = {}
    for place, curve in enumerate(curves):
        by_sizes.setdefault(curve.n.size, []).append(place)
    evidence: dict[int, FitEvidence] = {}
    for same_length in by_sizes.values():
        for start in range(0, len(same_length), AT_ONCE):
            places = same_length[start : start + AT_ONCE]
            evidence.update(zip(places, _gathered([curves[place] for place in places]), strict=True))
    return [evidence[place] for place in range(len(curves))]


def _gathered(curves: Sequence[ObservedCurve]) -> Iterator[FitEvidence]:
    """Yield the evidence of curves that have the same number of sizes."""
    n, run_time_s = (np.array(rows) for rows in list(zip(*curves, strict=True))[:2])
    fits, places = _curves(n, run_time_s)
    work = np.log(n) + np.log(run_time_s)
    fall = np.maximum.accumulate(work, axis=1) - work
    acceptable_curves, best = [], []
    for i, curve in enumerate(curves):
        profile = ParallelismProfile(*(column[places[i] : places[i + 1]] for column in fits))
        misfit, least = MISFIT * _excess(curve.noise), int(profile.objective.argmin())
        acceptable = profile.objective <= profile.objective[least] + curve.n.size * misfit**2
        acceptable_curves.append(ParallelismProfile(*(column[acceptable] for column in profile)))
        best.append(places[i] + least)
    rates = 1.0 / (n * run_time_s)
    ideal = rates * (rates.sum(axis=1) / (rates**2).sum(axis=1))[:, None] - 1.0
    rms_ideal = np.sqrt((ideal**2).mean(axis=1)).tolist()
    errors = np.abs(ParallelismProfile(*(column[best] for column in fits)).predict(n) / run_time_s - 1.0)
    worst_n = n[np.arange(len(curves)), errors.argmax(axis=1)].tolist()
    for i, (curve, squares) in enumerate(zip(curves, fits.objective[best].tolist(), strict=True)):
        yield FitEvidence(
            curve.n.size,
            float(curve.n[-1]),
            math.sqrt(max(squares, 0.0) / curve.n.size),
            rms_ideal[i],
            acceptable_curves[i],
            _superlinear(curve.n, work[i], fall[i], STEP_FLOOR * _excess(curve.noise)),
            worst_n[i],
            MISFIT * _excess(curve.noise),
        )


def _excess(noise: float) -> float:
    return max(1.0, noise / NOISE_FLOOR)


def _curves(n: Floats, run_time_s: Floats) -> tuple[ParallelismProfile, list[int]]:
    """Return the best fit of each of c curves for each A of a grid, and the offsets (c + 1) of the fits of each curve.

    `n` and `run_time_s` have shape (c, k); fits are sorted by curve, then by A. The grid includes every A at which a size starts
    to saturate.
    """
    largest = 16.0 * n[:, -1:]
    serial = (n * run_time_s).min(axis=1, keepdims=True)
    kinks = np.concatenate([n, (n + 1.0) / 2.0, serial / run_time_s], axis=1)
    grids = np.array([_grid(largest_n) for (largest_n,) in largest.tolist()])
    grid = np.concatenate([grids, np.minimum(np.maximum(kinks, 1.0), largest)], axis=1)
    grid.sort(axis=1)
    curve, place = np.nonzero(np.diff(grid, prepend=0.0) > 0.0)
    return profiles(n, run_time_s, grid[curve, place], curve), np.searchsorted(curve, np.arange(len(n) + 1)).tolist()


@lru_cache(maxsize=64)
def _grid(largest: float) -> Floats:
    return read_only(np.geomspace(1.0, largest, GRID))


def _superlinear(n: Floats, work: Floats, fall: Floats, step: float) -> tuple[float, float] | None:
    """Return the two sizes between which the work n t falls most; None if it falls by less than the share `step`.

    All arrays have shape (k,): `work` is ln(n t), and `fall` is its distance below the largest earlier value.
    """
    to = int(fall.argmax())
    if fall[to] <= -math.log1p(-min(step, 0.9)):
        return None
    return float(n[int(work[: to + 1].argmax())]), float(n[to])


def judge(evidence: FitEvidence) -> tuple[str, ...]:
    """Return the reasons against a prediction at twice the largest size, the gravest first, as names in ADVICE.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0])
    >>> [judge(evidence) for evidence in gather_many([ObservedCurve(n, 100.0 / n + serial_s) for serial_s in (0.1, 40.0)])]
    [('linear',), ()]
    """
    if evidence.count < SIZES_MIN:
        return ("insufficient",)
    parallelism = evidence.acceptable.parallelism
    reasons = ["high_error"] if evidence.rms > HIGH_ERROR else []
    if evidence.superlinear is not None:
        reasons.append("superlinear")
    if is_linear(evidence):
        reasons.append("linear")
    elif parallelism[-1] / parallelism[0] >= PARALLELISM_RATIO and disagreement(evidence) > DISAGREEMENT:
        reasons.append("runner_up")
    return tuple(reasons)


def is_linear(evidence: FitEvidence) -> bool:
    """Return whether perfect speed-up fits the run times about as well as the best curve.

    The serial share then cannot be distinguished from 0, and the application may saturate at the next size or never. The test
    "a further doubling gains 10 % by Amdahl's law" is not used: it called 100 s / n + 40 s linear at n = 8, although the
    speed-up there is only 2.7.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0])
    >>> [is_linear(evidence) for evidence in gather_many([ObservedCurve(n, 100.0 / n + serial_s) for serial_s in (0.5, 1.0)])]
    [True, False]
    """
    return evidence.rms_ideal <= max(FLATNESS * evidence.rms, evidence.misfit)


def disagreement(evidence: FitEvidence) -> float:
    """Return ln of the ratio between the slowest and the fastest acceptable curve at twice the largest size."""
    predicted_s = evidence.acceptable.predict(np.array([REACH * evidence.largest_n]))
    return float(np.log(predicted_s.max() / predicted_s.min()))


class Verdict(NamedTuple):
    """The verdict on a prediction: `verdict` is the gravest of `reasons`, or "reliable" without any reason.

    `advice` holds sentences for people. `next_n` is the size whose run would inform most; None if there is no candidate size.
    """

    verdict: str
    reasons: tuple[str, ...]
    advice: tuple[str, ...]
    next_n: float | None


def judged(evidence: FitEvidence, next_n: float | None, pattern_advice: tuple[str, ...]) -> Verdict:
    """Return the verdict on a prediction at twice the largest size, with the advice on its reasons and `pattern_advice`."""
    reasons = judge(evidence)
    advice = tuple(ADVICE[reason](evidence, next_n) for reason in reasons) + pattern_advice
    return Verdict(reasons[0] if reasons else "reliable", reasons, advice, next_n)
