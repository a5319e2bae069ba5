"""What a resource of a host is to a profile: how it is read, and which quantity of a run it adds to."""

from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from agent.contracts.telemetry import (
    COMPONENTS,
    COUNTER_DELTA,
    COUNTER_LEVEL,
    COUNTER_RATE,
    COUNTER_TOTAL,
    ENERGY_TOTAL,
    JOB,
    NIC_TOTAL,
    POWER_W,
    named,
)

COUNTER: Final = "counter/"
NIC: Final = "nic/"
POWER: Final = "power/"
ENERGY: Final = "energy/"
ESTIMATED: Final = "estimated/"
LEFT_OUT: Final = "left_out/"
COVERED: Final = "covered"
SHARED: Final = "shared"
REASONS: Final = ("missing", "negative", "zero", "excessive", "reset", "doubtful", "part")
ALWAYS: Final = (COVERED, JOB + COVERED, SHARED, *(LEFT_OUT + reason for reason in REASONS))
"""How names of quantities begin, or whole ones: minutes that are told, and minutes with another job. Why readings
are left out. ALWAYS are the quantities that every run may have."""

NAME_CHARACTERS_MAX: Final = 96


class Kind(IntEnum):
    """How a resource is read.

    >>> Kind.TOTAL.name
    'TOTAL'
    """

    DELTA = 0  # what it grew in each sample
    TOTAL = 1  # a count since some start
    ENERGY = 2  # joules since some start, within a range
    MEMORY_ENERGY = 3  # the same of memory
    POWER = 4  # watts
    GPU_POWER = 5  # watts of what may be off
    RATE = 6  # what a producer made a rate per second of; parts add up
    LEVEL = 7  # a ratio, a frequency or an amount: the mean over parts counts


class Quantity(NamedTuple):
    """What a resource is: `name` is what it adds to, `own` the mark of the job whose it is, else "", `part` of a host or all.

    >>> Quantity(Kind.DELTA, "counter/cycles", part=True, own="#812").own
    '#812'
    """

    kind: Kind
    name: str
    part: bool
    own: str = ""


_COUNTERS: Final = {
    COUNTER_DELTA: Kind.DELTA,
    COUNTER_TOTAL: Kind.TOTAL,
    COUNTER_RATE: Kind.RATE,
    COUNTER_LEVEL: Kind.LEVEL,
}
_POWERS: Final = {"gpu": Kind.GPU_POWER}
_ENERGIES: Final = {"memory": Kind.MEMORY_ENERGY}


@lru_cache(maxsize=8192)
def quantity(name: str) -> Quantity | None:
    """Return what a resource is to a profile, by its name; None where it is nothing.

    What is of one part of a host adds to the same quantity as its other parts. What is of one job is a quantity of its own,
    for the host may tell the same of all its jobs together.

    >>> quantity("counter_delta>cycles").name, quantity("nic_total>cxi0:sent").name, quantity("power_w>cpu:1#812").name
    ('counter/cycles', 'nic/sent', '#power/cpu')
    >>> quantity("cpu_available")
    """
    resource, peer, job = named(name)
    found = _read(resource, peer)
    if found is None or len(found.name) > NAME_CHARACTERS_MAX:
        return None
    return Quantity(found.kind, JOB + found.name, found.part, JOB + job) if job else found


def _read(resource: str, peer: str) -> Quantity | None:
    whole, colon, part = peer.rpartition(":")
    if resource in _COUNTERS and peer:
        is_part = bool(colon) and part.isdigit()
        return Quantity(_COUNTERS[resource], COUNTER + (whole if is_part else peer), is_part)
    if resource == NIC_TOTAL and part:
        return Quantity(Kind.TOTAL, NIC + part, bool(whole))
    component, colon, _ = peer.partition(":")
    component = component or COMPONENTS[0]
    if component not in COMPONENTS:
        return None
    if resource == POWER_W:
        return Quantity(_POWERS.get(component, Kind.POWER), POWER + component, bool(colon))
    if resource == ENERGY_TOTAL:
        return Quantity(_ENERGIES.get(component, Kind.ENERGY), ENERGY + component, bool(colon))
    return None
