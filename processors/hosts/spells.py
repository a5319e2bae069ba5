"""Spells in which a resource of a host was unlike its peers: how often such a long one is to be expected, with nothing amiss.

Hosts with bursts of load are unlike calm ones again and again. Spells begin at random and last for a random time (a Poisson
process with exponential lengths). Each series has a rate and a mean length of its own, and so long as it had few spells, those
of the same resource on all other hosts stand in for them (empirical Bayes, Gelman et al., Bayesian Data Analysis, section 2.6).
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

DAY_MS: Final = 86_400_000.0
POOL_MS: Final = DAY_MS  # of comparison of one host in which one spell is presumed, until more is known
OWN_RATE: Final = 0.5  # spells for which the rate of the others counts: hosts are calm or bursty, so little
OWN_LENGTH: Final = 2.0  # spells for which their length counts
SHAPE: Final = 4.0  # spells that the length presumed of all counts for
SHAPE_MAX: Final = 24.0  # spells that are ever relied on: real ones are not exponential to the end of their tail
Floats = npt.NDArray[np.float64]


class Spells(NamedTuple):
    """Of some series: how many spells ended, how long all of them were together, and for how long they were compared, in ms."""

    number: Floats
    length_ms: Floats
    compared_ms: Floats


def expected_per_day(spell_ms: Floats, own: Spells, others: Spells, usual_ms: float) -> Floats:
    """Return how many spells a day are to be expected of each series (m,) that last at least `spell_ms`.

    `usual_ms` is the mean length that is presumed before spells are known. What the spells tell of the length is uncertain, so the tail
    is that of the Lomax distribution, the predictive one of exponential lengths under a gamma prior.
    """
    pool_rate = (others.number + 1.0) / (others.compared_ms + POOL_MS)
    rate = (own.number + OWN_RATE) / (own.compared_ms + OWN_RATE / pool_rate)
    pool_ms = (others.length_ms + SHAPE * usual_ms) / (others.number + SHAPE)
    mean_ms = (own.length_ms + OWN_LENGTH * pool_ms) / (own.number + OWN_LENGTH)
    shape = np.minimum(SHAPE + own.number + others.number, SHAPE_MAX)
    return np.asarray(DAY_MS * rate * (1.0 + spell_ms / (shape * mean_ms)) ** -shape)
