"""Run time from what the network did, on a simulated torus whose truth is known."""

from functools import partial

import numpy as np
import pytest

from processors.models.features.communication import (
    FEATURE_SETS,
    NAMES,
    features,
    r_squared,
    rcc,
    rcc_symmetric,
)
from processors.models.features.communication_costs import NETWORK_KINDS, ranged
from processors.models.features.features import NETWORK, ColumnModel, OfColumns, of_set
from processors.models.training.runs import LearnedRun
from processors.models.training.table import RunTable, finished
from processors.models.training.trainer import ReplayedKind, Trainer
from tests.kit import torus

MAPPINGS = 84
KNOWN = 56
COLUMNS = tuple(NETWORK + name for name in NAMES)


@pytest.fixture(scope="module", params=[1, 2, 3, 4, 5])
def table(request: pytest.FixtureRequest) -> RunTable:
    runs = [torus.run(each) for each in torus.mappings(MAPPINGS, seed=request.param)]
    found = [features(*each.traffic) for each in runs]
    values = np.array([[each[name] for name in NAMES] for each in found])
    time_s = np.array([each.run_time_s for each in runs])
    return RunTable(COLUMNS, values, time_s, np.ones(MAPPINGS), np.arange(MAPPINGS))


def mapped(names: tuple[str, ...], table: RunTable) -> ColumnModel:
    model = finished(OfColumns(partial(of_set, names), ReplayedKind(ranged)).fitting(table, None))
    assert isinstance(model, ColumnModel)
    return model


def scored(table: RunTable, names: tuple[str, ...]) -> tuple[float, float]:
    """RCC and R squared of the last 28 mappings, learned from the first 56."""
    seen, requested = np.arange(KNOWN), np.arange(KNOWN, MAPPINGS)
    predicted = mapped(names, table.rows(seen)).predict(table.values[requested]).value
    if len(names) > 1:  # few are tied; of one feature alone many are, and then the order of samples counts
        assert abs(rcc(predicted, table.target[requested]) - rcc_symmetric(predicted, table.target[requested])) < 0.05
    return rcc_symmetric(predicted, table.target[requested]), r_squared(predicted, table.target[requested])


def test_feature_sets_order_mappings_far_better_than_the_distance_of_messages(table: RunTable) -> None:
    dilation, _ = scored(table, ("max_dilation",))
    for name in ("H4", "H5", "H6"):
        order, explained = scored(table, FEATURE_SETS[name])
        assert order >= max(0.88, dilation + 0.2)
        assert explained > 0.85


def test_importances_state_what_mattered(table: RunTable) -> None:
    found = mapped(FEATURE_SETS["H4"], table).importances_by_name()
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["network.max_bytes"] + found["network.avg_buffer_to"] > found["network.avg_bytes"]


def test_an_application_finds_the_set_of_features_to_believe_by_what_came(table: RunTable) -> None:
    trainer = Trainer({"run_time_s": {name: NETWORK_KINDS[name] for name in ("H4", "dilation")}})
    for number, (values, time_s) in enumerate(zip(table.values, table.target, strict=True)):
        row = dict(zip(COLUMNS, values.tolist(), strict=True))
        trainer.learn(LearnedRun(f"r{number:03}", number, row, {"run_time_s": float(time_s)}))
        if number % 20 == 19:
            while trainer.tick():
                pass
    learner = trainer.learners["run_time_s"]
    assert learner.trusted == "H4"
    assert learner.tracked["H4"].error < 0.7 * learner.tracked["dilation"].error
    band = trainer.predict("run_time_s", dict(zip(COLUMNS, table.values[0].tolist(), strict=True)))
    assert band is not None
    assert band.value == pytest.approx(table.target[0], rel=0.1)


def test_too_few_runs_or_features_that_nobody_reports_make_no_model(table: RunTable) -> None:
    with pytest.raises(ValueError, match="8 runs"):
        mapped(FEATURE_SETS["H1"], table.rows(np.arange(7)))
    with pytest.raises(ValueError, match="No run tells network"):
        mapped(FEATURE_SETS["H1"], table.only(("network.avg_bytes", "network.max_bytes")))


def test_repeats_of_a_mapping_are_left_out_together() -> None:
    rng = np.random.default_rng(1)
    values = np.repeat(rng.random((12, 2)), 4, axis=0)
    target = np.repeat(np.exp(rng.normal(size=12)), 4)
    alone, joint = (
        mapped(("a", "b"), RunTable(("network.a", "network.b"), values, target, np.ones(48), group)).error
        for group in (np.arange(48), np.arange(48) // 4)
    )
    assert alone < 0.1 < joint


def test_the_simulated_network_loses_no_packet_and_no_link_is_faster_than_it_can_be() -> None:
    for node in torus.mappings(6, seed=3):
        found = torus.run(node)
        (_, *counted), (dilation, message_bytes) = found.traffic.links, found.traffic.messages
        buffered, carried = np.array(counted, np.float64)
        assert carried.sum() * torus.PACKET_BYTES == np.dot(dilation, message_bytes)
        assert (buffered <= carried).all()
        assert found.run_time_s >= 1e-3 * (carried + torus.BUFFER_TICKS * buffered).max()
    assert torus.run(np.zeros(torus.NODES, np.int64)).run_time_s == 0.0
