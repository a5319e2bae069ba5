"""Scaling laws of the simulated applications, implemented independently of the agent's models.

A law gives the run time in seconds at a size n >= 1. The last three functions add an effect of real applications to a law: one
slow size, a step, or a class of preferred sizes.
"""

from collections.abc import Callable
from math import cbrt, log2, sqrt

Law = Callable[[float], float]


def downey(t1_s: float, parallelism: float, sigma: float) -> Law:
    """Return Downey's law (1997); `parallelism` is the average parallelism A, `sigma` the coefficient of variance of the parallelism."""
    a = parallelism

    def speedup(n: float) -> float:
        if sigma > 1:
            return min(n * a * (sigma + 1) / (sigma * (n + a - 1) + a), a)
        if n <= a:
            return a * n / (a + sigma / 2 * (n - 1))
        if n < 2 * a - 1:
            return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
        return a

    return lambda n: t1_s / speedup(n)


def amdahl_log(serial_s: float, parallel_s: float, tree_s: float) -> Law:
    """Return a law with a serial part (Amdahl 1967), a parallel part, and communication over a tree."""
    return lambda n: serial_s + parallel_s / n + tree_s * log2(n)


def kazmina(per_node_s: float, parallel_s: float, root_s: float) -> Law:
    """Return T = a n + b / n + c / sqrt(n) (Kazmina and Antonov); beyond the minimum, more nodes increase the run time."""
    return lambda n: per_node_s * n + parallel_s / n + root_s / sqrt(n)


def universal_scalability(t1_s: float, contention: float, coherency: float) -> Law:
    """Return Gunther's universal scalability law."""
    return lambda n: t1_s * (1 + contention * (n - 1) + coherency * n * (n - 1)) / n


def halo_exchange(volume_s: float, surface_s: float, tree_s: float) -> Law:
    """Return the law of a three-dimensional domain: work by volume, halo exchange by surface (n^-2/3), reductions over a tree."""
    return lambda n: volume_s / n + surface_s / cbrt(n) ** 2 + tree_s * log2(n)


def slow_at(law: Law, size: float, factor: float) -> Law:
    """Return `law` changed so that one size is slower than its neighbours."""
    return lambda n: law(n) * (factor if n == size else 1.0)


def stepped_above(law: Law, size: float, factor: float) -> Law:
    """Return `law` changed so that runs above a size are slower, as if a job no longer fits into one group of switches."""
    return lambda n: law(n) * (factor if n > size else 1.0)


def favours_powers_of_two(law: Law, factor: float) -> Law:
    """Return `law` changed so that all sizes except powers of two are slower, as with a bad domain decomposition."""
    return lambda n: law(n) * (1.0 if log2(n).is_integer() else factor)
