"""How bands narrow as a centre gets to know applications: width and coverage by how many it has seen.

Each question is asked of a centre that has seen a random few of all other applications; coefficients and shipped scores
come from a fit without its set. `own` tells whether the application itself has forecasts of its own behind it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from processors.models.combination.combine import NOTHING_LEARNED, Combination
from processors.models.combination.scores import pooled, share
from tests.quality import score
from tests.quality.curves import Question

if TYPE_CHECKING:
    from tests.quality.tables import Sources

KNOWN = (0, 1, 3, 10, 30)  # applications
WORLD = "first4"  # the split that asks every horizon
SEED = 5


def lines(sources: "Sources") -> Iterator[str]:
    """Yield coverage, balanced coverage and width of each horizon by the number of applications seen."""
    yield f"{'seen':>9} | " + " | ".join(f"{name:>6} coverage balanced  width" for name in score.HORIZONS[1:])
    centre = list(_centre(sources))
    yield _line("none, new", _answers((each, 0) for each in centre))
    for seen in KNOWN:
        yield _line(str(seen), _answers(((each, seen) for each in centre), own=True))


Known = tuple[Question, Combination, Sequence[tuple[int, ...]]]


def _centre(sources: "Sources") -> Iterator[Known]:
    """Yield questions with their models, and the shares of the other applications in random order."""
    for fold in sorted({curve.fold for curve in sources.curves}):
        transferred = score.transferred(sources.curves, WORLD, sources.folds.without(fold))
        learned = {question.curve.application: model.learned for question, model in transferred}
        for question, model in transferred:
            if question.curve.fold == fold:
                others = [share(learned[name].scores) for name in sorted(learned) if name != question.curve.application]
                order = np.random.default_rng([SEED, *question.curve.application.encode()]).permutation(len(others))
                yield question, model, [others[i] for i in order]


def _answers(requested: Iterable[tuple[Known, int]], *, own: bool = False) -> Iterator[score.Answer]:
    for (question, model, others), seen in requested:
        known = list(others[:seen])
        if own:
            known.append(share(model.learned.scores))
        learned = model.learned if own else NOTHING_LEARNED
        yield from score.answers(question, replace(model, learned=learned, pool=pooled(known)))


def _line(name: str, answers: Iterable[score.Answer]) -> str:
    by_horizon: dict[str, list[score.Answer]] = defaultdict(list)
    for answer in answers:
        by_horizon[answer.horizon].append(answer)
    found = [score.line(by_horizon[horizon]) for horizon in score.HORIZONS[1:]]
    return f"{name:>9} | " + " | ".join(
        f"{line.coverage:15.1f} {line.coverage_balanced:8.1f} {line.width:6.2f}" for line in found
    )
