"""A rule that splits the power of a shared node between its jobs.

The share of a job is the share of the processors of the node that is allocated to the job, times its part of the minute. The idle
power of the node is split by these shares; the idle power of unallocated processors belongs to no job. All power above the idle
power is split between the jobs in proportion to their shares. If the idle power of a node is unknown, all power is split like
idle power. The jobs together never get more power than the node drew.

Source: the division of idle and dynamic power in Kepler (sustainable-computing.io), by allocation if use is not measured.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats, Ints
from processors.power.profiles.finalisation import Amounts
from processors.power.profiles.meters import MINUTE_S
from processors.windows.settings import MINUTE_MS

SHARE_MIN: Final = 1e-12  # least total share of a node; a smaller divisor could overflow


class NodeShare(NamedTuple):
    """The share of the processors of each node that is allocated to a run (0 if unknown), and the idle power of a node in W."""

    share: float = 0.0
    idle_w: float = 0.0


class Stays(NamedTuple):
    """Runs on hosts (k,): row of the host, row of the run, start, end, and the allocated share."""

    host: Ints
    run: Ints
    start_ms: Ints
    end_ms: Ints
    share: Floats
    idle_w: Floats

    def at(self, places: "npt.NDArray[np.bool_] | Ints") -> "Stays":
        return Stays._make(column[places] for column in self)


class SharedNumbers(NamedTuple):
    """The numbers of the quantities that concern shared hosts.

    `shared` counts shared minutes, `split` is the split energy. `drawn` are the quantities with the power of a host, in order of
    preference. Of the quantities `busiest` a run gets only the largest amount of any host.
    """

    shared: int
    split: int | None = None
    drawn: tuple[int | None, ...] = ()
    busiest: tuple[int, ...] = ()


class Split(NamedTuple):
    """Energy of runs on shared hosts (m,): row of the run, joules, and the seconds that the run spent on the host."""

    run: Ints
    energy_j: Floats
    seconds: Floats


NO_ROWS: Final = np.zeros(0, np.int64)
NOTHING: Final = Split(NO_ROWS, np.zeros(0), np.zeros(0))


def split_minute(minute_ms: int, amounts: Amounts, stays: Stays, numbers: SharedNumbers) -> Split:
    """Return the energy of the runs on shared hosts in a minute; empty if no host reported power."""
    if numbers.split is None:
        return NOTHING
    energy_j = np.full(int(stays.host.max(initial=-1)) + 1, np.nan)
    for quantity in reversed([number for number in numbers.drawn if number is not None]):
        of_minute = (amounts["quantity"] == quantity) & (amounts["reach"] == 1) & (amounts["host"] < len(energy_j))
        energy_j[amounts["host"][of_minute]] = amounts["amount"][of_minute]
    return split(minute_ms, energy_j, stays)


def split(minute_ms: int, energy_j: Floats, stays: Stays) -> Split:
    """Split the energy (hosts,) of a minute between the runs on shared hosts. Hosts with a run of unknown share are left out."""
    # fixed order of summation: the order of arrival does not change results
    stays = stays.at(np.lexsort((stays.run, stays.host)))
    hosts, host = len(energy_j), stays.host
    inside_ms = np.minimum(stays.end_ms, minute_ms + MINUTE_MS) - np.maximum(stays.start_ms, minute_ms)
    weight = stays.share * inside_ms / MINUTE_MS
    total = np.bincount(host, weight, hosts).astype(np.float64)
    can_split = np.isfinite(energy_j) & (energy_j > 0.0) & (total > SHARE_MIN)
    can_split[host[stays.share <= 0.0]] = False
    idle_j = np.zeros(hosts)
    np.maximum.at(idle_j, host, stays.idle_w * MINUTE_S)
    idle_j = np.where(idle_j > 0.0, np.minimum(idle_j, energy_j), energy_j)
    total = np.where(can_split, total, 1.0)
    joules_per_weight = idle_j / np.maximum(total, 1.0) + (energy_j - idle_j) / total
    stay = can_split[host]
    return Split(stays.run[stay], joules_per_weight[host[stay]] * weight[stay], inside_ms[stay] / 1000)
