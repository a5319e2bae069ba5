"""Measured curves from CSV files, and the questions asked of them: what a model may see, and what it must predict.

Columns: application, input, system, n, unit_of_n, run_time_s. A curve is one (application, input, system, unit); curves
of more than 12 sizes are thinned to about a factor 1.3 between sizes.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
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
    def sizes(self) -> list[int]:
        return sorted(self.runs)

    @property
    def group(self) -> str:
        return f"{self.application}|{self.system}"


@dataclass(frozen=True)
class Question:
    """One split of a curve: sizes that are known, sizes that are asked."""

    world: str
    curve: Measured
    known: tuple[int, ...]
    requested: tuple[int, ...]


def load(folder: Path) -> list[Measured]:
    """Return the curves of all CSV files of a folder, in a fixed order."""
    found: dict[tuple[str, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                key = (path.stem, row["application"], row["input"], row["system"], row["unit_of_n"])
                found[key][int(row["n"])].append(float(row["run_time_s"]))
    return [_measured(key, runs) for key, runs in sorted(found.items())]


def questions(curves: Sequence[Measured], *, inside: bool = True) -> list[Question]:
    """Return every split of every curve that is long enough."""
    requested = []
    for curve in curves:
        if len(curve.runs) >= SIZES_MIN:
            requested += [
                Question(world, curve, tuple(known), tuple(rest))
                for world, known, rest in _splits(curve, inside=inside)
            ]
    return requested


def horizon(question: Question, n: int) -> str:
    """Return the name of the distance of an asked size."""
    if question.world.startswith("inside"):
        return "inside"
    factor = n / max(question.known)
    return "<=2x" if factor <= 2.0001 else "2-4x" if factor <= 4.0001 else ">4x"


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


def _splits(curve: Measured, *, inside: bool) -> Iterator[tuple[str, list[int], list[int]]]:
    sizes = curve.sizes
    yield "first4", sizes[:4], sizes[4:]
    if len(sizes) >= 6:
        yield "minus1", sizes[:-1], sizes[-1:]
    if len(sizes) >= 7:
        yield "minus2", sizes[:-2], sizes[-2:]
    if inside:
        for i in range(1, len(sizes) - 1):
            yield f"inside{i}", sizes[:i] + sizes[i + 1 :], [sizes[i]]


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
