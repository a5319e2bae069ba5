"""How far off a forecast is likely to be: the scale s of its error in ln t, from the circumstances of the forecast."""

from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.curve import Floats
from processors.models.combination.evidence import LN2

GAP_MAX: Final = 2.0
LN_SCALE_MIN, LN_SCALE_MAX = -5.0, 1.0
# the most regular curves turn up without a sign: no scale is below this per doubling, up to so many
JUMP, JUMP_DOUBLINGS_MAX = 0.01, 3.0


class Scale(NamedTuple):
    """Coefficients of ln s, one per circumstance.

    >>> len(SCALE)
    8
    """

    constant: float
    distance: float
    spread: float
    own: float
    sibling: float
    sizes: float
    gap: float
    residual: float


# fitted to the same forecasts as the gate
SCALE: Final = Scale(-1.5249, 0.4173, 0.461, 0.0229, 0.1265, -0.2085, 0.4401, 0.2724)


class Circumstances(NamedTuple):
    """What is known of m forecasts before their runs come; arrays of shape (m,).

    Distance in doublings, spread of the laws in ln t, mean losses of the laws on this curve and on siblings, number of
    sizes, last gap in doublings, ln of the misfit inside the range.

    >>> Circumstances(*np.zeros((7, 1))).distance.tolist()
    [0.0]
    """

    distance: Floats
    spread: Floats
    own: Floats
    sibling: Floats
    sizes: Floats
    gap: Floats
    residual: Floats


def spread(distance: Floats, shares: Floats, elasticity: Floats) -> Floats:
    """Return the standard deviation of ln t over the laws: distance (m,), shares and elasticities (m, laws).

    >>> spread(np.array([1.0]), np.array([[0.5, 0.5]]), np.array([[-1.0, 1.0]])).round(6).tolist()
    [0.693147]
    """
    centre = (shares * elasticity).sum(axis=-1, keepdims=True)
    return np.asarray(distance * LN2 * np.sqrt((shares * (elasticity - centre) ** 2).sum(axis=-1)))


def features(told: Circumstances) -> Floats:
    """Return what the coefficients multiply, shape (m, 8).

    >>> features(Circumstances(*np.ones((7, 1)))).shape
    (1, 8)
    """
    columns = [
        np.ones_like(told.distance),
        np.log(told.distance + 0.1),
        np.log(told.spread + 0.005),
        np.log(told.own + 0.2),
        np.log(told.sibling + 0.2),
        np.log(told.sizes) - 1.6,
        np.minimum(told.gap, GAP_MAX),
        told.residual + 4.0,
    ]
    return np.stack(columns, axis=-1)


def scales(scale: Scale, told: Circumstances) -> Floats:
    """Return s of each forecast, shape (m,).

    >>> reference = Scale(-2.054, 0.369, 0.440, 0.128, 0.014, 0.272, 0.712, 0.212)
    >>> scales(reference, Circumstances(*np.ones((7, 1)))).round(2).tolist()
    [0.53]
    """
    ln_s = np.clip(features(told) @ np.array(scale), LN_SCALE_MIN, LN_SCALE_MAX)
    return np.asarray(np.exp(ln_s) + JUMP * np.minimum(told.distance, JUMP_DOUBLINGS_MAX))
