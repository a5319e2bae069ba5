"""Scores of the histograms of run times under load, of an application or a centre; newer runs count more.

The scores also hold the loads at the starts of an application's runs: the usual load behind its curve, and its usual partition.
"""

import math
from typing import ClassVar, Final, Literal, NamedTuple

import msgspec

from processors.contracts.load import LoadQuality, LoadSource
from processors.load.communication import CommunicationShare, NetworkEffect, NetworkRecord
from processors.load.prediction import View
from processors.load.runs import Bandwidths, HostLoad, LoadedRun, LoadScore, StartLoad
from processors.load.usual import FORGETTING, RUNS_MIN, Followed, Usual
from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.histogram.values import INTERVALS
from processors.store import Untimed

Seen = View | Literal["met"]  # loads before a start, and what a run met from its start to its end
PARTITIONS_MAX: Final = 3
PARTITION_BYTES_MAX: Final = 64
_TENTHS: Final = 10


class ForecastRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What runs showed of forecast loads: the usual one, how runs followed it, and the scores of both sources of load.

    `runs` counts those predicted by both sources; the sums of their CRPS over the run time of the band fade.
    """

    usual: Usual = Usual()
    followed: Followed = Followed()
    runs: int = 0
    crps: float = 0.0
    window_crps: float = 0.0
    network: NetworkRecord = NetworkRecord()

    @property
    def better(self) -> LoadSource | None:
        """The source of load with the better predictions; None before there are enough runs."""
        if self.runs < RUNS_MIN:
            return None
        return "forecast" if self.crps < self.window_crps else "window"


class LoadScoresState(msgspec.Struct, omit_defaults=True):
    """Stored form: fading sums, `hits` also of runs below and above all intervals; partitions with their runs.

    `n` is the size of the newest run.
    """

    n: float = 0.0
    scored: int = 0
    inside: float = 0.0
    hits: tuple[float, ...] = (0.0,) * (INTERVALS + 2)
    expected: tuple[float, ...] = (0.0,) * INTERVALS
    pit: tuple[float, ...] = (0.0,) * _TENTHS
    crps: float = 0.0
    band_crps: float = 0.0
    own: Usual = Usual()
    pool: Usual = Usual()
    own_followed: Followed = Followed()
    pool_followed: Followed = Followed()
    met: Usual = Usual()
    met_followed: Followed = Followed()
    partitions: tuple[tuple[str, float], ...] = ()
    own_forecast: ForecastRecord = ForecastRecord()
    pool_forecast: ForecastRecord = ForecastRecord()
    own_network: NetworkRecord = NetworkRecord()
    pool_network: NetworkRecord = NetworkRecord()
    met_network: NetworkRecord = NetworkRecord()
    communication: CommunicationShare = CommunicationShare()


class LoadScores(Untimed):
    """Scores of one application, or of a centre."""

    name: ClassVar[str] = "load_scores"
    version: ClassVar[int] = 1

    def __init__(self, state: LoadScoresState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: LoadScoresState | None = None) -> "LoadScores":
        return cls(msgspec.structs.replace(state) if state else LoadScoresState())

    @property
    def known(self) -> bool:
        """Whether enough runs were scored to rate histograms."""
        return self._state.scored >= RUNS_MIN

    @property
    def better(self) -> bool:
        """Whether histograms have beaten plain bands so far."""
        return self.known and self._state.crps < self._state.band_crps

    @property
    def newest_n(self) -> float:
        return self._state.n

    @property
    def partition(self) -> str | None:
        """The partition of most recent runs."""
        return max(self._state.partitions, key=lambda partition: (partition[1], partition[0]), default=(None, 0.0))[0]

    def usual(self, view: Seen, n: float, source: LoadSource = "window") -> float | None:
        """Return the usual load of runs of a size; None while unknown."""
        state = self._state
        if source == "forecast":
            return self._forecast(view).usual.at(n)
        return {"own": state.own, "pool": state.pool, "met": state.met}[view].at(n)

    def share(
        self, view: Seen, prior: float = 1.0, source: LoadSource = "window", network: NetworkEffect | None = None
    ) -> float:
        """Return how closely run times follow the load, from 0 to 1; if a part waits for the network, how closely the rest does."""
        followed = self._followed(view, source)
        return (
            followed.share(prior) if network is None else self.network(view, source).follows(followed, prior, network)
        )

    def network(self, view: Seen, source: LoadSource = "window") -> NetworkRecord:
        state = self._state
        if source == "forecast":
            return self._forecast(view).network
        return {"own": state.own_network, "pool": state.pool_network, "met": state.met_network}[view]

    def communication_share(self, pool: "LoadScores | None" = None) -> float:
        """Return the part of run times that waits for the network, from 0 to 1; `pool` is the centre's."""
        return self._state.communication.share(pool.communication_share() if pool is not None else 0.0)

    def width(self, view: View, prior: float = 1.0, source: LoadSource = "window") -> float:
        """Return the factor for the spread of predictions."""
        return self._followed(view, source).width(prior)

    def better_source(self, view: View) -> LoadSource | None:
        """Return the source of load with the better predictions; None before there are enough runs."""
        return self._forecast(view).better

    def explained(
        self, met: HostLoad, n: float, pool: "LoadScores | None" = None, *, network: bool | None = None
    ) -> float:
        """Return the part of a run's distance from its usual run time, in ln T, that the load during the run explains.

        `network` tells whether to count the network; None leaves this to its record. `pool` is the centre's.
        """
        usual, prior = self.usual("met", n), pool.share("met") if pool is not None else 1.0
        if not usual:
            return 0.0
        record = self._state.met_network
        counts = record.earned if network is None else network
        network_effect = record.network(self.communication_share(pool), n) if counts and met.bandwidth else None
        x = self.share("met", prior, network=network_effect) * math.log(met.load / usual)
        if network_effect is None or met.bandwidth is None:
            return x
        return math.log(network_effect.stretched(math.exp(x), met.bandwidth))

    def _forecast(self, view: Seen) -> ForecastRecord:
        return self._state.own_forecast if view == "own" else self._state.pool_forecast

    def _followed(self, view: Seen, source: LoadSource = "window") -> Followed:
        state = self._state
        if source == "forecast":
            return self._forecast(view).followed
        return {"own": state.own_followed, "pool": state.pool_followed, "met": state.met_followed}[view]

    def quality(self, of: Literal["application", "centre"], view: View) -> LoadQuality | None:
        """Return the measured quality; None before any run was scored."""
        state, record = self._state, self._forecast(view)
        runs = sum(state.hits)
        if not state.scored or not runs:
            return None
        return LoadQuality(
            of=of,
            scored=state.scored,
            in_range=_share(state.inside, runs),
            hits=tuple(_share(hits, runs) for hits in state.hits[1:-1]),
            expected=tuple(_share(mass, runs) for mass in state.expected),
            crps_ratio=round(state.crps / state.band_crps, 4) if state.band_crps else None,
            pit=tuple(_share(part, runs) for part in state.pit),
            forecast_ratio=round(record.crps / record.window_crps, 4) if record.window_crps else None,
        )

    def judged(self, start: StartLoad, run_time_s: float, pool: "LoadScores | None" = None) -> LoadedRun:
        """Return a run that ended with the usual loads before it, and the part that the load explains; `pool` is the centre's."""
        n, view, met = start.prediction.n, start.view, start.met_by
        usual = self.usual("own", n), self.usual("pool", n), self.usual("met", n), self.usual(view, n, "forecast")
        if not start.knows_bandwidth:
            return LoadedRun(start, run_time_s, *usual)
        own_network, pooled, during = self.network("own"), self.network("pool"), self.network("met")
        forecast = self.network(view, "forecast")
        bandwidths = Bandwidths(*(each.bandwidth(n) for each in (own_network, pooled, during, forecast)))
        explained = None
        if met is not None and met.bandwidth is not None:
            explained = self.explained(met, n, pool, network=True), self.explained(met, n, pool, network=False)
        return LoadedRun(start, run_time_s, *usual, bandwidths, explained)

    def score(self, fact: LoadedRun) -> LoadScore | None:
        """Compare a run with the prediction at its start; None without one."""
        return fact.score

    def learn(self, fact: LoadedRun) -> None:
        score, n = self.score(fact), fact.start.prediction.n
        state = msgspec.structs.replace(
            self._state,
            n=n,
            own=self._state.own.met(n, fact.own_load),
            pool=self._state.pool.met(n, fact.pool_load),
            own_followed=_followed(self._state.own_followed, fact, fact.own_load, fact.own_usual),
            pool_followed=_followed(self._state.pool_followed, fact, fact.pool_load, fact.pool_usual),
            met=self._state.met.met(n, fact.start.met_load),
            met_followed=_followed(self._state.met_followed, fact, fact.start.met_load, fact.met_usual),
            partitions=_counted(self._state.partitions, fact.start.partition),
        )
        if fact.start.view == "own":
            state.own_forecast = _forecast(state.own_forecast, fact)
        else:
            state.pool_forecast = _forecast(state.pool_forecast, fact)
        if fact.start.knows_bandwidth:
            state.own_network = _network(state.own_network, fact, "own")
            state.pool_network = _network(state.pool_network, fact, "pool")
            state.met_network = _met_network(state.met_network, fact)
            state.communication = _communication(state.communication, fact)
        self._state = _scored(state, score) if score else state

    def snapshot(self) -> LoadScoresState:
        return msgspec.structs.replace(self._state)


