"""The memory of runs of one shard: whether a run was counted before, and as what. It takes every run, and forgets the oldest."""

from collections.abc import Iterator

from processors.jobs.deduplication import KnownRun, bucket
from processors.pipeline.state import ShardState

MARK = "mark"


class KnownRuns:
    """All runs that are remembered, at most `deduplication_runs_max` of them in `deduplication_buckets_max` buckets.

    A bucket that is full is followed by another one of the same quarter of an hour.
    """

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def find(self, run_id: str, start_ms: int) -> KnownRun | None:
        """Return what is remembered of a run; None for a new one."""
        buckets = (self._state.known_runs.open(key) for key in self._buckets(run_id, start_ms))
        return next((known for each in buckets if (known := each.score(run_id)) is not None), None)

    def is_forgotten(self, run_id: str, start_ms: int) -> bool:
        """Return whether a run belongs before everything that is remembered: it cannot be told from a repeat."""
        mark = self._state.low_water.get(MARK)
        return mark is not None and mark.score(bucket(run_id, start_ms))

    def remember(self, run_id: str, start_ms: int, known: KnownRun) -> None:
        """Remember a run, or remember it anew; where there are too many the oldest buckets go and are counted."""
        chosen = None
        for key in self._buckets(run_id, start_ms):
            chosen = key
            if self._state.known_runs.open(key).score(run_id) is not None:
                break
        else:
            chosen = self._with_room(run_id, start_ms, chosen)
            self._count(1)
        found = self._state.known_runs.open(chosen)
        found.learn((run_id, known))
        self._state.known_runs.changed(chosen, found, self._state.now_ms)
        self._forget_excess()

    def _buckets(self, run_id: str, start_ms: int) -> Iterator[str]:
        """Yield the buckets that may hold a run."""
        follows, key = 0, bucket(run_id, start_ms)
        while key in self._state.known_runs:
            yield key
            follows += 1
            key = bucket(run_id, start_ms, follows)

    def _with_room(self, run_id: str, start_ms: int, last: str | None) -> str:
        """Return the bucket that takes a new run, where `last` is the last one that is there."""
        if last is None:
            return bucket(run_id, start_ms)
        if not self._state.known_runs.open(last).full():
            return last
        return bucket(run_id, start_ms, sum(1 for _ in self._buckets(run_id, start_ms)))

    def _count(self, runs: int) -> int:
        mark = self._state.low_water.open(MARK)
        mark.count(runs)
        self._state.low_water.changed(MARK, mark, self._state.now_ms)
        return mark.runs

    def _forget_excess(self) -> None:
        settings, known = self._state.settings.jobs, self._state.known_runs
        while len(known) > 1:
            too_many = self._state.low_water.open(MARK).runs > settings.deduplication_runs_max
            if not too_many and len(known) <= settings.deduplication_buckets_max:
                return
            oldest, following, *_ = sorted(known.keys())
            self._count(-len(known.open(oldest)))
            known.remove(oldest)
            mark = self._state.low_water.open(MARK)
            mark.learn(following)
            self._state.low_water.changed(MARK, mark, self._state.now_ms)
            if too_many:
                self._state.tally["bound", "deduplication_runs_max"] += 1
            else:
                self._state.tally["bound", "deduplication_buckets_max"] += 1
