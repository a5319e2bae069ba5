"""Measured curves from CSV files.

Columns: application, input, system, n, unit_of_n, run_time_s. A curve is one (application, input, system, unit); curves
of more than 12 sizes are thinned to about a factor 1.3 between sizes.
"""

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from processors.models.combination.evidence import Curve

SIZES_MIN = 5  # of a curve that is asked
THINNED_ABOVE, RATIO = 12, 1.3
REPEATS_MAX = 20
# sets that measured the same applications are left out together
MERGED_GROUPS = {"ofi_ucx": "archer_benchmarks"}


@dataclass(frozen=True)
class Measured:
    """One curve: run times by size, rising; `fold` is what is left out with it."""

    fold: str
    data_set: str
    application: str
    system: str
    key: str
    runs: dict[int, tuple[float, ...]]

    @property
    def input(self) -> str:
        return self.key.removesuffix(f"|{self.system}|{self.unit}")

    @property
    def unit(self) -> str:
        return self.key.rpartition("|")[2]

    @property
    def sizes(self) -> list[int]:
        return sorted(self.runs)

    @property
    def group(self) -> str:
        return f"{self.application}|{self.system}"


def load(folder: Path) -> list[Measured]:
    """Return the curves of all CSV files of a folder, in a fixed order."""
    found: dict[tuple[str, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                key = (path.stem, row["application"], row["input"], row["system"], row["unit_of_n"])
                found[key][int(row["n"])].append(float(row["run_time_s"]))
    return [_measured(key, runs) for key, runs in sorted(found.items())]


def _measured(key: tuple[str, ...], runs: dict[int, list[float]]) -> Measured:
    data_set, application, given, system, unit = key
    sizes = _thinned(sorted(runs))
    retained = {n: tuple(runs[n]) for n in sizes}
    fold = MERGED_GROUPS.get(data_set, data_set)
    return Measured(fold, data_set, application, system, f"{given}|{system}|{unit}", retained)


def _thinned(sizes: list[int]) -> list[int]:
    if len(sizes) <= THINNED_ABOVE:
        return sizes
    retained = [sizes[0]]
    for n in sizes[1:-1]:
        if n >= retained[-1] * RATIO:
            retained.append(n)
    if sizes[-1] < retained[-1] * 1.15 and len(retained) > 1:
        retained.pop()
    return [*retained, sizes[-1]]


def median_s(curve: Measured, n: int) -> float:
    """Return the median run time of a size, in seconds."""
    return median(curve.runs[n])


def as_curve(measured: Measured, sizes: Sequence[int]) -> Curve:
    """Return what a model may see of a measured curve."""
    return Curve(
        measured.key,
        measured.system,
        tuple(map(float, sizes)),
        tuple(median_s(measured, n) for n in sizes),
        tuple(measured.runs[n][:REPEATS_MAX] for n in sizes),
        measured.key.rsplit("|", 1)[-1],
    )


def applications(curves: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Return the curves that allow a forecast, by application."""
    found: dict[str, list[Measured]] = defaultdict(list)
    for curve in curves:
        if len(curve.runs) > 2:
            found[curve.application].append(curve)
    return found