def _scored(state: LoadScoresState, score: LoadScore) -> LoadScoresState:
    tenth = min(int(score.pit * _TENTHS), _TENTHS - 1)
    both = score.crps is not None and score.band_crps is not None
    fading = FORGETTING if both else 1.0
    return msgspec.structs.replace(
        state,
        scored=state.scored + 1,
        inside=_faded(state.inside, float(score.inside)),
        hits=_with(state.hits, score.interval + 1),
        expected=tuple(_faded(old, new) for old, new in zip(state.expected, score.expected, strict=True)),
        pit=_with(state.pit, tenth),
        crps=_faded(state.crps, score.crps or 0.0, fading),
        band_crps=_faded(state.band_crps, score.band_crps or 0.0, fading),
    )


def _with(sums: tuple[float, ...], index: int) -> tuple[float, ...]:
    return tuple(_faded(old, float(i == index)) for i, old in enumerate(sums))


def _faded(old: float, new: float, forgetting: float = FORGETTING) -> float:
    return float(f"{forgetting * old + new:.5g}")


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4)


def _forecast(before: ForecastRecord, fact: LoadedRun) -> ForecastRecord:
    """Learn the forecast load of a run, and score both sources of load if both predicted the run."""
    forecast, scores = fact.start.by("forecast"), fact.crps_by_source
    if forecast is None:
        return before
    learned = msgspec.structs.replace(
        before,
        usual=before.usual.met(fact.start.prediction.n, forecast.load),
        followed=_followed(before.followed, fact, forecast.load, fact.forecast_usual, "forecast"),
        network=_network(before.network, fact, fact.start.view, "forecast")
        if fact.start.knows_bandwidth
        else before.network,
    )
    if scores is None:
        return learned
    return msgspec.structs.replace(
        learned,
        runs=before.runs + 1,
        crps=_faded(before.crps, scores[0]),
        window_crps=_faded(before.window_crps, scores[1]),
    )


