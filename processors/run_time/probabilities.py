"""Where runs fell in the distributions that were published, by horizon: sums that fade, a dozen numbers for each.

Coverage says whether the band held; where in the distribution the runs fell says what was wrong with it.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from processors.contracts.names import Horizon
from processors.contracts.outputs import Quality
from processors.facts import COVERAGE_RUNS_MIN, Scored
from processors.models.numerics.statistics import all_to_digits, pinball, share_below, to_digits

TENTHS: Final = 10
LOW, HIGH = 0.05, 0.95  # what the ends of a band stand for
FORGETTING: Final = 0.995  # of a run by the next one: the newest two hundred or so have their say
_MIDDLE: Final = 0.5


class Fallen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Runs that were scored at one horizon; weights by tenth of the distribution, and pinball losses of both ends in ln T."""

    runs: int = 0
    tenths: tuple[float, ...] = (0.0,) * TENTHS
    low_loss: float = 0.0
    high_loss: float = 0.0


ByHorizon = dict[Horizon, Fallen]
NONE_YET: Final = Fallen()


def with_run(fallen: Mapping[Horizon, Fallen], scored: Scored) -> ByHorizon:
    """Return the sums with one more run, which was scored against what had been published before it ended."""
    before, observed_s = fallen.get(scored.horizon, NONE_YET), scored.run.run_time_s
    inside = share_below(observed_s, scored.expected_s, scored.low_s, scored.high_s)
    ends = ((scored.low_s, LOW), (scored.high_s, HIGH))
    ln_observed = math.log(observed_s)
    losses = [pinball(ln_observed, math.log(end_s), level) for end_s, level in ends]
    old, new = (*before.tenths, before.low_loss, before.high_loss), (*_tenths(inside), *losses)
    *tenths, low, high = all_to_digits([FORGETTING * faded + fresh for faded, fresh in zip(old, new, strict=True)], 5)
    return {**fallen, scored.horizon: Fallen(before.runs + 1, tuple(tenths), low, high)}


def with_probabilities(quality: Quality, fallen: Mapping[Horizon, Fallen]) -> Quality:
    """Return measured quality with what is known of each of its horizons here."""
    parts = []
    for part in quality.horizons:
        found = fallen.get(part.horizon)
        if found is not None and found.runs >= COVERAGE_RUNS_MIN:
            runs = sum(found.tenths)
            part = msgspec.structs.replace(  # noqa: PLW2901
                part,
                pit=tuple(round(weight / runs, 4) for weight in found.tenths),
                pinball_05=to_digits(found.low_loss / runs, 4),
                pinball_95=to_digits(found.high_loss / runs, 4),
            )
        parts.append(part)
    return msgspec.structs.replace(quality, horizons=tuple(parts))


def _tenths(inside: float) -> list[float]:
    """Return the weight of a run in each tenth; one that took what was predicted lies on an edge, half on either side."""
    found = [0.0] * TENTHS
    found[min(int(inside * TENTHS), TENTHS - 1)] += 0.5
    found[min(int(inside * TENTHS) - (inside == _MIDDLE), TENTHS - 1)] += 0.5
    return found
