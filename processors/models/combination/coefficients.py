"""Everything that was fitted to measured curves, in one place: what other data would change.

The program of `make quality` refits all of it, also with each data set left out in turn.
"""

from typing import Final, NamedTuple

from processors.models.combination.gate import GATE, Gate
from processors.models.combination.inside import INSIDE_SCALE, InsideScale
from processors.models.combination.scale import SCALE, Scale

# scores of forecasts: 20 quantiles at .025, .075, .. for targets up to 2, up to 4 and beyond 4 times the largest size
ATOMS: Final = (
    (0.026, 0.064, 0.117, 0.166, 0.223, 0.284, 0.348, 0.42, 0.494, 0.593,
     0.691, 0.779, 0.885, 1.03, 1.193, 1.405, 1.691, 2.147, 2.869, 4.707),
    (0.017, 0.057, 0.102, 0.145, 0.194, 0.251, 0.3, 0.374, 0.456, 0.543,
     0.627, 0.736, 0.842, 1.006, 1.188, 1.398, 1.726, 2.071, 2.919, 5.634),
    (0.023, 0.065, 0.119, 0.177, 0.237, 0.284, 0.335, 0.41, 0.472, 0.558,
     0.639, 0.758, 0.89, 1.027, 1.223, 1.47, 1.768, 2.271, 3.07, 4.721),
)  # fmt: skip


INSIDE_ATOMS: Final = (
    0.024, 0.087, 0.144, 0.193, 0.252, 0.327, 0.409, 0.5, 0.597, 0.685,
    0.789, 0.911, 1.013, 1.147, 1.323, 1.528, 1.809, 2.198, 2.867, 5.127,
)  # fmt: skip


class Coefficients(NamedTuple):
    """Gate, scale of errors, and quantiles of scores by distance; scale and quantiles inside the range.

    >>> len(SHIPPED.atoms)
    3
    """

    gate: Gate
    scale: Scale
    atoms: tuple[tuple[float, ...], ...]
    inside_scale: InsideScale
    inside_atoms: tuple[float, ...]


SHIPPED: Final = Coefficients(GATE, SCALE, ATOMS, INSIDE_SCALE, INSIDE_ATOMS)
