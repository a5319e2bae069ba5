"""A run under load: what was told at its start, what its hosts had to bear while it ran, and how what was told did."""

from functools import cached_property
from typing import NamedTuple

import msgspec

from processors.contracts.load import LoadHistogram, LoadSource, UnderLoad
from processors.facts import Band, PublishedPoint
from processors.load.prediction import View, quiet_run_time
from processors.load.usual import digits
from processors.models.histogram.arithmetic import crps, in_range, interval_index, pit
from processors.models.histogram.values import INTERVALS, INTERVALS_MAX, Histogram, given


class HostLoad(NamedTuple):
    """What the hosts of a run have to bear: the stretch of run times by the load of the slowest one, and the least bandwidth (B/s)."""

    load: float
    bandwidth: float | None = None


class Reckoned(msgspec.Struct, frozen=True, omit_defaults=True):
    """What follows from the load of one source: the load, and the run time in seconds, if figures were possible.

    `quantiles_s` are those of 5, 50 and 95 %, `width` is the factor by which their spread was scaled. `bandwidth` is in B/s,
    `communication_share` the part of the run time that was taken to wait for it.
    """

    source: LoadSource
    load: float
    width: float = 1.0
    quantiles_s: tuple[float, float, float] | None = None
    histogram: LoadHistogram | None = None
    bandwidth: float | None = None
    communication_share: float = 0.0

    @classmethod
    def of(cls, prediction: UnderLoad) -> "Reckoned | None":
        """Return what a prediction says; None where it has no load."""
        if prediction.load is None:
            return None
        low_s, middle_s, high_s = prediction.q05_s, prediction.q50_s, prediction.q95_s
        known = (low_s, middle_s, high_s) if low_s and middle_s and high_s else None
        return cls(
            prediction.source,
            prediction.load,
            prediction.width,
            known,
            prediction.histogram,
            prediction.bandwidth,
            prediction.communication_share,
        )