def _followed(
    before: Followed, fact: LoadedRun, load: float | None, usual: float | None, source: LoadSource = "window"
) -> Followed:
    """Learn how a run followed the load, once the usual load is known."""
    band, prediction = fact.start.band, fact.start.by(source)
    if band is None or not load or not usual or prediction is None or prediction.quantiles_s is None:
        return before
    low_s, middle_s, high_s = prediction.quantiles_s
    deviation = math.log(high_s / low_s) / (2 * BAND_DEVIATIONS) / prediction.width
    distance = abs(math.log(fact.run_time_s / middle_s)) / deviation if deviation > 0 else 0.0
    return before.ran(math.log(load / usual), math.log(fact.run_time_s / band.run_time_s), distance)


class _Seen(NamedTuple):
    """Load and bandwidth (B/s) of a run in one view, and the usual values of both."""

    load: float | None
    usual: float | None
    bandwidth: float | None
    usual_bandwidth: float | None

    @property
    def stretches(self) -> tuple[float, float] | None:
        """The ratios of load and of 1 / bandwidth to their usual values; None if any is unknown."""
        if not (self.load and self.usual and self.bandwidth and self.usual_bandwidth):
            return None
        return self.load / self.usual, self.usual_bandwidth / self.bandwidth


def _seen(fact: LoadedRun, view: Seen, source: LoadSource = "window") -> _Seen:
    start, usual = fact.start, fact.bandwidths
    if source == "forecast":
        prediction = start.by(source)
        load, bandwidth = (prediction.load, prediction.bandwidth) if prediction is not None else (None, None)
        return _Seen(load, fact.forecast_usual, bandwidth, usual.forecast)
    if view == "met":
        return _Seen(start.met_load, fact.met_usual, start.met_bandwidth, usual.met)
    if view == "own":
        return _Seen(fact.own_load, fact.own_usual, fact.own_bandwidth, usual.own)
    return _Seen(fact.pool_load, fact.pool_usual, fact.pool_bandwidth, usual.pool)


