"""Run-time model of one application: observed sizes, the curve that was published, and how good it was.

The newest runs stay unmerged, so that a corrected report replaces a run exactly; older ones live on as sketches by
size. A fit is a function of these alone, whatever the order of events.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from statistics import NormalDist, median
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Quality
from processors.contracts.settings import RunTimeSettings
from processors.facts import PublishedCurve, RunFact, Scored
from processors.models.adept.study import Study, study
from processors.models.aggregates.sizes import (
    REPEATS_MIN,
    AggregatedSizes,
    Derived,
    LevelTable,
    PlacedRun,
    SizeStat,
    aggregate,
    aggregate_levels,
    rounded_size,
    rounded_sizes,
    thin,
)
from processors.models.combination.evidence import REPEATS_MAX, Curve, LawEvidence, evidence
from processors.models.drift import agreeing, began, matters, risen
from processors.models.numerics.statistics import Z95
from processors.run_time.calibration import Calibration, Counts, share
from processors.run_time.drift import SizeTurn
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


class RecentRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An unmerged run; `outlier` is 1 or -1 where it was strangely slow or fast when it was first reported.

    `ln_load` is what the load of its hosts explains of its run time.
    """

    run_id: str
    n: float
    run_time_s: float
    end_ms: int
    outlier: int = 0
    ln_load: float = 0.0

    @property
    def start_ms(self) -> int:
        """When it started, by its run time."""
        return self.end_ms - round(self.run_time_s * 1000)


def placed(runs: Sequence[RecentRun]) -> list[PlacedRun]:
    """Return runs as an aggregate wants them: strange ones count little unless others at their size agree."""
    if not any(run.outlier for run in runs):
        return [placed_run(run) for run in runs]
    return [placed_run(run, outlier=excluded(run, runs)) for run in runs]


def placed_run(run: RecentRun, *, outlier: bool = False) -> PlacedRun:
    """Return one run as an aggregate wants it."""
    return PlacedRun(run.n, run.run_time_s, run.start_ms, outlier)


def with_disturbed(runs: Sequence[RecentRun], run_id: str) -> list[RecentRun] | None:
    """Return the runs with one that others disturbed marked as strangely slow.

    None where it is no slower than is usual at its size, marked already, or not there.
    """
    found = next((run for run in runs if run.run_id == run_id and not run.outlier), None)
    if found is None:
        return None
    own, sizes = rounded_size(found.n), rounded_sizes(run.n for run in runs)
    if found.run_time_s <= median(run.run_time_s for run, size in zip(runs, sizes, strict=True) if size == own):
        return None
    return [msgspec.structs.replace(run, outlier=1) if run is found else run for run in runs]


def merges(runs: Sequence[RecentRun]) -> bool:
    """Return whether the first of the runs is merged once it is too old to be replaced.

    Of strange ones every fourth is, told by its id: together they count a quarter, whatever the order of events.
    """
    return not excluded(runs[0], runs) or digest64(runs[0].run_id) % OUTLIER_MERGE_EACH == 0


def excluded(run: RecentRun, runs: Sequence[RecentRun]) -> bool:
    """Return whether a run counts little: it was strange, and no others at its size agree."""
    if not run.outlier:
        return False
    own = rounded_size(run.n)
    at_size = sorted(
        (each.end_ms, each.run_id, each.outlier) for each in runs if each.n == own or rounded_size(each.n) == own
    )
    return not agreeing(run.outlier, [outlier for _, _, outlier in at_size])


MARGIN_MIN: Final = 0.03  # of ln run time, by which a level may miss one from before and still be it
CONFIRMED_RUNS: Final = 3
ALONE_SHARE_MAX: Final = 0.25  # of the sizes, which move alone: if more do, the curve itself has changed
SCATTER_MAX: Final = 0.3  # of ln T: runs that scatter more are of several kinds, and no normal law tells their band


