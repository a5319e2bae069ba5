"""Windows of measured load as forecasts of what comes next, against the last value and the chosen predictor.

    python -m tests.quality.host_forecasts FOLDER

The measurements are of virtual machines over a month, a value every five minutes: a window is the latest values of a
series, whatever time they took. A forecast that is one value has its distance from what came as its CRPS, so that all are
in one unit. How many values a window holds is chosen on every other machine and reported the rest.

A forecast with tails is what the product says of a host: the battery's point with the quantiles of its own latest errors.
Where a resource often stays to the digit as it was, no forecast that is spread out has an even PIT: it is also told of the
series that nearly always change.
"""

import csv
import gzip
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.hosts.windows import LEVELS, HostForecasts, MinuteBatch
from processors.models.forecast import RETAINED, Forecasters
from processors.models.histogram import INTERVALS, Histogram, crps, from_samples, interval_index, pit

Values = npt.NDArray[np.float64]
RESOURCES = {"CPU usage [%]": "cpu", "Memory usage [KB]": "memory", "Network received throughput [KB/s]": "network"}
WINDOWS = (3, 5, 8, 15, 30, 60)
HORIZONS = (1, 5)
START, ROWS_MAX = 100, 3000
CHANGES_MIN = 0.05  # of the values; of a series that hardly ever changes all forecasts are right
LIVELY = 0.8  # of the values; a series of which so many change has hardly any ties
GOAL = 0.85  # of the CRPS of the better of last value and chosen predictor
PIT_PARTS = 10


class Series(NamedTuple):
    """The values of one resource of one machine, in order of time."""

    machine: str
    resource: str
    values: Values


class Points(NamedTuple):
    """What three forecasts of one value said before each value (series, values)."""

    last: Values
    chosen: Values
    chosen_absolute: Values


class Score(NamedTuple):
    """Of one form of a forecast: mean CRPS by series, what came within its range, and the parts of the PIT by series."""

    crps: Values
    inside: float
    parts: Values

    @property
    def unevenness(self) -> float:
        """Half the summed distance of the parts from an even share: 0 is even, 1 all in one place."""
        return self.unevenness_of(np.ones(len(self.parts), dtype=bool))

    def unevenness_of(self, rows: npt.NDArray[np.bool_]) -> float:
        """Return the same of some series together."""
        return float(abs(self.parts[rows].mean(axis=0) - 1 / PIT_PARTS).sum() / 2) if rows.any() else math.nan


def equal_intervals(windows: Values) -> Histogram:
    """Return the window as a host's minute tells it: five intervals of one length."""
    return from_samples(windows)


def equal_shares(windows: Values) -> Histogram:
    """Return five intervals with as many values in each, in as many numbers."""
    edges = np.quantile(windows, np.linspace(0, 1, INTERVALS + 1), axis=1).T
    return Histogram(edges, np.full((len(windows), INTERVALS), 1 / INTERVALS))


def each_sample(windows: Values) -> Histogram:
    """Return all values as points: what five intervals can lose is measured against this."""
    edges = np.repeat(np.sort(windows, axis=1), 2, axis=1)
    covered = np.arange(edges.shape[1] - 1) % 2 == 0
    return Histogram(edges, np.broadcast_to(covered / covered.sum(), (len(edges), len(covered))))


FORMS: dict[str, Callable[[Values], Histogram]] = {
    "equal intervals": equal_intervals,
    "equal shares": equal_shares,
    "samples": each_sample,
}


def read(folder: Path, rows_max: int = ROWS_MAX) -> list[Series]:
    """Return the series of the machines in a folder of GWA-T-12 files, cut to one length."""
    found = []
    for path in sorted(folder.glob("*.csv.gz"), key=lambda each: each.name.zfill(20)):
        with gzip.open(path, "rt") as file:
            rows = list(islice(csv.DictReader(file, delimiter=";"), rows_max))
        columns = {name.strip(): name for name in rows[0]}
        for name, resource in RESOURCES.items():
            values = np.array([float(row[columns[name]]) for row in rows])
            if (np.diff(values) != 0).mean() >= CHANGES_MIN:
                found.append(Series(path.name.split(".")[0], resource, values))
    shortest = min((len(each.values) for each in found), default=0)
    return [Series(each.machine, each.resource, each.values[:shortest]) for each in found]


def points(values: Values) -> Points:
    """Return what was said before each of the values (series, values), the first one left out."""
    forecasters, series, prediction = Forecasters(len(values)), np.arange(len(values)), []
    for now in values.T[:-1]:
        forecasters.observe(series, now)
        by_square, by_absolute = forecasters.forecast(series)
        prediction.append((by_square.value, by_absolute.value))
    chosen, absolute = (np.stack(column, axis=1).astype(np.float64) for column in zip(*prediction, strict=True))
    return Points(values[:, :-1], chosen, absolute)


def distances(prediction: Values, values: Values, horizon: int) -> Values:
    """Return the mean distance by series of values `horizon` later than the latest known, from the START-th on."""
    actual = values[:, START + horizon - 1 :]
    return np.asarray(abs(prediction[:, START - 1 : START - 1 + actual.shape[1]] - actual).mean(axis=1))


