"""A structural model with the values of the moment: a histogram of the run time, and how it came about."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from processors.models.histogram.moments import quantiles, variation
from processors.models.histogram.values import INTERVALS, Histogram, check_intervals, from_samples, point
from processors.models.structure.build import Builder
from processors.models.structure.calculus import Calculus, Way
from processors.models.structure.form import Form
from processors.models.structure.inputs import Value, sorted_out
from processors.models.structure.syntax import EquationError, Model

LEVELS = (0.05, 0.5, 0.95)
GAP_MAX = 0.15  # of the range; beyond it the draws answer


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A run time in seconds under the load of the moment: its histogram, and its 5 %, 50 % and 95 % quantiles.

    `mc_gap` is by how much arithmetic and draws differ, at the 5 % or the 95 % quantile, whichever differs more, in
    parts of the histogram's range; positive where arithmetic is higher, None where nothing was drawn. Beyond GAP_MAX
    histogram and quantiles are those of the draws. `ways` say how values that stand more than once were dealt with.
    """

    histogram: Histogram
    quantiles_s: tuple[float, float, float]
    mc_gap: float | None
    ways: tuple[Way, ...]


def evaluate(
    model: Model, variables: Mapping[str, Value], *, check: bool = True, intervals: int = INTERVALS
) -> Evaluated:
    """Return the run time that a model gives with these values.

    Each name of the model has a number; a histogram, one value that all hosts share; a histogram or an array of numbers
    with an axis of hosts, a value of each host; or `Alike`, a pooled window that each host has for itself. Values of
    different names are independent, and so are hosts; the same name is the same value wherever it stands, on one host.
    `hosts` is the number of hosts, where no axis tells. The result is the same whenever it is asked for. Raises
    EquationError where a value is missing or not fit, a divisor may be 0, or the result is too large.

    >>> from processors.models.histogram.values import given
    >>> from processors.models.structure.parse import parse
    >>> model = parse("work_s / cpu_available", names=("work_s", "cpu_available"))
    >>> found = evaluate(model, {"work_s": 10.0, "cpu_available": given([0.8, 1.0], [1.0])})
    >>> found.histogram.edges.tolist(), found.ways
    ([10.0, 10.5, 11.0, 11.5, 12.0, 12.5], ())
    """
    check_intervals(intervals)
    inputs = sorted_out(variables, model.names)
    builder = Builder(model, inputs)
    form = builder.result()
    calculus = Calculus(builder.table, inputs, intervals)
    try:
        calculus.check_divisors()
        found = _plain(calculus.form(form))
        evaluated = Evaluated(found, _levels(found), None, ())
        if check and inputs.shared.keys() | inputs.hosted.keys():
            evaluated = _checked(calculus, form, found, intervals)
    except EquationError:
        raise
    except ValueError as error:
        raise EquationError(model.result.place, "the result is too large for a number.") from error
    collected = [Way("collected", tuple(sorted(builder.table.collected)))] if builder.table.collected else []
    return Evaluated(
        evaluated.histogram, evaluated.quantiles_s, evaluated.mc_gap, (*collected, *calculus.ways, *evaluated.ways)
    )


def _plain(x: Histogram) -> Histogram:
    """Return a histogram without an axis of hosts; where a value was certain on the only one, it has one."""
    return x.host(0) if x.hosts else x


def _levels(x: Histogram) -> tuple[float, float, float]:
    low, middle, high = (float(value) for value in quantiles(x, LEVELS))
    return low, middle, high


def _checked(calculus: Calculus, form: Form, found: Histogram, intervals: int) -> Evaluated:
    draws = calculus.draws.form(form).ravel()
    drawn = np.quantile(draws, LEVELS)
    told, length = _levels(found), float(variation(found))
    if not length:
        return Evaluated(found, told, 0.0, ())
    gaps = [(told[index] - float(drawn[index])) / length for index in (0, 2)]
    gap = max(gaps, key=abs)
    if abs(gap) <= GAP_MAX:
        return Evaluated(found, told, gap, ())
    low, middle, high = (float(value) for value in drawn)
    histogram = from_samples(draws, intervals) if draws.size > 1 else point(draws[0])
    return Evaluated(histogram, (low, middle, high), gap, (Way("monte carlo", ()),))