class StartLoad(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was told under the load of a run's hosts before it started, and what its end is scored against.

    `view` tells whether these were its own hosts or any of its partition, `band` is what was told without their load,
    `pool_load` the load of its partition and `pool_bandwidth` the least bandwidth there, `other` what follows from the source
    of load that did not answer, `counterpart` what follows with the network where the prediction is without it, or else without. `met`
    are the loads of its hosts while it ran, summed, and how many; the last was looked at `met_ms`. `waited` is the same of
    1 / bandwidth.
    """

    application_id: str
    view: View
    prediction: UnderLoad
    band: PublishedPoint | None = None
    pool_load: float | None = None
    partition: str | None = None
    met: tuple[float, int] = (0.0, 0)
    met_ms: int = 0
    other: Reckoned | None = None
    pool_bandwidth: float | None = None
    waited: tuple[float, int] = (0.0, 0)
    counterpart: Reckoned | None = None

    @property
    def knows_bandwidth(self) -> bool:
        """Whether anything is known of the bandwidth of its hosts."""
        other = self.other.bandwidth if self.other is not None else None
        return bool(self.prediction.bandwidth or self.pool_bandwidth or other or self.waited[1])

    def by(self, source: LoadSource) -> Reckoned | None:
        """Return what follows from the load of a source; None where it said nothing."""
        if self.prediction.source == source:
            return Reckoned.of(self.prediction)
        return self.other if self.other is not None and self.other.source == source else None

    def load(self, source: LoadSource) -> float | None:
        """Return the load by a source; None where it said nothing."""
        found = self.by(source)
        return found.load if found is not None else None

    @property
    def met_by(self) -> HostLoad | None:
        """What its hosts had to bear over the run; None where their load was not looked at since the start."""
        load = self.met_load
        return HostLoad(load, self.met_bandwidth) if load else None

    @property
    def met_load(self) -> float | None:
        """The mean load of its hosts over the run, as it is known; None where it was not looked at since the start."""
        total, count = self.met
        before = self.load("window")
        return (total + before) / (count + 1) if count and before is not None and self.view == "own" else None

    @property
    def met_bandwidth(self) -> float | None:
        """The mean bandwidth (B/s) of its hosts over the run, by the time that a byte takes; None as for `met_load`."""
        waited, count = self.waited
        known = self.by("window")
        before = known.bandwidth if known is not None else None
        return (count + 1) / (waited + 1 / before) if count and before and self.view == "own" else None

    def looked_at(self, found: HostLoad, now_ms: int) -> "StartLoad":
        """Return it with what its hosts have to bear at one more moment."""
        (load, count), (waited, looks) = self.met, self.waited
        if found.bandwidth:
            waited, looks = digits(waited + 1 / found.bandwidth), looks + 1
        met = digits(load + found.load), count + 1
        return msgspec.structs.replace(self, met=met, waited=(waited, looks), met_ms=now_ms)


def better_band(start: StartLoad | None) -> Band | None:
    """Return the run time and band under load of a run, where such figures have predicted better than the plain ones."""
    known = start.prediction if start is not None else None
    if known is None or not known.better or known.q05_s is None or known.q50_s is None or known.q95_s is None:
        return None
    return Band(known.q50_s, known.q05_s, known.q95_s)


class Bandwidths(NamedTuple):
    """What bandwidth had been usual for runs of a size, in each view of it (B/s)."""

    own: float | None = None
    pool: float | None = None
    met: float | None = None
    forecast: float | None = None


class LoadedRun(msgspec.Struct, frozen=True, dict=True):
    """A run that ended: what was told at its start, how long it took, and the loads and bandwidths that had been usual at its size.

    `explained` is by how much, in ln T, the load that it met explains its run time with the network and without it, None
    where no bandwidth is known.

    How that did is the same for all that learn it: its application, and its centre.
    """

    start: StartLoad
    run_time_s: float
    own_usual: float | None = None
    pool_usual: float | None = None
    met_usual: float | None = None
    forecast_usual: float | None = None
    bandwidths: Bandwidths = Bandwidths()
    explained: tuple[float, float] | None = None

    @property
    def own_load(self) -> float | None:
        """The load of its hosts."""
        return self.start.load("window") if self.start.view == "own" else None

    @property
    def pool_load(self) -> float | None:
        """The load of its partition."""
        return self.start.pool_load if self.start.view == "own" else self.start.load("window")

    @property
    def own_bandwidth(self) -> float | None:
        """The least bandwidth (B/s) of its hosts."""
        known = self.start.by("window") if self.start.view == "own" else None
        return known.bandwidth if known is not None else None

    @property
    def pool_bandwidth(self) -> float | None:
        """The least bandwidth (B/s) in its partition."""
        if self.start.view == "own":
            return self.start.pool_bandwidth
        known = self.start.by("window")
        return known.bandwidth if known is not None else None

    @cached_property
    def score(self) -> "LoadScore | None":
        """How what was told at its start did; None where nothing was."""
        known = self.start.prediction.histogram
        if known is None:
            return None
        histogram = given(known.edges_s, known.probabilities)
        band, run_time_s = self.start.band, self.run_time_s
        plain = quiet_run_time(band, INTERVALS_MAX) if band else None
        return LoadScore(
            interval=int(interval_index(histogram, run_time_s))
            if histogram.intervals == INTERVALS
            else _middle(known, run_time_s),
            inside=bool(in_range(histogram, run_time_s)),
            pit=float(pit(histogram, run_time_s)),
            expected=_five(histogram),
            crps=float(crps(histogram, run_time_s)) / band.run_time_s if band else None,
            band_crps=float(crps(plain, run_time_s)) / band.run_time_s if band and plain else None,
        )

    @cached_property
    def crps_by_source(self) -> tuple[float, float] | None:
        """The CRPS of what followed from the forecast load and from the window, over the run time of the band; None without both."""
        forecast, window, band = self.start.by("forecast"), self.start.by("window"), self.start.band
        if band is None or forecast is None or forecast.histogram is None or window is None or window.histogram is None:
            return None
        return self._crps(forecast.histogram, band), self._crps(window.histogram, band)

    @cached_property
    def crps_by_network(self) -> tuple[float, float] | None:
        """The CRPS of what followed with the network, and without it, over the run time of the band; None without both."""
        known, counterpart, band = Reckoned.of(self.start.prediction), self.start.counterpart, self.start.band
        if (
            band is None
            or known is None
            or known.histogram is None
            or counterpart is None
            or counterpart.histogram is None
        ):
            return None
        pair = (known.histogram, counterpart.histogram)
        counts, plain = pair if known.communication_share > 0 else reversed(pair)
        return self._crps(counts, band), self._crps(plain, band)

    def _crps(self, known: LoadHistogram, band: PublishedPoint) -> float:
        return float(crps(given(known.edges_s, known.probabilities), self.run_time_s)) / band.run_time_s


class LoadScore(msgspec.Struct, frozen=True):
    """How a histogram did on one run: interval (-1 below all, 5 above), and CRPS over the run time that the band said."""

    interval: int
    inside: bool
    pit: float
    expected: tuple[float, ...]
    crps: float | None
    band_crps: float | None


def _five(histogram: Histogram) -> tuple[float, ...]:
    if histogram.intervals == INTERVALS:
        return tuple(float(share) for share in histogram.shares)
    return (0.0, 0.0, 1.0, 0.0, 0.0)


def _middle(known: LoadHistogram, run_time_s: float) -> int:
    """Return the interval for a run time that was told to be certain: the middle one, or beyond all."""
    reported_s = known.edges_s[0]
    return INTERVALS // 2 if run_time_s == reported_s else -1 if run_time_s < reported_s else INTERVALS
