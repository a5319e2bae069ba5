"""Drift of one application: detection of a lasting slow-down or speed-up of its runs, the start of this shift, and a new build at that time.

The detector first tests each scored run as an outlier, and then adds the run to a two-sided CUSUM. A run at a new size counts less,
by the width of its band; a run at a size off the curve does not count. If one size alone explains an alarm, the other sizes have
not changed. Each size also has its own sum, because the ordinary runs of other sizes once hid a slow size for 21 of its runs. A
shift stays open until the model has learned the new level, or the application has returned to the old level. Until then, runs that
the shift explains raise no alarm.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import ClassVar, Final, NamedTuple, Self

import msgspec

from processors.contracts.events import Attribute
from processors.facts import Scored
from processors.models import drift
from processors.models.numerics.statistics import Z95
from processors.store import PlainProcessor, digest64

ATTRIBUTES_MAX: Final = 8
VALUES_MAX: Final = 16  # an attribute with more values is a measurement, not a build
VALUE_LENGTH: Final = 64
EARLIER_RUNS: Final = 3  # a shift may be detected a few runs late


class AttributeChange(msgspec.Struct, frozen=True):
    """An attribute with a new value; `before` is its earlier value, None if unknown."""

    name: str
    before: str | None
    after: str


KnownAttributes = dict[str, dict[str, int]]
"""The values of attributes, each with the index of its first run. An empty dict marks an attribute with too many values."""


def remembered(history: KnownAttributes, attributes: Mapping[str, Attribute], index: int) -> KnownAttributes:
    """Return a copy of the attribute history with the attributes of the run number `index` added."""
    after = history
    for name, value in _texts(attributes).items():
        entry = history.get(name)
        if entry is None and len(after) < ATTRIBUTES_MAX:
            after = after | {name: {value: index}}
        elif entry and next(iter(entry)) != value:  # the newest value comes first and needs no new entry
            first = {value: index} | entry  # the first run with a value stays the first
            after = after | {name: first if len(first) <= VALUES_MAX else {}}
    return after


def change_at(history: KnownAttributes, attributes: Mapping[str, Attribute], index: int) -> AttributeChange | None:
    """Return the attribute that changed at about the run number `index`; None if no attribute did.

    It is an attribute whose present value first appeared no earlier than EARLIER_RUNS runs before `index`.
    """
    for name, value in _texts(attributes).items():
        first = history.get(name, {})
        older = [name_value for name_value in first if first[name_value] < first.get(value, -1)]
        if older and first[value] >= index - EARLIER_RUNS:
            return AttributeChange(name, max(older, key=lambda name_value: first[name_value]), value)
    return None


def _texts(attributes: Mapping[str, Attribute]) -> dict[str, str]:
    return {name[:VALUE_LENGTH]: str(attributes[name])[:VALUE_LENGTH] for name in sorted(attributes)}


NO_QUESTIONS: Final = frozenset[int]()
OBSERVATIONS_MIN: Final = 4  # runs behind a prediction
WARM_UP_RUNS: Final = 12  # first runs, which only estimate the scatter
CAUGHT_UP_RUNS: Final = 16
RUN_IDS_MAX: Final = 8
SORTED_OUT: Final = 32  # scores kept unsorted until an outlier score is needed
REPEATS_MAX: Final = 4  # newest runs among which a repeated report of a run is recognised
SIZES_MAX: Final = 16  # sizes with a sum above 0 or an outlier
UNITS: Final = 10_000  # per unit of ln ratio
SCALE_MAX: Final = 2.0  # in units of noise: the expected deviation of a run that tells about a shift
TURN_RUNS_MAX: Final = 32  # newest runs of a size in which its turn may begin
QUESTION_MAX_MS: Final = 86_400_000  # an outlier question is dropped after a day without a run


class ScoredRun(msgspec.Struct, frozen=True):
    """A run with its score and its attributes, such as build and version.

    `residual` is ln(run time / prediction under the load of the hosts), from which the scatter of runs is learned. The ratio in
    `scored` is often exactly 0 instead, if the load can explain the whole deviation.
    """

    scored: Scored
    attributes: Mapping[str, Attribute] = {}
    residual: float | None = None


class Shift(msgspec.Struct, frozen=True):
    """A lasting change: since the run `since_run`, which started at `since_ms`, runs take `factor` times as long as expected.

    `runs` is the number of runs that show the shift, `run_ids` are the newest of them, and `sizes` are their sizes; a shift shown
    by a single size may concern that size alone. `n`, `observed_s` and `expected_s` belong to the run that revealed the shift.
    `change` is an attribute that changed at the same time, None if none did.
    """

    direction: drift.Direction
    factor: float
    since_ms: int
    since_run: str
    runs: int
    change: AttributeChange | None = None
    noise: float = drift.NOISE_MIN
    sizes: tuple[float, ...] = ()
    run_ids: tuple[str, ...] = ()
    n: float | None = None
    observed_s: float | None = None
    expected_s: float | None = None


class RunJudgement(msgspec.Struct, frozen=True):
    """The result of testing whether a run is an outlier.

    `noise` is the standard deviation of ln(run time) before the run. `outlier` is 1 for a run that is much slower than predicted
    and than earlier runs, -1 for a much faster one, else 0. `conformal_p` is the share of runs at least as far from their
    prediction; it stays 1 for a run close to its prediction when the run is learned.
    """

    noise: float
    outlier: int = 0
    conformal_p: float = 1.0


class SizeTurn(msgspec.Struct, frozen=True):
    """A size that alone has become slower or faster: its newest `runs` runs deviate from the prediction by more than `noise`."""

    n: float
    direction: drift.Direction
    runs: int
    noise: float


class DriftFindings(msgspec.Struct, frozen=True):
    """What learning a run revealed: the judgement of the run, a new shift `found`, and an earlier shift that is `over`.

    `turned` is a size that alone has become slow or fast. `open_questions` contains 1 if the newest run of some size was an
    outlier by being slow, and -1 by being fast: only the next run of that size shows whether the outlier was a single event.
    """

    judgement: RunJudgement | None
    found: Shift | None = None
    over: Shift | None = None
    turned: SizeTurn | None = None
    open_questions: frozenset[int] = frozenset()


class RecentRatio(msgspec.Struct, frozen=True, array_like=True):
    """One of the newest runs: ln(run time / prediction), start, id and size. A shift may have begun with any of these runs."""

    ln_ratio: float
    start_ms: int
    run_id: str
    n: float


class SizeRise(msgspec.Struct, frozen=True, array_like=True):
    """The state of one size: its two CUSUM sums, and the number of runs since each sum was last 0.

    `outlier` is the outlier sign of the newest run, `outlier_ms` its end; 0 if it was no outlier.
    """

    n: float
    up: float = 0.0
    up_runs: int = 0
    down: float = 0.0
    down_runs: int = 0
    outlier: int = 0
    outlier_ms: int = 0


class DriftPlace(NamedTuple):
    """A new run compared with its prediction. `off` is ln(run time / prediction) without the part that an open shift explains.

    `noise` is the standard deviation of ln(run time) of the application, `deviation` that of the prediction, by its band. `rise`
    is the state of the size of the run.
    """

    off: float
    noise: float
    deviation: float
    rise: SizeRise

    def scale(self, scored: Scored) -> float:
        """Return the expected deviation of a run in ln T: `noise`, and at least `deviation` if its size has no runs yet."""
        return self.noise if scored.ground == "runs" else max(self.noise, self.deviation)


class Drift(PlainProcessor, omit_defaults=True, dict=True):
    """Detects lasting shifts and outliers among the runs of one application.

    `runs` are the newest runs, with which a shift may have begun. `older` are the ln ratios of the runs before them in units of
    1e-4. `up` and `down` are the two CUSUM sums. `farthest` are the largest outlier scores, see `drift.farthest_p`.
    """

    name: ClassVar[str] = "drift"
    version: ClassVar[int] = 2

    index: int = 0
    noise: float | None = None
    up: float = 0.0
    down: float = 0.0
    older: list[int] = msgspec.field(default_factory=list)
    runs: list[RecentRatio] = msgspec.field(default_factory=list)
    shift: Shift | None = None
    since_shift: list[float] = msgspec.field(default_factory=list)
    scored: int = 0
    farthest: list[tuple[int, float]] = msgspec.field(default_factory=list)
    repeats: list[int] = msgspec.field(default_factory=list)
    attributes: KnownAttributes = msgspec.field(default_factory=dict)
    sizes: list[SizeRise] = msgspec.field(default_factory=list)

    @cached_property
    def _newest(self) -> list[tuple[int, float]]:
        """The newest outlier scores, not merged into `farthest` yet."""
        return []

    def score(self, fact: ScoredRun) -> RunJudgement | None:
        """Return the judgement of a run; None if its prediction is untrusted or outside of the observed sizes."""
        place = self._place(fact.scored)
        if place is None:
            return None
        judged = self._judged(fact.scored, place)
        return msgspec.structs.replace(judged, conformal_p=self._conformal_p(place))

    def _place(self, scored: Scored) -> DriftPlace | None:
        """Return the comparison of a run with its prediction; None if the prediction is untrusted."""
        if scored.observations < OBSERVATIONS_MIN or scored.horizon != "inside" or not math.isfinite(scored.ln_ratio):
            return None
        noise, shift = self._noise(scored), self.shift
        off = drift.beyond(scored.ln_ratio, math.log(shift.factor) if shift else 0.0, noise)
        return DriftPlace(off, noise, _deviation(scored), self._rise(scored.run.n))

    def _judged(self, scored: Scored, place: DriftPlace) -> RunJudgement:
        off, noise = place.off, place.noise
        if scored.inside or not drift.far(off, noise):
            return RunJudgement(noise)
        conformal_p = self._conformal_p(place)
        sign = 1 if off > 0 else -1
        # an outlier does not make the next one normal: otherwise the last of three equal outliers no longer counted as rare
        rare = drift.rare(conformal_p, self.scored) or place.rise.outlier == sign
        return RunJudgement(noise, sign if rare else 0, conformal_p)

    def _conformal_p(self, place: DriftPlace) -> float:
        self._merge_newest()
        return drift.farthest_p(self.farthest, self.scored, abs(place.off) / place.deviation)

    def learn(self, fact: ScoredRun) -> None:
        """Learn a run; use `take` to also get the findings."""
        self.take(fact)

    def take(self, fact: ScoredRun) -> DriftFindings:
        """Learn a run and return the findings; a repeated run or an untrusted prediction gives no findings."""
        scored, digest = fact.scored, digest64(fact.scored.run.run_id) >> 32
        place = self._place(scored)
        if place is None or digest in self.repeats:
            return DriftFindings(None)
        judgement = self._judged(scored, place)
        if scored.ground == "excluded":
            return DriftFindings(judgement)
        self.repeats = [*self.repeats[1 - REPEATS_MAX :], digest]
        self.attributes = remembered(self.attributes, fact.attributes, self.index)
        self.noise = place.noise
        z = drift.clipped(place.off, place.scale(scored))
        direction = self._add(scored, z, place)
        newest = self._newest_outlier(place.rise, judgement, place.off, scored.run.end_ms)
        turned = self._turned(place.rise, z, judgement, newest)
        if self.shift is None:
            scatter = place.off if fact.residual is None else fact.residual
            self.noise = drift.noise_after(place.noise, scatter, self.index)
            self._newest.append((self.scored, round(abs(scatter) / place.deviation, 3)))
            self.scored += 1
            if len(self._newest) >= SORTED_OUT:
                self._merge_newest()
        self.index += 1
        shift = self._found(direction, fact, place.noise) if direction else None
        if shift is not None:
            turned, self.sizes = self._only(shift), []
            return DriftFindings(judgement, shift, turned=turned)
        over = self._caught_up(scored, self.shift) if self.shift is not None else None
        questions = self._open_questions(scored.run.end_ms) if self.sizes else NO_QUESTIONS
        return DriftFindings(judgement, None, over, turned, questions)

    def adopted(self) -> None:
        """Record that the model has learned the open shift: predictions contain the shift from now on."""
        self.shift, self.since_shift = None, []
        self.sizes, self.runs = [], []
        self._start_anew()

    def size_moved(self, n: float) -> None:
        """Record that size `n` has a new level: its runs are removed, and the sums of the application restart at 0."""
        self.sizes = [rise for rise in self.sizes if rise.n != n]
        self.runs = [ratio for ratio in self.runs if ratio.n != n]
        self._start_anew()

    def snapshot(self) -> Self:
        self._merge_newest()
        return super().snapshot()

    def _merge_newest(self) -> None:
        """Merge the newest outlier scores into `farthest`; this can wait, because only tests of outliers read `farthest`."""
        if self._newest:
            self.farthest = drift.farthest_after(self.farthest, self._newest)
            self._newest.clear()

    def _noise(self, scored: Scored) -> float:
        if self.noise is not None:
            return self.noise
        # until enough runs have shown their scatter, the band of the first prediction stands in for the noise
        return min(max(_deviation(scored), drift.NOISE_MIN), drift.NOISE_MAX)

    def _add(self, scored: Scored, z: float, place: DriftPlace) -> drift.Direction | None:
        """Add a run to the window and to the sums; return the direction of a shift that the run may confirm."""
        run = scored.run
        # the error of the model at a new size is not news of the application
        if place.scale(scored) <= SCALE_MAX * place.noise:
            runs = [*self.runs, RecentRatio(round(scored.ln_ratio, 4), run.start_ms, run.run_id, run.n)]
            if self.shift is None:  # an open shift must not enter the standard that judges the shift
                self._keep(runs[: -drift.NEWEST_MAX])
            self.runs = runs[-drift.NEWEST_MAX :]
        if self.index < WARM_UP_RUNS:
            return None
        cusum = drift.Cusum(self.up, self.down)
        alarm = cusum.add(z)
        self.up, self.down = round(cusum.up, 6), round(cusum.down, 6)
        newest = median(self._unexplained(self.runs[-drift.NEWEST_MIN :], place.noise) or (0.0,))
        if abs(newest) < drift.LN_FACTOR_MIN / 2:
            return alarm
        return "regression" if newest > 0.0 else "improvement"

    def _keep(self, runs: Sequence[RecentRatio]) -> None:
        """Remember the ratios of runs in which no shift began."""
        older = [*self.older, *(round(run.ln_ratio * UNITS) for run in runs)]
        self.older = older[-drift.OLDER_MAX :]

    def _unexplained(self, runs: Sequence[RecentRatio], noise: float) -> list[float]:
        """Return the parts of ln ratios that the open shift does not explain."""
        ln_factor = math.log(self.shift.factor) if self.shift else 0.0
        return [drift.beyond(run.ln_ratio, ln_factor, noise) for run in runs]

    def _rise(self, n: float) -> SizeRise:
        for rise in self.sizes:
            if rise.n == n:
                return rise
        return SizeRise(n)

    @staticmethod
    def _newest_outlier(before: SizeRise, judged: RunJudgement, off: float, end_ms: int) -> tuple[int, int]:
        """Return the outlier sign and the end of the newest run of a size; a run that cannot be tested changes neither value."""
        if judged.outlier:
            return judged.outlier, end_ms
        as_expected = not drift.far(off, judged.noise) or off * before.outlier < 0
        return (0, 0) if as_expected else (before.outlier, before.outlier_ms)

    def _turned(self, rise: SizeRise, z: float, judged: RunJudgement, newest: tuple[int, int]) -> SizeTurn | None:
        """Add a run to the sums of its size, and return the size as changed if a sum is above its threshold.

        The sums do not restart then, because only further runs of the size show whether it has really changed; they are removed
        once the curve follows the size.
        """
        cusum = drift.Cusum(rise.up, rise.down)
        direction = cusum.add(z) if self.index >= WARM_UP_RUNS else None
        up_runs, down_runs = min(rise.up_runs + 1, TURN_RUNS_MAX), min(rise.down_runs + 1, TURN_RUNS_MAX)
        up, down = round(min(cusum.up, drift.THRESHOLD), 4), round(min(cusum.down, drift.THRESHOLD), 4)
        other_sizes = [each for each in self.sizes if each.n != rise.n]
        if up or down or newest[0]:
            other_sizes.append(SizeRise(rise.n, up, up_runs if up else 0, down, down_runs if down else 0, *newest))
        self.sizes = other_sizes[-SIZES_MAX:]
        if direction is None:
            return None
        return SizeTurn(rise.n, direction, up_runs if direction == "regression" else down_runs, judged.noise)

    def _only(self, shift: Shift) -> SizeTurn | None:
        """Return the one size that explains `shift`; None if the shift has runs of several sizes.

        The size may have changed earlier than the shift began, because runs of other sizes in between hid its start.
        """
        if len(shift.sizes) != 1:
            return None
        rise = self._rise(shift.sizes[0])
        runs = rise.up_runs if shift.direction == "regression" else rise.down_runs
        return SizeTurn(rise.n, shift.direction, max(runs, shift.runs), shift.noise)

    def _open_questions(self, now_ms: int) -> frozenset[int]:
        return frozenset(
            rise.outlier for rise in self.sizes if rise.outlier and now_ms - rise.outlier_ms <= QUESTION_MAX_MS
        )

    def _start_anew(self) -> None:
        self.up = self.down = 0.0

    def _found(self, direction: drift.Direction, fact: ScoredRun, noise: float) -> Shift | None:
        """Return the shift behind an alarm, and keep it open; None if it is too small to matter or may be chance.

        Both sums restart at 0, unless too few runs show the shift so far.
        """
        ratios = [*(unit / UNITS for unit in self.older), *self._unexplained(self.runs, noise)]
        shorter, longer = sorted(drift.tails(ratios))
        skewed = longer > drift.LEANING * shorter
        alarmed = (self.up if direction == "regression" else self.down) > drift.THRESHOLD and not skewed
        runs = drift.shifted_runs(ratios, direction, drift.CHANCE_AFTER_ALARM if alarmed else drift.CHANCE_ALONE)
        # runs before the shift that lay a little above the usual ones make it no less significant, but its factor too small
        runs -= drift.began(ratios[-runs:], noise) if runs else 0
        if runs < drift.NEWEST_MIN:
            return None
        since = self.runs[-runs:]
        single_size = drift.explained_by_one([run.ln_ratio for run in since], [run.n for run in since], noise)
        since = [run for run in since if single_size in {None, run.n}]
        ln_factor = median(run.ln_ratio for run in since)
        self._start_anew()
        least = min(noise, shorter) if skewed else noise  # the longer tail is not the scatter of the undisturbed runs
        if not drift.matters(ln_factor, least) or (ln_factor > 0) != (direction == "regression"):
            return None
        self._keep(self.runs[:-runs])
        self.runs = []
        for place, ratio in enumerate(ratios[:-runs]):  # the shift itself is not noise
            noise = drift.noise_after(noise, ratio, place)
        self.noise = noise
        self.since_shift = [run.ln_ratio for run in since][-CAUGHT_UP_RUNS:]
        self.shift = Shift(
            direction,
            factor=round(math.exp(ln_factor), 6),
            since_ms=since[0].start_ms,
            since_run=since[0].run_id,
            runs=len(since),
            noise=round(noise, 4),
            sizes=tuple(sorted({run.n for run in since})),
            run_ids=tuple(run.run_id for run in since)[-RUN_IDS_MAX:],
            n=fact.scored.run.n,
            observed_s=fact.scored.run.run_time_s,
            expected_s=fact.scored.expected_s,
            change=change_at(self.attributes, fact.attributes, self.index - runs),
        )
        return self.shift

    def _caught_up(self, scored: Scored, shift: Shift) -> Shift | None:
        """Close and return the open shift if the newest runs take about as long as expected again."""
        early = len(self.since_shift) < CAUGHT_UP_RUNS
        self.since_shift = [*self.since_shift, round(scored.ln_ratio, 6)][-CAUGHT_UP_RUNS:]
        centre, ln_factor = median(self.since_shift), math.log(shift.factor)
        if early:  # an alarm comes after few runs, so the next runs refine the size of the shift
            same_way = centre * ln_factor > 0 and drift.matters(centre, self._noise(scored))
            ln_factor = centre if same_way else ln_factor
            self.shift = msgspec.structs.replace(
                shift, factor=round(math.exp(ln_factor), 6), runs=len(self.since_shift)
            )  # fmt: skip
            return None
        near = max(self._noise(scored) / 2, drift.FACTOR_MIN / 2)
        if abs(centre) > min(near, abs(ln_factor) / 3):
            return None
        self.adopted()
        return shift


def without_load(scored: Scored, ln_load: float) -> Scored:
    """Return a score relative to the prediction under the load of the hosts; the load explains `ln_load` of ln T.

    The load may explain any distance from 0 to `ln_load`: a run that the load did not slow down does not count as too fast.
    """
    off = drift.beyond(scored.ln_ratio, ln_load, 0.0)
    if off == scored.ln_ratio:
        return scored
    factor = math.exp(scored.ln_ratio - off)
    low_s, high_s = factor * scored.low_s, factor * scored.high_s
    return msgspec.structs.replace(
        scored,
        expected_s=factor * scored.expected_s,
        low_s=low_s,
        high_s=high_s,
        ln_ratio=off,
        inside=low_s <= scored.run.run_time_s <= high_s,
    )


def _deviation(scored: Scored) -> float:
    """Return the standard deviation of ln run time that corresponds to the width of the band."""
    return max(scored.half_width / Z95, 1e-6)
