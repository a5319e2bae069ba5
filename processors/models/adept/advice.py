"""What people are told of a verdict: one sentence for each reason, and for each thing that is unusual about a curve."""

from dataclasses import dataclass

import numpy as np

REACH = 2.0  # times the largest size: good on twice the number of nodes, says ADEPT


def number(value: float) -> str:
    """Return a size as people write it.

    >>> number(32.0), number(0.5), number(1e12)
    ('32', '0.5', '1e+12')
    """
    return f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the sentences are filled with; sizes in the unit of n, shares as fractions.

    `superlinear` are two sizes between which the speed-up is better than their ratio, `disagreement` how far the curves that
    fit differ at `reference_n`.

    >>> Facts(count=3, smallest_n=1.0, largest_n=8.0, rms=0.01, worst_n=4.0).next_n is None
    True
    """

    count: int
    smallest_n: float
    largest_n: float
    rms: float
    worst_n: float
    superlinear: tuple[float, float] = (0.0, 0.0)
    disagreement: float = 0.0
    reference_n: float = 0.0
    target: float | None = None
    next_n: float | None = None


def advice_text(reason: str, facts: Facts) -> str:
    """Return what a user should know and do about one reason, in one sentence.

    Raises KeyError for a reason that no verdict gives.

    >>> facts = Facts(count=4, smallest_n=1.0, largest_n=8.0, rms=0.01, worst_n=4.0, next_n=16.0)
    >>> advice_text("linear", facts)
    'No limit of the speed-up is visible up to 8; run it at 16 to find it.'
    """
    return ADVICE[reason](facts)


def _run_next(facts: Facts, purpose: str) -> str:
    return f"; run it at {number(facts.next_n)} {purpose}." if facts.next_n is not None else "."


def _insufficient_advice(facts: Facts) -> str:
    seen = "one size has" if facts.count == 1 else f"{facts.count} sizes have"
    return f"Only {seen} been run, but three are needed" + _run_next(facts, "next")


def _high_error_advice(facts: Facts) -> str:
    return (
        f"No scaling curve fits these run times (typical error {facts.rms * 100:.0f} %, worst at {number(facts.worst_n)}); "
        "check whether different inputs, builds or machines are mixed under this name."
    )


def _linear_advice(facts: Facts) -> str:
    return f"No limit of the speed-up is visible up to {number(facts.largest_n)}" + _run_next(facts, "to find it")


def _runner_up_advice(facts: Facts) -> str:
    apart = f"Different curves fit equally well but differ by {np.expm1(facts.disagreement) * 100:.0f} % at {number(facts.reference_n)}"
    return apart + _run_next(facts, "to decide between them")


def _superlinear_advice(facts: Facts) -> str:
    first, second = map(number, facts.superlinear)
    return (
        f"From {first} to {second} the speed-up exceeds the growth in size; memory or caches can explain this, a scaling "
        "curve cannot. Trust only the sizes that were run."
    )


def _far_advice(facts: Facts) -> str:
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


ADVICE = {
    "insufficient": _insufficient_advice,
    "high_error": _high_error_advice,
    "linear": _linear_advice,
    "runner_up": _runner_up_advice,
    "superlinear": _superlinear_advice,
    "far": _far_advice,
}


def anomaly_message(n: float, deviation: float) -> str:
    """Return what to do about one size that is out of line; `deviation` is relative to the curve of the others.

    >>> anomaly_message(8.0, 0.5)
    'At 8 it takes 50 % longer than the other sizes suggest; check placement and contention of those runs.'
    """
    change = f"{abs(deviation) * 100:.0f} % {'longer' if deviation > 0 else 'less'}"
    return (
        f"At {number(n)} it takes {change} than the other sizes suggest; check placement and contention of those runs."
    )


def slowdown_message(largest_n: float, fastest_n: float) -> str:
    """Return what to do about a curve that turns up: it is advice, and no doubt of its prediction.

    >>> slowdown_message(32.0, 16.0)
    'It is slower at 32 than at 16; do not allocate more than 16.'
    """
    largest, fastest = number(largest_n), number(fastest_n)
    return f"It is slower at {largest} than at {fastest}; do not allocate more than {fastest}."


def special_message(name: str, slowdown: float) -> str:
    """Return what to do about a class of sizes that the application favours.

    >>> special_message("pow2", 0.3)
    'It favours powers of two: other sizes take about 30 % longer; allocate powers of two.'
    """
    plural = {"pow2": "powers of two", "square": "square numbers"}.get(name, name.replace("multiple", "multiples"))
    return f"It favours {plural}: other sizes take about {slowdown * 100:.0f} % longer; allocate {plural}."


def jump_message(before_n: float, after_n: float, jump: float) -> str:
    """Return what to know about a step in the curve; `jump` is relative to the law of the sizes before.

    >>> jump_message(8.0, 10.0, 0.4)
    'Between 8 and 10 the run time jumps by +40 %; each side has its own curve.'
    """
    return f"Between {number(before_n)} and {number(after_n)} the run time jumps by {jump * 100:+.0f} %; each side has its own curve."
