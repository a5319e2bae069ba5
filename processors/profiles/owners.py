"""Whose a minute of a host is: of the one run that was there from its beginning to its end, and nobody's else."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.profiles.closing import Amounts
from processors.profiles.quantities import ALWAYS
from processors.windows.settings import MINUTE_MS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
LONG_AGO_MS = -(1 << 62)
RUNNING_MS = 1 << 62  # the end of what has not ended


class Stays(NamedTuple):
    """Runs on hosts (k,): row of the host, row of the run, from when, and until when.

    >>> Stays(*(np.zeros(1, np.int64) for _ in range(4))).host.tolist()
    [0]
    """

    host: Ints
    run: Ints
    start_ms: Ints
    end_ms: Ints


class Given(NamedTuple):
    """What runs get (m,): row of the run, number of the quantity, whether the minute is only in part the run's, and sums.

    >>> Given(*(np.zeros(1) for _ in range(5))).amount.tolist()
    [0.0]
    """

    run: Ints
    quantity: Ints
    short: npt.NDArray[np.bool_]
    amount: Floats
    seconds: Floats


def given(minute_ms: int, amounts: Amounts, stays: Stays, hosts: int, shared: int) -> Given:
    """Return what runs get of what some of `hosts` rows did in a minute; `shared` is the number of that quantity.

    An amount that took several minutes is a run's that was there in all of them. Of a minute in which a run began or ended
    it gets the share of the time, as a short one. Where several runs were, each is told that it was not alone.

    >>> did = np.array([(0, 20, 1, 600.0), (1, 20, 1, 300.0)], [("host", int), ("quantity", int), ("reach", int), ("amount", float)])
    >>> there = Stays(np.array([0, 1]), np.array([5, 5]), np.array([0, 30_000]), np.array([90_000, 90_000]))
    >>> found = given(0, did, there, hosts=2, shared=9)
    >>> found.amount.tolist(), found.seconds.tolist(), found.short.tolist()
    ([600.0, 150.0], [60.0, 30.0], [False, True])
    """
    end_ms = minute_ms + MINUTE_MS
    here = (stays.start_ms < end_ms) & (stays.end_ms > minute_ms)
    count = np.bincount(stays.host[here], minlength=hosts)
    run, start_ms, stop_ms = (np.full(hosts, -1, np.int64) for _ in range(3))
    for column, of in ((run, stays.run), (start_ms, stays.start_ms), (stop_ms, stays.end_ms)):
        column[stays.host[here]] = of[here]
    others_ms = np.full(hosts, LONG_AGO_MS)
    np.maximum.at(
        others_ms, stays.host[~here & (stays.end_ms <= minute_ms)], stays.end_ms[~here & (stays.end_ms <= minute_ms)]
    )
    host = amounts["host"]
    from_ms = end_ms - amounts["reach"].astype(np.int64) * MINUTE_MS
    alone = (count[host] == 1) & (others_ms[host] <= from_ms)
    whole = alone & (start_ms[host] <= from_ms) & (stop_ms[host] >= end_ms)
    part = (count[host] == 1) & ~whole & (amounts["reach"] == 1)
    part &= (start_ms[host] > minute_ms) | (stop_ms[host] < end_ms)
    inside_ms = np.minimum(stop_ms[host], end_ms) - np.maximum(start_ms[host], minute_ms)
    share = np.where(part, inside_ms / MINUTE_MS, 1.0)
    at = np.flatnonzero(whole | part)
    counts = amounts["quantity"][at] < len(ALWAYS)  # a count is what it is
    lone = _shared(stays, here & (count[stays.host] > 1), host)
    return Given(
        np.concatenate([run[host[at]], lone]),
        np.concatenate([amounts["quantity"][at].astype(np.int64), np.full(len(lone), shared)]),
        np.concatenate([part[at], np.zeros(len(lone), np.bool_)]),
        np.concatenate([amounts["amount"][at] * np.where(counts, 1.0, share[at]), np.ones(len(lone))]),
        np.concatenate([amounts["reach"][at] * share[at] * (MINUTE_MS / 1000), np.full(len(lone), MINUTE_MS / 1000)]),
    )


def _shared(stays: Stays, together: npt.NDArray[np.bool_], told: npt.NDArray[np.int32]) -> Ints:
    """Return the runs that were with others on hosts that told something, once for each host."""
    return stays.run[together & np.isin(stays.host, told)] if together.any() else np.zeros(0, np.int64)
