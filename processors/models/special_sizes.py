"""Specially optimised sizes: classes of sizes (powers of two, squares, whole nodes) that an application favours.

ADEPT (Deshmeh, Machina, Sodan 2010) looks for such patterns from nine sizes on and leaves the other sizes out of the fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from processors.models.downey_fit import fit_downey

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

SIZES_MIN = 9  # of ADEPT
GROUP_MIN = 3  # members, and others among them
SLOW_SHARE = 0.8  # of the others must be slow
FIT_FLOOR = 0.02  # a fit of the members this good needs no comparison with the fit of all
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
    n: Floats, run_time_s: Floats, tolerance: float, *, rms_of_all: float, cores_per_node: int | None = None
) -> SpecialSizes | None:
    """Return the class of sizes that explains the others' slowness best, or None.

    `n` (sorted, distinct) and `run_time_s` have shape (k,); `tolerance` is the relative deviation that counts;
    `rms_of_all` the relative error of the Downey fit of all sizes.

    >>> n = np.arange(1.0, 17.0)
    >>> clean = fit_downey(n[:4], 100.0 / n[:4]).predict(n)
    >>> found = find_special_sizes(n, np.where(np.fmod(n, 4) == 0, 1.0, 1.3) * clean, 0.1, rms_of_all=0.13)
    >>> found.name, round(found.slowdown, 2)
    ('multiple of 4', 0.3)
    """
    if n.size < SIZES_MIN or rms_of_all < tolerance / 4.0:  # others slow by the tolerance would show in the fit of all
        return None
    best, best_score = None, 0.0
    for name, multiple in classes(cores_per_node):
        inside = members(name, n, multiple)
        scored = _score(n, run_time_s, inside, tolerance, rms_of_all)
        if scored is not None and scored[0] > best_score * (LEAD if best else 1.0):
            best_score = scored[0]
            best = SpecialSizes(name, tuple(n[inside].tolist()), scored[1], multiple)
    return best


def _score(
    n: Floats, run_time_s: Floats, inside: Booleans, tolerance: float, rms_of_all: float
) -> tuple[float, float] | None:
    """Return score and slow-down of the others, or None where the class does not explain the data."""
    if inside.sum() < GROUP_MIN:
        return None
    among = ~inside & (n > n[inside][0]) & (n < 2.0 * n[inside][-1])
    if among.sum() < GROUP_MIN:
        return None
    fit = fit_downey(n[inside], run_time_s[inside])
    if fit.rms >= max(0.5 * rms_of_all, FIT_FLOOR):
        return None
    slowness = run_time_s[among] / fit.predict(n[among]) - 1.0
    typical = float(np.median(slowness))
    if np.mean(slowness > tolerance) < SLOW_SHARE or typical <= max(tolerance, 3.0 * fit.rms):
        return None
    return typical / (fit.rms + 0.01), typical
