"""Energy: power over time by trapezoids, with gaps told and filled."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Energy(NamedTuple):
    """Energy of hosts (m,) from start to end; how much of that time was measured, as a share (m,); and gaps (m,).

    Where nothing was measured the energy is nan and the share 0.

    >>> Energy(np.array([60.0]), np.array([1.0]), np.array([0])).share.tolist()
    [1.0]
    """

    energy_j: Floats
    share: Floats
    gaps: npt.NDArray[np.int64]


def energy(time_s: Floats, power_w: Floats, start_s: float, end_s: float, gap_max_s: float) -> Energy:
    """Return the energy of hosts whose power (m, k) was sampled at rising times (k,); nan is no sample.

    Samples at most `gap_max_s` apart are joined by a line, and the first and last one reach to start and end where those
    are within that. Longer gaps count as drawn at the mean power of the measured time. Samples outside of start and end
    are left out. Raises ValueError where times do not rise, or the end is not after the start.

    >>> found = energy(np.arange(0.0, 600.0, 60.0), np.full((1, 10), 200.0), 0.0, 600.0, 120.0)
    >>> found.energy_j.tolist(), found.share.tolist()
    ([120000.0], [1.0])
    """
    if not start_s < end_s or (np.diff(time_s) <= 0).any():
        raise ValueError("Times of samples rise, and the end is after the start.")
    inside = (time_s >= start_s) & (time_s <= end_s)
    host, place = np.nonzero(np.isfinite(power_w) & inside)
    pieces = _pieces(host, time_s[place], power_w[host, place], start_s, end_s)
    near = (pieces.width_s > 0) & (pieces.width_s <= gap_max_s)
    hosts = len(power_w)
    area = np.bincount(pieces.host[near], (pieces.width_s * pieces.power_w)[near], hosts)
    measured_s = np.bincount(pieces.host[near], pieces.width_s[near], hosts)
    share = measured_s / (end_s - start_s)
    filled = np.divide(area, share, out=np.full(hosts, np.nan), where=share > 0)
    return Energy(filled, share, np.bincount(pieces.host[pieces.width_s > gap_max_s], minlength=hosts))


class _Pieces(NamedTuple):
    """Pieces of time (k,) between samples of a host, and before the first and after the last one, with their mean power."""

    host: npt.NDArray[np.int64]
    width_s: Floats
    power_w: Floats


def _pieces(host: npt.NDArray[np.int64], time_s: Floats, power_w: Floats, start_s: float, end_s: float) -> _Pieces:
    """Return the pieces of samples (k,) in the order of hosts and time."""
    change = host[1:] != host[:-1]
    first = np.flatnonzero(np.concatenate([[True], change]))[: len(host)]
    last = np.flatnonzero(np.concatenate([change, [True]]))[: len(host)]
    pair = np.flatnonzero(~change)
    return _Pieces(
        np.concatenate([host[first], host[pair], host[last]]),
        np.concatenate([time_s[first] - start_s, time_s[pair + 1] - time_s[pair], end_s - time_s[last]]),
        np.concatenate([power_w[first], (power_w[pair] + power_w[pair + 1]) / 2, power_w[last]]),
    )