def score(values: Values, window: int, horizon: int, form: Callable[[Values], Histogram]) -> Score:
    """Return how windows of the latest values did as forecasts of the value `horizon` later."""
    actual = values[:, START + horizon - 1 :]
    windows = np.lib.stride_tricks.sliding_window_view(values, window, axis=1)[:, START - window :]
    return judged([form(row[: actual.shape[1]]) for row in windows], actual)


def judged(prediction: Sequence[Histogram], actual: Values) -> Score:
    """Return how the forecasts of each series did."""
    pairs = list(zip(prediction, actual, strict=True))
    parts = [np.histogram(pit(*pair), bins=PIT_PARTS, range=(0, 1))[0] / actual.shape[1] for pair in pairs]
    inside = float(
        np.mean([(interval_index(*pair) % (pair[0].intervals + 1) < pair[0].intervals).mean() for pair in pairs])
    )
    return Score(np.array([crps(*pair).mean() for pair in pairs]), inside, np.array(parts))


def tails(values: Values) -> Values:
    """Return the edges of what the product expected before each of the values (series, values, edges), the first left out.

    NaN while its errors are not known.
    """
    forecasts, rows = HostForecasts(), np.arange(len(values))
    for columns in (forecasts, forecasts.errors):
        columns.grow(len(values))
    found = np.full((len(values), values.shape[1] - 1, len(LEVELS)), np.nan)
    for k in range(values.shape[1] - 1):
        forecasts.take(MinuteBatch(rows, rows, rows * 0, values[:, k : k + 1]))
        for row, histogram in enumerate(forecasts.histograms(rows.tolist(), [False] * len(rows))):
            if histogram is not None:
                found[row, k] = histogram.edges
    return found


def score_tails(edges: Values, values: Values, horizon: int) -> Score:
    """Return how forecasts with tails did, of the value `horizon` later."""
    actual = values[:, START + horizon - 1 :]
    shares = np.broadcast_to(np.diff(LEVELS), (actual.shape[1], len(LEVELS) - 1))
    return judged([Histogram(row[START - 1 :][: actual.shape[1]], shares) for row in edges], actual)


def table(folder: Path) -> Iterator[str]:
    """Yield how windows and points did; CRPS as part of that of the better of last value and chosen predictor."""
    series = read(folder)
    values = np.stack([each.values for each in series])
    machines = sorted({each.machine for each in series}, key=int)
    chosen_on = np.array([machines.index(each.machine) % 2 == 0 for each in series])
    prediction, edges = points(values), tails(values)
    lively = (np.diff(values) != 0).mean(axis=1)[~chosen_on] >= LIVELY
    yield f"{chosen_on.sum()} series of {len(machines[::2])} machines choose, {(~chosen_on).sum()} of {len(machines[1::2])} tell"
    yield f"CRPS / better point (at most {GOAL}) | CRPS / last | inside, expected % | PIT uneven, lively | forecast"
    for horizon in HORIZONS:
        last, chosen, absolute = (distances(each, values, horizon) for each in prediction)
        better = np.minimum(last, chosen)
        yield f"{horizon} ahead"
        for name, distance in (("last value", last), ("chosen", chosen), ("chosen by absolute errors", absolute)):
            yield f"{_ratio(distance, better, ~chosen_on):29.3f} | {_ratio(distance, last, ~chosen_on):11.3f} | {'':18} | {'':18} | {name}"
        forms = [("forecast with tails", RETAINED, score_tails(edges[~chosen_on], values[~chosen_on], horizon))]
        for name, form in FORMS.items():
            window = _best_window(values[chosen_on], better[chosen_on], horizon, form)
            forms.append((f"{name} of {window} values", window, score(values[~chosen_on], window, horizon, form)))
        for name, window, found in forms:
            by_resource = ", ".join(_by_resource(series, found.crps, better, chosen_on))
            yield (
                f"{_ratio(found.crps, better[~chosen_on]):29.3f} | {_ratio(found.crps, last[~chosen_on]):11.3f} | "
                f"{100 * found.inside:7.1f} {100 * (window - 1) / (window + 1):10.1f} | "
                f"{found.unevenness:10.3f} {found.unevenness_of(lively):7.3f} | {name}: {by_resource}"
            )


def _best_window(values: Values, better: Values, horizon: int, form: Callable[[Values], Histogram]) -> int:
    return min(WINDOWS, key=lambda window: _ratio(score(values, window, horizon, form).crps, better))


def _by_resource(
    series: Sequence[Series], found: Values, better: Values, chosen_on: npt.NDArray[np.bool_]
) -> Iterator[str]:
    reported = [each.resource for each, other in zip(series, chosen_on, strict=True) if not other]
    for resource in RESOURCES.values():
        here = np.array([each == resource for each in reported])
        if here.any():
            yield f"{resource} {_ratio(found, better[~chosen_on], here):.2f}"


def _ratio(found: Values, better: Values, rows: npt.NDArray[np.bool_] | None = None) -> float:
    """Return the geometric mean over series."""
    ratio = found / better if rows is None else found[rows] / better[rows]
    return float(np.exp(np.log(ratio).mean()))


if __name__ == "__main__":
    for line in table(Path(sys.argv[1])):
        sys.stdout.write(f"{line}\n")
