"""Laws of run time against size: what the simulated applications obey, written down apart from the product's models.

Each law gives seconds at a size n >= 1. The wrappers add what real applications do besides: one slow size, a step, a
class of sizes they favour.
"""

from dataclasses import dataclass
from math import cbrt, log2, sqrt
from typing import Protocol


class Law(Protocol):
    """Something with a run time at each size."""

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""


@dataclass(frozen=True, slots=True)
class Downey:
    """Average parallelism A and its variance sigma (Downey 1997).

    >>> round(1000 / Downey(1000.0, 16.0, 0.5).run_time_s(8.0), 6)
    7.211268
    """

    t1_s: float
    parallelism: float
    sigma: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
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
    """A serial part (Amdahl 1967), a parallel part, and communication over a tree.

    >>> AmdahlLog(serial_s=10.0, parallel_s=640.0, tree_s=2.0).run_time_s(64.0)
    32.0
    """

    serial_s: float
    parallel_s: float
    tree_s: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
        return self.serial_s + self.parallel_s / n + self.tree_s * log2(n)


@dataclass(frozen=True, slots=True)
class Kazmina:
    """T = a n + b / n + c / sqrt(n) (Kazmina and Antonov): a minimum, after which more nodes cost time.

    >>> Kazmina(per_node_s=1.0, parallel_s=160.0, root_s=8.0).run_time_s(16.0)
    28.0
    """

    per_node_s: float
    parallel_s: float
    root_s: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
        return self.per_node_s * n + self.parallel_s / n + self.root_s / sqrt(n)


@dataclass(frozen=True, slots=True)
class UniversalScalability:
    """Contention and coherency (Gunther's universal scalability law).

    >>> UniversalScalability(t1_s=100.0, contention=0.25, coherency=0.125).run_time_s(2.0)
    75.0
    """

    t1_s: float
    contention: float
    coherency: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
        return self.t1_s * (1 + self.contention * (n - 1) + self.coherency * n * (n - 1)) / n


@dataclass(frozen=True, slots=True)
class HaloExchange:
    """A three-dimensional domain: work by volume, halos by surface (n^-2/3), reductions over a tree.

    >>> HaloExchange(volume_s=640.0, surface_s=16.0, tree_s=2.0).run_time_s(64.0)
    23.0
    """

    volume_s: float
    surface_s: float
    tree_s: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
        return self.volume_s / n + self.surface_s / cbrt(n) ** 2 + self.tree_s * log2(n)


@dataclass(frozen=True, slots=True)
class SlowAt:
    """A law with one size that is slower than the rest.

    >>> SlowAt(AmdahlLog(0.0, 160.0, 0.0), size=16.0, factor=1.5).run_time_s(16.0)
    15.0
    """

    law: Law
    size: float
    factor: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
        return self.law.run_time_s(n) * (self.factor if n == self.size else 1.0)


@dataclass(frozen=True, slots=True)
class SteppedAbove:
    """A law with a step: above a size everything is slower, as when a job no longer fits one group of switches.

    >>> law = SteppedAbove(AmdahlLog(0.0, 160.0, 0.0), size=16.0, factor=1.5)
    >>> law.run_time_s(16.0), law.run_time_s(32.0)
    (10.0, 7.5)
    """

    law: Law
    size: float
    factor: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
        return self.law.run_time_s(n) * (self.factor if n > self.size else 1.0)


@dataclass(frozen=True, slots=True)
class FavoursPowersOfTwo:
    """A law that holds at powers of two alone; elsewhere it is slower, as with a bad domain decomposition.

    >>> law = FavoursPowersOfTwo(AmdahlLog(0.0, 240.0, 0.0), factor=1.25)
    >>> law.run_time_s(8.0), law.run_time_s(12.0)
    (30.0, 25.0)
    """

    law: Law
    factor: float

    def run_time_s(self, n: float) -> float:
        """Return the run time at a size, in seconds."""
        return self.law.run_time_s(n) * (1.0 if log2(n).is_integer() else self.factor)