def _network(before: NetworkRecord, fact: LoadedRun, view: View, source: LoadSource = "window") -> NetworkRecord:
    """Learn the bandwidth of a run's hosts before its start, and score the predictions with the network and without."""
    view_values, answered = _seen(fact, view, source), (fact.start.view, fact.start.prediction.source) == (view, source)
    after, stretches = before.met(fact.start.prediction.n, view_values.bandwidth), view_values.stretches
    if stretches is not None:
        met = _seen(fact, "met").stretches
        after = after.ran(math.log(stretches[0]), math.log(stretches[1]), math.log(met[1]) if met else None)
    return after.scored(*fact.crps_by_network) if answered and fact.crps_by_network else after


def _met_network(before: NetworkRecord, fact: LoadedRun) -> NetworkRecord:
    """Learn the bandwidth of a run's hosts during the run, and score how well it explains the run time."""
    view_values, band = _seen(fact, "met"), fact.start.band
    after = before.met(fact.start.prediction.n, view_values.bandwidth)
    stretches = view_values.stretches
    if stretches is None or band is None:
        return after
    x, z = math.log(stretches[0]), math.log(stretches[1])
    after = after.ran(x, z, z)
    if fact.explained is None:
        return after
    ln_ratio = math.log(fact.run_time_s / band.run_time_s)
    return after.scored(*(abs(ln_ratio - explained) for explained in fact.explained))


def _communication(before: CommunicationShare, fact: LoadedRun) -> CommunicationShare:
    """Learn which part of a run waited for the network, once the usual values are known."""
    stretches, band = _seen(fact, "met").stretches, fact.start.band
    return before.ran(*stretches, fact.run_time_s / band.run_time_s) if stretches and band else before


def _counted(partitions: tuple[tuple[str, float], ...], name: str | None) -> tuple[tuple[str, float], ...]:
    if not name or len(name.encode()) > PARTITION_BYTES_MAX:
        return partitions
    faded = [(other, _faded(count, float(other == name))) for other, count in partitions]
    if all(other != name for other, _ in faded):
        faded.append((name, 1.0))
    return tuple(sorted(faded, key=lambda partition: (-partition[1], partition[0]))[:PARTITIONS_MAX])
