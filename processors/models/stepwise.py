"""Stepwise scalability: a curve that falls into phases, each with its own law, with a jump of run time between them.

ADEPT (Deshmeh, Machina, Sodan 2010) keeps one model instance per phase, from five sizes on.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from processors.models.amdahl import AmdahlFits, fit_amdahl

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SIZES_MIN = 5  # of ADEPT
PHASE_MIN = 2
NOISE_FLOOR = 0.02  # relative error below which a better fit is no evidence


@dataclass(frozen=True, slots=True)
class Phase:
    """Neighbouring sizes with one law: `jump` is the relative step of run time from the phase before (0 for the first).

    `parallel_s` and `serial_s` are Amdahl's law of the phase, T = parallel_s / n + serial_s, which found it; with two or
    three sizes it says nothing about where the speed-up ends, so it is no law to extrapolate with.

    >>> Phase(2.0, 8.0, 0.0, 100.0, 5.0).last_n
    8.0
    """

    first_n: float
    last_n: float
    jump: float
    parallel_s: float
    serial_s: float


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases in order of size, and the relative error of their Amdahl fits.

    >>> Phases((Phase(1.0, 2.0, 0.0, 8.0, 0.0),), 0.01).rms
    0.01
    """

    phases: tuple[Phase, ...]
    rms: float

    def index(self, n: Floats) -> Indices:
        """Return the phase of each size; between two phases that of the closest size in log n, of two the larger.

        >>> two = Phases((Phase(1.0, 2.0, 0.0, 8.0, 0.0), Phase(4.0, 8.0, 0.5, 16.0, 0.0)), 0.0)
        >>> two.index(np.array([1.0, 2.5, 3.0, 99.0])).tolist()
        [0, 0, 1, 1]
        """
        middles = [(before.last_n * after.first_n) ** 0.5 for before, after in pairwise(self.phases)]
        return np.searchsorted(np.array(middles), n, side="right")


def find_phases(n: Floats, run_time_s: Floats, tolerance: float, *, rms_of_one: float) -> Phases | None:
    """Return the two or three phases that explain the curve better than one Downey fit does, or None.

    `n` (sorted, distinct) and `run_time_s` have shape (k,); `tolerance` is the relative jump that counts;
    `rms_of_one` the relative error of the Downey fit of all sizes. The phases must win by the Bayesian information
    criterion (Schwarz 1978), with 2 ln k to spare.

    >>> n, t = np.arange(2.0, 17.0, 2.0), 100.0 / np.arange(2.0, 17.0, 2.0)
    >>> found = find_phases(n, np.where(n >= 10, 1.4, 1.0) * t, 0.1, rms_of_one=0.12)
    >>> [(phase.first_n, phase.last_n, round(phase.jump, 2)) for phase in found.phases]
    [(2.0, 8.0, 0.0), (10.0, 16.0, 0.4)]
    """
    k = n.size
    if k < SIZES_MIN or rms_of_one <= tolerance / 3.0:
        return None
    segments = _Segments(n, run_time_s)
    one = _criterion(np.array([k * rms_of_one**2]), 3, k)[0]
    candidates = [_best_cut(segments, cuts, tolerance) for cuts in _cuts(k)]
    criterion, starts = min(candidates, key=lambda candidate: candidate[0])
    if not criterion < one - 2.0 * np.log(k):
        return None
    return segments.phases(starts)


def _cuts(k: int) -> list[Indices]:
    """Return the first indices of the second and later phases, one array (m, phases-1) per number of phases."""
    two = np.arange(PHASE_MIN, k - PHASE_MIN + 1)[:, None]
    i, j = np.triu_indices(max(k - 3 * PHASE_MIN + 1, 0))
    return [two, np.column_stack([i + PHASE_MIN, j + 2 * PHASE_MIN])]


def _criterion(squares: Floats, parameters: int, k: int) -> Floats:
    return np.asarray(k * np.log(squares / k + NOISE_FLOOR**2) + parameters * np.log(k))


class _Segments:
    """Amdahl fits of every run of neighbouring sizes, and what they say about the size that follows."""

    def __init__(self, n: Floats, run_time_s: Floats) -> None:
        k = n.size
        self.n, self.run_time_s = n, run_time_s
        first, last = np.triu_indices(k, 1)
        index = np.arange(k)
        inside = (index >= first[:, None]) & (index <= last[:, None])
        fits: AmdahlFits = fit_amdahl(n, run_time_s, inside.astype(float))
        following = np.minimum(last + 1, k - 1)
        self.number = np.zeros((k, k), np.intp)
        self.number[first, last] = np.arange(first.size)
        self.fits = fits
        self.jump = run_time_s[following] / fits.predict(n[following]) - 1.0

    def of(self, starts: Indices) -> Indices:
        """Return the numbers of the segments that the starts (m, p-1) of later phases cut, shape (m, p)."""
        rows = starts.shape[0]
        firsts = np.column_stack([np.zeros(rows, np.intp), starts])
        lasts = np.column_stack([starts - 1, np.full(rows, self.n.size - 1)])
        return np.asarray(self.number[firsts, lasts])

    def phases(self, starts: Indices) -> Phases:
        numbers = self.of(starts[None, :])[0]
        edges = [0, *starts.tolist(), self.n.size]
        phases = [
            self._phase(first, last, int(number), 0.0 if place == 0 else float(self.jump[numbers[place - 1]]))
            for place, ((first, last), number) in enumerate(zip(pairwise(edges), numbers, strict=True))
        ]
        return Phases(tuple(phases), float(np.sqrt(self.fits.squares[numbers].sum() / self.n.size)))

    def _phase(self, first: int, last: int, number: int, jump: float) -> Phase:
        parallel_s, serial_s = float(self.fits.parallel_s[number]), float(self.fits.serial_s[number])
        return Phase(float(self.n[first]), float(self.n[last - 1]), jump, parallel_s, serial_s)


def _best_cut(segments: _Segments, starts: Indices, tolerance: float) -> tuple[float, Indices]:
    """Return the lowest criterion among the cuts whose every boundary jumps, and its starts; inf where there is none."""
    if not starts.size:
        return np.inf, starts
    numbers = segments.of(starts)
    phases = numbers.shape[1]
    jumps = np.abs(segments.jump[numbers[:, :-1]]).min(axis=1)
    criterion = _criterion(segments.fits.squares[numbers].sum(axis=1), 3 * phases - 1, segments.n.size)
    criterion = np.where(jumps >= tolerance, criterion, np.inf)
    best = int(np.argmin(criterion))
    return float(criterion[best]), starts[best]
