"""How components measure: an injected object with closed names, so that they need not know Prometheus."""

from typing import Final, Protocol

ROLE_REASONS: Final = ("unknown-system", "processor")
"""Why a role refuses an event that was decoded well: a system that is not listed, or a processor that raised."""


class Measures(Protocol):
    """Counters, gauges and histograms by their full names; labels come from closed lists."""

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
