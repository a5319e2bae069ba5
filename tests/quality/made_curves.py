"""Curves that are made up to fit coefficients with: what measured curves show too rarely.

Most measured curves that can be had were published by people whose codes scale. Those of a centre saturate, turn up or
stay flat far more often: coefficients fitted to measured curves alone forecast them too fast. A law is drawn for each
application: a serial part, logarithmic and linear communication, a soft knee, a super-linear start, a step, whole tasks.
Its curves share the law with other parameters, as other inputs do.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.quality.curves import Measured

Floats = NDArray[np.float64]

FOLD: Final = "made"
APPLICATIONS: Final = 160
CURVES_MAX: Final = 4
SIZES: Final = (5, 10)


class Law(NamedTuple):
    """Run time in shares of T(1): see `shares`."""

    serial: float
    log_communication: float
    linear_communication: float
    knee_n: float
    hardness: float
    after_knee: float
    super_linear: float
    step_n: float
    step: float
    tasks: float

    def shares(self, n: Floats) -> Floats:
        """Return T(n) / T(1) at sizes (m,), near enough: the start is 1 within the communication."""
        useful = n / (1.0 + (n / self.knee_n) ** self.hardness) ** (1.0 / self.hardness)
        parallel = useful ** -(1.0 + self.super_linear * (useful < self.knee_n / 4.0))
        if self.tasks:
            parallel = parallel * np.ceil(self.tasks / n) * n / self.tasks
        grown = (1.0 + n / self.knee_n) ** self.after_knee
        communication = self.log_communication * np.log2(n) + self.linear_communication * n
        whole = self.serial + (1.0 - self.serial) * parallel * grown + communication
        return np.asarray(whole * np.where(n >= self.step_n, self.step, 1.0))


def made_curves(applications: int = APPLICATIONS, seed: int = 5) -> list[Measured]:
    """Return the curves of so many applications; the same seed gives the same curves."""
    rng = np.random.default_rng(seed)
    return [curve for number in range(applications) for curve in _application(rng, f"{FOLD}{number}")]


def _application(rng: np.random.Generator, name: str) -> list[Measured]:
    law, noise = _law(rng), _between(rng, 0.001, 0.12)
    start, ratio = float(2 ** rng.integers(0, 4)), float(rng.choice([1.5, 2.0, 2.0, 2.0, 4.0]))
    count = int(rng.integers(SIZES[0], SIZES[1] + 1)) if ratio < 4.0 else SIZES[0]
    found = []
    for number in range(int(rng.integers(1, CURVES_MAX + 1))):
        sizes = sorted({round(start * ratio**i) for i in range(count)})
        own = _jittered(rng, law, start)
        times_s = _between(rng, 10.0, 3000.0) * own.shares(np.array(sizes, dtype=np.float64))
        runs = {n: _runs(rng, time_s, noise) for n, time_s in zip(sizes, times_s.tolist(), strict=True)}
        found.append(Measured(FOLD, FOLD, name, "made", f"{number}|made|nodes", runs))
    return found


def _law(rng: np.random.Generator) -> Law:
    saturates = rng.random() < 0.6
    return Law(
        serial=_between(rng, 1e-4, 0.3) if rng.random() < 0.7 else 0.0,
        log_communication=_between(rng, 1e-5, 0.03) if rng.random() < 0.5 else 0.0,
        linear_communication=_between(rng, 1e-7, 3e-3) if rng.random() < 0.4 else 0.0,
        knee_n=2.0 ** rng.uniform(1.5, 8.0) if saturates else 1e9,
        hardness=_between(rng, 1.5, 8.0),
        after_knee=float(rng.choice([0.0, 0.0, rng.uniform(0.0, 0.8)])),
        super_linear=rng.uniform(0.0, 0.15) if rng.random() < 0.15 else 0.0,
        step_n=2.0 ** rng.uniform(1.0, 8.0) if rng.random() < 0.15 else 1e12,
        step=_between(rng, 1.05, 1.6),
        tasks=float(rng.integers(16, 4096)) if rng.random() < 0.15 else 0.0,
    )


def _jittered(rng: np.random.Generator, law: Law, start: float) -> Law:
    """Return the law of one input: another share of communication, a knee elsewhere; sizes count from the first one."""
    factor = np.exp(rng.normal(0.0, 0.5))
    return law._replace(
        serial=min(law.serial * factor, 0.9),
        log_communication=law.log_communication * factor,
        linear_communication=law.linear_communication * factor / start,
        knee_n=law.knee_n * float(np.exp(rng.normal(0.0, 0.3))) * start,
    )


def _runs(rng: np.random.Generator, time_s: float, noise: float) -> tuple[float, ...]:
    count = int(rng.choice([1, 1, 3, 5]))
    times_s = time_s * np.exp(rng.normal(0.0, noise, count))
    outlier = rng.random(count) < 0.01
    return tuple(np.where(outlier, times_s * rng.uniform(1.5, 4.0), times_s).tolist())


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """Return a number whose logarithm is evenly distributed."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
