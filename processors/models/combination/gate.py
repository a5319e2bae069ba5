"""The gate: what each law weighs, from its record on this curve, on other curves of the application, and a prior."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.curve import Floats
from processors.models.combination.evidence import LAWS, Evidence

NO_OFFSETS: Final = (0.0,) * len(LAWS)
SIBLING_SHRINKAGE = 2.0
OTHER_SYSTEM = 0.5  # what a curve on another system weighs
CURVATURE_UNIT = 3.0


class Gate(NamedTuple):
    """Coefficients: a prior and a weight of curvature for each law, and how much a unit of each kind of loss costs.

    >>> len(GATE.prior)
    7
    """

    prior: tuple[float, ...]
    curvature: tuple[float, ...]
    own: float
    last: float
    sibling: float


# fitted to the prequential forecasts of CASTEP, OpenSBLI, VASP, MAESTRO, WAVETRISK, CarpetX, Spark jobs and course codes
GATE: Final = Gate(
    prior=(0.013, 0.845, -0.412, -0.340, 0.300, -0.185, -0.220),
    curvature=(-0.091, 0.229, 0.005, -0.039, -0.008, -0.066, -0.031),
    own=0.526,
    last=0.383,
    sibling=1.583,
)


class SiblingSummary(NamedTuple):
    """What a curve tells the other curves of its application: where it ran, and the mean of its last two losses.

    `losses` has one number per law, in the order of LAWS; none where the curve has fewer than three sizes.

    >>> SiblingSummary("a", "archer2", ()).losses
    ()
    """

    key: str
    system: str
    losses: tuple[float, ...]


def summary(found: Evidence, sizes: int | None = None) -> SiblingSummary:
    """Return what a curve tells its siblings, of its smallest `sizes` sizes where given.

    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.curve import Curve
    >>> summary(evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0)))).losses[0] < 1e-4
    False
    """
    count = found.k if sizes is None else min(sizes, found.k)
    losses = found.losses[max(count - 4, 0) : max(count - 2, 0)]
    means = tuple(losses.mean(axis=0).tolist()) if losses.size else ()
    return SiblingSummary(found.curve.key, found.curve.system, means)


def sibling_losses(siblings: Sequence[SiblingSummary], key: str, system: str) -> Floats:
    """Return the mean loss of each law on the other curves of the application, shrunk towards 0 by two curves.

    >>> sibling_losses([SiblingSummary("b", "s", (3.0,) * 7)], "a", "s")[0].item()
    1.0
    """
    told = [sibling for sibling in siblings if sibling.key != key and sibling.losses]
    if not told:
        return np.zeros(len(LAWS))
    weight = np.array([1.0 if sibling.system == system else OTHER_SYSTEM for sibling in told])
    return np.asarray(weight @ np.array([sibling.losses for sibling in told]) / (SIBLING_SHRINKAGE + weight.sum()))


def logits(gate: Gate, found: Evidence, sibling: Floats) -> Floats:
    """Return the logit of each law for every prefix, without offsets, shape (k - 1, laws).

    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.curve import Curve
    >>> logits(GATE, evidence(Curve("a", "s", (1.0, 2.0), (4.0, 2.0))), np.zeros(7))[0].tolist() == list(GATE.prior)
    True
    """
    bend = CURVATURE_UNIT * found.curvature[:, None] * np.array(gate.curvature)
    return np.asarray(
        np.array(gate.prior) + bend - gate.own * found.own - gate.last * found.last - gate.sibling * sibling
    )


def weights(logit: Floats) -> Floats:
    """Return the shares of the laws, softmax over the last axis.

    >>> weights(np.zeros(2)).tolist()
    [0.5, 0.5]
    """
    mass = np.exp(logit - logit.max(axis=-1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))
