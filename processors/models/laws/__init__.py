"""The laws of run time against size that are combined: each file is one law, readable alone.

All are least squares of relative errors with terms that are not negative. Which law is right differs between
applications and even along one curve; the combination says which to trust.
"""

from typing import NamedTuple


class Ability(NamedTuple):
    """What a law can answer: its name, how many distinct sizes it needs, and whether it may leave their range.

    >>> Ability("kazmina", sizes_min=2, extrapolates=True).sizes_min
    2
    """

    name: str
    sizes_min: int
    extrapolates: bool
