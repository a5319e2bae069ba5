"""Mappings of more processes than were ever run: learned on 64, asked of 512, on a simulated torus whose truth is known."""

import numpy as np
import pytest

from processors.contracts.events import Evidence, Network, PredictionRequested
from processors.models.features.communication import features, rcc_symmetric
from tests.kit import torus
from tests.kit.scenario import SYSTEM, Scenario

KNOWN, REQUESTED = 48, 16
SIDES = (4, 8)
Runs = list[tuple[dict[str, float], float]]


def runs(side: int, count: int, seed: int) -> Runs:
    """Mappings of a halo of three dimensions: what their network did, and how long they took."""
    pattern = torus.Pattern(side, torus.halo_3d(side).pairs, torus.FEW_PACKETS)
    found = [torus.run(node, pattern=pattern) for node in torus.mappings(count, seed, side**3)]
    return [(features(*run.traffic), 100.0 * run.run_time_s) for run in found]


@pytest.fixture(scope="module")
def beyond() -> Runs:
    return runs(SIDES[1], REQUESTED, seed=24)


@pytest.fixture(scope="module")
def centre() -> Scenario:
    found = Scenario().at("00:00")
    for i, (network, run_time_s) in enumerate(runs(SIDES[0], KNOWN, seed=23)):
        found.at_ms(found.now_ms + 900_000)
        found.ran(f"j{i}", "halo", SIDES[0] ** 3, run_time_s)
        found.fold(Network(SYSTEM, f"j{i}", found.now_ms, network))
    return found.at_ms(found.now_ms + 3_600_000)


def requested(centre: Scenario, network: dict[str, float]) -> float:
    evidence = Evidence(application="halo")
    question = PredictionRequested(SYSTEM, "r", (float(SIDES[1] ** 3),), evidence, "nodes", features=network)
    return centre.shard.answer(question).points[0].run_time_s


def test_mappings_of_eight_times_as_many_processes_are_put_in_their_order(centre: Scenario, beyond: Runs) -> None:
    answers = np.array([requested(centre, network) for network, _ in beyond])
    times_s = np.array([run_time_s for _, run_time_s in beyond])
    assert rcc_symmetric(answers, times_s) >= 0.93
    assert abs(float(np.mean(np.log(answers / times_s)))) < 0.25, (
        "communication says how it goes on, and no curve of one size"
    )
    spread = np.log(answers) - np.log(times_s)
    assert float(np.std(spread)) < 0.35 * float(np.std(np.log(times_s))), "and as far apart as they are"
