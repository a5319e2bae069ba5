"""What a collector measures: gathered while it decodes and told once a batch, because a metric costs as much as an event."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from processors.contracts.events import Decoded
from processors.contracts.service import Measures

UNUSED: Final = {
    "metric": "unwanted",
    "series": "series_max",
    "null": "null",
    "negative": "negative",
    "too_large": "too_large",
    "unknown-host": "unknown_host",
    "shared": "shared",
    "unit": "no_unit",
    "second-sensor": "second_sensor",
}  # what decoders leave out of samples, and as what it counts
AFTER_ALL: Final = frozenset(("repeated", "thinned"))  # of samples that were taken


class Meter:
    """Counts and times of one collector; `monotonic_s` is a clock that only grows."""

    def __init__(self, measures: Measures, monotonic_s: Callable[[], float]) -> None:
        self._measures = measures
        self._monotonic_s = monotonic_s
        self._events: Counter[tuple[str, str]] = Counter()
        self._reasons: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._bounds: Counter[str] = Counter()
        self._minutes = 0

    def decoded(self, format_name: str, decoded: Decoded) -> None:
        """Count the parts of a message by what became of them."""
        self._events[format_name, "processed"] += len(decoded.events)
        if decoded.rejects:
            self._events[format_name, "rejected"] += len(decoded.rejects)
        if decoded.ignored:
            self._events[format_name, "dropped"] += sum(decoded.ignored.values())
            for what in UNUSED.keys() & decoded.ignored.keys():
                self._left_out[UNUSED[what]] += decoded.ignored[what]
            if "series" in decoded.ignored:
                self.bound("collector_series_max")

    def samples(self, format_name: str, counts: Mapping[str, int]) -> None:
        """Count what became of samples: `taken`, or why they were left out."""
        for what, count in counts.items():
            if what == "taken":
                self._events[format_name, "processed"] += count
                continue
            self._left_out[what] += count
            if what not in AFTER_ALL:
                self._events[format_name, "dropped"] += count

    def bound(self, name: str) -> None:
        """Count that a bound was reached."""
        self._bounds[name] += 1

    def minute(self) -> None:
        """Count a minute of a host."""
        self._minutes += 1

    def refused(self, reason: str) -> None:
        """Count a dead letter."""
        self._reasons[reason] += 1

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Time the work on one poll, its flush and commit included, and tell what was counted."""
        began_s = self._monotonic_s()
        yield
        self._tell()
        self._measures.observe("scalewatch_batch_duration_seconds", self._monotonic_s() - began_s, role="collector")

    def _tell(self) -> None:
        for (format_name, outcome), count in self._events.items():
            self._count(format_name, outcome, count)
            self._count(format_name, "received", count)
        for reason, count in self._reasons.items():
            self._measures.add("scalewatch_dead_letters_total", count, reason=reason)
        for reason, count in self._left_out.items():
            if count:
                self._measures.add("scalewatch_samples_left_out_total", count, reason=reason)
        for bound, count in self._bounds.items():
            self._measures.add("scalewatch_bounds_hit_total", count, bound=bound)
        if self._minutes:
            self._measures.add("scalewatch_collector_minutes_total", self._minutes)
        self._events.clear()
        self._reasons.clear()
        self._left_out.clear()
        self._bounds.clear()
        self._minutes = 0

    def _count(self, format_name: str, outcome: str, count: int) -> None:
        if count:
            self._measures.add("scalewatch_events_total", count, role="collector", format=format_name, outcome=outcome)
