"""Run-time model of one application: observed sizes, the published curve, and the scores of its predictions.

The newest runs stay unmerged, so that a corrected report replaces a run exactly; older runs are merged into sketches by size. A fit
depends only on the unmerged runs and the sketches, whatever the order of events.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property
from statistics import NormalDist, median
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Quality
from processors.contracts.settings import RunTimeSettings
from processors.facts import PublishedCurve, RunFact, Scored
from processors.models.adept.study import Study, study
from processors.models.aggregates.sizes import (
    AggregatedSizes,
    Derived,
    LevelTable,
    PlacedRun,
    aggregate,
    rounded_size,
    rounded_sizes,
    thin,
)
from processors.models.aggregates.sketch import LogSketch
from processors.models.combination.evidence import REPEATS_MAX, Curve, LawEvidence, evidence
from processors.models.drift import agreeing, began, matters, risen
from processors.models.numerics.statistics import spearman
from processors.run_time.calibration import Calibration, Counts, share
from processors.run_time.drift import SizeTurn
from processors.run_time.observed import CONFIRMED_RUNS, ObservedSizes, observed_sizes
from processors.run_time.quality import (
    ByHorizon,
    Score,
    places,
    quality,
    score_of,
    with_probabilities,
    with_run,
    with_score,
)
from processors.store import digest64

OUTLIER_MERGE_EACH: Final = 4


class UnmergedRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run that is not merged into the sketches yet; `outlier` is 1 or -1 if its first report was strangely slow or fast.

    `ln_load` is the part of ln run time that the load of its hosts explains.
    """

    run_id: str
    n: float
    run_time_s: float
    end_ms: int
    outlier: int = 0
    ln_load: float = 0.0

    def placed(self, *, outlier: bool = False) -> PlacedRun:
        return PlacedRun(self.n, self.run_time_s, self.start_ms, outlier)

    @property
    def start_ms(self) -> int:
        return self.end_ms - round(self.run_time_s * 1000)


def excluded(run: UnmergedRun, runs: Sequence[UnmergedRun]) -> bool:
    """Return whether a run is an outlier that the other runs of its size do not confirm."""
    if not run.outlier:
        return False
    size_of_run = rounded_size(run.n)
    at_size = sorted(
        (each.end_ms, each.run_id, each.outlier)
        for each in runs
        if each.n == size_of_run or rounded_size(each.n) == size_of_run
    )
    return not agreeing(run.outlier, [outlier for _, _, outlier in at_size])


_NORMAL: Final = NormalDist()


def typical_runs(median_s: float, count: float, noise: float) -> tuple[float, ...]:
    """Return up to four run times in s that stand for all runs of a size, at even quantiles of the noise of ln T.

    Forecasts are scored against them. Scores against the median alone gave bands that contained medians but missed single runs.
    """
    shown = max(min(int(count), REPEATS_MAX), 1)
    return tuple([median_s * math.exp(noise * deviations) for deviations in _spread_evenly(shown)])


@cache
def _spread_evenly(shown: int) -> tuple[float, ...]:
    return tuple(_NORMAL.inv_cdf((2 * i + 1) / (2 * shown)) for i in range(shown))


MARGIN_MIN: Final = 0.03  # in ln run time; levels closer than this are the same
FALLS_RUNS_MIN: Final = 8
FALLS_MIN: Final = 0.5  # least |rank correlation| of size and run time (negative) of an application that scales
FALLS_DEVIATIONS: Final = 3.0  # in standard deviations of the rank correlation of the same number of unrelated runs


