"""How histograms of run times under load have done: an application's runs, or all of a centre, newer ones counting more.

Here is also what an application's runs met at their starts: the usual load that its curve was learned under, and the
partition where it usually runs.

A curve is measured under some load, and more hosts meet a higher one: the slowest of many is slower. Load of the minutes
before a start says much of a short run where load stays alike, and nothing where it changes quickly, or where a job has its
hosts for itself. What runs show decides; until they do, they are taken to follow it wholly.
"""

import math
from functools import cached_property
from typing import ClassVar, Final, Literal

import msgspec

from processors.contracts.load import LoadHistogram, LoadQuality, LoadSource, UnderLoad
from processors.facts import Band, PublishedPoint
from processors.load.prediction import View, quiet_run_time
from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.histogram.arithmetic import crps, in_range, interval_index, pit
from processors.models.histogram.values import INTERVALS, INTERVALS_MAX, Histogram, given
from processors.store import Untimed

Seen = View | Literal["met"]  # loads before a start, and what a run met from its start to its end
RUNS_MIN: Final = 12  # scored runs before an application's own figures are told
PARTITIONS_MAX: Final = 3
PARTITION_BYTES_MAX: Final = 64
_TENTHS: Final = 10
FORGETTING: Final = 0.98  # about the newest fifty
USUAL_MIN: Final = 3  # runs whose load was known before it is called usual
SLOPE_PRIOR: Final = 0.05  # variance of ln n that says nothing of how load grows with the size
FOLLOW_PRIOR: Final = 0.1  # sum of squares of ln load that says nothing of how run times follow it
SPREAD_PRIOR: Final = 5.0  # runs that say nothing of how far they scatter
LN_MAX: Final = 1.5  # what is farther off counts as so far
WIDTH_MIN: Final = 0.2
WIDTH_MAX: Final = 1.25  # the band of the curve itself grows where runs leave it
OFF_MAX: Final = 2.5  # deviations; what is farther off counts as so far
NORMAL_MEAN: Final = math.sqrt(2 / math.pi)  # distance from the middle in deviations


