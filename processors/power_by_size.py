"""The power of an application's runs by their size, with bands that hold the share of runs they promise."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from agent.contracts.horizons import HORIZONS, Horizon, horizon_of
from agent.contracts.profiles import Profile
from agent.contracts.quality import PowerQuality
from processors.models.conformal import AggregatedRadius
from processors.models.power.by_size import PowerLaw, power_law
from processors.models.training.runs import Run
from processors.models.training.tracking import Band
from processors.profile_scores import TargetScore, coverage, median_error
from processors.profile_values import LN_N, POWER

RUNS_MIN: Final = 2
SCORES_MAX: Final = 64
REACH_MAX: Final = 50.0  # of ln power
SAME: Final = 1e-5  # of ln n, which is kept to seven digits


class PowerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored form: radii by horizon, scores of what was told, and how runs with power were measured, the newest last."""

    radii: dict[str, dict[str, Any]] = {}
    scores: list[TargetScore] = []
    measured: list[tuple[float, float]] = []


class PowerBySize:
    """Tells the power of all hosts of a run together from its size.

    >>> import math
    >>> runs = [Run(f"r{n}", 0, {"ln_n": math.log(n)}, {"power_w": 400.0 * n}) for n in (2, 4)]
    >>> [round(each.value) for each in PowerBySize(PowerRecord()).bands(runs, [4.0])]
    [1600]
    """

    def __init__(self, record: PowerRecord) -> None:
        self._radii: dict[Horizon, AggregatedRadius] = {
            horizon: AggregatedRadius.build(record.radii[horizon]) if horizon in record.radii else AggregatedRadius()
            for horizon in HORIZONS
        }
        self._scores = list(record.scores)
        self._measured = list(record.measured)
        self._law: PowerLaw | None = None
        self._told: dict[float, Band] = {}

    def changed(self) -> None:
        """Note that runs are others than when a law was last made of them."""
        self._law = None
        self._told.clear()

    def bands(self, runs: Iterable[Run], sizes: Sequence[float]) -> list[Band | None]:
        """Return what runs of each size draw in W, with the band of nine of ten; None before RUNS_MIN runs with power."""
        law = self._fitted(runs)
        if law is None:
            return [None] * len(sizes)
        missing = [n for n in sizes if n not in self._told]
        if missing:
            found = law.at(missing)
            for n, power_w, deviation in zip(missing, found.power_w.tolist(), found.deviation.tolist(), strict=True):
                self._told[n] = self._band(law, n, power_w, deviation)
        return [self._told[n] for n in sizes]

    def learn(self, runs: Iterable[Run], n: float, power_w: float, profile: Profile) -> None:
        """Take in what a run drew, before it is among the runs."""
        measured, estimated = profile.measured.get("system", 0.0), profile.estimated.get("system", 0.0)
        self._measured = [*self._measured, (round(measured, 4), round(estimated, 4))][-SCORES_MAX:]
        law = self._fitted(runs)
        if law is None or estimated > measured:
            return
        found = law.at([n])
        told = self._band(law, n, float(found.power_w[0]), float(found.deviation[0]))
        self._scores = [*self._scores, TargetScore.of(power_w, told)][-SCORES_MAX:]
        off = abs(float(np.log(power_w / found.power_w[0]))) / float(found.deviation[0])
        self._radii[_horizon(law, n)].learn(off)

    def quality(self) -> PowerQuality | None:
        """Return how good what was told has been; None where no run had power."""
        if not self._measured:
            return None
        measured, estimated = (sum(column) / len(column) for column in zip(*self._measured, strict=True))
        return PowerQuality(
            scored=len(self._scores),
            median_error=median_error(self._scores),
            coverage_90=coverage(self._scores),
            measured=measured,
            estimated=estimated,
        )

    def snapshot(self) -> PowerRecord:
        """Return the stored form."""
        radii: dict[str, dict[str, Any]] = {
            horizon: radius.snapshot() for horizon, radius in self._radii.items() if radius.scores
        }
        return PowerRecord(radii, list(self._scores), list(self._measured))

    def _fitted(self, runs: Iterable[Run]) -> PowerLaw | None:
        if self._law is None:
            known = sorted((run for run in runs if POWER in run.targets and LN_N in run.values), key=lambda run: run.id)
            if len(known) >= RUNS_MIN:
                n = np.exp(np.array([run.values[LN_N] for run in known]))
                power_w, weight = (np.array([of(run) for run in known]) for of in (_power_w, _weight))
                self._law = power_law(n, power_w, weight)
        return self._law

    def _band(self, law: PowerLaw, n: float, power_w: float, deviation: float) -> Band:
        radius = self._radii[_horizon(law, n)].radius(self._radii["inside"].scores)
        reach = min(radius * deviation, REACH_MAX)
        return Band(power_w, power_w * float(np.exp(-reach)), power_w * float(np.exp(reach)))


def _power_w(run: Run) -> float:
    return run.targets[POWER]


def _weight(run: Run) -> float:
    return run.weight * run.weights.get(POWER, 1.0)


def _horizon(law: PowerLaw, n: float) -> Horizon:
    n_min, n_max = np.exp([law.ln_n[0] - SAME, law.ln_n[-1] + SAME]).tolist()
    return horizon_of(n, n_min, n_max)
