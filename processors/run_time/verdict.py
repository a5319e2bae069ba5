"""The verdict on a size: reliable if the final band is narrow enough.

The width of the band is a better criterion than any test of the scaling laws. On measured curves that no constant was chosen on, a
half-width of at most .25 in ln T called 43 % of the forecasts up to twice the largest size reliable, and 1.5 % of these forecasts
were off by more than 30 %; ADEPT's tests for linear and ambiguous curves called 6 % reliable. Beyond twice the largest size of a
lone curve the width is a criterion only while the curve still gains from more nodes: 9 of 16 narrow bands of curves that had
nearly levelled off were off by more than 30 %, and none of 69 others. ADEPT's judgement keeps two vetoes (too few sizes, no law
fits) and gives the advice.

Beyond the largest size a size is reliable if its own band is narrow and all fixed steps below it are reliable. The verdict on a size
therefore does not depend on the other sizes of a request, and no size has a better verdict than a nearer step.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from processors.contracts.outputs import RELIABLE
from processors.models.adept.study import USEFUL_REACH
from processors.models.adept.verdict import REACH, Verdict, number
from processors.models.combination.replay import BELOW, DISTANCE_MAX, WIDE

WIDTH_MAX: Final = 0.25  # half-width in ln T of the wider side of a reliable band
KNOWN_WIDTH_MAX: Final = math.log(1.3)  # the same if related curves have runs at this size
REACH_DOUBLINGS: Final = math.log2(REACH)  # beyond the largest size, for a lone curve
FAR_DOUBLINGS: Final = 2.0  # for a curve that still gains, or that has related curves with runs at these sizes
# slope of ln T over ln n between the last two sizes up to which a curve still gains; perfect speed-up has -1
GAIN_SLOPE: Final = -0.5
KNOWN_MIN: Final = 0.25  # least share of related curves in a forecast that counts as based on runs at its size; a single related curve has at most half
NEGLIGIBLE: Final = 0.01  # share of related curves in a forecast below which the curve counts as a lone one
NEAR: Final = 1e-9
STEPS: Final = 4  # steps per doubling
# farther steps are computed only if these steps are reliable, which is rare
STEPS_NEAR: Final = round(STEPS * REACH_DOUBLINGS)

UNCERTAIN: Final = "uncertain"
UNKNOWN: Final = "unknown"
HIGH_ERROR: Final = "high_error"
CANNOT_RELY: Final = frozenset({"insufficient", HIGH_ERROR})
PART_FULL: Final = "part_full"
REASON_TEXT: Final = {
    "far": "the size is far from those that were run",
    "members_disagree": "the scaling laws disagree",
    "forecasts_missed": "earlier forecasts of this application missed",
    "related_curves_missed": "forecasts of its other inputs missed",
    "few_sizes": "few sizes were run",
    "wide_gap": "the largest sizes that were run lie far apart",
    "poor_fit": "its run times do not lie on a smooth curve",
    "below_smallest": "no smaller size was run",
    "wide_band": "its run times vary",
    PART_FULL: "a memory domain, a socket or a node is full before it, and no run went further",
}
NO_LIMIT: Final = (
    "No largest useful size is known: run times still fall at {}, four times the largest size that was run."
)
RELIABLE_TO: Final = "The prediction is reliable up to {}."
NEXT: Final = " Run it at {} next."
CAN_RELY: Final = Verdict(RELIABLE, (), (), None)
NOTHING_KNOWN: Final = Verdict(
    UNKNOWN, (WIDE,), ("Nothing is known of this size: its run times differ by a factor of a thousand.",), None
)


class SizeGrounds(NamedTuple):
    """The values that decide the verdict on one size.

    `half_width` is the half-width of the wider side of the final band, in ln T; `uninformative` is True if the band is too wide
    to be useful. `reasons` are the doubts of the ensemble, gravest first. `known_further` is the share of the forecast that comes
    from related curves with runs at this size. `measured` is True if the band comes from repeats of the size itself.
    """

    n: float
    half_width: float
    uninformative: bool = False
    reasons: tuple[str, ...] = ()
    known_further: float = 0.0
    measured: bool = False

    @property
    def narrow(self) -> bool:
        width_max = KNOWN_WIDTH_MAX if self.known_further >= KNOWN_MIN else WIDTH_MAX
        return not self.uninformative and self.half_width <= width_max


def steps(n_max: float) -> list[float]:
    """Return the sizes beyond the largest size at which verdicts are computed."""
    return [n_max * 2.0 ** (step / STEPS) for step in range(1, round(STEPS * DISTANCE_MAX) + 1)]


class Verdicts:
    """The verdicts on the sizes of one curve.

    `judged` is ADEPT's verdict on twice the largest size. `pattern_advice` is advice about unusual patterns, added to any verdict.
    `beyond` are the values for the verdicts at `steps`, read only up to the first unreliable step. `reach` is the last size before
    that step, at least the largest size that was run. `full` are the sizes at which a memory domain, a socket or a node is full:
    up to such a size all curves look alike, so smaller runs do not show how this curve continues. `slope` is that of ln T over
    ln n between the last two sizes. `largest_useful_n` is None if no size limits the speed-up.
    """

    def __init__(
        self,
        n_min: float,
        n_max: float,
        judged: Verdict,
        beyond: Iterable[SizeGrounds],
        pattern_advice: tuple[str, ...] = (),
        *,
        full: tuple[float, ...] = (),
        slope: float = 0.0,
        largest_useful_n: float | None = None,
    ) -> None:
        self._unlimited = (NO_LIMIT.format(number(USEFUL_REACH * n_max)),) if largest_useful_n is None else ()
        self._n_min, self._n_max, self._judged = n_min, n_max, judged
        self._pattern_advice = pattern_advice
        self._full_n = next((n for n in full if n >= n_max), math.inf)
        self._vetoed = judged.verdict in CANNOT_RELY
        self._lone_doublings = FAR_DOUBLINGS if slope <= GAIN_SLOPE else REACH_DOUBLINGS
        self.reach, self._failed = self._reached(beyond)

    def of(self, place: SizeGrounds) -> Verdict:
        if place.uninformative:
            return NOTHING_KNOWN
        if place.n > self._n_max:
            return CAN_RELY if self._within_reach(place) else self._doubted_beyond(place)
        below = place.n < self._n_min
        if place.narrow and not below and (place.measured or not self._vetoed):
            return CAN_RELY
        return self._doubted(place.reasons or ((BELOW,) if below else (WIDE,)))

    def whole(self, reliable_n: float) -> Verdict:
        """Return the verdict on the application: reliable if the prediction holds beyond the largest size that was run.

        `reliable_n` is the largest reliable size of the published curve. If it is less than twice the largest size, the advice names it.
        """
        if math.log2(self.reach / self._n_max) >= REACH_DOUBLINGS - NEAR:
            return Verdict(RELIABLE, (), self._pattern_advice + self._unlimited, None)
        doubted = self._doubted(self._failed.reasons if self._failed else (WIDE,))
        if reliable_n <= self._n_max:
            return doubted
        further = NEXT.format(number(doubted.next_n)) if doubted.next_n and not self._judged.reasons else ""
        advice = (RELIABLE_TO.format(number(reliable_n)) + further, *doubted.advice[1:])
        return Verdict(RELIABLE, (), advice, doubted.next_n)

    def _within_reach(self, place: SizeGrounds) -> bool:
        """Return whether the steps on both sides of a size hold, or the size itself and all steps below it."""
        if place.n <= self.reach * (1.0 + NEAR):
            return True
        return (self._failed is None or place.n < self._failed.n) and self._holds(place)

    def _doubted_beyond(self, place: SizeGrounds) -> Verdict:
        nearer = self._failed.reasons if self._failed is not None else ()
        passed = (PART_FULL,) if place.n > self._full_n and place.known_further < KNOWN_MIN else ()
        return self._doubted((*passed, *(place.reasons or nearer)), place.n)

    def _doubted(self, reasons: tuple[str, ...], n: float = math.inf) -> Verdict:
        """Return the verdict on a size with doubts: `reasons`, ADEPT's advice, and the size to run next, which is at most `n`.

        If ADEPT has a veto, return ADEPT's verdict instead.
        """
        judged = self._judged
        if self._vetoed:
            return judged
        reasons = reasons or (WIDE,)
        next_n = judged.next_n if judged.next_n is None or judged.next_n <= n else n  # nobody runs a larger size first
        advice = (_uncertain(reasons, None if judged.reasons else next_n), *judged.advice)
        return Verdict(UNCERTAIN, tuple(dict.fromkeys((*reasons, *judged.reasons))), advice, next_n)

    def _reached(self, beyond: Iterable[SizeGrounds]) -> tuple[float, SizeGrounds | None]:
        """Return the last size up to which every step is reliable, and the grounds of the first unreliable step."""
        reach = self._n_max
        for place in beyond:
            if not self._holds(place):
                return reach, place
            reach = place.n
        return reach, None

    def _holds(self, place: SizeGrounds) -> bool:
        """Return whether a step is reliable by itself: its band is narrow, and it is near, or related curves have runs there.

        Near is up to twice the largest size, for a lone curve that still gains up to four times.
        """
        if self._vetoed or not place.narrow:
            return False
        doublings = math.log2(place.n / self._n_max) - NEAR
        if place.known_further >= KNOWN_MIN:
            return doublings <= FAR_DOUBLINGS
        reach = self._lone_doublings if place.known_further < NEGLIGIBLE else REACH_DOUBLINGS
        return doublings <= reach and place.n <= self._full_n


@lru_cache(maxsize=1024)
def _uncertain(reasons: tuple[str, ...], next_n: float | None) -> str:
    text = "; ".join(REASON_TEXT[reason] for reason in reasons)
    return f"The prediction is uncertain: {text}." + (NEXT.format(number(next_n)) if next_n else "")
