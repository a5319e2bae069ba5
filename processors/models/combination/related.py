"""The curves of an application side by side: what they report to each other, as arrays that are made once for all of them.

Each curve of an application is forecast with the others in view, and with twenty-five of them it was the reading of their
numbers, one curve after the other, that took most of the time of a refit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import ENSEMBLE, Ints, RelatedCurve, RelatedLosses
from processors.models.numerics.arrays import Floats

RELATED_SHRINKAGE: Final = 2.0
OTHER_SYSTEM: Final = 0.5  # what a curve on another system weighs


class Points(NamedTuple):
    """Sizes and times of j curves: ln n and ln t, (j, most), and how many each has, (j,); what is beyond is padding."""

    ln_n: Floats
    ln_t: Floats
    sizes: Ints


@dataclass(frozen=True, eq=False)
class Related:
    """The records of all curves of an application, j of them, in the order they are given.

    >>> Related((RelatedCurve("a", "archer2", ()),)).trust("b", "archer2").tolist()
    [1.0]
    """

    curves: tuple[RelatedCurve, ...]

    def trust(self, key: str, system: str) -> Floats:
        """Return what each curve weighs for one of them, (j,): nothing for itself, less elsewhere.

        >>> curves = Related((RelatedCurve("a", "archer2", ()), RelatedCurve("b", "archer2", ())))
        >>> curves.trust("a", "hawk").tolist()
        [0.0, 0.5]
        """
        weights = (0.0 if one.key == key else 1.0 if one.system == system else OTHER_SYSTEM for one in self.curves)
        return np.fromiter(weights, dtype=np.float64, count=len(self.curves))

    def alone(self, key: str) -> bool:
        """Return whether there is no curve but this one."""
        return all(one.key == key for one in self.curves)

    def trust_in_unit(self, key: str, system: str, unit: str) -> Floats:
        """Return the same, and nothing for curves whose sizes are counted in another unit.

        >>> Related((RelatedCurve("a", "archer2", (), unit="nodes"),)).trust_in_unit("b", "archer2", "cores").tolist()
        [0.0]
        """
        same = np.fromiter((one.unit == unit for one in self.curves), dtype=np.float64, count=len(self.curves))
        return self.trust(key, system) * same

    @cached_property
    def losses(self) -> tuple[Floats, Ints]:
        """The mean of the last two losses after each forecast, (j, most, laws), and how many each has, (j,)."""
        count = np.array([len(one.losses) for one in self.curves], dtype=np.intp)
        found = np.zeros((len(self.curves), max(1, *count) if count.size else 1, len(ENSEMBLE)))
        for place, one in enumerate(self.curves):
            found[place, : count[place]] = np.array(one.losses).reshape(-1, len(ENSEMBLE))
        found[:, 1:] = (found[:, 1:] + found[:, :-1]) / 2.0
        return found, count

    @cached_property
    def inside(self) -> tuple[Ints, Floats]:
        """Every inner size that was left out: whose it is, (m,), and its log2 n, error and bow, (m, 3)."""
        owner = np.repeat(np.arange(len(self.curves)), [len(one.inside) for one in self.curves])
        return owner, np.array([row for one in self.curves for row in one.inside]).reshape(-1, 3)

    @cached_property
    def points(self) -> Points:
        """Sizes and times of all curves."""
        count = np.array([len(one.ln_n) for one in self.curves], dtype=np.intp)
        ln_n, ln_t = np.zeros((2, len(self.curves), max(count, default=0)))
        for place, one in enumerate(self.curves):
            ln_n[place, : count[place]], ln_t[place, : count[place]] = one.ln_n, one.ln_t
        ln_n[np.arange(ln_n.shape[1]) >= count[:, None]] = np.inf
        return Points(ln_n, ln_t, count)


NO_RELATED: Final = Related(())


def related_losses(related: Related, key: str, system: str, sizes: Sequence[int] | Ints) -> RelatedLosses:
    """Return the mean losses on the other curves of the application, shrunk towards 0 by two curves.

    Each of them reports the mean of its last two losses. `sizes` (m,) is how many sizes of a related curve may be looked
    at, so that a forecast in hindsight knows no more than one made then.

    >>> others = Related((RelatedCurve("b", "s", ((3.0,) * 9,)),))
    >>> related_losses(others, "a", "s", [2, 3]).losses[:, 0].tolist()
    [0.0, 1.0]
    """
    if related.alone(key):
        return RelatedLosses(np.zeros((len(sizes), len(ENSEMBLE))), np.ones(len(sizes)))
    distinct, place = np.unique(sizes, return_inverse=True)
    found, count = related.losses
    known = np.minimum(distinct - 2, count[:, None])
    weight = np.where(known > 0, related.trust(key, system)[:, None], 0.0)
    newest = found[np.arange(count.size)[:, None], np.maximum(known, 1) - 1]
    total = RELATED_SHRINKAGE + weight.sum(axis=0)
    mean = (weight[:, :, None] * newest).sum(axis=0) / total[:, None]
    return RelatedLosses(mean[place], (RELATED_SHRINKAGE / total)[place])
