"""Hosts in groups by how many resources they have: each group has one rule, and costs what its hosts need."""

import numpy as np

from processors.models.detect.combined import CombinedRule, CombinedSettings
from processors.models.detect.table import MARK_BYTES, Column, Table
from processors.windows.settings import PARTS


class Group:
    """Hosts of as many resources: their rule, and the 10-second means of the minute that is held.

    >>> group = Group(2, None)
    >>> [group.add(), group.add()], group.release(0), group.add()
    ([0, 1], None, 0)
    """

    def __init__(self, resources: int, settings: CombinedSettings | None) -> None:
        self.rule = CombinedRule(resources, settings)
        self.held = Table({"held": Column((resources, PARTS), "float64", np.nan)})
        self.free: list[int] = []

    @property
    def host_bytes(self) -> int:
        """What a host takes when it is stored."""
        return 2 * MARK_BYTES + self.held.row_bytes + self.rule.host_bytes

    def add(self) -> int:
        """Return the place of one more host."""
        if self.free:
            return self.free.pop()
        place = self.rule.size
        self.rule.grow(place + 1)
        self.held.grow(place + 1)
        return place

    def release(self, place: int) -> None:
        """Let a host go."""
        self.rule.clear(np.array([place]))
        self.held.clear(np.array([place]))
        self.free.append(place)

    def stored(self, place: int) -> bytes:
        """Return the state of a host."""
        return self.held.stored(place, place + 1) + self.rule.stored(place, place + 1)

    def restore(self, place: int, state: bytes) -> None:
        """Put a host back; ValueError where it is of another form."""
        held = MARK_BYTES + self.held.row_bytes
        self.held.restore(place, place + 1, state[:held])
        self.rule.restore(place, place + 1, state[held:])
