"""An input that was never run, or at one or two sizes only, from the other inputs of its application: each left out once.

A world says which other inputs are known: all, two or four of them, all but run at one size each, all but without the
upper half of their sizes. Errors are asked at every size that was measured, of inputs within and beyond the range of the
others' sizes.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import expm1, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from processors.inputs import AHEAD, DEVIATION_MIN, KNOTS_MAX, RUN_DEVIATION, spread
from processors.models.adept.study import study
from processors.models.combination.evidence import Curve
from processors.models.input_size import ExpectedLnTime, Input, Knot, expected, pooled, values
from processors.models.numerics.conformal import NORMAL_90
from tests.kit.combination import combine
from tests.quality.curves import Measured

if TYPE_CHECKING:
    from tests.quality.tables import Sources

# what names the sizes of an input, as a rule of identification would; the rest of its name is another kind of input
SIZES: Final = {
    "spark-kmeans": r"observations=(?P<observations>\d+);|features=(?P<features>\d+);|k=(?P<k>\d+)$|data_size_MB=\d+;",
    "spark-pagerank": r"pages=(?P<pages>\d+);|links=(?P<links>\d+);|convergence_criterion=(?P<limit>[\d.]+)|data_size_MB=\d+;",
    "HeatPropagation": r"domain=(?P<domain>\d+)",
    "ConjugateGradient-fb": r"N=(?P<rows>\d+)",
    "OpenSBLI": r"^TGV(?P<grid>\d+)ss(?=.*rpn=\d+;thr=1$)",
    "GameOfLife-mp": r"^(?P<grid>\d+);omp;tasks=(?P<tasks>\d+);e_s_.*$",
    "GameOfLife-gc": r"^omp_strong_(?P<tasks>\d)task_(?P<grid>\d+)k;tasks=\d$",
    "EinsteinToolkit-CarpetX": r"magTOV-n(?P<grid>\d+);Cow_UNI_G(?P<block>\d+)",
    "kdtree-ea": r"tasks=(?P<tasks>\d+)",
    "MAESTRO-xrb": r"width=(?P<width>\d+)",
}
WORLDS: Final = ("all", "two", "four", "one size", "lower half")
REQUESTED_MAX: Final = 24  # inputs of one application
OTHERS_MAX: Final = 24
SEED: Final = 1


@dataclass(frozen=True)
class Sized:
    """A curve of an input whose sizes are known."""

    curve: Measured
    place: str
    ln_sizes: tuple[float, ...]

    @cached_property
    def medians_s(self) -> dict[float, float]:
        return {float(n): median(runs) for n, runs in sorted(self.curve.runs.items())}

    def published(self, sizes: Sequence[float]) -> Input:
        """Return what the input tells the others when it was run at these sizes."""
        if len(sizes) < 3:
            return Input(self.place, self.ln_sizes, tuple(self.knot(n) for n in sizes))
        known = combine(Curve("", self.place, tuple(sizes), tuple(self.medians_s[n] for n in sizes)))
        ahead = [AHEAD * sizes[-1]]
        band = known.predict(ahead)
        doubt = np.log(band.high_s / band.low_s) / 2 / NORMAL_90
        retained = [sizes[i] for i in spread(len(sizes), KNOTS_MAX - 1)]
        inner = [Knot(n, log(self.medians_s[n]), DEVIATION_MIN) for n in retained]
        outer = [Knot(n, log(t), s) for n, t, s in zip(ahead, band.run_time_s, doubt, strict=True)]
        return Input(self.place, self.ln_sizes, (*inner, *outer))

    def knot(self, n: float) -> Knot:
        return Knot(n, log(self.medians_s[n]), RUN_DEVIATION)


class Answer(NamedTuple):
    """One answer: who asked, whether the input lies beyond the others, error, runs inside, ln width; the baselines' errors.

    `alone` is the input's own law (None where it was not run), `nearest` the curve of the nearest other input, `mean` the
    geometric mean of all of them, both moved to what was run of the input.
    """

    application: str
    beyond: bool
    error: float
    inside: float
    width: float
    alone: float | None
    nearest: float
    mean: float


def sized(curves: Sequence[Measured]) -> dict[str, list[Sized]]:
    """Return the curves of inputs of known sizes by application, where some differ in their sizes alone."""
    found: dict[str, list[Sized]] = defaultdict(list)
    for curve in curves:
        pattern = SIZES.get(curve.application)
        name = curve.key.partition("|")[0]
        if pattern is None or curve.data_set == "ofi_ucx":
            continue
        groups: dict[str, str] = {}
        for match in re.finditer(pattern, name):
            groups |= {group: text for group, text in match.groupdict().items() if text}
        if len(groups) == len(re.compile(pattern).groupindex):
            place = f"{curve.key.partition('|')[2]}:{re.sub(pattern, '', name)}"
            found[curve.application].append(Sized(curve, place, tuple(log(float(text)) for text in groups.values())))
    return dict(found)


def answers(inputs: dict[str, list[Sized]], world: str, run: int) -> Iterator[Answer]:
    """Yield the answers to all questions of a world about inputs that were run at `run` sizes themselves."""
    chance = random.Random(SEED)  # noqa: S311  the same questions every time, no secret
    for application, every in sorted(inputs.items()):
        for one in chance.sample(every, min(len(every), REQUESTED_MAX)):
            others = [each for each in every if (each.place, each.ln_sizes) != (one.place, one.ln_sizes)]
            near = [each for each in others if each.place == one.place]
            if world in {"two", "four"}:
                count = {"two": 2, "four": 4}[world]
                others = near = chance.sample(near, count) if len(near) >= count else []
            if near and len(one.medians_s) > run + 1:
                chance.shuffle(others)
                others.sort(key=lambda each: each.place != one.place)
                known = [each.published(_run(each, world, chance)) for each in others[:OTHERS_MAX]]
                yield from _requested(application, one, known, sorted(chance.sample(list(one.medians_s)[:-1], run)))


def lines(sources: "Sources") -> Iterator[str]:
    """Yield errors and coverage of each world; every application counts alike."""
    inputs = sized(sources.curves)
    yield f"{'others':>10} {'own sizes':>9} points | median error %: this  alone nearest   mean | coverage  width | inputs beyond: error coverage"
    for run in (0, 1, 2):
        for world in WORLDS:
            found = list(answers(inputs, world, run))
            if found:
                yield f"{world:>10} {run:9} {len(found):6} | {_row(found)}"


def balanced(found: Sequence[Answer], column: str) -> float:
    """Return the mean over applications of the median, of `inside` the mean, in % but for the width."""
    by_application: dict[str, list[float]] = defaultdict(list)
    for answer in found:
        value = getattr(answer, column)
        if value is not None:
            by_application[answer.application].append(value)
    middle = fmean if column == "inside" else median
    share = fmean(middle(each) for each in by_application.values()) if by_application else float("nan")
    return share if column == "width" else 100.0 * share


def _row(found: Sequence[Answer]) -> str:
    errors = " ".join(f"{balanced(found, column):6.1f}" for column in ("error", "alone", "nearest", "mean"))
    beyond = [answer for answer in found if answer.beyond]
    far = f"{balanced(beyond, 'error'):19.1f} {balanced(beyond, 'inside'):8.1f}"
    return f"{'':14}{errors} | {balanced(found, 'inside'):8.1f} {balanced(found, 'width'):6.2f} | {far}"


def _run(one: Sized, world: str, chance: random.Random) -> list[float]:
    sizes = list(one.medians_s)
    if world == "one size":
        return [chance.choice(sizes)]
    return sizes[: max(2, len(sizes) // 2)] if world == "lower half" else sizes


def _requested(application: str, one: Sized, known: Sequence[Input], run: Sequence[float]) -> Iterator[Answer]:
    requested = [n for n in one.medians_s if n not in run]
    n, truth = np.array(requested), np.log([one.medians_s[each] for each in requested])
    own = [one.knot(each) for each in run]
    found = expected(known, one.place, one.ln_sizes, n, own)
    alone = _alone(one, run, n) if run else None
    if alone is not None:
        found, _ = pooled(found, alone, n, run)
    here = [each for each in known if each.place == one.place]
    nearest = min(here, key=lambda each: float(np.linalg.norm(np.subtract(each.ln_sizes, one.ln_sizes))))
    baselines = [np.abs(np.expm1(_moved(group, n, own) - truth)) for group in ([nearest], here)]
    sizes = np.array([each.ln_sizes for each in here])
    beyond = bool(((one.ln_sizes > sizes.max(axis=0) + 1e-9) | (one.ln_sizes < sizes.min(axis=0) - 1e-9)).any())
    for i, size in enumerate(requested):
        runs = one.curve.runs[int(size)]
        yield Answer(
            application,
            beyond,
            abs(expm1(found.ln_run_time[i] - truth[i])),
            fmean(abs(log(run_s) - found.ln_run_time[i]) <= found.half_width[i] for run_s in runs),
            2.0 * float(found.half_width[i]),
            abs(expm1(alone.ln_run_time[i] - truth[i])) if alone is not None else None,
            *(float(errors[i]) for errors in baselines),
        )


def _alone(one: Sized, run: Sequence[float], n: np.ndarray) -> ExpectedLnTime:
    times = [one.medians_s[each] for each in run]
    if len(run) == 1:
        band = study(list(run), times).predict(n)
        return ExpectedLnTime(np.log(band.run_time_s), np.log(band.high_s / band.low_s) / 2)
    law = combine(Curve("", one.place, tuple(run), tuple(times))).predict(n)
    return ExpectedLnTime(np.log(law.run_time_s), np.log(law.high_s / law.low_s) / 2)


def _moved(group: Sequence[Input], n: np.ndarray, own: Sequence[Knot]) -> np.ndarray:
    """Return the mean of the curves, moved to what was run of the input in question."""
    reported = values(group, n).ln_run_time.mean(axis=0)
    if own:
        at = values(group, np.array([knot.n for knot in own])).ln_run_time.mean(axis=0)
        reported = reported + np.mean([knot.ln_run_time for knot in own] - at)
    return np.asarray(reported)
