"""The carbon intensity of electricity over time, as a centre's file tells it."""

from typing import NamedTuple


class Intensity(NamedTuple):
    """From a moment on so much carbon comes with a unit of energy, in g CO2e per kWh.

    >>> Intensity(1_795_132_800_000, 310.0).g_per_kwh
    310.0
    """

    time_ms: int
    g_per_kwh: float
