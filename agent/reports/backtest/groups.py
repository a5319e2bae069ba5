"""Scores of groups of runs."""

import heapq
from binascii import crc32
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from agent.reports.backtest.report import Comparison, Coverage, Frequency, Row
from agent.reports.backtest.scores import BASELINES, Band, Baseline, Tally, interval

QUANTILES: Final = (0.05, 0.5, 0.95)
LIMIT_BINS: Final = 10
LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_TOUCH: Final = 1e-9
Drawn = TypeVar("Drawn")


class Group:
    """Counts the runs of a group, and scores those with a prediction."""

    __slots__ = ("runs", "tally")

    def __init__(self) -> None:
        self.runs = 0
        self.tally = Tally()

    def add(self, observed_s: float, prediction: Band | None) -> None:
        """Count and score a run that ended."""
        self.runs += 1
        if prediction is not None:
            self.tally.add(observed_s, prediction)

    def row(self, name: str) -> Row:
        """Return the scores of the group as a report row."""
        figures = self.tally.figures()
        answered = figures.scored / self.runs if self.runs else 0.0
        return Row(name=name, runs=self.runs, answered=answered, figures=figures)


class Compared:
    """Scores predictions and each baseline on the runs for which both have a value."""

    def __init__(self) -> None:
        self._runs = 0
        self._tallies = {name: (Tally(), Tally(), Tally()) for name in BASELINES}

    def add(self, observed_s: float, prediction: Band | None, baseline: Baseline) -> None:
        """Score a run that ended."""
        self._runs += 1
        for name, (ours, theirs, alone) in self._tallies.items():
            number = baseline.of(name)
            if number is None:
                continue
            alone.add_number(observed_s, number)
            if prediction is not None:
                ours.add(observed_s, prediction)
                theirs.add_number(observed_s, number)

    def comparisons(self, runs: str) -> list[Comparison]:
        """Return one comparison for each baseline with a value for at least one run."""
        found = []
        for name, (ours, theirs, alone) in self._tallies.items():
            prediction, every = ours.figures(), alone.figures()
            share = prediction.scored / self._runs if self._runs else 0.0
            if every.scored:
                found.append(
                    Comparison(
                        runs=runs,
                        baseline=name,
                        share=share,
                        prediction=prediction,
                        baseline_prediction=theirs.figures(),
                        alone=every,
                    )
                )
        return found


class Frequencies:
    """Calibration of predicted probabilities, in bins or at fixed levels: predicted against observed frequency."""

    def __init__(self) -> None:
        self._bins: dict[int, tuple[int, float, float]] = {}
        self._squares = 0.0

    def add(self, bin_: int, predicted: float, came_true: float) -> None:
        """Add a prediction and its outcome to a bin; an outcome of 0.5 is a tie."""
        runs, sum_predicted, sum_true = self._bins.get(bin_, (0, 0.0, 0.0))
        self._bins[bin_] = (runs + 1, sum_predicted + predicted, sum_true + came_true)
        self._squares += (predicted - came_true) ** 2

    @property
    def brier(self) -> float | None:
        """The mean squared difference between predicted probability and outcome (Brier 1950)."""
        runs = sum(found[0] for found in self._bins.values())
        return self._squares / runs if runs else None

    def found(self) -> tuple[Frequency, ...]:
        """Return the bins with runs, by ascending probability."""
        return tuple(_frequency(*self._bins[bin_]) for bin_ in sorted(self._bins))


class Levels:
    """Observed coverage of the bands at each of LEVELS; the 90 % band was predicted, the other bands derive from it."""

    __slots__ = ("_inside", "_runs")

    def __init__(self) -> None:
        self._runs = 0
        self._inside = [0] * len(LEVELS)

    def add(self, observed_s: float, prediction: Band) -> None:
        """Score a run that ended."""
        self._runs += 1
        for i, level in enumerate(LEVELS):
            self._inside[i] += prediction.at_level(level).holds(observed_s)

    def coverage(self, name: str) -> Coverage:
        """Return the coverage of all levels."""
        frequencies = zip(LEVELS, self._inside, strict=True)
        return Coverage(
            name=name,
            levels=tuple(_frequency(self._runs, level * self._runs, inside) for level, inside in frequencies),
        )


class Sample(Generic[Drawn]):
    """A sample of at most `most` entries, chosen by hashes of run ids: the same runs give the same sample in any order."""

    __slots__ = ("_most", "_retained")

    def __init__(self, most: int) -> None:
        self._most = most
        self._retained: list[tuple[int, str, Drawn]] = []

    def add(self, run_id: str, entry: Drawn) -> None:
        """Add an entry to the sample, or skip it."""
        heapq.heappush(self._retained, (-crc32(run_id.encode()), run_id, entry))
        if len(self._retained) > self._most:
            heapq.heappop(self._retained)

    def retained(self) -> list[Drawn]:
        """Return the sample in an order that depends only on the run ids."""
        return [entry for *_, entry in sorted(self._retained, key=lambda covered: covered[:2])]


def reached(observed_s: float, quantile_s: float) -> float:
    """Return 1 if a run time lies below a quantile, 0 if above, and 0.5 if equal, because its distribution may have a step there."""
    if abs(observed_s - quantile_s) <= _TOUCH * quantile_s:
        return 0.5
    return 1.0 if observed_s < quantile_s else 0.0


def rows(groups: Mapping[str, Group], order: Sequence[str] = ()) -> tuple[Row, ...]:
    """Return the rows of groups by name: the groups in `order` first, then the others, largest first."""
    rest = sorted((name for name in groups if name not in order), key=lambda name: (-groups[name].runs, name))
    return tuple(groups[name].row(name) for name in (*(name for name in order if name in groups), *rest))


def _frequency(runs: int, sum_predicted: float, sum_true: float) -> Frequency:
    low, high = interval(sum_true, runs)
    return Frequency(predicted=sum_predicted / runs, observed=sum_true / runs, low=low, high=high, runs=runs)
