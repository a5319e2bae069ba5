"""What a shared node draws, split between the jobs on it by a stated rule.

Each job has its share of the node's processors, as it was allocated, for the part of the minute that it was there. The power of the idle
node is split by these shares, and what of it belongs to processors that nobody was allocated is nobody's. What the node draws beyond it, because
something computes, is split between the jobs alone, in proportion to their shares. Where the idle power of a node is not known, all of its
power is split as idle power is. So the jobs together never get more than the node drew.

Source: the discussion of the division of idle and dynamic power in Kepler (sustainable-computing.io), by allocation where use is not measured.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.contracts.events import Evidence, nodes_of
from processors.contracts.settings import RunTimeSettings
from processors.models.numerics.arrays import Floats
from processors.power.profiles.finalisation import Amounts
from processors.windows.settings import MINUTE_MS

Ints = npt.NDArray[np.int64]

MINUTE_S: Final = MINUTE_MS / 1000
SHARE_MIN: Final = 1e-12  # of a node, in all: what divides by less is beyond numbers


class NodeShare(NamedTuple):
    """The share of the processors of each of its nodes that a run was allocated, 0 where it is not known, and what a node draws without jobs."""

    share: float = 0.0
    idle_w: float = 0.0


def allocation(evidence: Evidence, system: str, settings: RunTimeSettings, shown_cores: int | None = None) -> NodeShare:
    """Return what a run was allocated of its nodes: all of them where it is said to have them alone, else its cores of theirs.

    `shown_cores` are those that runs of its partition had on a node, which count where the settings do not say them.
    """
    known = [
        settings.machines[name] for name in (f"{system}/{evidence.partition}", system) if name in settings.machines
    ]
    cores_per_node = next((each.cores_per_node for each in known if each.cores_per_node), settings.cores_per_node)
    cores_per_node = cores_per_node or shown_cores
    idle_w = next((each.idle_power_w for each in known if each.idle_power_w is not None), 0.0)
    if evidence.exclusive:
        return NodeShare(1.0, idle_w)
    cores, nodes = evidence.sizes.get("cores"), nodes_of(evidence)
    if not cores or not nodes or not cores_per_node:
        return NodeShare(0.0, idle_w)
    return NodeShare(min(cores / (nodes * cores_per_node), 1.0), idle_w)


class Stays(NamedTuple):
    """Runs on hosts (k,): row of the host, row of the run, from when, until when, and what each was allocated."""

    host: Ints
    run: Ints
    start_ms: Ints
    end_ms: Ints
    share: Floats
    idle_w: Floats

    def at(self, places: "npt.NDArray[np.bool_] | Ints") -> "Stays":
        """Return some of them."""
        return Stays(
            self.host[places],
            self.run[places],
            self.start_ms[places],
            self.end_ms[places],
            self.share[places],
            self.idle_w[places],
        )


class SharedNumbers(NamedTuple):
    """The numbers of quantities: minutes with other runs, what is split of them, and what hosts draw, the first that is told.

    `busiest` are those of which a run gets that of one host alone.
    """

    shared: int
    split: int | None = None
    drawn: tuple[int | None, ...] = ()
    busiest: tuple[int, ...] = ()


class Split(NamedTuple):
    """What runs on shared hosts get (m,): row of the run, joules, and the seconds of the host in which it was there."""

    run: Ints
    energy_j: Floats
    seconds: Floats


NO_ROWS: Final = np.zeros(0, np.int64)
NOTHING: Final = Split(NO_ROWS, np.zeros(0), np.zeros(0))


def split_minute(minute_ms: int, amounts: Amounts, stays: Stays, numbers: SharedNumbers) -> Split:
    """Return what runs on shared hosts get of what their hosts drew in a minute; nothing where none told it."""
    if numbers.split is None:
        return NOTHING
    energy_j = np.full(int(stays.host.max(initial=-1)) + 1, np.nan)
    for quantity in reversed([each for each in numbers.drawn if each is not None]):
        of = amounts[(amounts["quantity"] == quantity) & (amounts["reach"] == 1) & (amounts["host"] < len(energy_j))]
        energy_j[of["host"]] = of["amount"]
    return split(minute_ms, energy_j, stays)


def split(minute_ms: int, energy_j: Floats, stays: Stays) -> Split:
    """Split the energy (hosts,) of a minute between the runs that were on hosts together.

    A host on which the share of a run is not known gives to none.
    """
    stays = stays.at(np.lexsort((stays.run, stays.host)))  # so that sums do not depend on which run came first
    hosts, host = len(energy_j), stays.host
    inside_ms = np.minimum(stays.end_ms, minute_ms + MINUTE_MS) - np.maximum(stays.start_ms, minute_ms)
    weight = stays.share * inside_ms / MINUTE_MS
    total = np.bincount(host, weight, hosts).astype(np.float64)
    known = np.isfinite(energy_j) & (energy_j > 0.0) & (total > SHARE_MIN)
    known[host[stays.share <= 0.0]] = False
    idle_j = np.zeros(hosts)
    np.maximum.at(idle_j, host, stays.idle_w * MINUTE_S)
    idle_j = np.where(idle_j > 0.0, np.minimum(idle_j, energy_j), energy_j)
    at = np.flatnonzero(known[host])
    of = host[at]
    got = idle_j[of] / np.maximum(total[of], 1.0) + (energy_j[of] - idle_j[of]) / total[of]
    return Split(stays.run[at], got * weight[at], inside_ms[at] / 1000)
