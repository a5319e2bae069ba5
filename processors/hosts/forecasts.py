"""What each resource of each host will measure next: forecasts that run beside the telemetry, minute by minute."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from agent.contracts.hosts import Outlook
from processors.hosts.batch import MinuteBatch
from processors.hosts.columns import Rows
from processors.models.digits import six_digits
from processors.models.forecast.battery import Forecasters
from processors.models.forecast.layout import PREDICTORS, WIDTH

_ITEM = np.dtype("<f4")


class HostForecasts:
    """Thirty forecasters per resource of a host, of which the one with the least recent error answers.

    >>> forecasts = HostForecasts()
    >>> forecasts.grow(1)
    >>> forecasts.take(MinuteBatch(np.array([0]), np.array([0]), np.array([0]), np.full((1, 6), 0.5)))
    >>> forecasts.of([0])
    [Outlook(value=0.5, error=0.0, predictor='last')]
    """

    name: ClassVar[str] = "host_forecasts"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        self._forecasters = Forecasters(0)

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self._forecasters.grow(rows)

    def clear(self, rows: Rows) -> None:
        """Forget all of some rows."""
        self._forecasters.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self._forecasters.stored(first, last)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where the bytes are of another form."""
        if len(stored) != (last - first) * WIDTH * _ITEM.itemsize:
            raise ValueError(f"{last - first} rows of forecasts have other than {len(stored)} bytes.")
        self._forecasters.put(first, np.frombuffer(stored, _ITEM).reshape(-1, WIDTH))

    def take(self, batch: MinuteBatch) -> None:
        """Learn the 10-second means of a minute, one after the other."""
        for means in batch.means.T:
            self._forecasters.observe(batch.row, means)

    def of(self, rows: Sequence[int]) -> list[Outlook | None]:
        """Return what is expected next of each of some series; None before its first value."""
        forecast = self._forecasters.forecast(np.array(rows, dtype=np.intp))
        columns = (forecast.value.tolist(), forecast.error.tolist(), forecast.predictor.tolist())
        return [_outlook(*told) for told in zip(*columns, strict=True)]


def _outlook(value: float, error: float, predictor: int) -> Outlook | None:
    if predictor < 0:
        return None
    return Outlook(six_digits(value), None if np.isnan(error) else six_digits(error), PREDICTORS[predictor])
