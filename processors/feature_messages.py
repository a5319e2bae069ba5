"""What features said, as messages tell it."""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from agent.contracts.outputs import AnswerPoint, Member, Model, Reliability
from processors.curve import PublishedPoint
from processors.feature_times import COMBINED, STAGES, FeatureTimes, Pooled
from processors.models.combination.verdict import WIDTH_MAX
from processors.models.digits import six_digits
from processors.outlook import REASON_WORDS, RELIABLE, UNCERTAIN

NAME: Final = "features"
DECIDES: Final = 0.5  # the share from which features, and no more the curve, say how far to trust
WIDE: Final = "wide_band"


def model_with(model: Model, times: FeatureTimes, shares: Mapping[str, float]) -> Model:
    """Return where a prediction came from that features had a say in: what there was, with less weight, and they.

    >>> model_with(Model("curve", (Member("curve", 1.0, {}),)), FeatureTimes.build(64), {"attributes": 0.75}).members[0].weight
    0.25
    """
    rest = 1.0 - sum(shares.values())
    before = (msgspec.structs.replace(each, weight=six_digits(each.weight * rest)) for each in model.members)
    own = (
        Member(stage, six_digits(shares[stage]), {}, errors=times.errors(stage)) for stage in STAGES if stage in shares
    )
    return Model(NAME, (*before, *own), times.errors(COMBINED))


def judged(said: Pooled, curve: Reliability, *, inside: bool) -> Reliability:
    """Return how far to trust what curve and features say, where the curve alone is trusted so far.

    Within the sizes that were run it is the width of the band, once features decide.

    >>> narrow = Pooled(100.0, 90.0, 110.0, {"attributes": 0.9})
    >>> judged(narrow, Reliability("high_error"), inside=True).verdict, judged(narrow, Reliability("far"), inside=False).verdict
    ('reliable', 'far')
    """
    if sum(said.shares.values()) < DECIDES or not inside:
        return curve
    if math.log(said.high_s / said.low_s) / 2.0 <= WIDTH_MAX:
        return Reliability(RELIABLE)
    return Reliability(UNCERTAIN, (WIDE,), (f"This is uncertain: {REASON_WORDS[WIDE]}.",))


def with_features(point: AnswerPoint, said: Pooled, one_s: float, *, inside: bool) -> AnswerPoint:
    """Return the point of an answer with what features say of it; `one_s` is what they say of size 1.

    >>> point = AnswerPoint(
    ...     n=4.0, run_time_s=60.0, low_s=50.0, high_s=70.0, coverage=0.9, coverage_measured=None, speedup=3.0,
    ...     efficiency=0.75, extrapolation=1.0, source="observed", reliability=Reliability("reliable"),
    ... )
    >>> with_features(point, Pooled(50.0, 45.0, 55.0, {"attributes": 0.9}), 100.0, inside=True).speedup
    2.0
    """
    speedup = one_s / said.run_time_s
    decides = sum(said.shares.values()) >= DECIDES
    return msgspec.structs.replace(
        point,
        run_time_s=six_digits(said.run_time_s),
        low_s=six_digits(said.low_s),
        high_s=six_digits(said.high_s),
        coverage_measured=None if said.coverage is None else six_digits(said.coverage),
        speedup=six_digits(speedup),
        efficiency=six_digits(speedup / point.n),
        source=NAME if decides else point.source,
        reliability=judged(said, point.reliability, inside=inside),
    )


def published_point(point: AnswerPoint) -> PublishedPoint:
    """Return the point of an answer as the point of a curve.

    >>> point = AnswerPoint(
    ...     n=4.0, run_time_s=60.0, low_s=50.0, high_s=70.0, coverage=0.9, coverage_measured=None, speedup=3.0,
    ...     efficiency=0.75, extrapolation=1.0, source="observed", reliability=Reliability("reliable"),
    ... )
    >>> published_point(point).low_s
    50.0
    """
    return PublishedPoint(point.n, point.run_time_s, point.low_s, point.high_s)


def words(shares: Mapping[str, float]) -> str:
    """Return a sentence about what had how much of a say.

    >>> words({"attributes": 0.75, "communication": 0.0})
    'Features of the run have a say: attributes 75%.'
    """
    told = " and ".join(f"{stage} {share:.0%}" for stage, share in shares.items() if share)
    return f"Features of the run have a say: {told}."
