"""Where hosts are in the network, as the centre's own list has it: at coordinates of a torus, or below switches."""

from typing import Final

import msgspec

PLACED_HOSTS_MAX: Final = 200_000  # of a list


class HostPlace(msgspec.Struct, frozen=True):
    """A line of the list: some hosts as a host list, and where they are.

    They have `coordinates` in a torus, or `switches` above them from the top down. `system` is empty where that is the same in all systems.
    """

    hosts: str
    coordinates: tuple[int, ...] = ()
    switches: tuple[str, ...] = ()
    system: str = ""
