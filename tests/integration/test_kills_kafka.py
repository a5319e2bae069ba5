"""Nothing lost, nothing double, on a real broker: roles are killed at moments by a seed, the broker is killed and hangs.

The same properties as in tests/sim, with real processes, a real client and real time. Another storm, with its figures:

SCALEWATCH_KILLS_SEED=7 pytest tests/integration/test_kills_kafka.py -s
"""

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kafka import KafkaProducer

from processors.contracts.log import Restored
from processors.contracts.outputs import Emission
from processors.pipeline.shard import Shard
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics, Records, ended_runs, events, folded, observations, states
from tests.kit.effort import THOROUGH
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import CLIENTS, MARKS_OF_CLIENT
from tests.kit.storm import Patient, Storm, interleaved, plan
from tests.sim.history import History, history, shuffled

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SEED = int(os.environ.get("SCALEWATCH_KILLS_SEED", "1"))
KILLS = 10 if THOROUGH else 5  # of each role
JOBS = 20 * KILLS
RAW_PARTITIONS = 3
HEAL_S = 300.0  # nothing takes so long where it works
SETTINGS: dict[str, dict[str, Any]] = {
    "kafka": {"session_timeout_s": 3.0},  # a successor waits as long for the partitions of the dead
    "collector": {"tick_s": 0.5},
    "learner": {"checkpoint_interval_s": 0.2},
    "jobs": {"settle_max_s": 5.0},
    "run_time": {"publish_after_runs": 4, "fits_per_tick_max": 20, "unmerged_runs_max": 4},
    "alerts": {"run_age_max_s": 3e8, "strange_run": {"observations_min": 4}},
}


@dataclass(frozen=True)
class Aftermath:
    """What was there when all was worked off, and what an undisturbed fold of the same journal makes."""

    predicted: History
    restored: Restored
    journal: list[bytes]
    shard: Shard
    emissions: list[Emission]
    arrived: dict[str, Records]


