"""Specially optimised sizes: classes of sizes (powers of two, squares, whole nodes) that an application favours.

ADEPT (Deshmeh, Machina, Sodan 2010) looks for such patterns from nine sizes on and leaves the other sizes out of the fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from processors.models.downey_fit import fit_downey
from processors.models.quick_fit import QuickFitter

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

SIZES_MIN = 9  # of ADEPT
GROUP_MIN = 3  # members, and others among them
SLOW_SHARE = 0.8  # of the others must be slow
FIT_FLOOR = 0.02  # a fit of the members this good needs no comparison with the fit of all
LISTED_MAX = 64
CANDIDATES_MAX = 4096.0
LEAD = 1.2  # a later class must score this much better than an earlier one


@dataclass(frozen=True, slots=True)
class SpecialSizes:
    """A class of sizes on which the application runs faster: its name, its members, and the slow-down of the others.

    `slowdown` 0.3 means that other sizes take 30 % longer than the curve of the members says.

    >>> SpecialSizes("pow2", (1.0, 2.0, 4.0), 0.3, 1).is_member(np.array([8.0, 12.0])).tolist()
    [True, False]
    """

    name: str
    members: tuple[float, ...]
    slowdown: float
    multiple: int

    def is_member(self, n: Floats) -> Booleans:
        """Return which sizes belong to the class, same shape as `n`.

        >>> SpecialSizes("multiple of 8", (8.0,), 0.3, 8).is_member(np.array([16.0, 20.0])).tolist()
        [True, False]
        """
        return members(self.name, n, self.multiple)

    def sizes_up_to(self, largest_n: float, allowed: tuple[float, ...] = ()) -> tuple[float, ...]:
        """Return the members of the class to allocate: those that were run, and others up to `largest_n`.

        Only sizes of `allowed` where there are any; where the others are many, only those that were run.

        >>> SpecialSizes("pow2", (1.0, 2.0, 4.0), 0.3, 1).sizes_up_to(16.0)
        (1.0, 2.0, 4.0, 8.0, 16.0)
        """
        if allowed:
            candidates = np.array(sorted(set(allowed)), float)
        else:
            candidates = np.arange(1.0, min(largest_n, CANDIDATES_MAX) + 1.0)
        more = candidates[self.is_member(candidates) & (candidates <= largest_n) & (candidates >= self.members[0])]
        if not allowed and (more.size > LISTED_MAX or largest_n > CANDIDATES_MAX):
            return self.members
        return tuple(np.union1d(more, self.members).tolist())


def _is_power_of_two(n: Floats) -> Booleans:
    mantissa, _ = np.frexp(n)
    return np.asarray((mantissa == 0.5) & (n >= 1.0))


def _is_square(n: Floats) -> Booleans:
    return np.array([float(size).is_integer() and isqrt(int(size)) ** 2 == int(size) for size in n], bool)


SHAPES: dict[str, Callable[[Floats], Booleans]] = {"pow2": _is_power_of_two, "square": _is_square}
MULTIPLES = (8, 4, 2)


def classes(cores_per_node: int | None = None) -> tuple[tuple[str, int], ...]:
    """Return (name, multiple) of every class that is looked for, in the order in which an earlier one is preferred.

    >>> classes(48)[0], classes()[-1]
    (('multiple of 48', 48), ('multiple of 2', 2))
    """
    own = (cores_per_node,) if cores_per_node is not None and cores_per_node > 1 else ()
    multiples = own + tuple(multiple for multiple in MULTIPLES if multiple not in own)
    named = tuple((f"multiple of {multiple}", multiple) for multiple in multiples)
    return named[: len(own)] + tuple((name, 1) for name in SHAPES) + named[len(own) :]


def members(name: str, n: Floats, multiple: int = 1) -> Booleans:
    """Return which sizes belong to the class of that name; sizes that are not whole belong to none.

    >>> members("square", np.array([4.0, 8.0, 9.0])).tolist()
    [True, False, True]
    """
    return SHAPES[name](n) if name in SHAPES else np.fmod(n, multiple) == 0.0


def find_special_sizes(
    n: Floats, run_time_s: Floats, tolerance: float, fitter: QuickFitter, *, cores_per_node: int | None = None
) -> SpecialSizes | None:
    """Return the class of sizes that explains the others' slowness best, or None.

    `n` (sorted, distinct) and `run_time_s` have shape (k,), `fitter` fits them; `tolerance` is the relative deviation
    that counts.

    >>> n = np.arange(1.0, 17.0)
    >>> t = np.where(np.fmod(n, 4) == 0, 1.0, 1.3) * 100.0 / n
    >>> found = find_special_sizes(n, t, 0.1, QuickFitter(n, t))
    >>> found.name, round(found.slowdown, 2)
    ('multiple of 4', 0.3)
    """
    if n.size < SIZES_MIN:
        return None
    split = {(name, multiple): members(name, n, multiple) for name, multiple in classes(cores_per_node)}
    split = {kind: inside for kind, inside in split.items() if _among(n, inside).sum() >= GROUP_MIN}
    if not split:
        return None
    fits = fitter.fit(np.stack([np.ones(n.size, bool), *split.values()]))
    error_max = max(0.5 * float(fits.rms[0]), FIT_FLOOR)
    slowness = run_time_s / fits.predict(n) - 1.0
    best, best_score = None, 0.0
    for row, (kind, inside) in enumerate(split.items(), 1):
        rms, others = float(fits.rms[row]), slowness[row, _among(n, inside)]
        typical = float(np.median(others))
        share = float(np.mean(others > tolerance))
        score = share**2 * typical / (rms + 0.01)  # fast ones among the others speak for a wider class
        enough = rms < error_max and share >= SLOW_SHARE and typical > max(tolerance, 3.0 * rms)
        if enough and score > best_score * (LEAD if best else 1.0):
            best, best_score = kind, score
    return None if best is None else _described(n, run_time_s, best, split[best])


def _among(n: Floats, inside: Booleans) -> Booleans:
    """Return the other sizes that lie among the members, none where these are too few."""
    if inside.sum() < GROUP_MIN:
        return np.zeros(n.size, bool)
    return np.asarray(~inside & (n > n[inside][0]) & (n < 2.0 * n[inside][-1]))


def _described(n: Floats, run_time_s: Floats, kind: tuple[str, int], inside: Booleans) -> SpecialSizes:
    """Return the class with the slow-down of the others by an exact fit of its members."""
    among = _among(n, inside)
    slowdown = np.median(run_time_s[among] / fit_downey(n[inside], run_time_s[inside]).predict(n[among]) - 1.0)
    return SpecialSizes(kind[0], tuple(n[inside].tolist()), float(slowdown), kind[1])
