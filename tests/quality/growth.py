"""How bands narrow as a centre gets to know applications: width and coverage by how many it has seen.

The applications are dealt at random into centres of one, two, four and so on, each asked in its own: it has seen itself, and
the others that are in its centre.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tests.quality import score
from tests.quality.product import answers
from tests.quality.worlds import World, worlds

if TYPE_CHECKING:
    from tests.quality.tables import Sources

KNOWN = (0, 1, 3, 10)  # other applications; and all of them
WORLD = "first4"  # the split that asks every horizon
SEED = 5


def lines(sources: "Sources") -> Iterator[str]:
    """Yield coverage, balanced coverage and width of each horizon by the number of other applications seen."""
    yield f"{'seen':>9} | " + " | ".join(f"{name:>6} coverage balanced  width" for name in score.HORIZONS[1:])
    whole = worlds(sources.curves, [WORLD])[WORLD]
    every = sorted({request.curve.application for request in whole.requests})
    order = np.random.default_rng(SEED).permutation(len(every))
    for seen in sorted({min(known, len(every) - 1) for known in (*KNOWN, len(every))}):
        found = []
        for centre in _dealt(whole, [every[i] for i in order], seen + 1):
            sources.folds.check_time()
            found += [score.scored(*each) for each in answers(centre, sources.coefficients_of)]
        yield _line(str(seen), found)


def _dealt(whole: World, applications: Sequence[str], size: int) -> Iterator[World]:
    """Yield centres of so many applications; the last one has what is left."""
    centre_of = {application: i // size for i, application in enumerate(applications)}
    for number in sorted(set(centre_of.values())):
        own = {application for application, centre in centre_of.items() if centre == number}
        yield replace(
            whole,
            name=f"{whole.name} {number + 1} of {-(-len(applications) // size)}",
            earlier=[run for run in whole.earlier if run.curve.application in own],
            later=[run for run in whole.later if run.curve.application in own],
            requests=[request for request in whole.requests if request.curve.application in own],
        )


def _line(name: str, found: Sequence[score.Answer]) -> str:
    by_horizon = score.by_horizon(found)
    measured = [score.accuracy(by_horizon[horizon]) for horizon in score.HORIZONS[1:] if horizon in by_horizon]
    return f"{name:>9} | " + " | ".join(
        f"{line.coverage:15.1f} {line.coverage_balanced:8.1f} {line.width:6.2f}" for line in measured
    )
