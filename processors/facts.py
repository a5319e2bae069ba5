"""Facts: what passes between processors."""

from typing import Final, Literal, TypeGuard

import msgspec

from agent.contracts.events import SUCCESS, JobCompleted
from agent.contracts.horizons import Horizon

N_MIN: Final = 1e-3
N_MAX: Final = 1e9
RUN_TIME_MIN_S: Final = 1e-3
RUN_TIME_MAX_S: Final = 1e9

Ground = Literal["runs", "curve", "doubted"]


class RunFact(msgspec.Struct, frozen=True):
    """A completed run of an application at size `n`; `seen_ms` is the agent's own time when it learned of it."""

    run_id: str
    n: float
    run_time_s: float
    start_ms: int
    end_ms: int
    seen_ms: int


def plausible(n: float, run_time_s: float) -> bool:
    """Tell whether size and run time can be true: a thousandth to a thousand million, in units and in seconds.

    >>> plausible(64, 1872.0), plausible(64, 1e-300), plausible(1e308, 10.0), plausible(1, float("nan"))
    (True, False, False, False)
    """
    return N_MIN <= n <= N_MAX and RUN_TIME_MIN_S <= run_time_s <= RUN_TIME_MAX_S


def trains(n: float | None, event: JobCompleted, *, resized: bool) -> TypeGuard[float]:
    """Tell whether a run tells how long its application takes at size `n`: it came to its end, in one size, and can be true.

    >>> from agent.contracts.events import Evidence
    >>> run = JobCompleted("exa", "1", "exa/1@0", 0, 60_000, 60.0, "COMPLETED", Evidence())
    >>> trains(4.0, run, resized=False), trains(None, run, resized=False), trains(4.0, run, resized=True)
    (True, False, False)
    """
    return event.state == SUCCESS and not resized and n is not None and plausible(n, event.run_time_s)


class Outcome(msgspec.Struct, frozen=True):
    """How a run of something (an application on a host, say) ended; `of` tells causes apart."""

    run_id: str
    failed: bool
    of: str = ""


class Scored(msgspec.Struct, frozen=True):
    """A run against the prediction that was published before it ended.

    `ln_ratio` is ln(observed / expected); `half_width` that of the band, in ln. `observations` is how many runs the
    prediction knew. `ground` is what it rests on at this size: runs of the size itself, other ones, or other ones though
    this size was run and was out of line.
    """

    run: RunFact
    expected_s: float
    low_s: float
    high_s: float
    ln_ratio: float
    half_width: float
    inside: bool
    horizon: Horizon
    observations: int
    ground: Ground = "runs"
