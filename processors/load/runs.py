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
    """The load on the hosts of a run; None while unknown.

    `load` is the factor by which the slowest host lengthens the run, `bandwidth` the least bandwidth of a host in B/s.
    """

    load: float | None
    bandwidth: float | None = None


class Reckoned(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prediction from one source of load. `load` is the factor of the slowest host.

    `quantiles_s` are the 5, 50 and 95 % quantiles of the run time in s, None if unknown; `width` is the factor that was applied to
    their spread. `bandwidth` is in B/s. `communication_share` is the assumed share of the run time that waits for the network.
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
    """The prediction under load that was made before a run started, kept so that it can be scored at the end of the run.

    `view` says whether the load is that of the run's own hosts or of its partition; `band` is the prediction that ignores load.
    `pool_load` and `pool_bandwidth` are the load and the least bandwidth (B/s) of the partition. `other` is the prediction from the
    source of load that was not used. `counterpart` is the prediction without the network if the published one uses it, else with
    the network. `met` is the sum of the loads sampled during the run, and their number; the last sample was at `met_ms`. `waited`
    is the same for 1 / bandwidth.
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
        """Return the load and bandwidth of the hosts in `view`, as measured (`source` is "window") or as forecast."""
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
    """Return the run time under load with its band; None unless predictions under load have been more accurate so far."""
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
    """An ended run: the prediction at its start, its actual run time, and the load of its hosts before and during the run.

    `explained` are two estimates, with and without the network, of how much the load during the run changed ln(run time); None if
    load or bandwidth is unknown.
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
        """Return the errors of the two predictions with and without the network, for the view of `seen`; None if one is missing.

        They are CRPS of ln T for a view before the start, and absolute errors in ln T for the load during the run.
        """
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
    """The score of a predicted histogram on one run.

    `interval` is the index of the interval that contains the run time: -1 if below all, 5 if above all. `crps` is the CRPS of ln T,
    `band_crps` that of the prediction without load; both are None if the latter has no band or one too wide to plan with.
    """

    interval: int
    pit: float
    expected: tuple[float, ...]
    crps: float | None
    band_crps: float | None


def _ln_crps(histogram: Histogram, run_time_s: float) -> float:
    """Return the CRPS of ln T, at most CRPS_MAX.

    A CRPS in seconds is not used: a single early run with a hundredfold band then outweighed the next 350 runs.
    """
    ln_edges = np.log(np.maximum(histogram.edges, 1e-300))
    return min(float(crps(Histogram(ln_edges, histogram.shares), math.log(run_time_s))), CRPS_MAX)


def _five(histogram: Histogram) -> tuple[float, ...]:
    if histogram.intervals == INTERVALS:
        return tuple(float(share) for share in histogram.shares)
    return (0.0, 0.0, 1.0, 0.0, 0.0)


def _middle(histogram: LoadHistogram, run_time_s: float) -> int:
    """Return the interval index of a run if one value was predicted: the middle one if equal, -1 if below, INTERVALS if above."""
    reported_s = histogram.edges_s[0]
    return INTERVALS // 2 if run_time_s == reported_s else -1 if run_time_s < reported_s else INTERVALS
