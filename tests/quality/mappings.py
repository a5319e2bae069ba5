"""Mappings of applications onto a simulated torus, through the whole fold: learned on 64 processes, asked of as many and of 512.

    python -m tests.quality.mappings [SEED ...]

The torus and its patterns of messages are those of `tests.kit.torus`. An order of placements is right by the share of pairs
that are put in their order (RCC of N. Jain et al., SC 2013, ties as half). Of an application that comes new to a centre there are a few runs,
after the other two have run for long.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from processors.contracts.events import Evidence, Network, PredictionRequested
from processors.models.features.communication import features, r_squared, rcc_symmetric
from tests.kit import torus
from tests.kit.scenario import SYSTEM, Scenario

PATTERNS: Final[Mapping[str, tuple[Callable[[int], torus.Pattern], float]]] = {
    "2D halo": (torus.halo_2d, 100.0),
    "3D halo": (torus.halo_3d, 700.0),
    "all-to-all in groups": (torus.groups, 3000.0),
}
SIDES: Final = (4, 8)
KNOWN, NEW, REQUESTED = 56, 6, 28
SEEDS: Final = (5, 6)
HEADER = "pattern                  runs  others |  64: in order, R2 | 512: in order, R2"


class Placed(NamedTuple):
    """A run of one mapping: features of its communication, and its time."""

    network: dict[str, float]
    run_time_s: float


@cache
def placed(pattern: str, side: int, count: int, seed: int) -> tuple[Placed, ...]:
    """Return runs of mappings of a pattern on a torus with so many nodes to a side."""
    make, scale = PATTERNS[pattern]
    nodes = side**3
    runs = (torus.run(node, pattern=make(side)) for node in torus.mappings(count, 100 * seed + side, nodes))
    return tuple(Placed(features(*run.traffic), scale * run.run_time_s) for run in runs)


def learned(runs: Mapping[str, Sequence[Placed]]) -> Scenario:
    """Return a centre where applications ran at 64 processes, by turns, those with the most runs first."""
    centre = Scenario().at("00:00")
    for number in range(max(map(len, runs.values()))):
        for name, own in runs.items():
            at = number - max(map(len, runs.values())) + len(own)
            if at < 0:
                continue
            centre.at_ms(centre.now_ms + 900_000)
            centre.ran(f"{name}{number}", name, SIDES[0] ** 3, own[at].run_time_s)
            centre.fold(Network(SYSTEM, f"{name}{number}", centre.now_ms, own[at].network))
    return centre.at_ms(centre.now_ms + 3_600_000)


def order(centre: Scenario, name: str, side: int, runs: Sequence[Placed]) -> tuple[float, float]:
    """Return the share of pairs in their order, and R squared, of the answers about runs at a size."""
    times_s = []
    for run in runs:
        question = PredictionRequested(
            SYSTEM, "r", (float(side**3),), Evidence(application=name), "nodes", features=run.network
        )
        times_s.append(centre.shard.answer(question).points[0].run_time_s)
    predicted, actual = np.array(times_s), np.array([run.run_time_s for run in runs])
    return rcc_symmetric(predicted, actual), r_squared(predicted, actual)


def table(seeds: Sequence[int] = SEEDS) -> Iterator[str]:
    """Yield how mappings are put in order: of an application alone, and of one that comes new to others."""
    yield HEADER
    for name in PATTERNS:
        for own, others in ((KNOWN, 0), (NEW, 0), (NEW, 2)):
            found = np.array([_scores(name, own, others, seed) for seed in seeds]).mean(axis=0)
            yield f"{name:22} {own:6} {others:7} | {found[0]:13.3f} {found[1]:5.2f} | {found[2]:13.3f} {found[3]:5.2f}"


def _scores(name: str, own: int, others: int, seed: int) -> list[float]:
    teachers = [each for each in PATTERNS if each != name][:others]
    runs = {each: placed(each, SIDES[0], KNOWN, seed) for each in teachers}
    centre = learned(runs | {name: placed(name, SIDES[0], KNOWN, seed)[:own]})
    questions = [placed(name, side, REQUESTED, seed + 50) for side in SIDES]
    return [
        each for side, question in zip(SIDES, questions, strict=True) for each in order(centre, name, side, question)
    ]


def main(arguments: Sequence[str]) -> None:
    for line in table([int(each) for each in arguments] or SEEDS):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
