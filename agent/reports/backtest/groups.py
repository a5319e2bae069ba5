"""Runs of one kind, scored together."""

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
    """Counts runs, and scores those that were predicted."""

    __slots__ = ("runs", "tally")

    def __init__(self) -> None:
        self.runs = 0
        self.tally = Tally()

    def add(self, observed_s: float, prediction: Band | None) -> None:
        """Take in a run that ended."""
        self.runs += 1
        if prediction is not None:
            self.tally.add(observed_s, prediction)

    def row(self, name: str) -> Row:
        """Return what it comes to."""
        figures = self.tally.figures()
        answered = figures.scored / self.runs if self.runs else 0.0
        return Row(name=name, runs=self.runs, answered=answered, figures=figures)


class Compared:
    """Predictions and each baseline, on the runs for which both have a number."""

    def __init__(self) -> None:
        self._runs = 0
        self._tallies = {name: (Tally(), Tally(), Tally()) for name in BASELINES}

    def add(self, observed_s: float, prediction: Band | None, baseline: Baseline) -> None:
        """Take in a run that ended."""
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
        """Return a comparison for each baseline that had a number for any run."""
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
    """Predicted probabilities, in bins or at fixed levels, against how often it came true."""

    def __init__(self) -> None:
        self._bins: dict[int, tuple[int, float, float]] = {}
        self._squares = 0.0

    def add(self, bin_: int, predicted: float, came_true: float) -> None:
        """Take in a prediction of a bin and its outcome; a half is a tie."""
        runs, sum_predicted, sum_true = self._bins.get(bin_, (0, 0.0, 0.0))
        self._bins[bin_] = (runs + 1, sum_predicted + predicted, sum_true + came_true)
        self._squares += (predicted - came_true) ** 2

    @property
    def brier(self) -> float | None:
        """The mean square of predicted probability minus outcome (Brier 1950)."""
        runs = sum(found[0] for found in self._bins.values())
        return self._squares / runs if runs else None

    def found(self) -> tuple[Frequency, ...]:
        """Return the bins that have runs, by rising probability."""
        return tuple(_frequency(*self._bins[bin_]) for bin_ in sorted(self._bins))


class Levels:
    """What bands of each of LEVELS held: that of 90 % was predicted, the others follow from it."""

    __slots__ = ("_inside", "_runs")

    def __init__(self) -> None:
        self._runs = 0
        self._inside = [0] * len(LEVELS)

    def add(self, observed_s: float, prediction: Band) -> None:
        """Take in a run that ended."""
        self._runs += 1
        for i, level in enumerate(LEVELS):
            self._inside[i] += prediction.at_level(level).holds(observed_s)

    def coverage(self, name: str) -> Coverage:
        """Return what they come to."""
        frequencies = zip(LEVELS, self._inside, strict=True)
        return Coverage(
            name=name,
            levels=tuple(_frequency(self._runs, level * self._runs, inside) for level, inside in frequencies),
        )


class Sample(Generic[Drawn]):
    """At most `most` entries, chosen by the names of their runs: the same runs give the same sample, in any order."""

    __slots__ = ("_most", "_retained")

    def __init__(self, most: int) -> None:
        self._most = most
        self._retained: list[tuple[int, str, Drawn]] = []

    def add(self, run_id: str, entry: Drawn) -> None:
        """Take an entry in, or leave it out."""
        heapq.heappush(self._retained, (-crc32(run_id.encode()), run_id, entry))
        if len(self._retained) > self._most:
            heapq.heappop(self._retained)

    def retained(self) -> list[Drawn]:
        """Return the sample, in an order that depends on the names alone."""
        return [entry for *_, entry in sorted(self._retained, key=lambda covered: covered[:2])]


def reached(observed_s: float, quantile_s: float) -> float:
    """Return whether a run time lies below a quantile; a half where it lies on it, as its law may have a step there."""
    if abs(observed_s - quantile_s) <= _TOUCH * quantile_s:
        return 0.5
    return 1.0 if observed_s < quantile_s else 0.0


def rows(groups: Mapping[str, Group], order: Sequence[str] = ()) -> tuple[Row, ...]:
    """Return the rows of groups by name: those of `order` first, then the largest."""
    rest = sorted((name for name in groups if name not in order), key=lambda name: (-groups[name].runs, name))
    return tuple(groups[name].row(name) for name in (*(name for name in order if name in groups), *rest))


def _frequency(runs: int, sum_predicted: float, sum_true: float) -> Frequency:
    low, high = interval(sum_true, runs)
    return Frequency(predicted=sum_predicted / runs, observed=sum_true / runs, low=low, high=high, runs=runs)
