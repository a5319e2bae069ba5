"""What a collector measures: gathered while it decodes and told once a batch, because a metric costs as much as an event."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.contracts.decoding import Decoded
from agent.contracts.measures import Measures


class Meter:
    """Counts and times of one collector; `monotonic_s` is a clock that only grows.

    >>> class Silent:
    ...     def observe(self, name, value, **labels): print(name, value)
    ...     def add(self, name, amount=1.0, **labels): print(amount, *labels.values())
    >>> meter = Meter(Silent(), lambda: 0.0)
    >>> with meter.batch():
    ...     meter.decoded("native", Decoded(ignored={"features": 2}))
    2 collector native dropped
    2 collector native received
    scalewatch_batch_duration_seconds 0.0
    """

    def __init__(self, measures: Measures, monotonic_s: Callable[[], float]) -> None:
        self._measures = measures
        self._monotonic_s = monotonic_s
        self._events: Counter[tuple[str, str]] = Counter()
        self._reasons: Counter[str] = Counter()

    def decoded(self, format_name: str, decoded: Decoded) -> None:
        """Count the parts of a message by what became of them."""
        self._events[format_name, "processed"] += len(decoded.events)
        if decoded.rejects:
            self._events[format_name, "rejected"] += len(decoded.rejects)
        if decoded.ignored:
            self._events[format_name, "dropped"] += sum(decoded.ignored.values())

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
        self._events.clear()
        self._reasons.clear()

    def _count(self, format_name: str, outcome: str, count: int) -> None:
        if count:
            self._measures.add("scalewatch_events_total", count, role="collector", format=format_name, outcome=outcome)
