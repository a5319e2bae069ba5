"""The one verdict on a size, taken on the final band; no size farther out has a better one.

Inside the observed range the size's own band decides. Beyond the largest size ADEPT's verdict decides, and the band has to be narrow
as well. Verdicts beyond are taken at fixed steps from the largest size, so that the verdict on a size does not depend on the other
sizes of a request.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from processors.contracts.outputs import RELIABLE
from processors.models.adept.verdict import REACH, Verdict
from processors.models.combination.replay import BELOW, DISTANCE_MAX, TOO_FAR, WIDE

# Half-width in ln T that a reliable band may have, per doubling beyond the largest size, of which one at least and two at most
# count. With three, and growing faster, a band of .35 to 2.8 times the run time was called reliable, and one in eight was off
# by more than 30 % beyond four times the largest size.
WIDTH_MAX: Final = 0.2
DOUBLINGS_MAX: Final = 2.0
REACH_DOUBLINGS: Final = math.log2(REACH)  # up to here ADEPT's judgement and the band are enough
NEAR: Final = 1e-9
WIDTH_INSIDE_MAX: Final = 0.1
STEPS: Final = 4  # a doubling
STEPS_NEAR: Final = round(STEPS * REACH_DOUBLINGS)  # farther steps are read only if these hold, which is rare
KNOWN_MIN: Final = 0.5  # least share of related curves in a forecast that rests on sizes that were run

UNCERTAIN: Final = "uncertain"
UNKNOWN: Final = "unknown"
HIGH_ERROR: Final = "high_error"
CANNOT_RELY: Final = frozenset({"insufficient", HIGH_ERROR})
OF_DISTANCE: Final = frozenset({TOO_FAR})  # doubts that the application's own record at that horizon answers
PART_FULL: Final = "part_full"
LEFT_OPEN: Final = frozenset({TOO_FAR, "linear", "runner_up"})  # doubts that related curves at such sizes answer
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
CAN_RELY: Final = Verdict(RELIABLE, (), (), None)
NOTHING_KNOWN: Final = Verdict(
    UNKNOWN, (WIDE,), ("Nothing is known of this size: its run times differ by a factor of a thousand.",), None
)


class SizeGrounds(NamedTuple):
    """The grounds of a verdict on one size.

    `half_width` is that of the wider side of the final band, in ln T; `uninformative` marks a band too wide to tell anything. `reasons`
    are the doubts of the combination, gravest first. `known_further` is the share of related curves that were run at such sizes,
    `record` tells whether forecasts of the application at this horizon were scored and held.
    """

    n: float
    half_width: float
    uninformative: bool = False
    reasons: tuple[str, ...] = ()
    known_further: float = 0.0
    record: bool = False


def steps(n_max: float) -> list[float]:
    """Return the sizes beyond the largest one at which verdicts are taken."""
    return [n_max * 2.0 ** (step / STEPS) for step in range(1, round(STEPS * DISTANCE_MAX) + 1)]


def allowed(distance: float) -> float:
    """Return the half-width in ln T that a reliable band may have at a distance beyond the largest size, in doublings."""
    return WIDTH_MAX * min(max(distance, 1.0), DOUBLINGS_MAX)


class Verdicts:
    """The verdicts on the sizes of one curve.

    `judged` returns ADEPT's verdict on a size, for None on twice the largest; `pattern_advice` is advice about unusual patterns,
    whatever the verdict. `beyond` are the places at `steps`, read until one is not reliable. `reach` is the last size up to which every
    step is reliable, at least the largest that was run. `full` are the sizes at which a memory domain, a socket or a node is full: up to
    there all curves look alike, and no run shows how this curve goes on.
    """

    def __init__(
        self,
        n_min: float,
        n_max: float,
        judged: Callable[[float | None], Verdict],
        beyond: Iterable[SizeGrounds],
        pattern_advice: tuple[str, ...] = (),
        *,
        full: tuple[float, ...] = (),
    ) -> None:
        self._n_min, self._n_max, self._judged = n_min, n_max, judged
        self._pattern_advice = pattern_advice
        self._full_n = next((n for n in full if n >= n_max), math.inf)
        self._trusted = judged(None).verdict not in CANNOT_RELY
        self.reach, self._failed = self._reached(beyond)

    def of(self, place: SizeGrounds) -> Verdict:
        if place.uninformative:
            return NOTHING_KNOWN
        if place.n > self._n_max:
            return self._of_beyond(place)
        below = place.n < self._n_min
        if self._trusted and not below and place.half_width <= WIDTH_INSIDE_MAX:
            return CAN_RELY
        return _reported(self._judged(place.n), place.reasons or ((BELOW,) if below else (WIDE,)))

    def whole(self) -> Verdict:
        """Return the verdict on the application: the verdict on twice its largest size, with advice about unusual patterns."""
        reached = math.log2(self.reach / self._n_max) >= REACH_DOUBLINGS - NEAR
        judged = self._judged(None)
        if reached:
            return Verdict(RELIABLE, (), self._pattern_advice, None)
        if judged.verdict != RELIABLE:
            return judged
        reported = _reported(judged, self._failed.reasons if self._failed else (WIDE,))
        return reported._replace(advice=(*reported.advice, *self._pattern_advice))

    def _of_beyond(self, place: SizeGrounds) -> Verdict:
        if place.n <= self.reach * (1.0 + NEAR):
            return CAN_RELY
        nearer = self._failed.reasons if self._failed is not None else ()
        passed = (PART_FULL,) if place.n > self._full_n and not self._answered(place) else ()
        return _reported(self._judged(place.n), (*passed, *(place.reasons or nearer)))

    def _reached(self, beyond: Iterable[SizeGrounds]) -> tuple[float, SizeGrounds | None]:
        """Return the last size up to which every step is reliable, and the place of the first other step."""
        reach = self._n_max
        for place in beyond:
            if not self._holds(place):
                return reach, place
            reach = place.n
        return reach, None

    def _holds(self, place: SizeGrounds) -> bool:
        """Return whether a step is reliable by itself: its band is narrow, and each doubt of ADEPT has an answer."""
        distance = math.log2(place.n / self._n_max)
        if not self._trusted or place.uninformative or place.half_width > allowed(distance):
            return False
        if not self._answered(place) and (distance > REACH_DOUBLINGS + NEAR or place.n > self._full_n):
            return False
        related_known = place.known_further >= KNOWN_MIN
        answered = LEFT_OPEN if related_known else OF_DISTANCE if place.record else frozenset()
        return answered.issuperset(self._judged(place.n).reasons)

    def _answered(self, place: SizeGrounds) -> bool:
        """Return whether related curves or the application's own record support a forecast beyond the curve."""
        return place.record or place.known_further >= KNOWN_MIN


def _reported(judged: Verdict, reasons: tuple[str, ...]) -> Verdict:
    """Return ADEPT's verdict if it is a doubt; otherwise an uncertain forecast with its reasons."""
    if judged.verdict != RELIABLE:
        return judged
    reasons = reasons or (WIDE,)
    return Verdict(UNCERTAIN, reasons, (_uncertain(reasons),), judged.next_n)


@lru_cache(maxsize=1024)
def _uncertain(reasons: tuple[str, ...]) -> str:
    text = "; ".join(REASON_TEXT[reason] for reason in reasons)
    return f"The prediction is uncertain: {text}."
