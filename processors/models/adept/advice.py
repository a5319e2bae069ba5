"""What to do about a prediction that is not to be trusted: sentences for people, and the next size to run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REACH = 2.0  # times the largest size: further away one more run tells about itself only


def candidate_sizes(n: Floats, allowed_sizes: tuple[float, ...] | None = None) -> Floats:
    """Return the sizes that could be run next: not yet run, at most twice the largest one, sorted.

    `n` (sorted) has shape (k,). Without `allowed_sizes` these are powers of two.

    >>> candidate_sizes(np.array([4.0, 8.0, 16.0])).tolist()
    [1.0, 2.0, 32.0]
    >>> candidate_sizes(np.array([4.0, 8.0, 16.0]), (8.0, 24.0, 64.0)).tolist()
    [24.0]
    """
    reach = REACH * float(n[-1])
    if allowed_sizes:
        allowed = np.array(sorted(set(allowed_sizes)), float)
    else:
        allowed = 2.0 ** np.arange(0.0, max(np.floor(np.log2(reach)), 0.0) + 1.0)
    return np.asarray(allowed[(allowed <= reach) & (allowed > 0) & ~np.isin(allowed, n)])


def most_informative(candidates: Floats, sd_ln: Floats) -> float | None:
    """Return the candidate whose run time is least certain, of equals the smallest; None where there is none.

    `sd_ln` is the standard deviation of ln T at each candidate, same shape (m,).

    >>> most_informative(np.array([2.0, 32.0, 64.0]), np.array([0.1, 0.3, 0.3]))
    32.0
    """
    return float(candidates[int(np.argmax(sd_ln))]) if candidates.size else None


def number(value: float) -> str:
    """Return a size as people write it.

    >>> number(32.0), number(0.5), number(1e12)
    ('32', '0.5', '1e+12')
    """
    return f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the sentences are filled with; sizes in the unit of n, shares as fractions.

    `superlinear` are two sizes between which the speed-up is better than their ratio, `fastest_n` the size with the
    shortest run time, `disagreement` how far the curves that fit differ at `reference_n`.

    >>> Facts(count=3, smallest_n=1.0, largest_n=8.0, rms=0.01, worst_n=4.0).next_n is None
    True
    """

    count: int
    smallest_n: float
    largest_n: float
    rms: float
    worst_n: float
    superlinear: tuple[float, float] = (0.0, 0.0)
    fastest_n: float = 0.0
    disagreement: float = 0.0
    reference_n: float = 0.0
    target: float | None = None
    next_n: float | None = None


def sentence(reason: str, facts: Facts) -> str:
    """Return what a user should know and do about one reason, in one sentence.

    Raises KeyError for a reason that no verdict gives.

    >>> facts = Facts(count=4, smallest_n=1.0, largest_n=8.0, rms=0.01, worst_n=4.0, next_n=16.0)
    >>> sentence("linear", facts)
    'Up to 8 there is no sign of where the speed-up ends; run it at 16 to find out.'
    """
    return SENTENCES[reason](facts)


def _run_next(facts: Facts, purpose: str) -> str:
    return f"; run it at {number(facts.next_n)} {purpose}." if facts.next_n is not None else "."


def _insufficient(facts: Facts) -> str:
    seen = "one size has" if facts.count == 1 else f"{facts.count} sizes have"
    return f"Only {seen} been run, three are needed" + _run_next(facts, "next")


def _high_error(facts: Facts) -> str:
    return (
        f"No scaling curve fits these run times (typical error {facts.rms * 100:.0f} %, worst at {number(facts.worst_n)}); "
        "check whether different inputs, builds or machines are mixed under this name."
    )


def _linear(facts: Facts) -> str:
    return f"Up to {number(facts.largest_n)} there is no sign of where the speed-up ends" + _run_next(
        facts, "to find out"
    )


def _runner_up(facts: Facts) -> str:
    apart = f"Different curves fit equally well and are {np.expm1(facts.disagreement) * 100:.0f} % apart at {number(facts.reference_n)}"
    return apart + _run_next(facts, "to tell them apart")


def _superlinear(facts: Facts) -> str:
    first, second = map(number, facts.superlinear)
    return (
        f"From {first} to {second} it speeds up by more than the sizes grow, which memory or caches explain and a scaling "
        "curve does not; trust the sizes that were run."
    )


def _slowdown(facts: Facts) -> str:
    return f"It is slower at {number(facts.largest_n)} than at {number(facts.fastest_n)}; do not allocate more than {number(facts.fastest_n)}."


def _far(facts: Facts) -> str:
    largest, reach = number(facts.largest_n), REACH * facts.largest_n
    if facts.target is not None and facts.target < facts.smallest_n:
        what = (
            f"{number(facts.target)} is less than half of the smallest size that was run ({number(facts.smallest_n)})"
        )
    elif facts.target is None or facts.target <= reach:
        what = (
            f"The run times jumped between sizes before and may do so again above the largest that was run ({largest})"
        )
    else:
        what = f"Sizes above {number(reach)} are too far from the largest that was run ({largest})"
    return what + _run_next(facts, "first")


SENTENCES = {
    "insufficient": _insufficient,
    "high_error": _high_error,
    "linear": _linear,
    "runner_up": _runner_up,
    "superlinear": _superlinear,
    "slowdown": _slowdown,
    "far": _far,
}


def anomaly_sentence(n: float, deviation: float) -> str:
    """Return what to do about one size that is out of line; `deviation` is relative to the curve of the others.

    >>> anomaly_sentence(8.0, 0.5)
    'At 8 it takes 50 % longer than the other sizes say; check placement and contention of those runs.'
    """
    change = f"{abs(deviation) * 100:.0f} % {'longer' if deviation > 0 else 'less'}"
    return f"At {number(n)} it takes {change} than the other sizes say; check placement and contention of those runs."


def special_sentence(name: str, slowdown: float) -> str:
    """Return what to do about a class of sizes that the application favours.

    >>> special_sentence("pow2", 0.3)
    'It favours powers of two: other sizes take about 30 % longer; allocate powers of two.'
    """
    plural = {"pow2": "powers of two", "square": "square numbers"}.get(name, name.replace("multiple", "multiples"))
    return f"It favours {plural}: other sizes take about {slowdown * 100:.0f} % longer; allocate {plural}."


def jump_sentence(before_n: float, after_n: float, jump: float) -> str:
    """Return what to know about a step in the curve; `jump` is relative to the law of the sizes before.

    >>> jump_sentence(8.0, 10.0, 0.4)
    'Between 8 and 10 the run time jumps by +40 %; each side has a curve of its own.'
    """
    return f"Between {number(before_n)} and {number(after_n)} the run time jumps by {jump * 100:+.0f} %; each side has a curve of its own."
