"""The rate of false alerts about hosts: the probability that a day of a normal host is at least as unusual as this minute.

A host is compared with its own earlier days: each figure is divided by its second largest daily maximum of two weeks. The daily
maxima of ln of this ratio, pooled over all hosts of a fleet, show how unusual a day can be. Up to the 90 % quantile of the pool the
probability is the share of larger maxima; beyond, it falls exponentially (peaks over a threshold: Pickands 1975). The scale follows
from the median of the excesses, because days with a fault belong to the pool too and would inflate their mean. Until some hundred
host-days are known, a shipped distribution counts as well. It was chosen on the unlabelled days of two fleets (ASD, JumpStarter).
"""

from collections import Counter
from functools import cached_property
from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from processors.contracts.hosts import HOST_ANOMALY_RATES
from processors.models.detect.multivariate import FIGURES, CombinedStep
from processors.models.numerics.arrays import Floats
from processors.store import PlainProcessor

LOW: Final = -4.0  # ln of the smallest ratio that is counted
STEP: Final = 0.02
BINS: Final = 500
QUANTILE: Final = 0.9
SHIPPED_90: Final = np.array([[-0.05], [0.0]])  # 90 % quantile of the daily maxima of each figure
SHIPPED_SCALE: Final = np.array([[0.12], [0.15]])
SHIPPED_DAYS: Final = 500.0  # weight of the shipped distribution, in host-days
HOST_DAYS_MAX: Final = 20_000  # beyond, older days lose half of their weight
MEDIAN_EXCESS: Final = float(np.log(2.0))  # of an exponential distribution with scale 1
SCALE_MIN: Final = 0.02
_CENTRES: Final = LOW + STEP * (np.arange(BINS) + 0.5)
_SHIPPED: Final = np.minimum((1.0 - QUANTILE) * np.exp((SHIPPED_90 - _CENTRES) / SHIPPED_SCALE), 1.0)


class DailyMaxima(PlainProcessor, omit_defaults=True, dict=True):
    """The pooled daily maxima of a fleet: for each figure the counts by bin, without empty bins."""

    name: ClassVar[str] = "host_daily_maxima"
    version: ClassVar[int] = 1

    counts: list[dict[int, float]] = msgspec.field(default_factory=lambda: [{} for _ in range(FIGURES)])

    def score(self, maxima: Floats) -> dict[str, int]:
        """Return for each of HOST_ANOMALY_RATES the number of the host-days (k, FIGURES) that were at least as unusual."""
        known = maxima[np.isfinite(maxima).any(axis=1)]
        p = combined_p(self.p(known))
        return {rate: int((p <= float(rate)).sum()) for rate in HOST_ANOMALY_RATES}

    def p(self, log_ratio: Floats) -> Floats:
        """Return the share (m, FIGURES) of days of a normal host with at least these log ratios (m, FIGURES); 1 if unknown."""
        bins = _bins(log_ratio)
        return np.where(bins >= 0, self._shares[np.arange(FIGURES), np.maximum(bins, 0)], 1.0)

    def learn(self, maxima: Floats) -> None:
        """Add the maxima of host-days (k, FIGURES); values that are not finite are left out."""
        self.counts = [self._added(*figure) for figure in zip(self.counts, _bins(maxima).T, strict=True)]
        vars(self).pop("_shares", None)

    @staticmethod
    def _added(counts: dict[int, float], bins: NDArray[np.intp]) -> dict[int, float]:
        weight = 0.5 if sum(counts.values()) + bins.size > HOST_DAYS_MAX else 1.0
        new = Counter(bins[bins >= 0].tolist())
        return {place: weight * counts.get(place, 0.0) + new[place] for place in sorted({*counts, *new})}

    @cached_property
    def _shares(self) -> Floats:
        """The probability of each figure and bin, (FIGURES, BINS)."""
        return np.stack([self._mixed(*pair) for pair in zip(self.counts, _SHIPPED, strict=True)])

    @staticmethod
    def _mixed(counts: dict[int, float], shipped: Floats) -> Floats:
        """Return the probability by bin of one figure: the mean of the counted days and of `shipped`, weighted by host-days."""
        days = sum(counts.values())
        if not days:
            return shipped
        table = np.zeros(BINS)
        table[list(counts)] = list(counts.values())
        up_to = table.cumsum() / days
        at_90, at_95 = (_CENTRES[np.searchsorted(up_to, share)] for share in (QUANTILE, (1.0 + QUANTILE) / 2.0))
        scale = max((at_95 - at_90) / MEDIAN_EXCESS, SCALE_MIN)
        beyond = (1.0 - QUANTILE) * np.exp(-np.maximum(_CENTRES - at_90, 0.0) / scale)
        counted = np.where(at_90 < _CENTRES, beyond, np.maximum(1.0 - up_to, 1.0 - QUANTILE))
        return np.asarray((days * counted + SHIPPED_DAYS * shipped) / (days + SHIPPED_DAYS))


def _bins(log_ratio: Floats) -> NDArray[np.intp]:
    """Return the bin of each value; -1 for a value that is not finite."""
    known = np.isfinite(log_ratio)
    bins = np.floor((np.where(known, log_ratio, 0.0) - LOW) / STEP)
    return np.where(known, np.clip(bins, 0, BINS - 1), -1).astype(np.intp)


def combined_p(shares: Floats) -> Floats:
    """Return one probability (m,) from those of the figures (m, FIGURES): their harmonic mean (Wilson 2019)."""
    return np.asarray(shares.shape[1] / (1.0 / np.maximum(shares, np.finfo(float).tiny)).sum(axis=1))


def fired(step: CombinedStep, maxima: DailyMaxima, false_per_host_day: float) -> NDArray[np.bool_]:
    """Return a mask of the hosts (m,) that are too unusual for the rate of false alerts.

    A host without earlier days fires if many resources are far from their means.
    """
    unusual = combined_p(maxima.p(step.log_ratio)) < false_per_host_day
    return np.asarray(step.learned & np.where(step.has_past, unusual, step.many_far))
