"""The memory of runs of one shard: whether a run was counted before, and as what. It takes every run, and forgets the oldest."""

from processors.jobs.deduplication import KnownRun, bucket, following
from processors.pipeline.state import ShardState

MARK = "mark"


class KnownRuns:
    """All runs that are remembered, at most `deduplication_runs_max` of them in `deduplication_buckets_max` buckets.

    A bucket that is full is followed by another one of the same quarter of an hour.
    """

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._found: tuple[str, int, str, KnownRun | None] | None = (
            None  # what was looked up last, until one is remembered
        )

    def find(self, run_id: str, start_ms: int) -> KnownRun | None:
        """Return what is remembered of a run; None for a new one."""
        return self._look_up(run_id, start_ms)[1]

    def is_forgotten(self, run_id: str, start_ms: int) -> bool:
        """Return whether a run belongs before everything that is remembered: it cannot be told from a repeat."""
        mark = self._state.low_water.get(MARK)
        return mark is not None and mark.score(bucket(run_id, start_ms))

    def remember(self, run_id: str, start_ms: int, known: KnownRun) -> None:
        """Remember a run, or remember it anew; where there are too many the oldest buckets go and are counted."""
        chosen, before = self._look_up(run_id, start_ms)
        self._found = None
        if before is None:
            self._count(1)
        found = self._state.known_runs.open(chosen)
        found.learn((run_id, known))
        self._state.known_runs.changed(chosen, found, self._state.now_ms)
        self._forget_excess()

    def _look_up(self, run_id: str, start_ms: int) -> tuple[str, KnownRun | None]:
        """Return the bucket that holds a run, and what is remembered of it; of a new one the bucket that takes it."""
        found = self._found
        if found is None or found[0] != run_id or found[1] != start_ms:
            self._found = found = (run_id, start_ms, *self._searched(run_id, start_ms))
        return found[2], found[3]

    def _searched(self, run_id: str, start_ms: int) -> tuple[str, KnownRun | None]:
        first = bucket(run_id, start_ms)
        key, last, follows = first, None, 0
        while (held := self._state.known_runs.get(key)) is not None:
            known = held.score(run_id)
            if known is not None:
                return key, known
            last, follows = (key, held), follows + 1
            key = following(first, follows)
        return (key if last is None or last[1].full() else last[0]), None

    def _count(self, runs: int) -> None:
        mark = self._state.low_water.open(MARK)
        mark.count(runs)
        self._state.low_water.changed(MARK, mark, self._state.now_ms)

    def _forget_excess(self) -> None:
        settings, known = self._state.settings.jobs, self._state.known_runs
        while len(known) > 1:
            too_many = self._state.low_water.open(MARK).runs > settings.deduplication_runs_max
            if not too_many and len(known) <= settings.deduplication_buckets_max:
                return
            oldest, oldest_left, *_ = sorted(known.keys())
            self._count(-len(known.open(oldest)))
            known.remove(oldest)
            mark = self._state.low_water.open(MARK)
            mark.learn(oldest_left)
            self._state.low_water.changed(MARK, mark, self._state.now_ms)
            if too_many:
                self._state.tally["bound", "deduplication_runs_max"] += 1
            else:
                self._state.tally["bound", "deduplication_buckets_max"] += 1
