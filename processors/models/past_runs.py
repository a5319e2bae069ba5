"""Past runs of a group of jobs as numbers: what is known of a job before it runs, and how long it took."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from processors.models.digits import six_digits

Rows = npt.NDArray[np.float32]

RUNS_MAX = 64
NAMES_MAX = 2**24  # a name's number has to be exact as a float of 32 bits
TIME_ROW, LIMIT_ROW, SIZE_ROW, NAME_ROW = range(4)
_STORED = "<f4"
_ROOM = RUNS_MAX + 32  # so that all are moved at one run in 32 only
_LIMIT_CLASS = 1.4  # time limits within a factor of four share a class
_SIZE_CLASS = 2.0 * math.log(2.0)  # and so do such sizes


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job before it runs: its size, a number that stands for its name, its time limit in seconds.

    `name` must be a whole number below NAMES_MAX; 0 stands for no name. Raises ValueError where a number can not be true.

    >>> Job(n=64, name=7, time_limit_s=3600.0).n
    64
    """

    n: float
    name: int = 0
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 0 < self.n < math.inf:
            raise ValueError("A size must be positive and finite.")
        if not 0 <= self.name < NAMES_MAX:
            raise ValueError("A name is a whole number from 0 to 2^24.")
        if self.time_limit_s is not None and not 0 < self.time_limit_s < math.inf:
            raise ValueError("A time limit must be positive and finite.")


def class_of(job: Job) -> tuple[int, int]:
    """Return the class of a job: its time limit and its size, both in steps of about four; -1 for no limit.

    >>> class_of(Job(n=16, time_limit_s=3600.0)) == class_of(Job(n=20, time_limit_s=4000.0)), class_of(Job(n=1))
    (True, (-1, 0))
    """
    limit = -1 if job.time_limit_s is None else max(round(math.log(job.time_limit_s) / _LIMIT_CLASS), 0)
    return limit, round(math.log(job.n) / _SIZE_CLASS)


class PastRuns:
    """The newest runs of a group, newest first, at most RUNS_MAX; to six digits, as they are stored.

    >>> past = PastRuns()
    >>> past.add(Job(n=4), 100.0)
    >>> past.count, past.run_times_s(), PastRuns(past.packed()).run_times_s()
    (1, [100.0], [100.0])
    """

    __slots__ = ("_first", "_rows", "count")

    def __init__(self, packed: bytes = b"") -> None:
        held = np.frombuffer(packed, dtype=_STORED).reshape(4, -1)
        self._rows = np.empty((4, _ROOM), dtype=np.float32)
        self.count = held.shape[1]
        self._first = _ROOM - self.count
        self.rows[:] = held

    def __repr__(self) -> str:
        """Return the run times."""
        return f"PastRuns({self.run_times_s()})"

    @property
    def rows(self) -> Rows:
        """Return ln run time, ln limit (nan: none), ln size and name, shape (4, count)."""
        return self._rows[:, self._first : self._first + self.count]

    def packed(self) -> bytes:
        """Return the rows as they are stored: 16 bytes a run."""
        return self.rows.astype(_STORED).tobytes()

    def run_times_s(self) -> list[float]:
        """Return the run times, newest first."""
        return [six_digits(time_s) for time_s in np.exp(self.rows[TIME_ROW].astype(np.float64))]

    def add(self, job: Job, run_time_s: float, runs_max: int = RUNS_MAX) -> None:
        """Take a run in; the oldest beyond `runs_max` leaves. ValueError unless its time is positive and finite."""
        row = _row(job, run_time_s)
        if not self._first:
            self._first = _ROOM - self.count
            self._rows[:, self._first :] = self._rows[:, : self.count]
        self._first -= 1
        self._rows[:, self._first] = row
        self.count = min(self.count + 1, runs_max)

    def replace(self, index: int, job: Job, run_time_s: float) -> None:
        """Correct the run that has `index` newer ones before it; errors as `add`, IndexError where there is none."""
        if not 0 <= index < self.count:
            raise IndexError("There is no such run.")
        self.rows[:, index] = _row(job, run_time_s)

    def remove(self, index: int) -> None:
        """Take the run away that has `index` newer ones before it; IndexError where there is none."""
        if not 0 <= index < self.count:
            raise IndexError("There is no such run.")
        rows = self.rows
        rows[:, index:-1] = rows[:, index + 1 :]
        self.count -= 1


@lru_cache(maxsize=64)  # a run is learned by all its groups in a row
def _row(job: Job, run_time_s: float) -> Rows:
    if not 0 < run_time_s < math.inf:
        raise ValueError("A run time must be positive and finite.")
    limit = math.nan if job.time_limit_s is None else math.log(job.time_limit_s)
    row = np.array((math.log(run_time_s), limit, math.log(job.n), float(job.name)), dtype=np.float32)
    row.flags.writeable = False
    return row
