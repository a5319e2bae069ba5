"""Coefficients fitted without one fold of the curves, kept in files so that a second run is quick."""

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from processors.models.combination.combine import Coefficients
from processors.models.combination.evidence import LawGate
from processors.models.combination.inside import InsideScale
from processors.models.combination.replay import ErrorScale
from tests.quality.curves import Measured
from tests.quality.made_curves import made_curves
from tests.quality.refit import refit

ROOT = Path(__file__).parents[2]
# what a fit depends on: a change there forgets the cached folds, for what was fitted to other code would hide the change
FITTED_BY = (
    "processors/models/**/*.py",
    "tests/kit/combination.py",
    "tests/quality/made_curves.py",
    "tests/quality/refit*.py",
    "tests/quality/likelihood.py",
    "tests/quality/curves.py",
)


class OutOfTimeError(Exception):
    """A table did not come to its end in its time."""


class Folds:
    """Coefficients by fold; `deadline_s` is the reading of the monotonic clock after which nothing more is fitted."""

    def __init__(self, curves: Sequence[Measured], folder: Path) -> None:
        self._curves = curves
        self._folder = folder
        self._data = hashlib.sha256(repr((_code(), curves)).encode()).hexdigest()[:16]
        self.deadline_s = float("inf")

    def check_time(self) -> None:
        """Raise OutOfTimeError after the deadline."""
        if time.monotonic() > self.deadline_s:
            raise OutOfTimeError("coefficients that were fitted so far are cached, run it again")

    def without(self, fold: str) -> Coefficients:
        """Return what was fitted without a fold; all curves have their say where there is no such fold."""
        path = self._folder / f"{self._data}-{fold or 'all'}.json"
        if path.is_file():
            return _decoded(path.read_text())
        self.check_time()
        fitted = refit([*(curve for curve in self._curves if curve.fold != fold), *made_curves()])
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(fitted))
        return fitted


def _code() -> list[bytes]:
    return [path.read_bytes() for pattern in FITTED_BY for path in sorted(ROOT.glob(pattern))]


def _decoded(text: str) -> Coefficients:
    gate, scale, atoms, inside_scale, inside_atoms = json.loads(text)
    prior, curvature, own, last, related, alone = gate
    return Coefficients(
        LawGate(tuple(prior), tuple(curvature), own, last, related, tuple(alone)),
        ErrorScale(*scale),
        tuple(map(tuple, atoms)),
        InsideScale(*inside_scale),
        tuple(inside_atoms),
    )
