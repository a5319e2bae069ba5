"""A run under load: the prediction at its start, the load on its hosts during the run, and the score of the prediction."""

import math
from functools import cached_property
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from processors.contracts.load import LoadHistogram, LoadSource, UnderLoad
from processors.facts import Band, PublishedPoint, uninformative
from processors.load.prediction import View, quiet_run_time
from processors.load.records import digits
from processors.models.histogram import INTERVALS, INTERVALS_MAX, Histogram, crps, given, interval_index, pit

CRPS_MAX: Final = 2.0  # in ln T, so that one wild run does not outweigh all others
Seen = View | Literal["met"]  # "met" is the load during the run; a view is a load before its start


class HostLoad(NamedTuple):
    """The load on the hosts of a run: the stretch by the slowest host, and the least bandwidth (B/s); None while unknown."""

    load: float | None
    bandwidth: float | None = None


class Reckoned(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prediction by one source of load: the load, and the run time in seconds unless unknown.

    `quantiles_s` are the 5, 50 and 95 % quantiles in s, `width` is the factor applied to their spread. `bandwidth` is in B/s,
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
        """Return the load and run time of a prediction message; None without a load."""
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

    `view` says whether the load describes the run's own hosts or its partition, `band` is the prediction that ignores load,
    `pool_load` the load of the partition and `pool_bandwidth` the least bandwidth there. `other` is the prediction by the
    source of load that was not used, `counterpart` the prediction with the network if the published one ignored the network,
    and vice versa. `met` holds the sum and the number of the loads of the hosts during the run, last sampled at `met_ms`.
    `waited` is the same for 1 / bandwidth.
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

    def by(self, source: LoadSource) -> Reckoned | None:
        if self.prediction.source == source:
            return Reckoned.of(self.prediction)
        return self.other if self.other is not None and self.other.source == source else None

    def load_seen(self, view: Seen, source: LoadSource = "window") -> HostLoad:
        """Return the load and the bandwidth of the hosts in one view."""
        if view == "met":
            return self.met_by
        if view == "pool" and self.view == "own":
            return HostLoad(self.pool_load, self.pool_bandwidth)
        prediction = self.by(source) if view == self.view else None
        return HostLoad(prediction.load, prediction.bandwidth) if prediction is not None else HostLoad(None)

    @property
    def met_by(self) -> HostLoad:
        """The mean load and bandwidth of the hosts over the run; None without a sample since the start.

        Bandwidth is averaged as time per byte.
        """
        (total, count), (waited, looks) = self.met, self.waited
        before = self.by("window") if self.view == "own" else None
        if before is None:
            return HostLoad(None)
        load = (total + before.load) / (count + 1) if count else None
        return HostLoad(load, (looks + 1) / (waited + 1 / before.bandwidth) if looks and before.bandwidth else None)

    def looked_at(self, host_load: HostLoad, now_ms: int) -> "StartLoad":
        """Return the record with one more sample of the load of the hosts."""
        (load, count), (waited, looks) = self.met, self.waited
        if host_load.bandwidth:
            waited, looks = digits(waited + 1 / host_load.bandwidth), looks + 1
        met = digits(load + (host_load.load or 0.0)), count + 1
        return msgspec.structs.replace(self, met=met, waited=(waited, looks), met_ms=now_ms)


def better_band(start: StartLoad | None) -> Band | None:
    """Return the run time and band under load if predictions under load have been more accurate so far, else None."""
    prediction = start.prediction if start is not None and start.prediction.better else None
    if prediction is None or prediction.q05_s is None or prediction.q50_s is None or prediction.q95_s is None:
        return None
    return Band(prediction.q50_s, prediction.q05_s, prediction.q95_s)


class SeenLoad(NamedTuple):
    """The load and the bandwidth (B/s) of a run in one view, and the usual values of both; None while unknown."""

    view: Seen
    source: LoadSource
    load: float | None
    usual: float | None
    bandwidth: float | None = None
    usual_bandwidth: float | None = None

    @property
    def stretches(self) -> tuple[float, float] | None:
        """The ratios of load and of 1 / bandwidth to their usual values; None if any value is unknown."""
        if not (self.load and self.usual and self.bandwidth and self.usual_bandwidth):
            return None
        return self.load / self.usual, self.usual_bandwidth / self.bandwidth


class LoadedRun(msgspec.Struct, frozen=True, dict=True):
    """An ended run: the prediction at the start, the actual run time, and the load of the hosts in each view.

    `explained` holds two estimates of the part of the ln run time that the load during the run explains: with the network, and
    without the network. `explained` is None if the bandwidth is unknown.
    """

    start: StartLoad
    run_time_s: float
    seen: tuple[SeenLoad, ...] = ()
    explained: tuple[float, float] | None = None

    @property
    def met_stretches(self) -> tuple[float, float] | None:
        """The factors by which the load and the network stretched the run; None if unknown."""
        return next((seen.stretches for seen in self.seen if seen.view == "met"), None)

    @cached_property
    def score(self) -> "LoadScore | None":
        """The score of the prediction at the start of the run; None if this prediction had no histogram."""
        predicted_histogram = self.start.prediction.histogram
        if predicted_histogram is None:
            return None
        histogram = given(predicted_histogram.edges_s, predicted_histogram.probabilities)
        band, run_time_s = self.start.band, self.run_time_s
        plain = quiet_run_time(band, INTERVALS_MAX) if band and not uninformative(band) else None
        return LoadScore(
            interval=int(interval_index(histogram, run_time_s))
            if histogram.intervals == INTERVALS
            else _middle(predicted_histogram, run_time_s),
            pit=float(pit(histogram, run_time_s)),
            expected=_five(histogram),
            crps=_ln_crps(histogram, run_time_s) if plain else None,
            band_crps=_ln_crps(plain, run_time_s) if plain else None,
        )

    @cached_property
    def crps_by_source(self) -> tuple[float, float] | None:
        """The CRPS of ln T by the forecast load and by the window; None unless both are known."""
        return self._crps(self.start.by("forecast"), self.start.by("window"))

    @cached_property
    def crps_by_network(self) -> tuple[float, float] | None:
        """The CRPS of ln T with the network and without it; None unless both are known."""
        prediction, counterpart = Reckoned.of(self.start.prediction), self.start.counterpart
        if prediction is not None and prediction.communication_share > 0:
            return self._crps(prediction, counterpart)
        return self._crps(counterpart, prediction)

    def network_scores(self, seen: SeenLoad) -> tuple[float, float] | None:
        """Return the scores with and without the network in the view `seen`, lower is better; None if unknown."""
        if seen.view != "met":
            start = self.start
            return self.crps_by_network if (start.view, start.prediction.source) == (seen.view, seen.source) else None
        if self.explained is None or seen.stretches is None or self.start.band is None:
            return None
        ln_ratio = math.log(self.run_time_s / self.start.band.run_time_s)
        with_network, without = self.explained
        return abs(ln_ratio - with_network), abs(ln_ratio - without)

    def _crps(self, first: Reckoned | None, second: Reckoned | None) -> tuple[float, float] | None:
        band = self.start.band
        if band is None or first is None or second is None or first.histogram is None or second.histogram is None:
            return None
        by_first, by_second = (given(each.edges_s, each.probabilities) for each in (first.histogram, second.histogram))
        return _ln_crps(by_first, self.run_time_s), _ln_crps(by_second, self.run_time_s)


class LoadScore(msgspec.Struct, frozen=True):
    """The score of a histogram on one run: the interval that holds the run time (-1 below all, 5 above), and the CRPS of ln T.

    `crps` and `band_crps` are None if the prediction without load has no band, or a band too wide to plan with.
    """

    interval: int
    pit: float
    expected: tuple[float, ...]
    crps: float | None
    band_crps: float | None


def _ln_crps(histogram: Histogram, run_time_s: float) -> float:
    """Return the CRPS of ln T, at most CRPS_MAX.

    In seconds, one early run with a band of a factor of a hundred decided whether histograms were better for the next 350 runs.
    """
    ln_edges = np.log(np.maximum(histogram.edges, 1e-300))
    return min(float(crps(Histogram(ln_edges, histogram.shares), math.log(run_time_s))), CRPS_MAX)


def _five(histogram: Histogram) -> tuple[float, ...]:
    if histogram.intervals == INTERVALS:
        return tuple(float(share) for share in histogram.shares)
    return (0.0, 0.0, 1.0, 0.0, 0.0)


def _middle(histogram: LoadHistogram, run_time_s: float) -> int:
    """Return the interval of a run time predicted without spread: the middle one if exact, -1 if below, INTERVALS if above."""
    reported_s = histogram.edges_s[0]
    return INTERVALS // 2 if run_time_s == reported_s else -1 if run_time_s < reported_s else INTERVALS
