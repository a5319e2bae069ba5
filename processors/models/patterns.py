"""What is unusual about a run-time curve, in ADEPT's order: special sizes, then single points, then phases."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from processors.models.amdahl import fit_amdahl
from processors.models.anomalies import AnomalousSize, find_anomalies
from processors.models.fluctuation import excess_over_chord
from processors.models.quick_fit import QuickFitter
from processors.models.special_sizes import SIZES_MIN as SPECIAL_MIN
from processors.models.special_sizes import SpecialSizes, find_special_sizes
from processors.models.stepwise import SIZES_MIN as PHASES_MIN
from processors.models.stepwise import Phases, find_phases

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

CONTRADICTING = 4
STEP_SHARE = 0.4
ERROR_SHARE = 0.25
CLEAR_STEP = 0.8
CLEAR_STEPS = 2


@dataclass(frozen=True, slots=True)
class Patterns:
    """At most one kind of pattern; `kept` (k,) is True for the sizes that are in line.

    `error` is the relative error of one Downey curve for all sizes, 0 where there is no pattern.

    >>> Patterns(np.array([True])).special is None
    True
    """

    kept: Booleans
    special: SpecialSizes | None = None
    anomalies: tuple[AnomalousSize, ...] = ()
    phases: Phases | None = None
    error: float = 0.0

    @property
    def fitted(self) -> Booleans:
        """The sizes that the predicted curve should be fitted to: those in line, if they can contradict a curve.

        Three sizes always agree with one, so of four none is known to be wrong, and leaving one out made the
        extrapolations of real applications much worse.

        >>> Patterns(np.array([True, True, False, True])).fitted.tolist()
        [True, True, True, True]
        """
        return self.kept if self.special is not None or self.kept.sum() >= CONTRADICTING else np.ones_like(self.kept)


def find_patterns(n: Floats, run_time_s: Floats, tolerance: float, cores_per_node: int | None = None) -> Patterns:
    """Return what is unusual; `n` (sorted, distinct) and `run_time_s` have shape (k,).

    `tolerance` is the relative deviation that counts, `cores_per_node` adds the multiples of a node to the classes of
    special sizes. Phases are believed only where single points don't explain the curve about as well.

    >>> find_patterns(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([64.0, 32.0, 16.0, 12.0, 4.0]), 0.1).anomalies[0].n
    8.0
    """
    everything = np.ones(n.size, bool)
    if not _suspicious(n, run_time_s, tolerance):
        return _of_points(n, run_time_s, tolerance)
    fitter = QuickFitter(n, run_time_s)
    error = _error(fitter, everything)
    if error <= ERROR_SHARE * tolerance:
        return _of_points(n, run_time_s, tolerance)
    special = find_special_sizes(n, run_time_s, tolerance, fitter, cores_per_node=cores_per_node)
    if special is not None:
        return Patterns(special.is_member(n), special, error=error)
    anomalies = find_anomalies(n, run_time_s, tolerance, fitter)
    phases = find_phases(n, run_time_s, tolerance, rms_of_one=error)
    if phases is not None and (anomalies.violations > 0.0 or _error(fitter, anomalies.kept) > 2.0 * phases.rms + 0.01):
        return Patterns(everything, phases=phases, error=error)
    return Patterns(anomalies.kept, anomalies=anomalies.sizes, error=error if anomalies.sizes else 0.0)


def _of_points(n: Floats, run_time_s: Floats, tolerance: float) -> Patterns:
    """Return the single points out of line where no other pattern can be."""
    anomalies = find_anomalies(n, run_time_s, tolerance)
    error = _error(QuickFitter(n, run_time_s), np.ones(n.size, bool)) if anomalies.sizes else 0.0
    return Patterns(anomalies.kept, anomalies=anomalies.sizes, error=error)


def _error(fitter: QuickFitter, subset: Booleans) -> float:
    """Return the relative error of one Downey curve for a subset of the sizes."""
    return float(fitter.fit(subset[None, :]).rms[0])


def find_hidden_special(
    n: Floats, run_time_s: Floats, tolerance: float, cores_per_node: int | None = None
) -> SpecialSizes | None:
    """Return the favoured class among many sizes, or None; arguments as for `find_patterns`.

    Where neighbouring sizes are merged before a fit, fast and slow ones are merged too, so this looks at all of them.

    >>> n = np.arange(1.0, 33.0)
    >>> found = find_hidden_special(n, np.where(np.fmod(n, 4) == 0, 1.0, 1.3) * 100.0 / n, 0.1)
    >>> found.name, round(found.slowdown, 2)
    ('multiple of 4', 0.3)
    """
    if n.size < SPECIAL_MIN or np.sum(excess_over_chord(n, run_time_s) > CLEAR_STEP * tolerance) < CLEAR_STEPS:
        return None
    return find_special_sizes(n, run_time_s, tolerance, QuickFitter(n, run_time_s), cores_per_node=cores_per_node)


def _suspicious(n: Floats, run_time_s: Floats, tolerance: float) -> bool:
    """Return whether the costly search for special sizes and phases could find any.

    A step by the tolerance lifts some size above the chord of its neighbours by about half of it, and leaves an error
    in Amdahl's law, Downey's simplest curve.
    """
    if n.size < min(SPECIAL_MIN, PHASES_MIN) or excess_over_chord(n, run_time_s).max() <= STEP_SHARE * tolerance:
        return False
    error = float(np.sqrt(fit_amdahl(n, run_time_s, np.ones((1, n.size))).squares[0] / n.size))
    return error > ERROR_SHARE * tolerance
