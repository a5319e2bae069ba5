"""Scores of predicted histograms of run times under load, by application or centre; newer runs count more.

The scores also hold the loads at the starts of the runs of an application, which give the usual load behind the curve, and the usual partition.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import msgspec

from processors.contracts.load import LoadQuality, LoadSource
from processors.load.prediction import View
from processors.load.records import (
    FORGETTING,
    RUNS_MIN,
    CommunicationShare,
    Followed,
    NetworkEffect,
    NetworkRecord,
    ViewRecord,
    digits,
)
from processors.load.runs import HostLoad, LoadedRun, LoadScore, Seen, SeenLoad, StartLoad
from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.histogram import INTERVALS
from processors.store import PlainProcessor

PARTITIONS_MAX: Final = 3
PARTITION_BYTES_MAX: Final = 64
_TENTHS: Final = 10


class LoadScores(PlainProcessor, omit_defaults=True):
    """The scores of predictions under load, for one application or for a whole centre.

    All sums are exponentially weighted. `hits` counts runs by the interval of the predicted histogram that contains
    the run time; the first entry counts run times below the histogram, the last entry run times above it. `n` is the size of the
    newest run, `records` has the statistics of each view of the load, such as "own", and `partitions` counts runs by partition.
    """

    name: ClassVar[str] = "load_scores"
    version: ClassVar[int] = 3

    n: float = 0.0
    scored: int = 0
    hits: tuple[float, ...] = (0.0,) * (INTERVALS + 2)
    expected: tuple[float, ...] = (0.0,) * INTERVALS
    pit: tuple[float, ...] = (0.0,) * _TENTHS
    crps: float = 0.0
    band_crps: float = 0.0
    records: Mapping[str, ViewRecord] = {}
    partitions: tuple[tuple[str, float], ...] = ()
    communication: CommunicationShare = CommunicationShare()

    @property
    def known(self) -> bool:
        """Whether enough runs were scored to rate histograms."""
        return self.scored >= RUNS_MIN

    @property
    def better(self) -> bool:
        """Whether histograms have beaten plain bands so far."""
        return self.known and self.crps < self.band_crps

    @property
    def partition(self) -> str | None:
        """The partition of most recent runs."""
        return max(self.partitions, key=lambda partition: (partition[1], partition[0]), default=(None, 0.0))[0]

    def record(self, view: Seen, source: LoadSource = "window") -> ViewRecord:
        return self.records.get(_key(view, source), _NO_RUNS)

    def share(
        self, view: Seen, prior: float = 1.0, source: LoadSource = "window", network: NetworkEffect | None = None
    ) -> float:
        """Return how closely run times follow the load in `view`, from 0 to 1.

        If `network` is given, the result is for the part of the run time that does not wait for the network.
        """
        record = self.record(view, source)
        if network is None:
            return record.followed.share(prior)
        return record.network.follows(record.followed, prior, network)

    def communication_share(self, pool: "LoadScores | None" = None) -> float:
        """Return the part of run times that waits for the network, from 0 to 1; `pool` holds the scores of the centre."""
        return self.communication.share(pool.communication_share() if pool is not None else 0.0)

    def explained(
        self, met: HostLoad, n: float, pool: "LoadScores | None" = None, *, network: bool | None = None
    ) -> float:
        """Return how much the load `met` during a run changed ln(run time), compared with the usual load; 0 if unknown.

        `network` says whether to use the network; if None, past scores decide. `pool` holds the scores of the centre.
        """
        record, prior = self.record("met"), pool.share("met") if pool is not None else 1.0
        usual = record.usual.at(n)
        if not usual or not met.load:
            return 0.0
        counts = record.network.earned if network is None else network
        effect = record.network.network(self.communication_share(pool), n) if counts and met.bandwidth else None
        x = self.share("met", prior, network=effect) * math.log(met.load / usual)
        if effect is None or met.bandwidth is None:
            return x
        return math.log(effect.stretched(math.exp(x), met.bandwidth))

    def quality(self, of: Literal["application", "centre"], view: View) -> LoadQuality | None:
        """Return the measured accuracy of past histograms in `view`; None before any run was scored."""
        record, runs = self.record(view, "forecast"), sum(self.hits)
        if not self.scored or not runs:
            return None
        return LoadQuality(
            of=of,
            scored=self.scored,
            in_range=_share(sum(self.hits[1:-1]), runs),
            hits=tuple(_share(hits, runs) for hits in self.hits[1:-1]),
            expected=tuple(_share(mass, runs) for mass in self.expected),
            crps_ratio=round(self.crps / self.band_crps, 4) if self.band_crps else None,
            pit=tuple(_share(part, runs) for part in self.pit),
            forecast_ratio=round(record.crps / record.window_crps, 4) if record.window_crps else None,
        )

    def judged(self, start: StartLoad, run_time_s: float, pool: "LoadScores | None" = None) -> LoadedRun:
        """Return an ended run with the load and the usual load of each view, and the effect of the load on its run time.

        `pool` holds the scores of the centre.
        """
        n, met, seen = start.prediction.n, start.met_by, list[SeenLoad]()
        views: tuple[tuple[Seen, LoadSource], ...] = (("own", "window"), ("pool", "window"), ("met", "window"))
        for view, source in (*views, (start.view, "forecast")):
            load, record = start.load_seen(view, source), self.record(view, source)
            seen.append(
                SeenLoad(view, source, load.load, record.usual.at(n), load.bandwidth, record.network.bandwidth(n))
            )
        explained = None
        if met.load and met.bandwidth:
            explained = self.explained(met, n, pool, network=True), self.explained(met, n, pool, network=False)
        return LoadedRun(start, run_time_s, tuple(seen), explained)

    def score(self, fact: LoadedRun) -> LoadScore | None:
        return fact.score

    def learn(self, fact: LoadedRun) -> None:
        score, stretches, band = self.score(fact), fact.met_stretches, fact.start.band
        records = dict(self.records)
        for seen in fact.seen:
            record = _learned(self.record(seen.view, seen.source), fact, seen)
            if record != _NO_RUNS:
                records[_key(seen.view, seen.source)] = record
        communication = self.communication
        if stretches is not None and band is not None:
            communication = communication.ran(*stretches, fact.run_time_s / band.run_time_s)
        self.n, self.records, self.communication = fact.start.prediction.n, records, communication
        self.partitions = _counted(self.partitions, fact.start.partition)
        if score is not None:
            self._count(score)

    def _count(self, score: LoadScore) -> None:
        tenth = min(int(score.pit * _TENTHS), _TENTHS - 1)
        fading = FORGETTING if score.crps is not None and score.band_crps is not None else 1.0
        self.scored += 1
        self.hits, self.pit = _with(self.hits, score.interval + 1), _with(self.pit, tenth)
        self.expected = tuple(_faded(old, new) for old, new in zip(self.expected, score.expected, strict=True))
        self.crps = _faded(self.crps, score.crps or 0.0, fading)
        self.band_crps = _faded(self.band_crps, score.band_crps or 0.0, fading)


_NO_RUNS: Final = ViewRecord()


def _key(view: Seen, source: LoadSource) -> str:
    return view if source == "window" else f"{view}_{source}"


def _with(sums: tuple[float, ...], index: int) -> tuple[float, ...]:
    return tuple(_faded(old, float(i == index)) for i, old in enumerate(sums))


def _faded(old: float, new: float, forgetting: float = FORGETTING) -> float:
    return digits(forgetting * old + new)


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4)


def _learned(record: ViewRecord, run: LoadedRun, seen: SeenLoad) -> ViewRecord:
    learned = msgspec.structs.replace(
        record,
        usual=record.usual.met(run.start.prediction.n, seen.load),
        followed=_followed(record.followed, run, seen),
        network=_network(record.network, run, seen),
    )
    scores = run.crps_by_source
    if seen.source != "forecast" or scores is None:
        return learned
    return msgspec.structs.replace(
        learned,
        runs=record.runs + 1,
        crps=_faded(record.crps, scores[0]),
        window_crps=_faded(record.window_crps, scores[1]),
    )


def _followed(before: Followed, run: LoadedRun, seen: SeenLoad) -> Followed:
    """Return `before` with one more run: its load and its run time, each relative to usual; unchanged if one of these is unknown."""
    band, prediction = run.start.band, run.start.by(seen.source)
    if band is None or not seen.load or not seen.usual or prediction is None or prediction.quantiles_s is None:
        return before
    low_s, middle_s, high_s = prediction.quantiles_s
    deviation = math.log(high_s / low_s) / (2 * BAND_DEVIATIONS) / prediction.width
    distance = abs(math.log(run.run_time_s / middle_s)) / deviation if deviation > 0 else 0.0
    return before.ran(math.log(seen.load / seen.usual), math.log(run.run_time_s / band.run_time_s), distance)


def _network(before: NetworkRecord, run: LoadedRun, seen: SeenLoad) -> NetworkRecord:
    """Return `before` updated with the bandwidth of the run's hosts in the view `seen`, and with the scores with and without the network."""
    after, met = before.met(run.start.prediction.n, seen.bandwidth), run.met_stretches
    if seen.stretches is not None:
        by_load, by_network = seen.stretches
        after = after.ran(math.log(by_load), math.log(by_network), math.log(met[1]) if met else None)
    scores = run.network_scores(seen)
    return after.scored(*scores) if scores else after


def _counted(partitions: tuple[tuple[str, float], ...], name: str | None) -> tuple[tuple[str, float], ...]:
    if not name or len(name.encode()) > PARTITION_BYTES_MAX:
        return partitions
    faded = [(other, _faded(count, float(other == name))) for other, count in partitions]
    if all(other != name for other, _ in faded):
        faded.append((name, 1.0))
    return tuple(sorted(faded, key=lambda partition: (-partition[1], partition[0]))[:PARTITIONS_MAX])
