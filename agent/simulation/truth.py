"""Scaling laws of the simulated applications, implemented independently of the product's models.

Each law gives the run time in seconds at a size n >= 1. The wrappers add effects of real applications: one slow size, a step,
or a class of preferred sizes.
"""

from dataclasses import dataclass
from math import cbrt, log2, sqrt
from typing import Protocol


class Law(Protocol):
    """The interface of a scaling law: a run time for each size."""

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""


@dataclass(frozen=True, slots=True)
class Downey:
    """Downey's law (1997): average parallelism A and its variance sigma."""

    t1_s: float
    parallelism: float
    sigma: float

    def run_time_s(self, n: float) -> float:
        return self.t1_s / (self._low(n) if self.sigma <= 1 else self._high(n))

    def _low(self, n: float) -> float:
        a, sigma = self.parallelism, self.sigma
        if n <= a:
            return a * n / (a + sigma / 2 * (n - 1))
        if n < 2 * a - 1:
            return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
        return a

    def _high(self, n: float) -> float:
        a, sigma = self.parallelism, self.sigma
        return min(n * a * (sigma + 1) / (sigma * (n + a - 1) + a), a)


@dataclass(frozen=True, slots=True)
class AmdahlLog:
    """A serial part (Amdahl 1967), a parallel part, and communication over a tree."""

    serial_s: float
    parallel_s: float
    tree_s: float

    def run_time_s(self, n: float) -> float:
        return self.serial_s + self.parallel_s / n + self.tree_s * log2(n)


@dataclass(frozen=True, slots=True)
class Kazmina:
    """T = a n + b / n + c / sqrt(n) (Kazmina and Antonov): beyond the minimum, more nodes cost time."""

    per_node_s: float
    parallel_s: float
    root_s: float

    def run_time_s(self, n: float) -> float:
        return self.per_node_s * n + self.parallel_s / n + self.root_s / sqrt(n)


@dataclass(frozen=True, slots=True)
class UniversalScalability:
    """Gunther's universal scalability law, with contention and coherency."""

    t1_s: float
    contention: float
    coherency: float

    def run_time_s(self, n: float) -> float:
        return self.t1_s * (1 + self.contention * (n - 1) + self.coherency * n * (n - 1)) / n


@dataclass(frozen=True, slots=True)
class HaloExchange:
    """A three-dimensional domain: work by volume, halos by surface (n^-2/3), reductions over a tree."""

    volume_s: float
    surface_s: float
    tree_s: float

    def run_time_s(self, n: float) -> float:
        return self.volume_s / n + self.surface_s / cbrt(n) ** 2 + self.tree_s * log2(n)


@dataclass(frozen=True, slots=True)
class SlowAt:
    """A law with one size that is slower than its neighbours."""

    law: Law
    size: float
    factor: float

    def run_time_s(self, n: float) -> float:
        return self.law.run_time_s(n) * (self.factor if n == self.size else 1.0)


@dataclass(frozen=True, slots=True)
class SteppedAbove:
    """A law with a step: above a size all runs are slower, as when a job no longer fits one group of switches."""

    law: Law
    size: float
    factor: float

    def run_time_s(self, n: float) -> float:
        return self.law.run_time_s(n) * (self.factor if n > self.size else 1.0)


@dataclass(frozen=True, slots=True)
class FavoursPowersOfTwo:
    """A law that holds only at powers of two; other sizes are slower, as with a bad domain decomposition."""

    law: Law
    factor: float

    def run_time_s(self, n: float) -> float:
        return self.law.run_time_s(n) * (1.0 if log2(n).is_integer() else self.factor)
