"""Which host a series belongs to, by number."""

import numpy as np
import numpy.typing as npt

from agent.contracts.telemetry import SeriesIndex


class HostNumbers:
    """Numbers of hosts in the order in which their first series came; follows the series of an index.

    >>> from agent.contracts.telemetry import Series
    >>> index = SeriesIndex(series_max=3)
    >>> _ = [index.number(Series("exa", host, name)) for host, name in (("a", "x"), ("b", "x"), ("a", "y"))]
    >>> hosts = HostNumbers(index)
    >>> hosts.of_series(), len(hosts)
    (array([0, 1, 0], dtype=int32), 2)
    """

    def __init__(self, index: SeriesIndex) -> None:
        self._index = index
        self._numbers: dict[tuple[str, str], int] = {}
        self._of_series = np.zeros(0, np.int32)

    def __len__(self) -> int:
        """Return how many hosts there are."""
        return len(self._numbers)

    def of_series(self) -> npt.NDArray[np.int32]:
        """Return the host of each series of the index, (series,)."""
        have = len(self._of_series)
        if have < len(self._index):
            new = [self._number(number) for number in range(have, len(self._index))]
            self._of_series = np.concatenate((self._of_series, np.array(new, np.int32)))
        return self._of_series

    def _number(self, series: int) -> int:
        system, host, _ = self._index[series]
        return self._numbers.setdefault((system, host), len(self._numbers))