def _rank_correlation(runs: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's rank correlation of sizes and run times; 0 for a single size."""
    n, run_time_s = np.array(runs).T
    return float(spearman(n[:, None], run_time_s)[0])


FIT_SIZES_MAX = 12
GROWTH = 8  # a curve is refitted at once when an eighth of the runs is new
FAULTS_MAX = 3
WAIT_MS = 600_000  # a curve with new runs is refitted after this time in any case


class RunTimeState(msgspec.Struct, omit_defaults=True):
    """Stored form of the run-time model."""

    sizes: dict[str, Any] = {}
    runs: list[UnmergedRun] = []
    total: int = 0
    new_runs: int = 0
    waiting_ms: int | None = None
    published: PublishedCurve | None = None
    flagged: list[tuple[str, float]] = []
    scores: list[Score] = []
    faults: int = 0
    fallen: ByHorizon = {}
    transferred: Counts = {}


# The extremes of m runs hold (m - 1) / (m + 1) of the next runs: the extremes of five runs, the former minimum, held two thirds.
SPREAD_RUNS_MIN: Final = 19
SPREAD_RUNS_MAX: Final = 20  # newest runs of a size; their extremes hold nine of ten of the next runs


class RunTime:
    """The run-time model of one application: observed runs, published curve, and scores of its predictions."""

    name: ClassVar[str] = "run_time"
    version: ClassVar[int] = 1

    def __init__(self, settings: RunTimeSettings, state: RunTimeState) -> None:
        self._settings = settings
        self._state = msgspec.structs.replace(state, runs=list(state.runs))
        self._table = LevelTable.build(state.sizes or None)
        self._retained = {run.run_id for run in state.runs}
        self._unmerged = Counter(rounded_sizes(run.n for run in state.runs))  # number of unmerged runs of each size
        self._places = places(state.scores)
        self._studied: tuple[AggregatedSizes, Study] | None = None
        self._derived: dict[float, Derived] = {}  # cached statistics of unchanged sizes
        self._run_sizes: tuple[float, ...] | None = None
        self._evidence: LawEvidence | None = None
        self._observed: ObservedSizes | None = None
        self._falls: bool | None = None

    @property
    def observations(self) -> int:
        return self._state.total

    @property
    def runs_held(self) -> int:
        """The number of runs behind a fit, without runs that were dropped as outliers or with their size or level."""
        return self.runs_by_size().total()

    @property
    def published(self) -> PublishedCurve | None:
        return self._state.published

    @property
    def scores(self) -> tuple[Score, ...]:
        """Scores of published predictions, newest last."""
        return tuple(self._state.scores)

    def calibration(self, centre: Counts) -> Calibration:
        """Return the calibration of the bands by the application's scores and the `centre`'s pool without the application's share."""
        return Calibration(self._state.scores, self.observed().out_of_line, centre, self._state.transferred)

    def teach(self) -> tuple[Counts, Counts]:
        """Update the share that the application adds to the centre's pool; return the old share and the new one."""
        before, self._state.transferred = self._state.transferred, share(self._state.scores)
        return before, self._state.transferred

    @property
    def transferred(self) -> Counts:
        return self._state.transferred

    def extremes(self) -> dict[float, tuple[float, float]]:
        """Return the shortest and longest of the newest run times in s, by size with at least SPREAD_RUNS_MIN runs."""
        often = {n for n, runs in self._unmerged.items() if runs >= SPREAD_RUNS_MIN}
        if not often:
            return {}
        times_s: dict[float, list[float]] = {n: [] for n in often}
        for run in self._state.runs:
            if (size := rounded_size(run.n)) in often:
                times_s[size].append(run.run_time_s)
        newest = {n: found[-SPREAD_RUNS_MAX:] for n, found in times_s.items()}
        return {n: (min(found), max(found)) for n, found in newest.items()}

    @cached_property
    def quality(self) -> Quality:
        return with_probabilities(quality(self._state.scores), self._state.fallen)

    @property
    def flagged(self) -> tuple[tuple[str, float], ...]:
        """Alert names and sizes that the last published study found."""
        return tuple(self._state.flagged)

    @property
    def newest_ms(self) -> int:
        return max((run.end_ms for run in self._state.runs), default=0)

    def holds(self, run_id: str) -> bool:
        """Return whether a run is still unmerged, so that it can be replaced or removed."""
        return run_id in self._retained

    def n_of(self, run_id: str) -> float | None:
        return next((run.n for run in self._state.runs if run.run_id == run_id), None)

    def ln_load(self, run_id: str) -> float:
        """Return the part of ln run time that the load of the hosts explains; 0 for a merged run."""
        return next((run.ln_load for run in self._state.runs if run.run_id == run_id), 0.0)

    def score(self, fact: RunFact) -> Scored | None:
        """Compare a run with the previously published curve; None if the curve ends before the size of the run."""
        return self._state.published.score(fact) if self._state.published else None

    def note(self, scored: Scored) -> None:
        vars(self).pop("quality", None)  # the cached quality is out of date
        self._state.scores = with_score(self._state.scores, score_of(scored), self._settings.scores_max, self._places)
        self._state.fallen = with_run(self._state.fallen, scored)

    def learn(self, fact: RunFact, outlier: int = 0, ln_load: float = 0.0) -> None:
        """Learn a run. A run of the same id that is still unmerged is replaced and loses its outlier mark."""
        entry = UnmergedRun(fact.run_id, fact.n, fact.run_time_s, fact.end_ms, outlier, ln_load)
        if fact.run_id in self._retained:
            if any(msgspec.structs.replace(run, outlier=outlier, ln_load=ln_load) == entry for run in self._state.runs):
                return
            former = self.n_of(fact.run_id)
            self._stale(former)
            self._count(fact.n, former)
            self._state.runs = [entry if run.run_id == fact.run_id else run for run in self._state.runs]
        else:
            self._state.runs.append(entry)
            self._retained.add(fact.run_id)
            self._state.total += 1
            self._count(fact.n)
            if len(self._state.runs) > self._settings.unmerged_runs_max:
                self._merge_oldest()
        self._changed(fact.detected_ms, fact.n)

    def began_before_its_level(self, fact: RunFact) -> bool:
        """Return whether a run belongs to an earlier level and says nothing about the present level."""
        since_ms = None if self._table.single else self._table.since_ms(fact.n)
        return since_ms is not None and fact.end_ms - round(fact.run_time_s * 1000) < since_ms

    def of_one_size_only(self, sizes: Sequence[float], since_run: str) -> bool:
        """Return whether all runs of a shift have one size, although more than a third of the runs before it had other sizes.

        `sizes` are the sizes of the shift. The third is counted from the oldest unmerged run to the last run of another size before
        `since_run`.
        """
        if len(sizes) != 1:
            return False
        before = itertools.takewhile(lambda run: run.run_id != since_run, self._state.runs)
        other_places = [i for i, run in enumerate(before, 1) if run.n != sizes[0]]
        return bool(other_places) and len(other_places) * 3 > other_places[-1]

    def move_level(self, since_run: str, since_ms: int, ln_factor: float, *, margin: float, detected_ms: int) -> bool:
        """Begin a new level with the run `since_run`: older runs count less, and with run times multiplied by the factor.

        Return True if the new level equals an earlier level, up to `margin` in ln(run time). The curve becomes due for a fit at
        once.
        """
        began_ms = next((run.start_ms for run in self._state.runs if run.run_id == since_run), since_ms)
        back = self._table.move(began_ms, ln_factor, margin)
        self._derived.clear()
        self._state.runs = [
            msgspec.structs.replace(run, outlier=0) if run.start_ms >= began_ms else run for run in self._state.runs
        ]  # the runs since the shift began confirm each other
        self._changed(detected_ms)
        self._state.new_runs = self._state.total
        return back

    def move_size(self, turned: SizeTurn, detected_ms: int) -> tuple[float, int] | None:
        """Begin a new level of one size if its newest runs differ from its earlier runs; the other sizes keep their level.

        Return the factor and the number of runs. Return None if the size has too few earlier runs, or if its runs have not
        changed: they may differ from the prediction merely because the curve does not follow the size, and each run would then
        begin another level.
        """
        size = rounded_size(turned.n)
        size_runs = [run for run in self._state.runs if rounded_size(run.n) == size]
        newest, before = size_runs[-turned.runs :], self._before(size, size_runs[: -turned.runs])
        if before is None:
            return None
        ratios = [math.log(run.run_time_s / before.quantile(0.5)) - run.ln_load for run in newest]
        # the median has an error of its own, which depends on its number of runs
        noise = turned.noise * math.sqrt(1.0 + math.pi / 2 / before.count)
        rise = risen(ratios, noise, turned.direction)
        start = len(ratios) - rise + began(ratios[-rise:], noise) if rise else len(ratios)
        since = newest[start:]
        if len(since) < CONFIRMED_RUNS or not matters(ln_factor := median(ratios[start:]), noise):
            return None
        margin = max(MARGIN_MIN, 2 * noise / math.sqrt(len(since)))
        since_ms = min(run.start_ms for run in since)
        self._table.move_size(size, since_ms, ln_factor, margin, before_s=before.quantile(0.5))
        self._derived.clear()
        confirmed = {run.run_id for run in since}
        self._state.runs = [
            msgspec.structs.replace(run, outlier=0) if run.run_id in confirmed else run for run in self._state.runs
        ]
        self._changed(detected_ms)
        self._state.new_runs = self._state.total
        return math.exp(ln_factor), len(since)

    def _before(self, size: float, unmerged: Sequence[UnmergedRun]) -> LogSketch | None:
        """Return the run times of a size at its present level, from its merged runs and `unmerged`; None with too few runs."""
        stat = self._table.own.stats.get(size)
        level, present = stat.sketch.moved(0) if stat is not None else LogSketch(), self._table.position(size)
        for run in unmerged:
            if not run.outlier and self._table.position(size, run.start_ms) == present:
                level.add(run.run_time_s)
        return level if level.count >= CONFIRMED_RUNS else None

    def disturbed(self, run_id: str, detected_ms: int) -> bool:
        """Mark an unmerged run as an outlier, because other jobs disturbed it.

        Return False if the run is unknown or marked already, or is not slower than the median of its size.
        """
        runs = self._state.runs
        disturbed = next((run for run in runs if run.run_id == run_id and not run.outlier), None)
        if disturbed is None:
            return False
        size, sizes = rounded_size(disturbed.n), rounded_sizes(run.n for run in runs)
        if disturbed.run_time_s <= median(run.run_time_s for run, n in zip(runs, sizes, strict=True) if n == size):
            return False
        self._state.runs = [msgspec.structs.replace(run, outlier=1) if run is disturbed else run for run in runs]
        self._changed(detected_ms, disturbed.n)
        return True

    def forget(self, run_id: str, detected_ms: int) -> bool:
        """Remove an unmerged run that belongs to another application; return False if the run is already merged or unknown."""
        if run_id not in self._retained:
            return False
        former = self.n_of(run_id)
        self._stale(former)
        self._count(None, former)
        self._state.runs = [run for run in self._state.runs if run.run_id != run_id]
        self._state.total -= 1
        self._retained.remove(run_id)
        self._changed(detected_ms)
        return True

    def study(self) -> Study:
        """Return ADEPT's study of the median run times of all sizes. Raise ValueError without any run."""
        return self._sizes_and_study()[1]

    def _sizes_and_study(self) -> tuple[AggregatedSizes, Study]:
        if self._studied is None:
            whole = self._aggregated(self._derived)
            sizes = thin(whole, FIT_SIZES_MAX)
            found = study(
                sizes.n,
                sizes.median_s,
                sizes.weight,
                sizes.noise,
                cores_per_node=self._settings.cores_per_node,
                allowed_sizes=self._settings.allowed_sizes or None,
                unthinned=(whole.n, whole.median_s),
            )
            self._studied = sizes, found
        return self._studied

    def evidence(self, key: str, system: str, bends: tuple[float, ...] | None = None) -> LawEvidence | None:
        """Return the evidence that the ensemble of laws needs; None if ADEPT's study predicts instead.

        The study predicts with fewer than two sizes, and if it found phases or favoured sizes. `bends` are the sizes at which a
        part of the machine is full; None keeps the last known bends.
        """
        curve = self.unseen_curve(key, system, bends)
        if curve is not None:
            self.saw(evidence(curve))
        return self._evidence

    def unseen_curve(self, key: str, system: str, bends: tuple[float, ...] | None = None) -> Curve | None:
        """Return the curve if its evidence is not computed yet; None if it is, or if ADEPT's study predicts instead."""
        study = self.study()
        if bends is not None and self._evidence is not None and self._evidence.curve.bends != bends:
            self._evidence = None  # the shape of the machine has become known since
        if self._evidence is not None or study.patterns.special is not None or study.patterns.phases is not None:
            return None
        curve = self._curve(key, system)._replace(bends=bends or ())
        return curve if len(curve.n) > 1 else None

    def saw(self, gathered: LawEvidence) -> None:
        """Store the evidence of the curve that `unseen_curve` returned."""
        self._evidence = gathered

    def _curve(self, key: str, system: str) -> Curve:
        sizes, _ = self._sizes_and_study()
        observed, n = self.observed(), tuple(sizes.n.tolist())
        median_s = tuple(observed.moved.get(*row) for row in zip(n, sizes.median_s.tolist(), strict=True))
        rows = zip(median_s, sizes.count.tolist(), strict=True)
        repeats = tuple(typical_runs(time_s, count, sizes.noise) for time_s, count in rows)
        apart = tuple(size for size in n if size in observed.apart)
        return Curve(key, system, n, median_s, repeats, ApplicationKey.parse(key).unit, apart=apart)

    def scatter(self) -> float:
        """Return the observed standard deviation of ln T within a size, even from few repeats."""
        return self._sizes_and_study()[0].scatter

    def slowed_by(self) -> float:
        """Return the delay by other jobs that one run in twenty exceeds, in ln T above the median; 0 without contention."""
        return self._sizes_and_study()[0].slowed_by

    def observed(self) -> ObservedSizes:
        if self._observed is None:
            sizes, found = self._sizes_and_study()
            runs, counts = self._state.runs, self.runs_by_size()
            counts.subtract(rounded_sizes(run.n for run in runs if excluded(run, runs)))
            self._observed = observed_sizes(found, sizes, counts, self._table.moved_alone())
        return self._observed

    def least_s(self) -> dict[float, float]:
        """Return the shortest run time of each size in s, as an estimate of an undisturbed run."""
        sizes, _ = self._sizes_and_study()
        return dict(zip(sizes.n.tolist(), sizes.min_s.tolist(), strict=True))

    def publish(self, curve: PublishedCurve, flagged: list[tuple[str, float]]) -> None:
        """Store the published curve; later runs are scored against it."""
        self._state.published, self._state.flagged = curve, list(flagged)
        self._state.new_runs, self._state.waiting_ms, self._state.faults = 0, None, 0

    def republish(self, now_ms: int) -> None:
        """Make a published curve due for a fit, as a new run would, because data other than the run times has changed."""
        if self._state.published is not None and self._state.waiting_ms is None:
            self._state.waiting_ms = now_ms

    def withdraw(self) -> None:
        """Drop the published curve, because corrections left too few runs."""
        self._state.published, self._state.flagged, self._state.waiting_ms = None, [], None

    @property
    def on_probation(self) -> bool:
        return self._state.total < self._settings.publish_after_runs

    def fit_failed(self, now_ms: int) -> None:
        """Postpone a failed fit by WAIT_MS; after FAULTS_MAX failures wait for new runs."""
        self._state.faults += 1
        self._state.waiting_ms = now_ms + WAIT_MS if self._state.faults < FAULTS_MAX else None

    def sizes(self) -> tuple[float, ...]:
        """Return the observed sizes, ascending."""
        if self._run_sizes is None:
            self._run_sizes = tuple(sorted({*self._table.sizes(), *self._unmerged}))
        return self._run_sizes

    def runs_by_size(self) -> Counter[float]:
        """Return the number of runs behind a fit by size."""
        return self._table.counts() + self._unmerged

    @property
    def falls_with_size(self) -> bool:
        """Return whether a rank test shows that the run time falls with the size, even if the runs scatter widely.

        The test ranks the unmerged runs, and the median of each size whose runs are all merged.
        """
        if self._falls is None:
            runs = [(rounded_size(run.n), run.run_time_s) for run in self._state.runs]
            runs += [
                (n, stat.sketch.quantile(0.5)) for n, stat in self._table.own.stats.items() if n not in self._unmerged
            ]
            self._falls = len(runs) >= FALLS_RUNS_MIN and _rank_correlation(runs) < -max(
                FALLS_MIN, FALLS_DEVIATIONS / math.sqrt(len(runs) - 1.0)
            )
        return self._falls

    def medians_s(self) -> dict[float, float]:
        sizes = self._aggregated()
        return dict(zip(sizes.n.tolist(), sizes.median_s.tolist(), strict=True))

    def _aggregated(self, derived: dict[float, Derived] | None = None) -> AggregatedSizes:
        runs = self._state.runs
        fresh = runs if derived is None else [run for run in runs if run.n not in derived]
        return aggregate(self._table, [run.placed(outlier=excluded(run, fresh)) for run in fresh], derived)

    def due_ms(self) -> int | None:
        """Return the time (ms) at which the next fit is due; None without new runs, or on probation."""
        state = self._state
        if state.waiting_ms is None or (self.on_probation and state.published is None):
            return None
        if self.on_probation:
            return state.waiting_ms
        return state.waiting_ms if self.lags else state.waiting_ms + WAIT_MS

    @property
    def lags(self) -> bool:
        """Return whether a curve can be fitted and lacks a large share of the runs."""
        state = self._state
        if state.waiting_ms is None or self.on_probation:
            return False
        return state.published is None or state.new_runs * GROWTH >= state.total

    def snapshot(self) -> RunTimeState:
        return msgspec.structs.replace(self._state, sizes=self._table.snapshot(), runs=list(self._state.runs))

    def _merge_oldest(self) -> None:
        oldest, evicted = self._state.runs[0], self._table.own.evicted
        # every fourth outlier, chosen by its id, is merged: together outliers count a quarter, whatever the order of events
        merged = not excluded(oldest, self._state.runs) or digest64(oldest.run_id) % OUTLIER_MERGE_EACH == 0
        self._retained.remove(self._state.runs.pop(0).run_id)
        self._count(None, oldest.n)
        if merged:
            self._table.add(oldest.placed(), oldest.end_ms)
        if not merged or self._table.own.evicted != evicted:
            self._derived.clear()
        elif oldest.outlier or not self._table.single:
            self._stale(oldest.n)  # otherwise the size has the same runs, merged or not

    def _count(self, n: float | None, former: float | None = None) -> None:
        if n is not None:
            self._unmerged[rounded_size(n)] += 1
        if former is not None:
            size = rounded_size(former)
            self._unmerged[size] -= 1
            if not self._unmerged[size]:
                del self._unmerged[size]

    def _stale(self, n: float | None) -> None:
        if n is not None:
            self._derived.pop(rounded_size(n), None)

    def _changed(self, detected_ms: int, n: float | None = None) -> None:
        self._stale(n)
        self._studied = self._evidence = self._observed = self._run_sizes = self._falls = None
        self._state.new_runs += 1
        self._state.faults = 0
        if self._state.waiting_ms is None:
            self._state.waiting_ms = detected_ms
