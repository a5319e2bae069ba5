"""Placements in the fold and from a topic to a page: what hosts of a known network, or a mapping of ranks, say of run times."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.app.embedded import Embedded
from agent.config.load import loads
from processors.contracts.events import Evidence, Network, PredictionRequested
from processors.contracts.names import rfc3339
from processors.contracts.nodes import HostPlace
from processors.contracts.outputs import Answer
from processors.features.placements import Placements
from processors.models.features.communication import rcc_symmetric
from processors.models.features.placement import Torus, spread
from processors.pipeline.features import Features
from sinks.prometheus.registry import Metrics
from sinks.web.server import create_app
from tests.kit import torus
from tests.kit.clock import FakeClock
from tests.kit.get import get, get_json
from tests.kit.scenario import SYSTEM, Scenario

KEY = f"{SYSTEM}/halo//nodes"
SIDE = torus.SIDE
NODES = [(x, y, z) for z in range(SIDE) for y in range(SIDE) for x in range(SIDE)]
PLACES = [HostPlace(f"n{number:02d}", at) for number, at in enumerate(NODES)]
RUNS = 84


def hosts(nodes: list[int]) -> tuple[str, ...]:
    return (",".join(f"n{node:02d}" for node in nodes),)


def chain_s(nodes: list[int]) -> float:
    """Return the time of an application whose ranks pass what they have on to the next: each hop of a step, and the fullest link, cost."""
    found = spread(Torus(np.array([NODES[node] for node in nodes]), np.full(3, SIDE)))
    return 100.0 + 30.0 * found["next_avg_hops"] + 12.0 * found["next_max_link"]


def centre() -> Scenario:
    return Scenario().on(Placements(PLACES)).at("00:00")


def placed(seed: int, count: int) -> list[list[int]]:
    """Return placements of 16 hosts: a block of the torus, of which a part is elsewhere."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        nodes = list(range(16))
        for at in rng.permutation(16)[: int(rng.integers(0, 17))]:
            nodes[at] = int(rng.choice([node for node in range(len(NODES)) if node not in nodes]))
        found.append(nodes)
    return found


@pytest.fixture(scope="module")
def learned() -> Scenario:
    of = centre()
    for number, nodes in enumerate(placed(1, RUNS)):
        of.at_ms(of.now_ms + 900_000)
        of.ran(f"j{number}", "halo", 16, chain_s(nodes), hosts=hosts(nodes))
    return of.at_ms(of.now_ms + 3_600_000)


def answer_for(of: Scenario, nodes: list[int] | None) -> Answer:
    evidence = Evidence(application="halo", hosts=hosts(nodes) if nodes else ())
    return of.shard.answer(PredictionRequested(SYSTEM, "r", (16.0,), evidence, "nodes"))


def test_a_request_that_names_hosts_is_answered_by_how_far_apart_they_are(learned: Scenario) -> None:
    requests = placed(2, 28)
    answered = np.array([answer_for(learned, nodes).points[0].run_time_s for nodes in requests])
    actual = np.array([chain_s(nodes) for nodes in requests])
    assert float(np.std(np.log(actual))) > 0.1
    assert float(np.mean(np.abs(np.log(answered / actual)))) < 0.03
    assert rcc_symmetric(answered, actual) > 0.95
    model = answer_for(learned, requests[0]).model
    assert model is not None
    assert {member.name: member.weight for member in model.members}["placement"] > 0.8


def test_a_request_without_hosts_is_answered_by_the_curve(learned: Scenario) -> None:
    model = answer_for(learned, None).model
    assert model is not None
    assert "placement" not in {member.name for member in model.members}


def test_a_prediction_reports_how_well_placements_order_runs(learned: Scenario) -> None:
    (prediction,) = (each for each in learned.topic("predictions")[KEY]["features"] if each["features"] == "placement")
    assert prediction["rcc_symmetric"] > 0.9
    assert prediction["error"] < 0.3 * prediction["curve_error"]
    assert set(prediction["importances"]) <= {
        "hosts_avg_hops",
        "next_avg_hops",
        "next_max_hops",
        "next_max_link",
        "next_avg_link",
    }


def test_a_running_job_is_expected_to_end_by_its_hosts(learned: Scenario) -> None:
    near, far = min(placed(3, 20), key=chain_s), max(placed(3, 20), key=chain_s)
    for job_id, nodes in (("near", near), ("far", far)):
        learned.starts(job_id, "halo", 16, hosts=hosts(nodes))
        message = learned.topic("job_predictions")[f"{SYSTEM}/{job_id}"]
        assert message["run_time_s"] == pytest.approx(chain_s(nodes), rel=0.08)


def test_without_a_topology_hosts_are_no_feature() -> None:
    of = Scenario().at("00:00")
    for number, nodes in enumerate(placed(1, 12)):
        of.at_ms(of.now_ms + 900_000)
        of.ran(f"j{number}", "halo", 16, chain_s(nodes), hosts=hosts(nodes))
    of.at_ms(of.now_ms + 3_600_000)
    assert Features(of.shard.state).model(KEY) is None


