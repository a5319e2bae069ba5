"""What is wrong with hosts, as states: since when, for how long it was seen, and which jobs met it.

A host that is unlike its peers, or outside its own past, is one cause with many effects. Effects are found by others, run
by run; they ask here whether a host explains them.
"""

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from processors.contracts.hosts import HostCause
from processors.hosts.rows import NEVER_MS, Rows, RowTable

STILL_SHARE: Final = 0.5  # of the resources that were odd: where as many are still outside, the host is still odd
_LEVEL: Final = np.dtype([("since_ms", "<i8"), ("low", "<f8"), ("high", "<f8")])
_CAUSE: Final = np.dtype(
    [("odd_ms", "<i8"), ("differing_ms", "<i8"), ("from_ms", "<i8"), ("until_ms", "<i8"), ("job", "<u8"), ("jobs", "<u4"),
     ("power_only", "u1")]
)  # fmt: skip


class HostLevels(RowTable):
    """Between which ends a resource lay before its host became odd; a row is a series, without since_ms one that is not odd.

    The range that detectors compare with learns the new level within minutes. This one does not.
    """

    name: ClassVar[str] = "host_levels"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(_LEVEL, since_ms=NEVER_MS)

    def keep(self, row: int, since_ms: int, low: float, high: float) -> None:
        """Keep the range of a resource from before it was odd; one that is retained stays."""
        if self.rows["since_ms"][row] == NEVER_MS:
            self.rows[row] = since_ms, low, high

    def since_ms(self, row: int) -> int | None:
        """Return since when a resource's range is kept; None where it is not."""
        since_ms = int(self.rows["since_ms"][row])
        return None if since_ms == NEVER_MS else since_ms

    def known(self, host: npt.NDArray[np.int64]) -> Rows:
        """Return the hosts of which the range of a resource is kept; `host` (rows,) is that of each series."""
        retained = (self.rows["since_ms"][: len(host)] != NEVER_MS) & (host >= 0)
        return np.asarray(np.unique(host[retained]))

    def still_odd(self, mean: npt.NDArray[np.float64], host: npt.NDArray[np.int64]) -> Rows:
        """Return the hosts of which enough resources are outside of the ranges that are kept of them.

        `mean` (rows,) is the newest minute of each series, nan where it is not of now, and `host` (rows,) its host.
        """
        retained = np.flatnonzero((self.rows["since_ms"][: len(host)] != NEVER_MS) & (host >= 0))
        if not retained.size:
            return retained
        outside = (mean[retained] < self.rows["low"][retained]) | (mean[retained] > self.rows["high"][retained])
        hosts, place = np.unique(host[retained], return_inverse=True)
        share = np.bincount(place, outside) / np.bincount(place)
        return np.asarray(hosts[share >= STILL_SHARE])


class HostCauses(RowTable):
    """What is wrong with each host; a row is a host.

    `odd_ms` is since when it is outside its own past, `differing_ms` since when it is unlike its peers, NEVER_MS where it is not.
    `from_ms` to `until_ms` is the newest time in which anything was. `jobs` met it, the newest of which has the digest `job`.
    """

    name: ClassVar[str] = "host_causes"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(_CAUSE, odd_ms=NEVER_MS, differing_ms=NEVER_MS, from_ms=NEVER_MS, until_ms=NEVER_MS)
        self._any: bool | None = None  # whether a row has a cause; None until it is looked up

    def any(self) -> bool:
        """Return whether anything was ever wrong with a host, as far as is remembered: every run that ends asks for it."""
        if self._any is None:
            self._any = bool((self.rows["from_ms"] != NEVER_MS).any())
        return self._any

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        super().clear(rows)
        self._any = None

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where there are more or fewer bytes than these rows have."""
        super().restore(first, last, stored)
        self._any = None

    def begin(self, row: int, field: str, since_ms: int, now_ms: int, *, power_only: bool = False) -> None:
        """Note that something is wrong with a host since a time; `field` is odd_ms or differing_ms."""
        self._any = True
        if not self._going_on(row):
            self.rows[row] = NEVER_MS, NEVER_MS, since_ms, now_ms, 0, 0, power_only
        if self.rows[field][row] == NEVER_MS:
            self.rows[field][row] = since_ms
        self.rows["from_ms"][row] = min(since_ms, int(self.rows["from_ms"][row]))
        self.rows["until_ms"][row] = now_ms
        self.rows["power_only"][row] &= power_only

    def goes_on(self, rows: Rows, now_ms: int) -> None:
        """Note that what is wrong with hosts still is."""
        self.rows["until_ms"][rows] = now_ms

    def met(self, row: int, job: int) -> int:
        """Note that a job, by its digest, runs on a host while something is wrong with it; return how many did."""
        if self.rows["job"][row] != job:
            self.rows["job"][row] = job
            self.rows["jobs"][row] += 1
        return int(self.rows["jobs"][row])

    def end(self, rows: Rows, field: str) -> None:
        """Note that this is not so any more."""
        self.rows[field][rows] = NEVER_MS

    def explains(self, row: int, host: str, start_ms: int, end_ms: int) -> HostCause | None:
        """Return what was wrong with a host while a run was on it; None where nothing is known to have been."""
        one = self.rows[row]
        if one["from_ms"] == NEVER_MS or one["from_ms"] > end_ms:
            return None
        if one["until_ms"] < start_ms and not self._going_on(row):  # else it is so also while nobody can compare it
            return None
        return HostCause(host, int(one["from_ms"]), int(one["until_ms"]), bool(one["power_only"]))

    def _going_on(self, row: int) -> bool:
        one = self.rows[row]
        return bool(one["odd_ms"] != NEVER_MS or one["differing_ms"] != NEVER_MS)
