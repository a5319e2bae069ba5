"""The forecast records that the curves of one application share, and the band scores of all applications of a centre.

The laws of the combination are weighted by their forecasts on the curve itself, and on other inputs and systems of the application;
forecasts at larger sizes count most. The records are plain data, so that a curve need not read the other curves.
"""

import math
from functools import cached_property
from typing import ClassVar, Final

import msgspec
import numpy as np

from processors.contracts.names import ApplicationKey
from processors.models.combination.combine import LearnedRecord
from processors.models.combination.evidence import NO_OFFSETS, LawEvidence, Related, RelatedCurve
from processors.models.combination.scores import NO_SCORES, Counts, SystemScores
from processors.models.combination.shapes import NO_LOSSES, ShapeLosses
from processors.store import PlainProcessor

CURVES_MAX: Final = 32  # curves of an application; the curves with the widest range of sizes stay
REPLAYED_MAX: Final = 8  # of these curves, so that a new size costs no more than a few milliseconds
NEWS: Final = 0.005  # change in ln of a median run time that makes a new record due; at .02 the order of runs moved answers by 4 %


class CurveRecord(msgspec.Struct, frozen=True, array_like=True):
    """The part of a curve that other curves learn from: its median run times, and the losses of the laws in its past forecasts.

    `losses` has a row for each size from the third on. `runs` is the number of runs, `ln_n` and `ln_t` are the sizes and median run
    times, both in ln.
    """

    key: str
    system: str
    losses: tuple[tuple[float, ...], ...]
    runs: int
    ln_n: tuple[float, ...] = ()
    ln_t: tuple[float, ...] = ()

    @property
    def reach(self) -> tuple[float, int, str]:
        """The rank of a curve as a source for other curves: first by largest size, then by number of sizes, then by id."""
        return (self.ln_n[-1] if self.ln_n else 0.0), len(self.ln_n), self.key


class RelatedCurves(PlainProcessor, omit_defaults=True, dict=True):
    """What the curves of one application have shown about the scaling laws, shared among these curves.

    `curves` are the records of the curves. Learned from all of them are the `offsets` of the laws, the counts of scores by system
    in `scores`, and `shape_losses`.
    """

    name: ClassVar[str] = "related_curves"
    version: ClassVar[int] = 3

    curves: list[CurveRecord] = msgspec.field(default_factory=list)
    offsets: tuple[float, ...] = NO_OFFSETS
    scores: list[tuple[str, dict[int, int]]] = msgspec.field(default_factory=list)
    shape_losses: ShapeLosses = NO_LOSSES

    @cached_property
    def related(self) -> Related:
        """The curves in the form of the combination."""
        return Related(
            tuple(
                RelatedCurve(
                    curve.key, curve.system, curve.losses, curve.ln_n, curve.ln_t, ApplicationKey.parse(curve.key).unit
                )
                for curve in self.curves
            )
        )

    @property
    def replayed(self) -> tuple[str, ...]:
        """The ids of the REPLAYED_MAX curves with the most sizes; their forecasts are repeated to learn offsets and bands."""
        most = sorted(self.curves, key=lambda record: (len(record.ln_n), record.reach))
        return tuple(record.key for record in most[-REPLAYED_MAX:])

    @cached_property
    def learned(self) -> LearnedRecord:
        """The offsets, scores and losses in the form of the combination."""
        scores = tuple(SystemScores(system, _dense(counts)) for system, counts in self.scores)
        return LearnedRecord(self.offsets, scores, self.shape_losses)

    @property
    def share(self) -> Counts:
        """The counts that the application adds to the pool of the centre."""
        return self.learned.share

    def due(self, key: str, evidence: LawEvidence, *, runs: int) -> bool:
        """Return whether to record a curve again: it has another size, a changed run time, or four times the runs."""
        former = next((record for record in self.curves if record.key == key), None)
        if former is None or runs >= 4 * former.runs or len(former.ln_n) != evidence.k:
            return True
        ends = zip(
            (*former.ln_n, *former.ln_t), map(math.log, (*evidence.curve.n, *evidence.curve.median_s)), strict=True
        )
        return any(abs(before - now) > NEWS for before, now in ends)

    def score(self, fact: CurveRecord) -> bool:
        return fact not in self.curves

    def reaching_less(self, fact: CurveRecord) -> list[str]:
        """Return the ids of the other curves whose largest size is below that of `fact`; empty if `fact` has no new size."""
        former = next((record for record in self.curves if record.key == fact.key), None)
        if former is not None and former.ln_n == fact.ln_n:
            return []
        others = (record for record in self.curves if record.key != fact.key)
        return [record.key for record in others if record.ln_n[-1:] < fact.ln_n[-1:]]

    def learn(self, fact: CurveRecord) -> None:
        """Add the record of a curve; beyond the limit the curve of the lowest rank is evicted."""
        if self.score(fact):
            other_records = [record for record in self.curves if record.key != fact.key]
            most = sorted([*other_records, fact], key=lambda record: record.reach)[-CURVES_MAX:]
            self._change_curves(sorted(most, key=lambda record: record.key))

    def transferred(self, learned: LearnedRecord) -> None:
        """Store the offsets, scores and losses learned from the forecasts of all curves."""
        self.learned = learned
        self.offsets, self.shape_losses = learned.offsets, learned.shape_losses
        self.scores = [(one.system, _sparse(one.counts)) for one in learned.scores]

    def forget(self, key: str) -> bool:
        """Forget a curve; return whether any curve is left."""
        self._change_curves([record for record in self.curves if record.key != key])
        return bool(self.curves)

    def _change_curves(self, curves: list[CurveRecord]) -> None:
        self.curves = curves
        vars(self).pop("related", None)


class ScorePool(PlainProcessor, omit_defaults=True, dict=True):
    """Counts of the scores of all applications of the centre.

    They complement the default scores, because the curves that those were measured on may be smoother than new ones.
    """

    name: ClassVar[str] = "score_pool"
    version: ClassVar[int] = 2

    counts_by_cell: dict[int, int] = msgspec.field(default_factory=dict, name="counts")

    @cached_property
    def counts(self) -> Counts:
        """The counts of all cells."""
        return _dense(self.counts_by_cell)

    def score(self, fact: tuple[Counts, Counts]) -> bool:
        return not np.array_equal(*fact)

    def learn(self, fact: tuple[Counts, Counts]) -> None:
        """Replace the old share of an application by the new one."""
        old, new = fact
        self.counts = self.counts - old + new
        self.counts_by_cell = _sparse(self.counts)


def _sparse(counts: Counts) -> dict[int, int]:
    cells = np.flatnonzero(counts)
    return dict(zip(cells.tolist(), counts[cells].tolist(), strict=True))


def _dense(counts: dict[int, int]) -> Counts:
    cells = NO_SCORES.copy()
    cells[list(counts)] = list(counts.values())
    return cells
