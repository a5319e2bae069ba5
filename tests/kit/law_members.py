"""Laws that were published, and runs that say which of them was right."""

from processors.contracts.names import HORIZONS
from processors.models.adept.study import study
from processors.models.combination.evidence import Curve
from processors.run_time.members import MemberFact, Members
from processors.run_time.messages import fits
from processors.run_time.prediction import RunTimePrediction
from tests.kit.combination import combine
from tests.kit.scenario import SYSTEM


def member_fact(i: int) -> MemberFact:
    n = 2.0 ** (i % 15)
    return MemberFact(n, 1000.0 / n + i % 7, HORIZONS[i % 4], ln_ratio=0.1 if i % 3 else None)


def members_learn(members: Members, fact: MemberFact) -> None:
    """Take a run in, after the laws of twelve sizes were published once."""
    if members.fits is None:
        n = tuple(2.0**k for k in range(12))
        run_time_s = tuple(1000.0 / size + 17.3 + 0.011 * size for size in n)
        members.publish(
            fits(RunTimePrediction(study(n, run_time_s), combine(Curve("a", SYSTEM, n, run_time_s))), runs=12)
        )
    members.learn(fact)
