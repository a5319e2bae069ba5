"""The gate: what each law weighs, from its record on this curve, on other curves of the application, and a prior."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.combination.evidence import LAWS, Evidence, Floats

Ints = NDArray[np.intp]

NO_OFFSETS: Final = (0.0,) * len(LAWS)
SIBLING_SHRINKAGE = 2.0
OTHER_SYSTEM = 0.5  # what a curve on another system weighs
CURVATURE_UNIT = 3.0


class Gate(NamedTuple):
    """Coefficients: prior and weight of curvature per law, what a unit of each kind of loss costs, prior without siblings.

    `alone` is added to the prior where an application has no other curve, and less the more it has.

    >>> len(GATE.prior)
    7
    """

    prior: tuple[float, ...]
    curvature: tuple[float, ...]
    own: float
    last: float
    sibling: float
    alone: tuple[float, ...] = NO_OFFSETS


# fitted to the prequential forecasts of CASTEP, OpenSBLI, VASP, MAESTRO, WAVETRISK, CarpetX, Spark jobs and course codes
GATE: Final = Gate(
    prior=(0.2075, 1.6339, -0.7141, -0.5728, 0.0668, -0.3164, -0.3048),
    curvature=(-0.2762, 0.3914, -0.0054, -0.1005, 0.0853, 0.0503, -0.1448),
    own=0.9687,
    last=0.44,
    sibling=1.9084,
    alone=(0.6045, -0.3605, -0.5089, -0.1939, 0.5279, -0.0482, -0.0208),
)


class SiblingSummary(NamedTuple):
    """What a curve tells the other curves of its application: where it ran, and the losses of its forecasts.

    `losses` has one row per forecast of a next size, the third size first, each with one number per law. `inside` tells
    log2 n, error and bow of each inner size that was left out; empty where sizes are counted in another unit.

    >>> SiblingSummary("a", "archer2", ()).losses
    ()
    """

    key: str
    system: str
    losses: tuple[tuple[float, ...], ...]
    inside: tuple[tuple[float, float, float], ...] = ()


class SiblingRecord(NamedTuple):
    """Mean losses of the laws on the siblings (m, laws), and how little that says (m,): 1 without any, falling to 0.

    >>> SiblingRecord(np.zeros((1, 7)), np.ones(1)).doubt.tolist()
    [1.0]
    """

    losses: Floats
    doubt: Floats


def sibling_record(siblings: Sequence[SiblingSummary], key: str, system: str, sizes: Ints) -> SiblingRecord:
    """Return the mean losses on the other curves of the application, shrunk towards 0 by two curves.

    Each of them says the mean of its last two losses. `sizes` (m,) is how many sizes of a sibling may be looked at, so
    that a forecast in hindsight knows no more than one made then.

    >>> told = [SiblingSummary("b", "s", ((3.0,) * 7,))]
    >>> sibling_record(told, "a", "s", np.array([2, 3])).losses[:, 0].tolist()
    [0.0, 1.0]
    """
    weight, mean = np.zeros(sizes.size), np.zeros((sizes.size, len(LAWS)))
    for sibling in siblings:
        if sibling.key != key and sibling.losses:
            known = np.minimum(sizes - 2, len(sibling.losses))
            trust = (known > 0) * (1.0 if sibling.system == system else OTHER_SYSTEM)
            mean += trust[:, None] * _last_two(np.array(sibling.losses))[np.maximum(known, 1) - 1]
            weight += trust
    total = SIBLING_SHRINKAGE + weight
    return SiblingRecord(mean / total[:, None], SIBLING_SHRINKAGE / total)


def logits(gate: Gate, found: Evidence, row: Ints, told: SiblingRecord) -> Floats:
    """Return the logit of each law without offsets for prefixes in the rows `row` (m,) of the evidence, shape (m, laws).

    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.evidence import Curve
    >>> found, nothing = evidence(Curve("a", "s", (1.0, 2.0), (4.0, 2.0))), SiblingRecord(np.zeros((1, 7)), np.zeros(1))
    >>> logits(GATE, found, np.array([0]), nothing)[0].tolist() == list(GATE.prior)
    True
    """
    bend = CURVATURE_UNIT * found.curvature[row, None] * np.array(gate.curvature)
    record = gate.own * found.own[row] + gate.last * found.last[row] + gate.sibling * told.losses
    return np.asarray(np.array(gate.prior) + bend - record + told.doubt[:, None] * np.array(gate.alone))


def _last_two(losses: Floats) -> Floats:
    """Return the mean of the last two losses, after each."""
    return np.concatenate([losses[:1], (losses[1:] + losses[:-1]) / 2.0])


def weights(logit: Floats) -> Floats:
    """Return the shares of the laws, softmax over the last axis.

    >>> weights(np.zeros(2)).tolist()
    [0.5, 0.5]
    """
    mass = np.exp(logit - logit.max(axis=-1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))
