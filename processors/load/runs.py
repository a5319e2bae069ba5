"""A run under load: the prediction at its start, the load on its hosts during the run, and the score of the prediction."""

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
    """The load on the hosts of a run: the stretch by the slowest host, and the least bandwidth (B/s)."""

    load: float
    bandwidth: float | None = None


class Reckoned(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prediction by one source of load: the load, and the run time in seconds if it could be computed.

    `quantiles_s` are those of 5, 50 and 95 %, `width` is the factor applied to their spread. `bandwidth` is in B/s,
    `communication_share` the assumed part of the run time that waits for the network.
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
        """Return the content of a prediction; None without a load."""
        if prediction.load is None:
            return None
        low_s, middle_s, high_s = prediction.q05_s, prediction.q50_s, prediction.q95_s
        quantiles_s = (low_s, middle_s, high_s) if low_s and middle_s and high_s else None
        return cls(
            prediction.source,
            prediction.load,
            prediction.width,
            quantiles_s,
            prediction.histogram,
            prediction.bandwidth,
            prediction.communication_share,
        )


class StartLoad(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prediction under load before a run started, to be scored at its end.

    `view` tells whether the load was that of the run's own hosts or of its partition, `band` is the prediction without load,
    `pool_load` the load of the partition and `pool_bandwidth` the least bandwidth there. `other` is the prediction by the source of
    load that did not answer, `counterpart` the one with the network if the answer was without, or without if it was with. `met` sums
    the loads of the hosts during the run, with their number; the last look was at `met_ms`. `waited` does the same for 1 / bandwidth.
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
        other_bandwidth = self.other.bandwidth if self.other is not None else None
        return bool(self.prediction.bandwidth or self.pool_bandwidth or other_bandwidth or self.waited[1])

    def by(self, source: LoadSource) -> Reckoned | None:
        """Return the prediction by a source of load; None without one."""
        if self.prediction.source == source:
            return Reckoned.of(self.prediction)
        return self.other if self.other is not None and self.other.source == source else None

    def load(self, source: LoadSource) -> float | None:
        """Return the load by a source; None without one."""
        prediction = self.by(source)
        return prediction.load if prediction is not None else None

    @property
    def met_by(self) -> HostLoad | None:
        """The mean load on the hosts over the run; None if nobody looked since the start."""
        load = self.met_load
        return HostLoad(load, self.met_bandwidth) if load else None

    @property
    def met_load(self) -> float | None:
        """The mean load of the hosts over the run; None if nobody looked since the start."""
        total, count = self.met
        before = self.load("window")
        return (total + before) / (count + 1) if count and before is not None and self.view == "own" else None

    @property
    def met_bandwidth(self) -> float | None:
        """The mean bandwidth (B/s) of the hosts over the run, averaged as time per byte; None as for `met_load`."""
        waited, count = self.waited
        prediction = self.by("window")
        before = prediction.bandwidth if prediction is not None else None
        return (count + 1) / (waited + 1 / before) if count and before and self.view == "own" else None

    def looked_at(self, host_load: HostLoad, now_ms: int) -> "StartLoad":
        """Return this with the load of the hosts at one more moment."""
        (load, count), (waited, looks) = self.met, self.waited
        if host_load.bandwidth:
            waited, looks = digits(waited + 1 / host_load.bandwidth), looks + 1
        met = digits(load + host_load.load), count + 1
        return msgspec.structs.replace(self, met=met, waited=(waited, looks), met_ms=now_ms)


def better_band(start: StartLoad | None) -> Band | None:
    """Return the run time and band under load if such predictions have the better record, else None."""
    prediction = start.prediction if start is not None else None
    if (
        prediction is None
        or not prediction.better
        or prediction.q05_s is None
        or prediction.q50_s is None
        or prediction.q95_s is None
    ):
        return None
    return Band(prediction.q50_s, prediction.q05_s, prediction.q95_s)


class Bandwidths(NamedTuple):
    """The usual bandwidth of runs of a size, in each view (B/s)."""

    own: float | None = None
    pool: float | None = None
    met: float | None = None
    forecast: float | None = None


class LoadedRun(msgspec.Struct, frozen=True, dict=True):
    """A run that ended: the prediction at its start, its run time, and the usual loads and bandwidths at its size.

    `explained` is the part of its run time, in ln T, that the load during the run explains with the network and without it, None
    without a known bandwidth.
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
        return self.start.load("window") if self.start.view == "own" else None

    @property
    def pool_load(self) -> float | None:
        return self.start.pool_load if self.start.view == "own" else self.start.load("window")

    @property
    def own_bandwidth(self) -> float | None:
        """The least bandwidth (B/s) of its hosts."""
        prediction = self.start.by("window") if self.start.view == "own" else None
        return prediction.bandwidth if prediction is not None else None

    @property
    def pool_bandwidth(self) -> float | None:
        """The least bandwidth (B/s) in its partition."""
        if self.start.view == "own":
            return self.start.pool_bandwidth
        prediction = self.start.by("window")
        return prediction.bandwidth if prediction is not None else None

    @cached_property
    def score(self) -> "LoadScore | None":
        """The score of the prediction at its start; None without a histogram."""
        predicted_histogram = self.start.prediction.histogram
        if predicted_histogram is None:
            return None
        histogram = given(predicted_histogram.edges_s, predicted_histogram.probabilities)
        band, run_time_s = self.start.band, self.run_time_s
        plain = quiet_run_time(band, INTERVALS_MAX) if band else None
        return LoadScore(
            interval=int(interval_index(histogram, run_time_s))
            if histogram.intervals == INTERVALS
            else _middle(predicted_histogram, run_time_s),
            inside=bool(in_range(histogram, run_time_s)),
            pit=float(pit(histogram, run_time_s)),
            expected=_five(histogram),
            crps=float(crps(histogram, run_time_s)) / band.run_time_s if band else None,
            band_crps=float(crps(plain, run_time_s)) / band.run_time_s if band and plain else None,
        )

    @cached_property
    def crps_by_source(self) -> tuple[float, float] | None:
        """The CRPS by the forecast load and by the window, over the run time of the band; None without both."""
        forecast, window, band = self.start.by("forecast"), self.start.by("window"), self.start.band
        if band is None or forecast is None or forecast.histogram is None or window is None or window.histogram is None:
            return None
        return self._crps(forecast.histogram, band), self._crps(window.histogram, band)

    @cached_property
    def crps_by_network(self) -> tuple[float, float] | None:
        """The CRPS with the network and without it, over the run time of the band; None without both."""
        prediction, counterpart, band = Reckoned.of(self.start.prediction), self.start.counterpart, self.start.band
        if (
            band is None
            or prediction is None
            or prediction.histogram is None
            or counterpart is None
            or counterpart.histogram is None
        ):
            return None
        pair = (prediction.histogram, counterpart.histogram)
        counts, plain = pair if prediction.communication_share > 0 else reversed(pair)
        return self._crps(counts, band), self._crps(plain, band)

    def _crps(self, histogram: LoadHistogram, band: PublishedPoint) -> float:
        return float(crps(given(histogram.edges_s, histogram.probabilities), self.run_time_s)) / band.run_time_s


class LoadScore(msgspec.Struct, frozen=True):
    """The score of a histogram on one run: interval (-1 below all, 5 above), and CRPS over the run time of the band."""

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


def _middle(histogram: LoadHistogram, run_time_s: float) -> int:
    """Return the interval for a run time that was predicted without spread: the middle one, or beyond all."""
    reported_s = histogram.edges_s[0]
    return INTERVALS // 2 if run_time_s == reported_s else -1 if run_time_s < reported_s else INTERVALS
