"""A coarse guard of node power, asked of the product; `python -m tests.quality --only node_power` measures it on more data."""

from pathlib import Path

import numpy as np
import pytest

from tests.quality import node_power
from tests.quality.node_power import Answers, Nodes, estimates, expectations, nodes

ARCHIVED = Path(__file__).parent / "profiles_data" / "clustercockpit" / "data.json.gz"


@pytest.fixture
def four_nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    monkeypatch.setattr(node_power, "EVERY", 4)
    return nodes(ARCHIVED)


def answered(found: Answers) -> float:
    return len(found.off) / found.runs


def test_nodes_without_a_sensor_are_estimated_better_than_by_what_the_others_draw(four_nodes: Nodes) -> None:
    found = estimates(four_nodes, lambda node, _: node % 2 == 0)
    power = four_nodes.power_w[:, node_power.FIRST_MINUTES :]
    alike = np.abs(np.nanmean(power[::2], axis=0) / power[1::2] - 1.0)
    assert answered(found) > 0.9
    assert found.scored.mean < 0.9 * 100 * float(np.nanmean(alike))  # measured: 3.8 % and 5.2 % with two sensors


def test_a_node_whose_sensor_is_silent_has_its_own_level(four_nodes: Nodes) -> None:
    found = estimates(four_nodes, lambda node, minute: (minute // node_power.TURN + node) % 2 == 0)
    assert answered(found) > 0.9
    assert found.scored.mean < 2.0  # measured: 1.3; without levels 3.1


def test_counters_let_expect_what_a_run_draws(four_nodes: Nodes) -> None:
    found = expectations(four_nodes)
    assert answered(found) > 0.9
    assert found.scored.mean < 4.0  # measured: 3.2
    assert 80.0 < found.scored.coverage < 97.0
