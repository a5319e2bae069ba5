"""Which size takes the least energy, and which the least energy times delay.

R. Gonzalez, M. Horowitz, "Energy dissipation in general purpose microprocessors" (1996) name the product: it does not
reward being slow.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Efficient(NamedTuple):
    """Energy of each size in joules (k,), the size that takes the least of it, and that of the least energy x delay.

    >>> Efficient(np.array([5.0]), 1.0, 1.0).least_energy_n
    1.0
    """

    energy_j: Floats
    least_energy_n: float
    least_energy_delay_n: float


def efficient(n: Floats, run_time_s: Floats, power_w: Floats) -> Efficient:
    """Return the view of sizes (k,) with their run times and the power of all their nodes together; of equals the least.

    Raises ValueError without sizes or where a value is not positive and finite.

    >>> efficient(np.array([1.0, 2.0, 4.0]), np.array([100.0, 52.0, 30.0]), np.array([200.0, 380.0, 800.0]))
    Efficient(energy_j=array([20000., 19760., 24000.]), least_energy_n=2.0, least_energy_delay_n=4.0)
    """
    told = np.array([n, run_time_s, power_w])
    if not told.size or not ((told > 0) & np.isfinite(told)).all():
        raise ValueError("Sizes, run times and power are positive.")
    order = np.argsort(n, kind="stable")
    energy_j = run_time_s * power_w
    least = n[order[np.argmin(energy_j[order])]]
    delayed = n[order[np.argmin((energy_j * run_time_s)[order])]]
    return Efficient(energy_j, float(least), float(delayed))
