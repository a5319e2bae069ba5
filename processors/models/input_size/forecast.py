"""The run time of an input from the other inputs, from what was run of itself at a size or two, and from both."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.curve import BAND_DEVIATIONS
from processors.models.input_size.curves import Floats, Input, Knot
from processors.models.input_size.regression import regress

NOISE: Final = 0.02  # standard deviation of ln t of single runs
REACH: Final = 3.0  # in ln n: what the regression misses at one size it misses near by too
LAW_DEVIATION_MIN: Final = 0.15  # of what one or two sizes say a doubling away from them


class Expected(NamedTuple):
    """Expected ln of the run time in s at m sizes, and half the width of the band that holds 90 % of single runs, (m,).

    >>> Expected(np.zeros(1), np.ones(1)).half_width.tolist()
    [1.0]
    """

    ln_run_time: Floats
    half_width: Floats


def expected(
    inputs: Sequence[Input],
    place: str,
    ln_sizes: Sequence[float],
    n: Sequence[float] | Floats,
    own: Sequence[Knot] = (),
) -> Expected:
    """Return what the other inputs of an application say of an input, corrected by its own runs at the knots `own`.

    `inputs` are at least one; sizes are positive and finite.

    >>> inputs = [Input("exa", (x,), (Knot(8.0, 1.5 * x, 0.02),)) for x in (1.0, 2.0, 3.0, 4.0)]
    >>> expected(inputs, "exa", (5.0,), [8.0], own=[Knot(8.0, 8.0, 0.02)]).ln_run_time.round(1).tolist()
    [8.0]
    """
    wanted = np.atleast_1d(np.asarray(n, dtype=np.float64))
    sizes = np.concatenate([wanted, [knot.n for knot in own]])
    found = regress(inputs, place, ln_sizes, sizes)
    if not own:
        return Expected(found.centre(), found.half_width(NOISE))
    centre, deviation, ln_n = found.centre(), found.deviation(), np.log(sizes)
    # what it misses is one path over ln n whose neighbours are alike
    path = np.outer(deviation, deviation) * np.exp(-np.abs(ln_n[:, None] - ln_n) / REACH)
    m = wanted.size
    missed = np.array([knot.ln_run_time for knot in own]) - centre[m:]
    noise = np.diag(np.square([max(knot.deviation, NOISE) for knot in own]))
    gain = np.linalg.solve(path[m:, m:] + noise, path[m:, :m]).T
    variance = np.maximum(np.square(deviation[:m]) - (gain * path[:m, m:]).sum(axis=1), 0.0)
    return Expected(centre[:m] + gain @ missed, BAND_DEVIATIONS * np.sqrt(variance + NOISE**2))


def pooled(others: Expected, law: Expected, n: Floats, observed: Sequence[float]) -> tuple[Expected, Floats]:
    """Return what the other inputs and the input's own law of scaling say together, and the share of the others, (m,).

    Each counts by the inverse of its variance; where they differ, the band is wider. `observed` are the sizes of the law.

    >>> one, two = Expected(np.zeros(1), np.ones(1)), Expected(np.ones(1), np.ones(1))
    >>> both, share = pooled(one, two, np.array([8.0]), [4.0])
    >>> both.ln_run_time.tolist(), share.tolist()
    ([0.5], [0.5])
    """
    doublings = np.abs(np.log2(n[:, None] / np.array(observed))).min(axis=1)
    least = BAND_DEVIATIONS * LAW_DEVIATION_MIN * np.minimum(doublings, 1.0)
    variances = [np.square(np.maximum(width, 1e-6)) for width in (others.half_width, np.maximum(law.half_width, least))]
    share = variances[1] / (variances[0] + variances[1])
    apart = others.ln_run_time - law.ln_run_time
    within = share * variances[0] + (1.0 - share) * variances[1]
    between = share * (1.0 - share) * np.square(BAND_DEVIATIONS * apart)
    return Expected(law.ln_run_time + share * apart, np.sqrt(within + between)), share


def ln_sizes(sizes: Sequence[float]) -> tuple[float, ...]:
    """Return the logarithms of the sizes of an input, which are above 0.

    >>> ln_sizes([1.0, 1.0])
    (0.0, 0.0)
    """
    return tuple(math.log(size) for size in sizes)
