"""Measured quality of published predictions, from the runs that ended after publication."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Final

import msgspec

from processors.contracts.names import HORIZONS, Horizon
from processors.contracts.outputs import HorizonQuality, Quality
from processors.facts import COVERAGE_RUNS_MIN, Scored
from processors.models.numerics.statistics import all_to_digits, pinball, share_below, to_digits

COVERAGE: Final = 0.9
ROWS: Final = ("own", *HORIZONS)  # sizes with runs of their own have a row separate from the sizes between
OWN: Final = 0
ROW_OF: Final = {horizon: row for row, horizon in enumerate(ROWS) if row != OWN}


class Score(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A scored run: index of its horizon, ln(observed / predicted), and whether the run was inside the band.

    `distance` is |ln_ratio| in half-widths of the same side of the band before calibration. `n` is the size (0 if not kept); `own`
    is True if the prediction used runs of the size itself.
    """

    horizon: int
    ln_ratio: float
    inside: bool
    distance: float
    n: float = 0.0
    own: bool = False

    @property
    def signed(self) -> float:
        """The distance, negative for a run that was faster than predicted."""
        return math.copysign(self.distance, self.ln_ratio)

    @property
    def row(self) -> int:
        """The index of the score's row in ROWS."""
        return OWN if self.own else self.horizon + 1


def score_of(scored: Scored) -> Score:
    return Score(
        HORIZONS.index(scored.horizon),
        round(scored.ln_ratio, 6),
        scored.inside,
        round(abs(scored.ln_ratio) / scored.model_half_width, 4),
        scored.run.n,
        scored.ground != "curve",
    )


def by_row(scores: Sequence[Score]) -> list[list[Score]]:
    """Return the scores of each row of ROWS, in the order of their arrival."""
    rows: list[list[Score]] = [[] for _ in ROWS]
    for score in scores:
        rows[score.row].append(score)
    return rows


Places = Counter[tuple[int, float]]
"""The number of scores by row and size."""


def places(scores: Sequence[Score]) -> Places:
    """Return the number of scores of each row and size."""
    return Counter((each.row, each.n) for each in scores)


def with_score(scores: Sequence[Score], score: Score, most: int, counts: Places) -> list[Score]:
    """Return `scores` with `score` appended, at most `most` of them, newest last; `counts` is updated to the number of scores by row and size.

    Beyond the limit the oldest score of the most frequent row and size is evicted. Otherwise, repeats of a size that runs all the
    time would evict the few scores far beyond the largest size, and the scores of all other sizes.
    """
    kept_scores = [*scores, score]
    counts[score.row, score.n] += 1
    while len(kept_scores) > most:
        largest = max(counts.values())
        row, n = min(place for place, count in counts.items() if count == largest)
        del kept_scores[next(i for i, each in enumerate(kept_scores) if each.n == n and each.row == row)]
        counts[row, n] -= 1
        if not counts[row, n]:
            del counts[row, n]
    return kept_scores


def quality(scores: Sequence[Score]) -> Quality:
    """Return median relative error, coverage and bias (mean ln ratio) of the scores; median error and coverage also by horizon."""
    if not scores:
        return Quality()
    errors = [abs(math.expm1(-score.ln_ratio)) for score in scores]
    by_horizon: dict[int, list[tuple[float, bool]]] = {}
    for score, error in zip(scores, errors, strict=True):
        by_horizon.setdefault(score.horizon, []).append((error, score.inside))
    return Quality(
        scored=len(scores),
        median_error=median(errors),
        coverage_90=_coverage([score.inside for score in scores]),
        bias=fmean([score.ln_ratio for score in scores]),
        horizons=tuple(
            HorizonQuality(
                HORIZONS[i], len(part), median([error for error, _ in part]), _coverage([inside for _, inside in part])
            )
            for i, part in sorted(by_horizon.items())
        ),
    )


def _coverage(inside: Sequence[bool]) -> float | None:
    return sum(inside) / len(inside) if len(inside) >= COVERAGE_RUNS_MIN else None


TENTHS: Final = 10
LOW, HIGH = 0.05, 0.95  # probabilities of the ends of a band
FORGETTING: Final = 0.995  # weight factor per later run: about the newest two hundred runs count
_MIDDLE: Final = 0.5


class Fallen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The scored runs at one horizon, to measure how well whole distributions were predicted. Newer runs weigh more.

    `tenths` is the weight of the runs in each tenth of their predicted distribution; `low_loss` and `high_loss` are the sums of the
    pinball losses of both ends of the band in ln T.
    """

    runs: int = 0
    tenths: tuple[float, ...] = (0.0,) * TENTHS
    low_loss: float = 0.0
    high_loss: float = 0.0


ByHorizon = dict[Horizon, Fallen]
NONE_YET: Final = Fallen()


def with_run(fallen: Mapping[Horizon, Fallen], scored: Scored) -> ByHorizon:
    """Return `fallen` with one more run, which was scored against the curve published before the run ended."""
    before, observed_s = fallen.get(scored.horizon, NONE_YET), scored.run.run_time_s
    inside = share_below(observed_s, scored.expected_s, scored.low_s, scored.high_s)
    ends = ((scored.low_s, LOW), (scored.high_s, HIGH))
    ln_observed = math.log(observed_s)
    losses = [pinball(ln_observed, math.log(end_s), level) for end_s, level in ends]
    old, new = (*before.tenths, before.low_loss, before.high_loss), (*_tenths(inside), *losses)
    *tenths, low, high = all_to_digits([FORGETTING * faded + fresh for faded, fresh in zip(old, new, strict=True)], 5)
    return {**fallen, scored.horizon: Fallen(before.runs + 1, tuple(tenths), low, high)}


def with_probabilities(quality: Quality, fallen: Mapping[Horizon, Fallen]) -> Quality:
    """Return `quality` with the shares of runs by tenth of their predicted distribution, and pinball losses, for each horizon."""
    parts = []
    for part in quality.horizons:
        sums = fallen.get(part.horizon)
        if sums is not None and sums.runs >= COVERAGE_RUNS_MIN:
            runs = sum(sums.tenths)
            part = msgspec.structs.replace(  # noqa: PLW2901
                part,
                pit=tuple(round(weight / runs, 4) for weight in sums.tenths),
                pinball_05=to_digits(sums.low_loss / runs, 4),
                pinball_95=to_digits(sums.high_loss / runs, 4),
            )
        parts.append(part)
    return msgspec.structs.replace(quality, horizons=tuple(parts))


def _tenths(inside: float) -> list[float]:
    """Return the weight of a run in each tenth. A run that took exactly the predicted time counts half in each of the two middle tenths."""
    weights = [0.0] * TENTHS
    weights[min(int(inside * TENTHS), TENTHS - 1)] += 0.5
    weights[min(int(inside * TENTHS) - (inside == _MIDDLE), TENTHS - 1)] += 0.5
    return weights
