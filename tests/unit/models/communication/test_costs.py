"""Run time as a sum of costs of communication: beyond what was seen, with attributes, and where no sum fits."""

from functools import partial

import numpy as np
import pytest

from processors.models.features.communication import r_squared, rcc_symmetric
from processors.models.features.communication_costs import TREES, costs, ranged
from processors.models.features.features import MODEL_DEVIATION_MIN, fitting
from processors.models.numerics.arrays import Floats
from processors.models.training.table import FittedModel, RunTable, finished
from processors.models.training.trainer import scored

NAMES = ("n", "network.avg_buffer_to", "network.max_bytes", "network.max_fifo")


def rows(count: int, low: float, high: float, seed: int) -> Floats:
    return np.random.default_rng(seed).uniform(low, high, (count, 3))


def truth(features: Floats) -> Floats:
    return np.asarray(features @ np.array([5.0, 2.0, 0.0]) + 1.0)


def table(features: Floats, target: Floats, n: Floats | None = None) -> RunTable:
    size = np.full(len(target), 64.0) if n is None else n
    values = np.concatenate([size[:, None], features], axis=1)
    return RunTable(NAMES, values, target, np.ones(len(target)), np.arange(len(target)))


def test_a_sum_of_costs_is_found_and_goes_on_where_trees_and_powers_bend() -> None:
    seen, requested = rows(56, 1.0, 3.0, seed=1), rows(28, 4.0, 12.0, seed=2)
    noise = np.exp(0.01 * np.random.default_rng(3).normal(size=56))
    known, beyond = table(seen, truth(seen) * noise), table(requested, truth(requested))
    found = {
        name: model.predict(beyond.values).value
        for name, model in (
            ("sum", finished(ranged(known))),
            ("trees", finished(scored(partial(fitting, growth=TREES), known, MODEL_DEVIATION_MIN))),
        )
    }
    assert rcc_symmetric(found["sum"], beyond.target) > 0.98
    assert r_squared(found["sum"], beyond.target) > 0.99
    assert r_squared(found["trees"], beyond.target) < 0.9


def test_costs_are_those_of_the_truth_and_what_costs_nothing_does_not_matter() -> None:
    seen = rows(56, 1.0, 3.0, seed=1)
    found = costs(table(seen, truth(seen)))
    assert found.cost == pytest.approx([5.0, 2.0, 0.0], abs=1e-6)
    assert found.start == pytest.approx(1.0, abs=1e-6)
    assert found.importances()[0] == 0.0
    assert found.importances()[3] == pytest.approx(0.0, abs=1e-6)


def test_an_attribute_that_multiplies_the_costs_is_separated_from_them() -> None:
    seen, requested = rows(80, 1.0, 3.0, seed=1), rows(40, 1.0, 6.0, seed=2)
    steps = np.random.default_rng(4).choice([50.0, 100.0, 400.0], 80)
    known = table(seen, truth(seen) * steps, steps)
    beyond = table(requested, truth(requested) * 200.0, np.full(40, 200.0))
    off = np.log(finished(ranged(known)).predict(beyond.values).value / beyond.target)
    assert float(np.abs(off).max()) < 0.05


def test_inside_what_was_seen_trees_answer_where_no_sum_fits() -> None:
    seen, requested = rows(200, 1.0, 3.0, seed=1), rows(50, 1.1, 2.9, seed=2)

    def jump(features: Floats) -> Floats:
        return np.where(features[:, 1] > 2.0, 2.0, 10.0)  # more bytes, and faster

    known, beyond = table(seen, jump(seen)), table(requested, jump(requested))
    model = finished(ranged(known))
    off = np.log(model.predict(beyond.values).value / beyond.target)
    assert float(np.median(np.abs(off))) < 0.05


def test_what_is_no_cost_of_communication_is_parted_from_it() -> None:
    seen = rows(56, 1.0, 3.0, seed=1)
    found = costs(table(seen, truth(seen) + 20.0))
    assert found.besides(table(seen, truth(seen)).values) == pytest.approx(21.0 / (truth(seen) + 20.0), rel=1e-6)


def test_the_band_widens_where_both_differ_beyond_what_was_seen() -> None:
    seen = rows(56, 1.0, 3.0, seed=1)
    model = finished(ranged(table(seen, truth(seen) ** 2)))
    inside, outside = (deviation_at(model, value) for value in (2.0, 20.0))
    assert outside > 3 * inside


def deviation_at(model: FittedModel, value: float) -> float:
    return float(model.predict(np.array([[64.0, value, value, value]])).deviation[0])


def test_too_few_runs_have_no_costs_and_eight_have() -> None:
    seen = rows(8, 1.0, 3.0, seed=1)
    with pytest.raises(ValueError, match="A model of mappings needs 8 runs"):
        finished(ranged(table(seen[:7], truth(seen[:7]))))
    found = finished(ranged(table(seen, truth(seen))))
    assert found.predict(table(seen, truth(seen)).values).value == pytest.approx(truth(seen), rel=1e-3)