@pytest.fixture(scope="module", params=[pytest.param(client, marks=MARKS_OF_CLIENT[client]) for client in CLIENTS])
def aftermath(
    request: pytest.FixtureRequest,
    kafka: KafkaBroker,
    _numbers: Iterator[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> Aftermath:
    name = f"storm-{next(_numbers)}"
    raw = f"{name}-raw"
    sources = [{"topics": [raw], "format": "native"}]
    path = write_config(tmp_path_factory.mktemp("storm"), kafka.bootstrap, name, sources, request.param, **SETTINGS)
    dice = random.Random(SEED)  # noqa: S311 - a storm has to come again with its seed
    reported = history(SEED, JOBS)
    learner = Patient(AgentProcess(path, "learner"), learns, plan(dice, KILLS))
    collector = Patient(AgentProcess(path, "collector"), collects, plan(dice, KILLS))
    with AgentTopics(learner.process.config) as topics:
        topics.create(raw, RAW_PARTITIONS)
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all", enable_idempotence=True)
        unsent = interleaved(shuffled(reported.messages, RAW_PARTITIONS, dice), dice)
        storm = Storm(kafka, dice, unsent, producer, raw, [learner, collector])
        began_s = time.monotonic()
        try:
            storm.rage()
            raged_s = time.monotonic()
            heal(topics, raw, learner, collector)
        except AssertionError as error:
            for patient in storm.patients:
                error.add_note(f"seed {SEED}, {patient.process.role}: {patient.process.output()}")
            raise
        finally:
            storm.end()
        healed_s = time.monotonic()
        sweeps = topics.sweeps()
        shard, emissions = folded(topics.config, topics.journal())
        result = Aftermath(reported, topics.take_over(), topics.journal(), shard, emissions, topics.outputs())
    print(tale(storm, result, sweeps))  # noqa: T201 - the figures of the storm, shown with -s
    print(f"{raged_s - began_s:.0f} s of storm, {healed_s - raged_s:.0f} s until all was worked off and settled")  # noqa: T201
    return result


def learns(role: AgentProcess) -> bool:
    return role.ready("learner") is not None


def collects(role: AgentProcess) -> bool:
    return role.metric("collector", "scalewatch_events_total", outcome="received") > 0


def heal(topics: AgentTopics, raw: str, learner: Patient, collector: Patient) -> None:
    """Let everything be worked off and settle, then end both roles in order, the learner last."""
    deadline = time.monotonic() + HEAL_S

    def worked_off() -> bool:
        learner.look(time.monotonic())
        collector.look(time.monotonic())
        return topics.committed(raw, RAW_PARTITIONS) and len(topics.read(topics.config.topics.runs)) >= len(
            ended_runs(topics.journal())
        )

    def saved() -> bool:
        learner.look(time.monotonic())
        return topics.saved()

    until(worked_off, deadline - time.monotonic(), "everything is in the journal and every run has settled")
    until(lambda: left(collector), deadline - time.monotonic(), "the collector leaves in order")
    until(saved, deadline - time.monotonic(), "a checkpoint at the end of the journal")
    until(lambda: left(learner), deadline - time.monotonic(), "the learner leaves in order")


def left(patient: Patient) -> bool:
    """Ask a role to leave; one that had just ended by itself is started once more."""
    patient.look(time.monotonic())
    return patient.process.stop() == 0


def tale(storm: Storm, result: Aftermath, sweeps: int) -> str:
    """Return the figures of a storm."""
    marker = result.restored.marker
    repeats = len(result.journal) - len({event.identity for event in events(result.journal)})
    starts = {patient.process.role: patient.process.starts for patient in storm.patients}
    return (
        f"\nseed {SEED}: {storm.killed} kills of roles, of the broker {dict(storm.broker_faults)}, starts {starts}, "
        f"ended by themselves {storm.ended_by_themselves()}, {sweeps} take-overs, "
        f"{marker.number if marker else 0} checkpoints confirmed, {len(result.restored.states)} states, "
        f"{len(result.journal)} journal records of which {repeats} repeats, {len(result.emissions)} emissions, "
        f"{sum(map(len, result.arrived.values()))} records arrived"
    )


def test_every_run_is_in_the_state_exactly_once(aftermath: Aftermath) -> None:
    counted = observations(aftermath.shard)
    assert counted == Counter(application for application, _, _ in aftermath.predicted.runs.values())
    assert sum(counted.values()) > JOBS / 2
    assert set(aftermath.predicted.runs) <= ended_runs(aftermath.journal)


def test_the_last_checkpoint_is_to_the_bit_the_state_of_an_undisturbed_fold(aftermath: Aftermath) -> None:
    marker, saved = aftermath.restored.marker, aftermath.restored.states
    expected = states(aftermath.shard)
    assert marker is not None
    assert (marker.offset, marker.now_ms) == (len(aftermath.journal), aftermath.shard.now_ms)
    assert set(saved) == set(expected)
    assert [key for key, value in expected.items() if saved[key] != value] == []


@pytest.mark.parametrize("kind", ["predictions", "job_predictions", "answers", "alerts", "runs"])
def test_every_emission_arrived_and_repeats_are_equal(aftermath: Aftermath, kind: str) -> None:
    expected = [(one.key, one.value) for one in aftermath.emissions if one.kind == kind]
    arrived = aftermath.arrived[kind]
    assert expected, "a storm without such emissions shows nothing"
    assert set(arrived) == set(expected)
    assert dict(arrived) == dict(expected), "the newest record of a key is not the newest message"


def test_every_bad_message_is_one_dead_letter(aftermath: Aftermath) -> None:
    versions = defaultdict(set)
    for key, value in aftermath.arrived["deadletters"]:
        versions[key].add(value)
    assert len(versions) == aftermath.predicted.bad > 0
    assert {len(different) for different in versions.values()} == {1}


def test_the_storm_repeated_work_and_took_the_shard_over_again_and_again(aftermath: Aftermath) -> None:
    """A storm in which nothing had to be done twice shows nothing."""
    assert aftermath.restored.marker is not None
    assert aftermath.restored.marker.number >= 5
    identities = [event.identity for event in events(aftermath.journal)]
    dead_letters = {key for key, _ in aftermath.arrived["deadletters"]}
    sent_again = sum(map(len, aftermath.arrived.values())) - len(aftermath.emissions) - len(dead_letters)
    assert sent_again + len(identities) - len(set(identities)) > 0
