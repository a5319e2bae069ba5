"""Run times that follow counters at a given size, through the whole fold: answers without counters and with them.

The stories are made (`tests.kit.counted_runs`): 80 runs are learned, and each of the next 60 is requested before it ends. No
constant was chosen on these seeds.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from tests.kit.counted_centre import Answered, story_of
from tests.kit.counted_runs import FOLLOWED, STORIES
from tests.kit.scenario import Scenario

SEEDS: Final = (60, 61)
HEADER: Final = "run time is                | error %, in band % of 90: without counters    with them"


def table(seeds: Sequence[int] = SEEDS) -> Iterator[str]:
    """Yield the errors of each story, and their mean over those in which a counter matters."""
    yield HEADER
    followed: list[dict[bool, Answered]] = []
    for story in STORIES:
        found = [story_of(Scenario().at("00:00"), story, seed) for seed in seeds]
        followed.extend(found if story in FOLLOWED else ())
        yield _row(story, found)
    yield _row("all that follow counters", followed)


def _row(name: str, found: Sequence[dict[bool, Answered]]) -> str:
    error, inside = (
        [fmean(getattr(each[counters], field) for each in found) for counters in (False, True)]
        for field in ("error", "coverage")
    )
    return f"{name:26} | {error[0]:36.2f} {100 * inside[0]:5.1f} {error[1]:7.2f} {100 * inside[1]:5.1f}"
