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

STEP_SHARE = 0.4
ERROR_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Patterns:
    """At most one kind of pattern; `kept` (k,) is True for the sizes that a curve should be fitted to.

    >>> Patterns(np.array([True])).special is None
    True
    """

    kept: Booleans
    special: SpecialSizes | None = None
    anomalies: tuple[AnomalousSize, ...] = ()
    phases: Phases | None = None


def find_patterns(n: Floats, run_time_s: Floats, tolerance: float, cores_per_node: int | None = None) -> Patterns:
    """Return what is unusual; `n` (sorted, distinct) and `run_time_s` have shape (k,).

    `tolerance` is the relative deviation that counts, `cores_per_node` adds the multiples of a node to the classes of
    special sizes. Phases are believed only where single points don't explain the curve about as well.

    >>> find_patterns(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([64.0, 32.0, 16.0, 12.0, 4.0]), 0.1).anomalies[0].n
    8.0
    """
    if not _suspicious(n, run_time_s, tolerance):
        anomalies = find_anomalies(n, run_time_s, tolerance)
        return Patterns(anomalies.kept, anomalies=anomalies.sizes)
    fitter = QuickFitter(n, run_time_s)
    special = find_special_sizes(n, run_time_s, tolerance, fitter, cores_per_node=cores_per_node)
    if special is not None:
        return Patterns(special.is_member(n), special)
    anomalies = find_anomalies(n, run_time_s, tolerance, fitter)
    everything = np.ones(n.size, bool)
    error, error_without = (float(rms) for rms in fitter.fit(np.stack([everything, anomalies.kept])).rms)
    phases = find_phases(n, run_time_s, tolerance, rms_of_one=error)
    if phases is not None and (anomalies.violations > 0.0 or error_without > 2.0 * phases.rms + 0.01):
        return Patterns(everything, phases=phases)
    return Patterns(anomalies.kept, anomalies=anomalies.sizes)


def _suspicious(n: Floats, run_time_s: Floats, tolerance: float) -> bool:
    """Return whether the costly search for special sizes and phases could find any.

    A step by the tolerance lifts some size above the chord of its neighbours by about half of it, and leaves an error
    in Amdahl's law, Downey's simplest curve.
    """
    if n.size < min(SPECIAL_MIN, PHASES_MIN) or excess_over_chord(n, run_time_s).max() <= STEP_SHARE * tolerance:
        return False
    error = float(np.sqrt(fit_amdahl(n, run_time_s, np.ones((1, n.size))).squares[0] / n.size))
    return error > ERROR_SHARE * tolerance
