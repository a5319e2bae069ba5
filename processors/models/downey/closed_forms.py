"""Closed forms of Downey's parameters from one or two observed speed-ups.

Each piece of S(n) (L1, L2, L3 for sigma <= 1; H1, H2 for sigma >= 1) can be solved for its parameters. What is on which
piece is not known beforehand, so every hypothesis is tried and kept only if its solution lies where it assumes.
Source: inversion of the formulas of Downey, UC Berkeley CSD-97-933 (1997).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from processors.models.downey.curve import Floats, saturation_n

HYPOTHESES = ("linear", "L1L2", "L1L2", "L1L3", "L2L2", "L2L2", "L2L3", "H1H2", "saturated")
_SLACK = 1e-9


class PairSolutions(NamedTuple):
    """Parameters by hypothesis, each field of shape (9, ...), in the order of HYPOTHESES; NaN where rejected.

    "L1L2" and "L2L2" have two roots. "linear" (both sizes on L1 or H1) knows only the serial share w/A: every A from
    `parallelism` to `parallelism_max` fits, with no sigma of its own. "saturated" leaves sigma open too.
    """

    parallelism: Floats
    parallelism_max: Floats
    sigma: Floats


class _Pair(NamedTuple):
    n_low: Floats
    s_low: Floats
    n_high: Floats
    s_high: Floats
    share: Floats  # Karp-Flatt fraction of the smaller size


def karp_flatt(n: ArrayLike, speedup: ArrayLike) -> Floats:
    """Return the experimentally determined serial fraction (n/S - 1)/(n - 1) for n > 1; arguments broadcast.

    Source: Karp and Flatt, "Measuring parallel processor performance" (1990).

    >>> karp_flatt(8, 6.5641).round(5).tolist()
    0.03125
    """
    sizes = np.asarray(n, dtype=np.float64)
    return np.asarray((sizes / np.asarray(speedup, dtype=np.float64) - 1) / (sizes - 1))


def sigma_from_point(piece: str, n: float, speedup: float, parallelism: float) -> float:
    """Return sigma from one speed-up on the piece "L1", "L2" or "H1" with A known; ValueError for another piece.

    >>> round(sigma_from_point("L2", 24, 14.912620893, 16), 6)
    0.5
    """
    if piece == "L1":
        return 2 * parallelism * (n - speedup) / (speedup * (n - 1))
    if piece == "L2":
        return 2 * n * (parallelism - speedup) / (speedup * (2 * parallelism - 1 - n))
    if piece == "H1":
        return parallelism * (n - speedup) / (speedup * (n + parallelism - 1) - n * parallelism)
    raise ValueError("Sigma follows from a point on L1, L2 or H1 only.")


def parallelism_from_point(piece: str, n: float, speedup: float, sigma: float) -> float:
    """Return A from one speed-up on the piece "L1", "L2", "L3", "H1" or "H2" with sigma known; ValueError else.

    >>> round(parallelism_from_point("H1", 16, 13.061224490, 1.5), 4)
    40.0
    """
    if piece == "L1":
        return sigma * speedup * (n - 1) / (2 * (n - speedup))
    if piece == "L2":
        return speedup * (n - sigma * (1 + n) / 2) / (n - sigma * speedup)
    if piece == "H1":
        return speedup * sigma * (n - 1) / ((sigma + 1) * (n - speedup))
    if piece in {"L3", "H2"}:
        return speedup
    raise ValueError("The pieces are L1, L2, L3, H1 and H2.")


def pair_solutions(
    n_low: ArrayLike,
    speedup_low: ArrayLike,
    n_high: ArrayLike,
    speedup_high: ArrayLike,
    deviation: float = _SLACK,
) -> PairSolutions:
    """Return the parameters that two speed-ups at sizes 1 < n_low < n_high imply, under each hypothesis.

    Arguments broadcast. `deviation` is how far, relatively, two shares or two speed-ups may differ and still count as
    equal. Nothing raises: what cannot be solved is NaN.

    >>> found = pair_solutions(8, 7.2112676056, 24, 14.9126208930)
    >>> found.parallelism[1].round(4).tolist(), found.sigma[1].round(4).tolist()
    (16.0, 0.5)
    """
    values = [np.asarray(value, dtype=np.float64) for value in (n_low, speedup_low, n_high, speedup_high)]
    n_i, s_i, n_j, s_j = np.broadcast_arrays(*values)
    with np.errstate(all="ignore"):
        pair = _Pair(n_i, s_i, n_j, s_j, karp_flatt(n_i, s_i))
        degenerate = (_linear(pair, deviation), _saturated(pair, deviation))
        solved = [*_l1_l2(pair), _l1_l3(pair), *_l2_l2(pair), _l2_l3(pair), _h1_h2(pair)]
    parallelism = np.stack([degenerate[0][0], *(a for a, _ in solved), degenerate[1]])
    parallelism_max = np.stack([degenerate[0][1], *(a for a, _ in solved), degenerate[1]])
    open_sigma = np.full_like(s_i, np.nan)
    return PairSolutions(parallelism, parallelism_max, np.stack([open_sigma, *(s for _, s in solved), open_sigma]))


def parallelism_from_line(intercept: float, slope: float, t1: float) -> tuple[float, float]:
    """Return (A, sigma) of the curve whose piece L2 is the line T = intercept + slope/n, given T(1).

    With c = T(infinity) and s = c sigma/2: s^2 + (a + b - 2 T1) s + a b = 0, c = a + s, A = T1/c, sigma = 2 s/c.
    Raises ValueError where no such curve exists.

    >>> a, b = 1000 * 0.75 / 16, 1000 * 0.5 * 15.5 / 16
    >>> tuple(round(value, 6) for value in parallelism_from_line(a, b, 1000.0))
    (16.0, 0.5)
    """
    half = (intercept + slope) / 2 - t1
    square = half * half - intercept * slope
    if not (square >= 0 and half <= 0 and intercept >= 0 and slope >= 0):
        raise ValueError("No curve has this line between its linear section and saturation.")
    shift = intercept * slope / (-half + np.sqrt(square)) if half < 0 else 0.0
    time_min = intercept + shift
    if not time_min > 0:
        raise ValueError("No curve has this line between its linear section and saturation.")
    return float(t1 / time_min), float(2 * shift / time_min)


def _linear(pair: _Pair, deviation: float) -> tuple[Floats, Floats]:
    share_high = karp_flatt(pair.n_high, pair.s_high)
    equal = np.abs(pair.share - share_high) <= deviation * np.maximum(np.abs(share_high), np.abs(pair.share)) + _SLACK
    valid = equal & (pair.share >= -_SLACK) & (pair.s_high >= 1)
    largest = 1 / np.maximum((pair.share + share_high) / 2, 1 / np.finfo(np.float64).max)
    return _where(valid, pair.s_high), _where(valid, np.maximum(largest, pair.s_high))


def _saturated(pair: _Pair, deviation: float) -> Floats:
    equal = np.abs(pair.s_high - pair.s_low) <= np.maximum(deviation, _SLACK) * pair.s_high
    return _where(equal & (pair.s_low >= 1 - _SLACK) & (pair.n_low >= pair.s_high * (1 - _SLACK)), pair.s_high)


def _l1_l2(pair: _Pair) -> list[tuple[Floats, Floats]]:
    roots = _roots(2 * pair.share / pair.n_high, -(pair.share / pair.n_high + pair.share + 1 / pair.s_high))
    return [_low(a, 2 * a * pair.share, pair, ("L1", "L2")) for a in roots]


def _l1_l3(pair: _Pair) -> tuple[Floats, Floats]:
    return _low(pair.s_high, 2 * pair.s_high * pair.share, pair, ("L1", "L3"))


def _l2_l2(pair: _Pair) -> list[tuple[Floats, Floats]]:
    slope = (1 / pair.s_low - 1 / pair.s_high) / (1 / pair.n_low - 1 / pair.n_high)
    intercept = 1 / pair.s_high - slope / pair.n_high
    roots = _roots(2 * intercept, slope - 2 - intercept)
    return [_low(a, 2 * (1 - a * intercept), pair, ("L2", "L2")) for a in roots]


def _l2_l3(pair: _Pair) -> tuple[Floats, Floats]:
    a = pair.s_high
    sigma = 2 * pair.n_low * (a - pair.s_low) / (pair.s_low * (2 * a - 1 - pair.n_low))
    return _low(a, sigma, pair, ("L2", "L3"))


def _h1_h2(pair: _Pair) -> tuple[Floats, Floats]:
    a = pair.s_high
    curvature = pair.share * a
    sigma = np.where((curvature >= 0.5 - _SLACK) & (curvature < 1), np.maximum(curvature / (1 - curvature), 1), np.nan)
    end = saturation_n(a, sigma)
    valid = (a >= 1) & (pair.n_low <= end * (1 + _SLACK)) & (pair.n_high >= end * (1 - _SLACK))
    return _where(valid, a), _where(valid, sigma)


def _roots(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return both roots of a x^2 + b x + 1 = 0 in the form that survives a near 0."""
    root = np.sqrt(b * b - 4 * a)
    return 2 / (-b + root), 2 / (-b - root)


def _low(a: Floats, sigma: Floats, pair: _Pair, pieces: tuple[str, str]) -> tuple[Floats, Floats]:
    """Return a solution with sigma <= 1, NaN where it breaks its own assumptions."""
    valid = np.isfinite(a) & (a >= 1 - _SLACK) & (sigma >= -_SLACK) & (sigma <= 1 + _SLACK)
    for n, piece in zip((pair.n_low, pair.n_high), pieces, strict=True):
        valid &= _on_piece(n, a, piece)
    return _where(valid, np.maximum(a, 1)), _where(valid, np.clip(sigma, 0, 1))


def _on_piece(n: Floats, a: Floats, piece: str) -> NDArray[np.bool_]:
    starts = {"L1": 0 * a, "L2": a, "L3": 2 * a - 1}[piece]
    ends = {"L1": a, "L2": 2 * a - 1, "L3": np.full_like(a, np.inf)}[piece]
    on: NDArray[np.bool_] = (n >= starts * (1 - _SLACK)) & (n <= ends * (1 + _SLACK))
    return on


def _where(valid: NDArray[np.bool_], values: Floats) -> Floats:
    return np.where(valid, values, np.nan)