def test_hosts_that_only_a_start_named_count_when_its_run_settles() -> None:
    of = centre()
    nodes = placed(1, 1)[0]
    of.ran("0", "halo", 16, 500.0)
    of.starts("1", "halo", 16, hosts=hosts(nodes))
    of.at("00:10").ends("1", hosts=())
    of.at("00:30")
    assert Features(of.shard.state).model(KEY) is not None
    run = of.messages("runs")[-1]
    assert [each["evidence"].get("hosts") for each in run["identities"]] == [list(hosts(nodes))], (
        "a rebuild knows them, too"
    )


def mapping(of: Scenario, job_id: str, ranks: tuple[int, ...], **more: object) -> None:
    names = tuple(f"n{node:02d}" for node in range(16))
    of.fold(Network(SYSTEM, job_id, of.now_ms, hosts=names, ranks=ranks, **more))  # type: ignore[arg-type]


def test_a_mapping_file_separates_a_cyclic_order_of_ranks_from_blocks() -> None:
    of, blocks, cyclic = centre(), tuple(np.repeat(range(16), 4).tolist()), tuple(range(16)) * 4
    for number in range(60):
        of.at_ms(of.now_ms + 900_000)
        share = number % 5  # of five turns, how many ranks are by turns
        ranks = tuple(cyclic[at] if at % 5 < share else blocks[at] for at in range(64))
        of.ran(f"j{number}", "halo", 64, 100.0 + 20.0 * share)
        mapping(of, f"j{number}", ranks)
    of.at_ms(of.now_ms + 3_600_000)
    (prediction,) = (each for each in of.topic("predictions")[KEY]["features"] if each["features"] == "placement")
    assert prediction["rcc_symmetric"] > 0.85
    run = next(run for run in reversed(of.messages("runs")) if run["run_id"].startswith(f"{SYSTEM}/j59@"))
    assert 0.0 < run["profile"]["network"]["next_off_host"] < 1.0


def test_messages_between_ranks_of_a_mapping_have_the_hops_and_bytes_of_their_routes() -> None:
    of = centre()
    of.at("00:10").ran("1", "halo", 64, 60.0)
    mapping(of, "1", tuple(range(16)), exchanged=((0, 0, 1), (1, 5, 2), (10.0, 20.0, 40.0)))
    of.at("00:30")
    network = of.messages("runs")[-1]["profile"]["network"]
    assert (network["max_dilation"], network["avg_dilation"]) == (2.0, pytest.approx(4 / 3, rel=1e-4))
    assert network["hop_bytes"] == 10 + 2 * 20 + 40
    assert (network["max_bytes"], network["avg_bytes"]) == (40.0, 30.0), (
        "n00 to n05 begins with the link from n00 to n01"
    )


@pytest.mark.parametrize(
    "event",
    [
        Network(SYSTEM, "1", 0, hosts=("n00",), ranks=(0, 1)),
        Network(SYSTEM, "1", 0, hosts=("n00", "n01"), ranks=(0, 1), exchanged=((0,), (7,), (1.0,))),
    ],
)
def test_a_mapping_that_does_not_fit_is_counted(event: Network) -> None:
    of = centre()
    of.fold(event)
    assert of.tally["refused:implausible"] == 1


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """An agent that knows the network of its hosts from a file, and reads completions with host lists from a topic."""
    folder: Path = tmp_path_factory.mktemp("topology")
    rows = (f"n{number:02d},{x},{y},{z}" for number, (x, y, z) in enumerate(NODES))
    (folder / "torus.csv").write_text("host,x,y,z\n" + "\n".join(rows) + "\n")
    text = "reference: {topology: torus.csv}\nsources: [{topics: [jobs], format: native}]\n"
    clock = FakeClock()
    agent = Embedded(loads(text, folder=folder), clock)
    collector, producer = agent.collector(), agent.log.producer()
    collector.step(clock.now_ms(), 0.0)
    start_ms = clock.now_ms()
    for number, nodes in enumerate(placed(1, 60)):
        clock.advance(900.0)
        message = {
            "type": "job.completed", "system": SYSTEM, "job_id": f"{number}", "application": "halo", "n": 16, "unit": "nodes",
            "start": rfc3339(clock.now_ms() - 600_000), "run_time_s": chain_s(nodes), "state": "COMPLETED", "hosts": list(hosts(nodes)),
        }  # fmt: skip
        producer.send("jobs", json.dumps(message).encode(), timestamp_ms=clock.now_ms())
        producer.flush(1.0)
        collector.step(clock.now_ms(), 0.0)
        agent.tick(clock.now_ms())
        agent.step()
    assert start_ms < clock.now_ms()
    for _ in range(60):
        clock.advance(60.0)
        agent.tick(clock.now_ms())
        agent.step()
    yield agent
    agent.close()


def test_from_a_topic_and_a_file_of_coordinates_to_the_page_and_the_api(agent: Embedded) -> None:
    app = create_app(agent.service, Metrics(formats=(), reasons=(), processors=()))
    near, far = min(placed(3, 20), key=chain_s), max(placed(3, 20), key=chain_s)
    for nodes in (near, far):
        query = f"application=halo&n=16&hosts={hosts(nodes)[0]}"
        (point,) = get_json(app, f"/api/v1/predictions?{query}")["points"]
        assert math.isclose(point["run_time_s"], chain_s(nodes), rel_tol=0.08)
    assert "placement" in get(app, f"/applications/{KEY}").text