class Usual(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Loads that runs met: how many, means of ln n and ln load, variance of ln n, covariance of both; newer ones weigh more."""

    runs: int = 0
    ln_n: float = 0.0
    ln_load: float = 0.0
    nn: float = 0.0
    nl: float = 0.0

    def met(self, n: float, load: float | None) -> "Usual":
        """Return it with one more load."""
        if load is None or not 0 < load < math.inf:
            return self
        runs = self.runs + 1
        weight = max(1 / runs, 1 - FORGETTING)
        off_n, off_load = math.log(n) - self.ln_n, math.log(load) - self.ln_load
        return Usual(
            runs,
            _digits(self.ln_n + weight * off_n),
            _digits(self.ln_load + weight * off_load),
            _digits((1 - weight) * (self.nn + weight * off_n * off_n)),
            _digits((1 - weight) * (self.nl + weight * off_n * off_load)),
        )

    def at(self, n: float) -> float | None:
        """Return the usual load at a size; None until enough runs told it."""
        if self.runs < USUAL_MIN:
            return None
        slope = min(max(self.nl / (self.nn + SLOPE_PRIOR), 0.0), 1.0)
        off_n = min(max(math.log(n) - self.ln_n, -LN_MAX), LN_MAX)
        return math.exp(max(self.ln_load + slope * off_n, 0.0))


class Followed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How runs followed the load: sums over runs, that fade, of x^2 and x y for x = ln(load / usual), y = ln(run / curve).

    `off` is the sum of distances |ln(run / told)| in the deviation that the equation alone would have told.
    """

    runs: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    off: float = 0.0

    def ran(self, x: float, y: float, distance: float) -> "Followed":
        """Return it with one more run."""
        x, y = (min(max(value, -LN_MAX), LN_MAX) for value in (x, y))
        sums = (self.runs, 1.0), (self.xx, x * x), (self.xy, x * y), (self.off, min(distance, OFF_MAX))
        return Followed(*(_digits(FORGETTING * old + new) for old, new in sums))

    def share(self, prior: float) -> float:
        """Return how closely run times follow the load, from 0 to 1; `prior` until runs say otherwise."""
        return min(max((self.xy + FOLLOW_PRIOR * prior) / (self.xx + FOLLOW_PRIOR), 0.0), 1.0)

    def width(self, prior: float) -> float:
        """Return the factor by which the spread of what is told has to be scaled; `prior` until runs say otherwise."""
        known = NORMAL_MEAN * (self.runs + SPREAD_PRIOR)
        return min(max((self.off + SPREAD_PRIOR * NORMAL_MEAN * prior) / known, WIDTH_MIN), WIDTH_MAX)


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


class ForecastRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What runs showed of the load as it is forecast: the usual one, how they followed it, and the scores of both sources.

    `runs` counts those that were predicted by both; the sums of their CRPS over the run time of the band fade.
    """

    usual: Usual = Usual()
    followed: Followed = Followed()
    runs: int = 0
    crps: float = 0.0
    window_crps: float = 0.0

    @property
    def better(self) -> LoadSource | None:
        """What has predicted better; None until enough runs were scored."""
        if self.runs < RUNS_MIN:
            return None
        return "forecast" if self.crps < self.window_crps else "window"


class Reckoned(msgspec.Struct, frozen=True, omit_defaults=True):
    """What follows from the load of one source: the load, and the run time in seconds, if figures were possible.

    `quantiles_s` are those of 5, 50 and 95 %, `width` is the factor by which their spread was scaled.
    """

    source: LoadSource
    load: float
    width: float = 1.0
    quantiles_s: tuple[float, float, float] | None = None
    histogram: LoadHistogram | None = None

    @classmethod
    def of(cls, prediction: UnderLoad) -> "Reckoned | None":
        """Return what a prediction says; None where it has no load."""
        if prediction.load is None:
            return None
        low_s, middle_s, high_s = prediction.q05_s, prediction.q50_s, prediction.q95_s
        known = (low_s, middle_s, high_s) if low_s and middle_s and high_s else None
        return cls(prediction.source, prediction.load, prediction.width, known, prediction.histogram)


class StartLoad(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was told under the load of a run's hosts before it started, and what its end is scored against.

    `view` tells whether these were its own hosts or any of its partition, `band` is what was told without their load,
    `pool_load` the load of its partition, `other` what follows from the source of load that did not answer. `met` are the loads of its hosts while it ran, summed, and how many; the last was
    looked at `met_ms`.
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
    def met_load(self) -> float | None:
        """The mean load of its hosts over the run, as it is known; None where it was not looked at since the start."""
        total, count = self.met
        before = self.load("window")
        return (total + before) / (count + 1) if count and before is not None and self.view == "own" else None

    def looked_at(self, load: float, now_ms: int) -> "StartLoad":
        """Return it with one more load of its hosts."""
        total, count = self.met
        return msgspec.structs.replace(self, met=(_digits(total + load), count + 1), met_ms=now_ms)


def better_band(start: StartLoad | None) -> Band | None:
    """Return the run time and band under load of a run, where such figures have predicted better than the plain ones."""
    known = start.prediction if start is not None else None
    if known is None or not known.better or known.q05_s is None or known.q50_s is None or known.q95_s is None:
        return None
    return Band(known.q50_s, known.q05_s, known.q95_s)


class LoadedRun(msgspec.Struct, frozen=True, dict=True):
    """A run that ended: what was told at its start, how long it took, and the loads that had been usual at its size.

    How that did is the same for all that learn it: its application, and its centre.
    """

    start: StartLoad
    run_time_s: float
    own_usual: float | None = None
    pool_usual: float | None = None
    met_usual: float | None = None
    forecast_usual: float | None = None

    @property
    def own_load(self) -> float | None:
        """The load of its hosts."""
        return self.start.load("window") if self.start.view == "own" else None

    @property
    def pool_load(self) -> float | None:
        """The load of its partition."""
        return self.start.pool_load if self.start.view == "own" else self.start.load("window")

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
        by_forecast, by_window = (
            float(crps(given(known.edges_s, known.probabilities), self.run_time_s)) / band.run_time_s
            for known in (forecast.histogram, window.histogram)
        )
        return by_forecast, by_window


class LoadScore(msgspec.Struct, frozen=True):
    """How a histogram did on one run: interval (-1 below all, 5 above), and CRPS over the run time that the band said."""

    interval: int
    inside: bool
    pit: float
    expected: tuple[float, ...]
    crps: float | None
    band_crps: float | None


class LoadScoresState(msgspec.Struct, omit_defaults=True):
    """Stored form: sums that fade, `hits` also of runs below and above all intervals; partitions with their runs.

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


class LoadScores(Untimed):
    """Scores of one application, or of a centre."""

    name: ClassVar[str] = "load_scores"
    version: ClassVar[int] = 1

    def __init__(self, state: LoadScoresState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: LoadScoresState | None = None) -> "LoadScores":
        """Return the scores of a stored state, or none."""
        return cls(msgspec.structs.replace(state) if state else LoadScoresState())

    @property
    def known(self) -> bool:
        """Whether enough runs were scored to say how good histograms are."""
        return self._state.scored >= RUNS_MIN

    @property
    def better(self) -> bool:
        """Whether histograms have beaten plain bands so far."""
        return self.known and self._state.crps < self._state.band_crps

    @property
    def newest_n(self) -> float:
        """The size of the run that was learned last."""
        return self._state.n

    @property
    def partition(self) -> str | None:
        """The partition of most recent runs."""
        return max(self._state.partitions, key=lambda each: (each[1], each[0]), default=(None, 0.0))[0]

    def usual(self, view: Seen, n: float, source: LoadSource = "window") -> float | None:
        """Return the usual load of runs of a size; None until it is known."""
        state = self._state
        if source == "forecast":
            return self._forecast(view).usual.at(n)
        return {"own": state.own, "pool": state.pool, "met": state.met}[view].at(n)

    def share(self, view: Seen, prior: float = 1.0, source: LoadSource = "window") -> float:
        """Return how closely run times follow the load, from 0 to 1."""
        return self._followed(view, source).share(prior)

    def width(self, view: View, prior: float = 1.0, source: LoadSource = "window") -> float:
        """Return the factor by which the spread of what is told has to be scaled."""
        return self._followed(view, source).width(prior)

    def better_source(self, view: View) -> LoadSource | None:
        """Return what load has predicted better when it was taken from it; None until enough runs were scored."""
        return self._forecast(view).better

    def explained(self, met: float | None, n: float, prior: float = 1.0) -> float:
        """Return by how much, in ln T, the load that a run of a size met explains that it took longer than usual, or less."""
        usual = self.usual("met", n)
        return self.share("met", prior) * math.log(met / usual) if met and usual else 0.0

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

    def score(self, fact: LoadedRun) -> LoadScore | None:
        """Compare a run with what was told at its start; None where nothing was."""
        return fact.score

    def learn(self, fact: LoadedRun) -> None:
        """Take a run in; each run once."""
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
        self._state = _scored(state, score) if score else state

    def snapshot(self) -> LoadScoresState:
        """Return the stored form."""
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


def _five(histogram: Histogram) -> tuple[float, ...]:
    if histogram.intervals == INTERVALS:
        return tuple(float(share) for share in histogram.shares)
    return (0.0, 0.0, 1.0, 0.0, 0.0)


def _middle(known: LoadHistogram, run_time_s: float) -> int:
    """Return the interval for a run time that was told to be certain: the middle one, or beyond all."""
    reported_s = known.edges_s[0]
    return INTERVALS // 2 if run_time_s == reported_s else -1 if run_time_s < reported_s else INTERVALS


def _forecast(before: ForecastRecord, fact: LoadedRun) -> ForecastRecord:
    """Learn what the forecast load of a run was, and score both sources where both told its run time."""
    forecast, scores = fact.start.by("forecast"), fact.crps_by_source
    if forecast is None:
        return before
    learned = msgspec.structs.replace(
        before,
        usual=before.usual.met(fact.start.prediction.n, forecast.load),
        followed=_followed(before.followed, fact, forecast.load, fact.forecast_usual, "forecast"),
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
    """Learn how a run followed the load, once the usual one is known."""
    band, known = fact.start.band, fact.start.by(source)
    if band is None or not load or not usual or known is None or known.quantiles_s is None:
        return before
    low_s, middle_s, high_s = known.quantiles_s
    deviation = math.log(high_s / low_s) / (2 * BAND_DEVIATIONS) / known.width
    distance = abs(math.log(fact.run_time_s / middle_s)) / deviation if deviation > 0 else 0.0
    return before.ran(math.log(load / usual), math.log(fact.run_time_s / band.run_time_s), distance)


def _counted(known: tuple[tuple[str, float], ...], name: str | None) -> tuple[tuple[str, float], ...]:
    if not name or len(name.encode()) > PARTITION_BYTES_MAX:
        return known
    faded = [(other, _faded(count, float(other == name))) for other, count in known]
    if all(other != name for other, _ in faded):
        faded.append((name, 1.0))
    return tuple(sorted(faded, key=lambda each: (-each[1], each[0]))[:PARTITIONS_MAX])
