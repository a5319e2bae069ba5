"""Running jobs as readers see them: the load that each one meets, and the chance that its time limit ends it."""

from typing import Final

import msgspec

HITS: Final = 0.5  # from this chance on a job will probably hit its limit


def hits(chance: float | None, *, session: bool) -> bool:
    """Return whether a job will probably reach its time limit; sessions usually end there, so they never count.

    >>> hits(0.7, session=False), hits(0.7, session=True), hits(0.5, session=False), hits(None, session=False)
    (True, False, False, False)
    """
    return chance is not None and chance > HITS and not session


class Neighbour(msgspec.Struct, frozen=True):
    """Another job on the hosts of a running job, with the number of shared hosts."""

    job_id: str
    hosts: int
    start_ms: int


class LoadedBand(msgspec.Struct, frozen=True):
    """Quantiles of the run time under the load of the hosts, in seconds; None if the load is not known well enough."""

    q05_s: float | None = None
    q50_s: float | None = None
    q95_s: float | None = None


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a job prediction that lists show, small enough to read twenty thousand jobs at once."""

    id: str
    time: str
    as_of: str
    system: str
    job_id: str
    application: str | None
    input: str | None
    unit: str | None
    n: float | None
    start: str
    time_limit_s: float | None
    known: bool
    run_time_s: float | None
    end: str | None
    end_low: str | None
    end_high: str | None
    probability_exceeds_limit: float | None
    under_load: LoadedBand | None = None
    power_w: float | None = None
    user: str | None = None
    nodes: int | None = None
    partition: str | None = None
    account: str | None = None
    session: bool = False