class ObservedSizes(NamedTuple):
    """Sizes by what must be believed of them.

    `confirmed` are out of line and were run so often that they must be believed, with their times in s: the combination
    of laws takes them in, the study passes them by, and who asks for one gets what it really takes. `excluded` are out of
    line and were run less often: the study passes them by, and the combination takes them in at times in s that are `weighed`
    between what was observed and what the other sizes suggest, for dropped ones cost more than they saved. `alone` are
    those that became slow or fast while the others stayed, with their times in s: they are `weighed` at what they took
    before, for the curve of the others is where it was. `scatter` is within what part of ln T nine of ten runs repeat,
    either way, at each size that was run often: how runs of one size scatter, over all sizes together. It is empty where
    they repeat too few times to tell, or are of several kinds.
    """

    confirmed: Mapping[float, float]
    excluded: frozenset[float]
    scatter: Mapping[float, float]
    weighed: Mapping[float, float] = MappingProxyType({})
    alone: Mapping[float, float] = MappingProxyType({})

    @property
    def out_of_line(self) -> frozenset[float]:
        """The sizes that say nothing of the others."""
        return frozenset({*self.confirmed, *self.excluded, *self.alone})


def observed_sizes(
    study: Study, weights: Mapping[float, float], table: LevelTable, unmerged: Mapping[float, int]
) -> ObservedSizes:
    """Return what is to be believed of the sizes of a study; `weights` is how many runs each counts for.

    `unmerged` are those that are in no table yet, without strange ones that no other agrees with.

    Of a level that was left, runs weigh little; that the size was run often stays true.
    """
    runs = table.counts()
    runs.update(unmerged)
    often = {n for n in study.n.tolist() if max(weights.get(n, 0.0), runs[n]) >= CONFIRMED_RUNS}
    repeats = sum(max(weight - 1.0, 0.0) for weight in weights.values())
    measured = often if repeats >= REPEATS_MIN and study.noise <= SCATTER_MAX else set()
    times_s = dict(zip(study.n.tolist(), study.run_time_s.tolist(), strict=True))
    moved = _moved_alone(table, study.n.tolist())
    return ObservedSizes(
        {size.n: size.observed_s for size in study.anomalies if size.n in often},
        frozenset(size.n for size in study.anomalies if size.n not in often),
        {n: Z95 * study.noise * math.sqrt(1.0 + 1.0 / weights[n]) for n in sorted(measured) if weights.get(n)},
        {
            size.n: size.expected_s * (size.observed_s / size.expected_s) ** _share_confirmed(weights.get(size.n, 0.0))
            for size in study.anomalies
            if size.n not in often
        }
        | {n: times_s[n] / math.exp(ln_factor) for n, ln_factor in moved.items()},
        {n: times_s[n] for n in moved},
    )


_NORMAL: Final = NormalDist()


def typical_runs(median_s: float, count: float, noise: float) -> tuple[float, ...]:
    """Return run times in s that stand for those of a size: at most four, spread evenly by the noise of ln T.

    Forecasts are judged by them: judged by medians alone, bands held the median of many runs and missed the single run.
    """
    shown = max(min(int(count), REPEATS_MAX), 1)
    return tuple([median_s * math.exp(noise * deviations) for deviations in _spread_evenly(shown)])


@cache
def _spread_evenly(shown: int) -> tuple[float, ...]:
    return tuple(_NORMAL.inv_cdf((2 * i + 1) / (2 * shown)) for i in range(shown))


def _moved_alone(table: LevelTable, sizes: Sequence[float]) -> dict[float, float]:
    """Return the inner sizes that moved alone, with ln of the factor; none where they are too many to be an exception.

    What is beyond the smallest or the largest size is told by these, whatever made them what they are now.
    """
    found = {n: ln_factor for n, ln_factor in table.moved_alone().items() if n in sizes[1:-1]}
    return found if len(found) <= max(1, int(ALONE_SHARE_MAX * len(sizes))) else {}


def _share_confirmed(runs: float) -> float:
    """Return what share of its deviation a size out of line is believed that has so many runs: one run four fifths of it.

    On measured curves, one that is believed wholly costs less than one believed to a half: .18 against .30 in ln T far out.
    """
    return runs / (runs + 0.25)


FIT_SIZES_MAX = 12
GROWTH = 8  # a curve is fitted anew at once when an eighth of the runs is new
FAULTS_MAX = 3
WAIT_MS = 600_000  # and after this long in any case


