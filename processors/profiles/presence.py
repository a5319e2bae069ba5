"""Which runs are or were of late on which hosts: what is looked up here follows from the runs that are kept."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.profiles.meters import MeterRoster
from processors.profiles.owners import RUNNING_MS, Stays
from processors.profiles.runs import ProfileRunState

Rows = npt.NDArray[np.int64]


class _Present:
    """A run: its state, the names of its hosts, and their rows as of one numbering."""

    __slots__ = ("names", "rows", "state", "version")

    def __init__(self, state: ProfileRunState, names: tuple[str, ...]) -> None:
        self.state, self.names = state, names
        self.rows, self.version = np.zeros(0, np.int64), -1


class Told(NamedTuple):
    """A run's hosts: how many, and the rows (k,) of those that told something, rising.

    >>> Told(2, np.array([0])).hosts
    2
    """

    hosts: int
    rows: Rows


class Presence:
    """Runs on hosts, by their ids.

    >>> from processors.profiles.names import QuantityNames
    >>> roster = MeterRoster(9, QuantityNames())
    >>> _ = roster.meter("exa", "nid1", "counter_total>cycles", 0)
    >>> presence = Presence(roster)
    >>> presence.enter("exa/1@0", ProfileRunState("exa", "1", start_ms=0, row=4), ("nid1", "nid2"))
    >>> presence.of("exa/1@0"), presence.stays(0, 60_000).run.tolist()
    (Told(hosts=2, rows=array([0])), [4])
    """

    def __init__(self, roster: MeterRoster) -> None:
        self._roster = roster
        self._runs: dict[str, _Present] = {}
        self._on: dict[tuple[str, str], dict[str, None]] = {}
        self._of_job: dict[tuple[str, str], dict[str, None]] = {}
        self.held = 0

    def __len__(self) -> int:
        """Return how many runs there are."""
        return len(self._runs)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def enter(self, run_id: str, state: ProfileRunState, names: tuple[str, ...]) -> None:
        """Take a run in, or what else became known of it."""
        self.leave(run_id)
        self._runs[run_id] = _Present(state, names)
        self._of_job.setdefault((state.system, state.job_id), {})[run_id] = None
        for name in names:
            self._on.setdefault((state.system, name), {})[run_id] = None
        self.held += len(names)

    def leave(self, run_id: str) -> None:
        """Forget a run."""
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        self.held -= len(run.names)
        _remove(self._of_job, (run.state.system, run.state.job_id), run_id)
        for name in run.names:
            _remove(self._on, (run.state.system, name), run_id)

    def of_job(self, system: str, job_id: str) -> tuple[str, ...]:
        """Return the runs of a job."""
        return tuple(self._of_job.get((system, job_id), ()))

    def of(self, run_id: str) -> Told:
        """Return the hosts of a run. Those that only the job itself tells of count where no others are known."""
        run = self._runs[run_id]
        rows = self._rows(run)
        return Told(len(run.names) or len(rows), rows)

    def stays(self, start_ms: int, end_ms: int) -> Stays:
        """Return all runs on hosts that touch a time."""
        return _stays((run.state, self._rows(run)) for run in self._runs.values() if _touches(run, start_ms, end_ms))

    def stays_with(self, run_id: str) -> Stays:
        """Return a run and all others on its hosts, of which each is numbered by its place among the rows of this run."""
        run = self._runs[run_id]
        rows, system = self._rows(run), run.state.system
        others = {other for name in run.names for other in self._on[system, name]} | {run_id}
        others |= set(self._of_job[system, run.state.job_id])
        return _stays(
            (self._runs[other].state, _places(rows, self._rows(self._runs[other]))) for other in sorted(others)
        )

    def _rows(self, run: _Present) -> Rows:
        if run.version != self._roster.version:
            hosts, system = self._roster.hosts.numbers, run.state.system
            found = [row for name in run.names if (row := hosts.row((system, name))) is not None]
            found += self._roster.marked(system, run.state.job_id)
            run.rows, run.version = np.array(sorted(found), dtype=np.int64), self._roster.version
        return run.rows


def _touches(run: _Present, start_ms: int, end_ms: int) -> bool:
    state = run.state
    return state.start_ms < end_ms and (state.end_ms is None or state.end_ms > start_ms)


def _stays(found: Iterable[tuple[ProfileRunState, Rows]]) -> Stays:
    runs = [(state, rows) for state, rows in found if len(rows)]
    count = [len(rows) for _, rows in runs]
    ends = (RUNNING_MS if state.end_ms is None else state.end_ms for state, _ in runs)
    host = np.concatenate([rows for _, rows in runs]) if runs else np.zeros(0, np.int64)
    columns: Iterator[Iterable[int]] = iter(
        ((state.row for state, _ in runs), (state.start_ms for state, _ in runs), ends)
    )
    return Stays(host, *(np.repeat(np.array(list(column), dtype=np.int64), count) for column in columns))


def _places(rows: Rows, of: Rows) -> Rows:
    """Return where in `rows` those of some rows stand that are among them."""
    return np.flatnonzero(np.isin(rows, of))


def _remove(index: dict[tuple[str, str], dict[str, None]], key: tuple[str, str], run_id: str) -> None:
    found = index.get(key, {})
    found.pop(run_id, None)
    if not found:
        index.pop(key, None)
