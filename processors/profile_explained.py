"""The counters of a linear model as messages tell them."""

from typing import Final

from agent.contracts.quality import Explained
from processors.models.counters.model import explanation
from processors.models.digits import six_digits
from processors.models.training.learner import Learner
from processors.profile_values import COUNTER

COUNTERS_MAX: Final = 8  # that are told: the ones that move the target most


def explained(learner: Learner) -> tuple[Explained, ...]:
    """Return the counters of a learner's linear model, the one that moves the target most first.

    >>> from processors.models.counters.model import KINDS
    >>> explained(Learner("system_power_w", KINDS))
    ()
    """
    return tuple(
        Explained(
            each.counter.removeprefix(COUNTER),
            six_digits(each.coefficient),
            round(each.standardised, 4),
            round(each.rho, 4),
        )
        for each in explanation(learner)[:COUNTERS_MAX]
    )
