"""Curves whose truth is known: five laws with random parameters, three to five sizes, log-normal noise; each a centre."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agent.simulation.truth import (
    Law,
    amdahl_log,
    downey,
    halo_exchange,
    kazmina,
    universal_scalability,
)
from processors.pipeline.state import CoefficientsOf, shipped
from tests.quality import score
from tests.quality.product import Centre, events

T1_S = 100.0
SYSTEM = "simulated"
FAMILIES = ("downey", "amdahl_log", "kazmina", "usl", "halo")


class Errors(NamedTuple):
    """Mean relative errors in %: between two sizes, at twice and at four times the largest size."""

    inside: float
    twice: float
    four_times: float


class Simulated(NamedTuple):
    """One run at each of some sizes, and the law behind them."""

    name: str
    sizes: Sequence[float]
    run_times_s: Sequence[float]
    truth: Law


def law(family: str, rng: np.random.Generator) -> Law:
    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    if family == "downey":
        return downey(T1_S, between(8, 256), abs(float(rng.normal(1.0, 0.8))))
    if family == "amdahl_log":
        serial, tree = between(1e-3, 0.05), between(1e-4, 1e-2)
        return amdahl_log(T1_S * serial, T1_S * (1 - serial), T1_S * tree)
    if family == "kazmina":
        return kazmina(T1_S * between(1e-5, 1e-3), T1_S, T1_S * between(0.01, 0.3))
    if family == "usl":
        return universal_scalability(T1_S, between(2e-3, 0.05), between(1e-6, 2e-4))
    return halo_exchange(T1_S, T1_S * between(5e-3, 0.1), T1_S * between(1e-5, 1e-3))


def curves(noise: float, each: int, seed: int) -> Iterator[Simulated]:
    rng = np.random.default_rng(seed)
    for family in FAMILIES:
        for number in range(each):
            truth = law(family, rng)
            count, first = int(rng.integers(3, 6)), float(2 ** rng.integers(0, 3))
            ratio, count = (2.0, count) if rng.random() < 0.7 else (4.0, min(count, 4))
            sizes = [first * ratio**i for i in range(count)]
            times = [truth(n) * float(np.exp(rng.normal(0, noise))) for n in sizes]
            yield Simulated(f"{family}{number}", sizes, times, truth)


def errors(noise: float, coefficients_of: CoefficientsOf = shipped, each: int = 40, seed: int = 11) -> Errors:
    """Return the errors of what is answered, every curve an application in a centre of its own."""
    found = []
    for name, sizes, run_times_s, truth in curves(noise, each, seed):
        centre = Centre(coefficients_of).learn(events(name, SYSTEM, zip(sizes, run_times_s, strict=True)))
        middle = len(sizes) // 2
        targets = [float(np.sqrt(sizes[middle - 1] * sizes[middle])), 2 * sizes[-1], 4 * sizes[-1]]
        points = [centre.answer(name, SYSTEM, "", "nodes", n) for n in targets]
        found.append([score.error(point, truth(n)) for point, n in zip(points, targets, strict=True)])
    return Errors(*(100.0 * np.mean(found, axis=0)).tolist())
