"""What people go by today: the time that was requested, and how long the user's last jobs took."""

from collections import OrderedDict
from typing import Final

import msgspec

from agent.contracts.events import Evidence

USERS_MAX: Final = 100_000
REQUESTED: Final = "requested"
LAST_TWO: Final = "last_two"
BASELINES: Final = (REQUESTED, LAST_TWO)


class Baseline(msgspec.Struct, frozen=True):
    """The two numbers for one job, in seconds, as known at its start; None where there is none.

    >>> Baseline(requested=3600.0).of("requested")
    3600.0
    """

    requested: float | None = None
    last_two: float | None = None

    def of(self, name: str) -> float | None:
        """Return the number of one of BASELINES."""
        return self.requested if name == REQUESTED else self.last_two


class LastTwo:
    """The last two ended jobs of each user; of at most USERS_MAX, the longest unseen are forgotten first.

    >>> last = LastTwo()
    >>> mary = Evidence(user="mary", time_limit_s=100.0)
    >>> last.baseline("exa", mary)
    Baseline(requested=100.0, last_two=100.0)
    >>> last.learn("exa", mary, 20.0), last.learn("exa", mary, 40.0)
    (None, None)
    >>> last.baseline("exa", mary).last_two
    30.0
    """

    def __init__(self) -> None:
        self._ended: OrderedDict[tuple[str, str], tuple[float, ...]] = OrderedDict()

    def baseline(self, system: str, evidence: Evidence) -> Baseline:
        """Return what would be gone by for a job that starts now.

        The mean of the user's last two jobs is at most what was requested; for a user's first job it is the request.
        """
        requested = evidence.time_limit_s
        ended = self._ended.get((system, evidence.user)) if evidence.user else None
        if evidence.user is None or ended is None:
            return Baseline(requested, requested if evidence.user else None)
        mean_s = sum(ended) / len(ended)
        return Baseline(requested, mean_s if requested is None else min(mean_s, requested))

    def learn(self, system: str, evidence: Evidence, run_time_s: float) -> None:
        """Take in that a user's job ended."""
        if evidence.user is None:
            return
        key = (system, evidence.user)
        self._ended[key] = (*self._ended.get(key, ()), run_time_s)[-2:]
        self._ended.move_to_end(key)
        if len(self._ended) > USERS_MAX:
            self._ended.popitem(last=False)
