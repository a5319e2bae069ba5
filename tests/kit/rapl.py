"""Ranges of the energy counters of processors, as the powercap driver of Linux publishes them.

max_energy_range_uj: 32 bits of units of 61 and of 15.3 microjoules (Intel, "Software Developer's Manual", volume 3B, 15.10:
MSR_RAPL_POWER_UNIT).
"""

from typing import Final

RAPL_RANGE_J: Final = 262_143.328_850
RAPL_FINE_RANGE_J: Final = 65_532.610_987  # memory of servers, and processors of AMD
