"""The story of a model: how its present state came about, derived from that state."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from processors.contracts.names import ApplicationKey
from processors.contracts.service import Comparison, LevelChange, ModelFit, Story, StrangeSize
from processors.facts import PublishedCurve
from processors.models.aggregates.sizes import LEVELS_MAX, Level, LevelTable
from processors.models.aggregates.sketch import ln_factor_of
from processors.pipeline.state import ShardState, inputs_key, related_curves_key

DIGITS: Final = 3
COMPARISONS: Final[dict[str, Comparison]] = {"SlowSize": "slower", "FastSize": "faster"}


def story_of(state: ShardState, application_id: str) -> Story | None:
    """Return the story of one model; None for an application without a model. Changes no state."""
    model = state.models.get(application_id)
    if model is None:
        return None
    key, stored, curve = ApplicationKey.parse(application_id), model.snapshot(), model.published
    runs, table = stored.runs, LevelTable.build(stored.sizes or None)
    curves, inputs = state.related_curves.get(related_curves_key(key)), state.inputs.get(inputs_key(key))
    changes = list(_changes(table.levels))
    for n, levels in table.of_sizes.items():
        changes += _changes(levels, n)
    flagged = {n: COMPARISONS[alert] for alert, n in model.flagged if alert in COMPARISONS}
    return Story(
        application_id=application_id,
        time_ms=state.now_ms,
        runs=model.observations,
        sizes=model.sizes(),
        newest_run_ms=model.newest_ms,
        newest_runs=len(runs),
        slow_runs=sum(run.outlier > 0 for run in runs),
        fast_runs=sum(run.outlier < 0 for run in runs),
        loaded_runs=sum(run.ln_load > 0 for run in runs),
        level_changes=tuple(sorted(changes, key=lambda change: change.time_ms)),
        strange_sizes=tuple(
            StrangeSize(n, flagged.get(n)) for n in sorted({*flagged, *(curve.excluded if curve else ())})
        ),
        fit=_fit(curve) if curve is not None else None,
        fit_due_ms=model.due_ms(),
        related_curves=sum(curve.key != application_id for curve in curves.related.curves) if curves is not None else 0,
        inputs=len(inputs.records) if inputs is not None else 0,
        quality=model.quality,
    )


def _changes(levels: Sequence[Level], n: float | None = None) -> Iterator[LevelChange]:
    """Yield the remembered changes of level, of one size or of all sizes (None)."""
    remembered_all = len(levels) < LEVELS_MAX
    before = 0 if remembered_all else levels[0].position
    for level in levels if remembered_all else levels[1:]:
        yield LevelChange(level.since_ms, round(math.exp(ln_factor_of(level.position - before)), DIGITS), n)
        before = level.position


def _fit(curve: PublishedCurve) -> ModelFit:
    return ModelFit(
        time_ms=curve.time_ms,
        runs=curve.observations,
        model=curve.model,
        weights={name: round(weight, DIGITS) for name, weight in curve.weights.items()},
        verdicts=tuple((point.n, curve.judged(point)) for point in curve.points),
        whole=curve.whole,
    )
