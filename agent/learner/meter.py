"""What a learner measures: gathered while it folds and told once a batch, because a metric costs as much as an event."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from agent.learner.shard import Fold
from processors.contracts.errors import CheckpointLostError, FencedError, UnavailableError
from processors.contracts.service import Measures

OUTCOMES: Final[dict[type[Exception], str]] = {
    CheckpointLostError: "lost",
    FencedError: "fenced",
    UnavailableError: "unavailable",
}


class Meter:
    """Counts and times of one learner; `monotonic_s` is a clock that only grows."""

    def __init__(self, measures: Measures, monotonic_s: Callable[[], float]) -> None:
        self._measures = measures
        self._monotonic_s = monotonic_s
        self._sent: Counter[str] = Counter()
        self._rejected = 0
        self._ticks_s = 0.0

    def restored(self, *, hosts_lost: bool) -> None:
        """Count a take-over, and whether what was learned of hosts was lost with it."""
        self._measures.add("scalewatch_restores_total")
        if hosts_lost:
            self._measures.add("scalewatch_restores_without_hosts_total")

    def sent(self, kind: str) -> None:
        """Count a record of an output topic."""
        self._sent[kind] += 1

    def rejected(self) -> None:
        """Count an event that a processor could not take."""
        self._rejected += 1

    @contextmanager
    def tick(self) -> Iterator[None]:
        """Time the fold of a tick: that is where models are fitted."""
        began_s = self._monotonic_s()
        yield
        self._ticks_s += self._monotonic_s() - began_s

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Time the work on one polled batch."""
        began_s = self._monotonic_s()
        yield
        self._measures.observe("scalewatch_batch_duration_seconds", self._monotonic_s() - began_s, role="learner")

    def timed(self, work: Callable[[], None]) -> Callable[[], float]:
        """Return work that returns how long it took in seconds; for any thread."""

        def run() -> float:
            began_s = self._monotonic_s()
            work()
            return self._monotonic_s() - began_s

        return run

    def saved(self, seconds: float) -> None:
        """Count a checkpoint that is there, and how long it took from the first write to the confirmation."""
        self._measures.observe("scalewatch_checkpoint_duration_seconds", seconds)
        self._measures.add("scalewatch_checkpoints_total", outcome="confirmed")

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Count a checkpoint that fails within this block."""
        try:
            yield
        except tuple(OUTCOMES) as error:
            self._measures.add("scalewatch_checkpoints_total", outcome=OUTCOMES[type(error)])
            raise

    def tell_folded(self, fold: Fold, records: int) -> None:
        """Tell of `records` that were folded: what became of them, the fits, the faults, and how much state there is."""
        tally = fold.tallied()
        self._events("received", records)
        self._events("rejected", self._rejected)
        if self._rejected:
            self._measures.add("scalewatch_dead_letters_total", self._rejected, reason="processor")
        for (kind, name), count in tally.items():
            if kind == "fault":
                self._measures.add("scalewatch_processor_faults_total", count, processor=name)
            elif kind == "bound":
                self._measures.add("scalewatch_bounds_hit_total", count, bound=name)
            elif kind == "refused":
                self._measures.add("scalewatch_runs_refused_total", count, reason=name)
            elif kind == "shift":
                self._measures.add("scalewatch_level_shifts_total", count, direction=name)
            elif (kind, name) == ("profile", "minute_late"):
                self._measures.add("scalewatch_profile_minutes_late_total", count)
            elif kind == "profile":
                self._measures.add("scalewatch_profiles_total", count, outcome=name)
            elif kind == "event":
                self._events(name, count)
        self._fits(tally.get(("fit", "published"), 0))
        for name, count in fold.sizes().items():
            self._measures.set("scalewatch_state_records", count, processor=name)
        for component, error_w in fold.power_errors().items():
            self._measures.set("scalewatch_power_estimate_error_watts", error_w, component=component)
        self._rejected, self._ticks_s = 0, 0.0

    def tell_sent(self) -> None:
        """Tell of the records sent since the last call."""
        for kind, count in self._sent.items():
            self._measures.add("scalewatch_emissions_total", count, topic=kind)
        self._sent.clear()

    def _events(self, outcome: str, count: int) -> None:
        if count:
            self._measures.add("scalewatch_events_total", count, role="learner", format="journal", outcome=outcome)

    def _fits(self, published: int) -> None:
        """Share the time of the ticks out: a model that was fitted is published in the same tick."""
        for _ in range(published):
            self._measures.observe("scalewatch_fit_duration_seconds", self._ticks_s / published)