class RunTimeState(msgspec.Struct, omit_defaults=True):
    """Stored form."""

    sizes: dict[str, Any] = {}
    runs: list[RecentRun] = []
    total: int = 0
    new_runs: int = 0
    waiting_ms: int | None = None
    published: PublishedCurve | None = None
    flagged: list[tuple[str, float]] = []
    scores: list[Score] = []
    faults: int = 0
    fallen: ByHorizon = {}
    transferred: Counts = {}


# The extremes of m runs hold (m - 1) / (m + 1) of the next ones: those of five, which were enough before, held two thirds.
SPREAD_RUNS_MIN: Final = 19
SPREAD_RUNS_MAX: Final = 20  # the newest of a size, which nine of ten of the next keep to


class RunTime:
    """Everything known of the run time of one application."""

    name: ClassVar[str] = "run_time"
    version: ClassVar[int] = 1

    def __init__(self, settings: RunTimeSettings, state: RunTimeState) -> None:
        self._settings = settings
        self._state = state
        self._table = LevelTable.build(state.sizes or None)
        self._retained = {run.run_id for run in state.runs}
        self._unmerged = Counter(rounded_sizes(run.n for run in state.runs))  # how many runs of each size
        self._places = places(state.scores)
        self._study: Study | None = None
        self._counts: dict[float, float] = {}
        self._derived: dict[float, Derived] = {}  # of the sizes that have not changed since
        self._plain = True  # how these were derived: without any level or strange run
        self._run_sizes: tuple[float, ...] | None = None
        self._sizes: AggregatedSizes | None = None
        self._evidence: LawEvidence | None = None
        self._observed: ObservedSizes | None = None

    @classmethod
    def build(cls, settings: RunTimeSettings, state: RunTimeState | None = None) -> "RunTime":
        """Return the model of a stored state, or an empty one."""
        return cls(settings, msgspec.structs.replace(state, runs=list(state.runs)) if state else RunTimeState())

    @property
    def observations(self) -> int:
        """How many runs are known."""
        return self._state.total

    @property
    def runs_held(self) -> int:
        """How many runs a fit rests on: strange ones, sizes and levels that were dropped since are not among them."""
        return self._table.counts().total() + len(self._state.runs)

    @property
    def published(self) -> PublishedCurve | None:
        """The curve that was published last."""
        return self._state.published

    @property
    def scores(self) -> tuple[Score, ...]:
        """Scores of published predictions, the newest last."""
        return tuple(self._state.scores)

    def calibration(self, centre: Counts) -> Calibration:
        """Return what scores say of its bands: its own, and of the pool of the `centre` those of all other applications."""
        return Calibration(self._state.scores, self.observed().out_of_line, centre, self._state.transferred)

    def teach(self) -> tuple[Counts, Counts]:
        """Return what the application added to the pool of the centre, and what it adds now in its place."""
        before, self._state.transferred = self._state.transferred, share(self._state.scores)
        return before, self._state.transferred

    @property
    def transferred(self) -> Counts:
        """What the application has added to the pool of the centre."""
        return self._state.transferred

    def extremes(self) -> dict[float, tuple[float, float]]:
        """Return the least and the greatest of the newest run times of each size, in seconds, where these are enough to tell."""
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
        """Measured quality of the published predictions."""
        return with_probabilities(quality(self._state.scores), self._state.fallen)

    @property
    def flagged(self) -> tuple[tuple[str, float], ...]:
        """What the last published study found: alert names and the sizes concerned."""
        return tuple(self._state.flagged)

    @property
    def newest_ms(self) -> int:
        """The end of the newest run that is still unmerged."""
        return max((run.end_ms for run in self._state.runs), default=0)

    def holds(self, run_id: str) -> bool:
        """Return whether a run is still unmerged, so that it can be replaced or taken away."""
        return run_id in self._retained

    def n_of(self, run_id: str) -> float | None:
        """Return the size of a run that is still unmerged."""
        return next((run.n for run in self._state.runs if run.run_id == run_id), None)

    def ln_load(self, run_id: str) -> float:
        """Return what the load of its hosts explains of the run time of a run, in ln; 0 of one that is merged."""
        return next((run.ln_load for run in self._state.runs if run.run_id == run_id), 0.0)

    def score(self, fact: RunFact) -> Scored | None:
        """Compare a run with the curve that was published before; None where that says nothing about its size."""
        return self._state.published.score(fact) if self._state.published else None

    def note(self, scored: Scored) -> None:
        """Remember a score."""
        vars(self).pop("quality", None)  # it is measured anew
        self._state.scores = with_score(self._state.scores, score_of(scored), self._settings.scores_max, self._places)
        self._state.fallen = with_run(self._state.fallen, scored)

    def learn(self, fact: RunFact, outlier: int = 0, ln_load: float = 0.0) -> None:
        """Take a run in; one that is held under the same id is replaced, and no more strange if it was."""
        entry = RecentRun(fact.run_id, fact.n, fact.run_time_s, fact.end_ms, outlier, ln_load)
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
        """Return whether a run belongs to an earlier level, so that the present one says nothing about it."""
        since_ms = None if self._table.single else self._table.since_ms(fact.n)
        return since_ms is not None and fact.end_ms - round(fact.run_time_s * 1000) < since_ms

    def of_one_size_only(self, sizes: Sequence[float], since_run: str) -> bool:
        """Return whether runs since one were of a single size, while of those before their row a third was of others."""
        if len(sizes) != 1:
            return False
        before = itertools.takewhile(lambda run: run.run_id != since_run, self._state.runs)
        others = [i for i, run in enumerate(before, 1) if run.n != sizes[0]]
        return bool(others) and len(others) * 3 > others[-1]

    def move_level(self, since_run: str, since_ms: int, ln_factor: float, *, margin: float, detected_ms: int) -> bool:
        """Begin a new level with a run: older ones count less, and as if they had taken longer by the factor.

        True where it is a level known from before, within `margin` in ln. The curve is to be fitted anew at once.
        """
        began_ms = next((run.start_ms for run in self._state.runs if run.run_id == since_run), since_ms)
        back = self._table.move(began_ms, ln_factor, margin)
        self._derived.clear()
        self._state.runs = [
            msgspec.structs.replace(run, outlier=0) if run.start_ms >= began_ms else run for run in self._state.runs
        ]  # that was no accident
        self._changed(detected_ms)
        self._state.new_runs = self._state.total
        return back

    def move_size(self, turned: SizeTurn, detected_ms: int) -> tuple[float, int] | None:
        """Begin a new level of one size, where its newest runs differ from those before; the other sizes stay.

        Return the factor and of how many runs, None where nothing moves: the size was run too little before, or its runs are
        as ever and the curve passes them by. Then runs differ from what is expected for good, and each had moved the level once more.
        """
        size = rounded_size(turned.n)
        own = [run for run in self._state.runs if rounded_size(run.n) == size]
        newest, before = own[-turned.runs :], self._before(size, own[: -turned.runs])
        if before is None:
            return None
        ratios = [math.log(run.run_time_s / before.median_s) - run.ln_load for run in newest]
        # the median that they are compared with is no better known than by its runs
        noise = turned.noise * math.sqrt(1.0 + math.pi / 2 / before.runs)
        rise = risen(ratios, noise, turned.direction)
        start = len(ratios) - rise + began(ratios[-rise:], noise) if rise else len(ratios)
        since = newest[start:]
        if len(since) < CONFIRMED_RUNS or not matters(ln_factor := median(ratios[start:]), noise):
            return None
        margin = max(MARGIN_MIN, 2 * noise / math.sqrt(len(since)))
        self._table.move_size(size, min(run.start_ms for run in since), ln_factor, margin)
        self._derived.clear()
        confirmed = {run.run_id for run in since}
        self._state.runs = [
            msgspec.structs.replace(run, outlier=0) if run.run_id in confirmed else run for run in self._state.runs
        ]
        self._changed(detected_ms)
        self._state.new_runs = self._state.total
        return math.exp(ln_factor), len(since)

    def _before(self, size: float, unmerged: Sequence[RecentRun]) -> Derived | None:
        """Return what the merged runs of a size and some others tell of its level; None where it was run too little."""
        stat = self._table.own.stats.get(size)
        known, present = stat.copy() if stat is not None else SizeStat(), self._table.position(size)
        for run in unmerged:
            if not run.outlier and self._table.position(size, run.start_ms) == present:
                known.add(run.run_time_s, run.end_ms)
        return known.derived() if known.sketch.count >= CONFIRMED_RUNS else None

    def disturbed(self, run_id: str, detected_ms: int) -> bool:
        """Count an unmerged run that others disturbed as a strange one; False where it is not slow, or is one already."""
        marked = with_disturbed(self._state.runs, run_id)
        if marked is not None:
            self._state.runs = marked
            self._changed(detected_ms, self.n_of(run_id))
        return marked is not None

    def forget(self, run_id: str, detected_ms: int) -> bool:
        """Take an unmerged run away: it belongs to another application; False where it is not held."""
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
        """Return the fit of everything known now; ValueError where nothing is."""
        if self._study is None:
            whole = self._aggregated(self._derived)
            sizes = thin(whole, FIT_SIZES_MAX)
            self._counts = dict(zip(sizes.n.tolist(), sizes.count.tolist(), strict=True))
            self._sizes = sizes
            self._study = study(
                sizes.n,
                sizes.median_s,
                sizes.weight,
                sizes.noise,
                cores_per_node=self._settings.cores_per_node,
                allowed_sizes=self._settings.allowed_sizes or None,
                unthinned=(whole.n, whole.median_s),
            )
        return self._study

    def evidence(self, key: str, system: str, bends: tuple[float, ...] | None = None) -> LawEvidence | None:
        """Return what the sizes say of the laws of scaling; None where ADEPT's study has to answer.

        That is with fewer than two sizes, and where it found phases or favoured sizes. A size out of line counts once
        it was run often enough to be believed. `bends` are the sizes at which a part of the machine is full, None those
        that were known before.
        """
        curve = self.unseen_curve(key, system, bends)
        if curve is not None:
            self.saw(evidence(curve))
        return self._evidence

    def unseen_curve(self, key: str, system: str, bends: tuple[float, ...] | None = None) -> Curve | None:
        """Return the curve whose evidence is yet to be gathered; None where it is known, or ADEPT's study has to answer."""
        study = self.study()
        if bends is not None and self._evidence is not None and self._evidence.curve.bends != bends:
            self._evidence = None  # the machine has become known since
        if self._evidence is not None or study.special is not None or study.phases is not None:
            return None
        curve = self._curve(key, system)._replace(bends=bends or ())
        return curve if len(curve.n) > 1 else None

    def saw(self, found: LawEvidence) -> None:
        """Note the evidence of `unseen_curve`."""
        self._evidence = found

    def _curve(self, key: str, system: str) -> Curve:
        sizes = self._sizes
        if sizes is None:
            return Curve(key, system, (), ())
        weighed, n = self.observed().weighed, tuple(sizes.n.tolist())
        median_s = tuple(weighed.get(size, time_s) for size, time_s in zip(n, sizes.median_s.tolist(), strict=True))
        repeats = tuple(
            typical_runs(time_s, count, sizes.noise)
            for time_s, count in zip(median_s, sizes.count.tolist(), strict=True)
        )
        return Curve(key, system, n, median_s, repeats, ApplicationKey.parse(key).unit)

    def scatter(self) -> float:
        """Return the standard deviation of ln t within a size as it was seen, by however few repeats."""
        self.study()
        return self._sizes.scatter if self._sizes else 0.0

    def observed(self) -> ObservedSizes:
        """Return what is to be believed of the sizes that were run."""
        if self._observed is None:
            self._observed = observed_sizes(self.study(), self._counts, self._table, self._unmerged_in_line())
        return self._observed

    def least_s(self) -> dict[float, float]:
        """Return the least run time at each size, in seconds: what runs take that nothing disturbed."""
        self.study()
        return dict(zip(self._sizes.n.tolist(), self._sizes.min_s.tolist(), strict=True)) if self._sizes else {}

    def publish(self, curve: PublishedCurve, flagged: list[tuple[str, float]]) -> None:
        """Note the curve that users are told now: the runs that follow are scored against it."""
        self._state.published, self._state.flagged = curve, list(flagged)
        self._state.new_runs, self._state.waiting_ms, self._state.faults = 0, None, 0

    def republish(self, now_ms: int) -> None:
        """Note that what is told beside run times has changed: it is published anew when a single run would be."""
        if self._state.published is not None and self._state.waiting_ms is None:
            self._state.waiting_ms = now_ms

    def withdraw(self) -> None:
        """Note that users are told nothing any more: too few runs are left after corrections."""
        self._state.published, self._state.flagged, self._state.waiting_ms = None, [], None

    @property
    def on_probation(self) -> bool:
        """Whether too few runs are known for a curve."""
        return self._state.total < self._settings.publish_after_runs

    def fit_failed(self, now_ms: int) -> None:
        """Note that no curve could be fitted: try again later, and after FAULTS_MAX times only once there are new runs."""
        self._state.faults += 1
        self._state.waiting_ms = now_ms + WAIT_MS if self._state.faults < FAULTS_MAX else None

    def sizes(self) -> tuple[float, ...]:
        """Return the observed sizes, rising."""
        if self._run_sizes is None:
            self._run_sizes = tuple(sorted({*self._table.sizes(), *self._unmerged}))
        return self._run_sizes

    def medians_s(self) -> dict[float, float]:
        """Return the median run time of each observed size, in seconds."""
        found = self._aggregated()
        return dict(zip(found.n.tolist(), found.median_s.tolist(), strict=True))

    def _aggregated(self, known: dict[float, Derived] | None = None) -> AggregatedSizes:
        runs = self._state.runs
        plain = self._table.single and not any(run.outlier and excluded(run, runs) for run in runs)
        self._derive_anew(known, plain=plain)
        fresh = runs if known is None else [run for run in runs if run.n not in known]
        if plain:  # when each started matters to levels alone
            return aggregate(self._table.own, [(run.n, run.run_time_s) for run in fresh], known)
        return aggregate_levels(self._table, placed(fresh), known)

    def _derive_anew(self, known: dict[float, Derived] | None, *, plain: bool) -> None:
        """Forget what was derived of sizes in the other way: the last bits of both differ, and no fit may depend on the past."""
        if known is not None and plain != self._plain:
            known.clear()
            self._plain = plain

    def _unmerged_in_line(self) -> Counter[float]:
        """Return how many unmerged runs there are of each size, without strange ones that no other agrees with."""
        runs, found = self._state.runs, self._unmerged.copy()
        found.subtract([rounded_size(run.n) for run in runs if run.outlier and excluded(run, runs)])
        return found

    def due_ms(self) -> int | None:
        """Return when the curve is to be fitted anew; None where nothing is new, or on probation."""
        state = self._state
        if state.waiting_ms is None or (self.on_probation and state.published is None):
            return None
        if self.on_probation:
            return state.waiting_ms
        return state.waiting_ms if self.lags else state.waiting_ms + WAIT_MS

    @property
    def lags(self) -> bool:
        """Whether a curve can be fitted and lacks a large share of the runs."""
        state = self._state
        if state.waiting_ms is None or self.on_probation:
            return False
        return state.published is None or state.new_runs * GROWTH >= state.total

    def snapshot(self) -> RunTimeState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state, sizes=self._table.snapshot(), runs=list(self._state.runs))

    def _merge_oldest(self) -> None:
        oldest, wanted, evicted = self._state.runs[0], merges(self._state.runs), self._table.own.evicted
        self._retained.remove(self._state.runs.pop(0).run_id)
        self._count(None, oldest.n)
        if wanted:
            self._table.add(placed_run(oldest), oldest.end_ms)
        if not wanted or self._table.own.evicted != evicted:
            self._derived.clear()
        elif not self._plain:
            self._stale(oldest.n)  # otherwise a size consists of the same runs, merged or not

    def _count(self, n: float | None, former: float | None = None) -> None:
        """Count an unmerged run of a size, and one less of a former size."""
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
        self._study = self._evidence = self._observed = self._run_sizes = None
        self._state.new_runs += 1
        self._state.faults = 0
        if self._state.waiting_ms is None:
            self._state.waiting_ms = detected_ms
