"""Applications of a system that share what they learn of its network, on a simulated torus whose truth is known."""

import numpy as np
import pytest

from processors.contracts.events import Evidence, Network, PredictionRequested
from processors.contracts.outputs import Answer
from processors.models.features.communication import features, rcc_symmetric
from tests.kit import torus
from tests.kit.scenario import SYSTEM, Scenario

TEACHERS = {"flow": (torus.halo_2d, 300.0), "fourier": (torus.groups, 2000.0), "lattice": (torus.halo_2d, 40.0)}
KNOWN, FIRST, REQUESTED = 30, 5, 30
Runs = list[tuple[dict[str, float], float]]


def runs(pattern: torus.Pattern, scale: float, count: int, seed: int) -> Runs:
    """Mappings of a pattern: what their network did, and how long they took."""
    found = [torus.run(node, pattern=pattern) for node in torus.mappings(count, seed, pattern.side**3)]
    return [(features(*run.traffic), scale * run.run_time_s) for run in found]


def ran(centre: Scenario, application: str, number: int, run: tuple[dict[str, float], float]) -> None:
    network, run_time_s = run
    centre.at_ms(centre.now_ms + 900_000)
    centre.ran(f"{application}{number}", application, 64, run_time_s)
    centre.fold(Network(SYSTEM, f"{application}{number}", centre.now_ms, network))


def with_teachers(*teachers: str) -> Scenario:
    """A centre whose other applications ran, by turns, before a new one did for the first time."""
    centre = Scenario().at("00:00")
    known = {name: runs(TEACHERS[name][0](), TEACHERS[name][1], KNOWN, seed=i) for i, name in enumerate(TEACHERS, 31)}
    for number in range(KNOWN):
        for name in teachers:
            ran(centre, name, number, known[name][number])
    return centre.at_ms(centre.now_ms + 3_600_000)


def newcomer(centre: Scenario) -> Scenario:
    for number, run in enumerate(runs(torus.halo_3d(), 100.0, FIRST, seed=41)):
        ran(centre, "newcomer", number, run)
    return centre.at_ms(centre.now_ms + 3_600_000)


@pytest.fixture(scope="module")
def centre() -> Scenario:
    return newcomer(with_teachers(*TEACHERS))


@pytest.fixture(scope="module")
def requested() -> Runs:
    return runs(torus.halo_3d(), 100.0, REQUESTED, seed=42)


def answer(centre: Scenario, network: dict[str, float]) -> Answer:
    evidence = Evidence(application="newcomer")
    return centre.shard.answer(PredictionRequested(SYSTEM, "r", (64.0,), evidence, "nodes", features=network))


def order(centre: Scenario, requested: Runs) -> float:
    answers = np.array([answer(centre, network).points[0].run_time_s for network, _ in requested])
    return rcc_symmetric(answers, np.array([run_time_s for _, run_time_s in requested]))


def test_five_runs_of_an_application_are_enough_where_others_know_the_network(
    centre: Scenario, requested: Runs
) -> None:
    assert order(centre, requested) > 0.92
    first = answer(centre, requested[0][0])
    assert first.model is not None
    assert {each.name: each.weight for each in first.model.members}["shared_communication"] > 0.5
    assert "shared communication" in first.detail


def test_alone_it_cannot_order_placements(requested: Runs) -> None:
    assert order(newcomer(Scenario().at("00:00")), requested) < 0.55


def test_one_other_application_is_no_pool(requested: Runs) -> None:
    assert order(newcomer(with_teachers("flow")), requested) < 0.55


def test_two_others_with_models_of_their_own_are_enough(requested: Runs) -> None:
    assert order(newcomer(with_teachers("flow", "fourier")), requested) > 0.9


def test_what_others_know_is_reported_with_its_record(centre: Scenario) -> None:
    key = f"{SYSTEM}/flow//nodes"
    reported = {each["features"]: each for each in centre.topic("predictions")[key]["features"]}
    shared = reported["shared_communication"]
    assert shared["runs"] > 64
    assert shared["scored"] > 8
    assert shared["rcc_symmetric"] > 0.9
    assert sum(shared["importances"].values()) == pytest.approx(1.0, abs=1e-3)


def test_an_answer_after_a_restart_is_the_same(centre: Scenario, requested: Runs) -> None:
    before = [answer(centre, network).points for network, _ in requested[:4]]
    centre.restart()
    assert [answer(centre, network).points for network, _ in requested[:4]] == before
