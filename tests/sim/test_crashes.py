"""Nothing lost, nothing double: whatever crashes, repeats, is refused or comes late, and whoever wakes up too late.

make simulate                       1,000 seeds
SCALEWATCH_SIM_SEEDS=50 pytest tests/sim
SCALEWATCH_SIM_FIRST=123 SCALEWATCH_SIM_SEEDS=1 pytest tests/sim      one seed again
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.log.memory import MemoryLog
from processors.contracts.errors import ConfigError
from processors.contracts.events import DeadLetter, HostMinute, JobCompleted, JournalRecord, encode_record
from processors.contracts.hosts import Profile
from processors.contracts.outputs import Run
from processors.pipeline.shard import Shard
from tests.kit.faults import FaultRates
from tests.sim.careless import (
    AbsentCollector,
    FastLearner,
    ForgetfulLearner,
    HastyCollector,
    HastyLearner,
    NaiveCollector,
    TrustingLearner,
)
from tests.sim.history import SYSTEM
from tests.sim.world import CONFIG, World

FIRST = int(os.environ.get("SCALEWATCH_SIM_FIRST", "1"))
SEEDS = int(os.environ.get("SCALEWATCH_SIM_SEEDS", "10"))
SLICED_S = 0.002  # so a few states are encoded, and then records are folded
TOPICS = {
    kind: topic
    for kind, topic in compose.output_topics(CONFIG).items()
    if kind != "deadletters"  # written by the collector, looked at apart
}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_after_any_fault_everything_is_there_once(seed: int) -> None:
    everything_holds(World(seed))


@pytest.mark.parametrize(
    "seed", [*range(FIRST, FIRST + SEEDS), 56]
)  # 56: the start of a run comes again after the run was settled
def test_after_any_fault_everything_is_there_once_although_checkpoints_take_several_slices(seed: int) -> None:
    everything_holds(World(seed, look_s=SLICED_S))


@pytest.mark.parametrize(
    ("careless", "likely"),  # the first seed that caught it when this was written is tried first
    [
        ({"collector": HastyCollector}, 8),
        ({"collector": AbsentCollector}, 3),
        ({"collector": NaiveCollector}, 101),
        ({"learner": HastyLearner}, 1),
        ({"learner": TrustingLearner}, 28),
        ({"learner": ForgetfulLearner}, 3),
        ({"learner": FastLearner}, 1),
    ],
)
def test_a_role_that_leaves_a_step_out_is_caught(careless: dict[str, Any], likely: int) -> None:
    def seeds() -> None:
        for seed in (likely, *range(1, 121)):
            everything_holds(World(seed, **careless))

    with pytest.raises((AssertionError, ConfigError)):  # the second where the next start notices it
        seeds()


def everything_holds(world: World) -> None:
    world.live()
    world.heal()
    try:
        undisturbed, sent = folded(world)
        every_run_is_in_the_state_exactly_once(world, undisturbed)
        the_state_is_that_of_an_undisturbed_fold(world, undisturbed)
        every_emission_arrived_and_repeats_are_equal(world, sent)
        every_bad_message_is_a_dead_letter(world)
        every_minute_of_a_host_is_that_of_an_undisturbed_pass(world)
        every_profile_is_that_of_a_journal_in_which_nothing_is_reported_twice(world)
    except AssertionError as error:
        error.add_note(f"seed {world.seed}: " + "; ".join(world.fault[-40:]))
        raise


def test_the_faults_are_real() -> None:
    """A simulation whose faults never strike proves nothing."""
    struck: Counter[str] = Counter()
    attempts = []
    for seed in range(FIRST, FIRST + 20):
        world = World(seed)
        world.live()
        attempts += world.attempts
        for line in world.fault:
            struck[
                next((word for word in ("crash", "efused", "sleeps", "fenced", "owner", "group") if word in line), "?")
            ] += 1
    assert {"crash", "efused", "sleeps"} <= set(struck), struck
    assert any(attempt.first < attempt.last for attempt in attempts), "a crash within a slice"


def test_a_quiet_world_has_no_faults() -> None:
    world = World(1, rates=FaultRates())
    world.dice.seed(1)
    world.live()
    assert not [line for line in world.fault if "sleeps" not in line and "group" not in line]


def folded(world: World) -> tuple[Shard, dict[str, dict[tuple[str, bytes | None], int]]]:
    """Fold the journal from its beginning, without any trouble; return the fold and what it sends, by topic."""
    shard = compose.make_shard(CONFIG)
    sent: dict[str, dict[tuple[str, bytes | None], int]] = defaultdict(dict)
    for place, record in enumerate(world.journal()):
        for message in shard.fold(record):
            emission = compose.encode(message)
            sent[emission.kind][emission.key, emission.value] = place
    return shard, sent


def every_run_is_in_the_state_exactly_once(world: World, shard: Shard) -> None:
    counted: Counter[str] = Counter()
    for key in shard.state.models.keys():  # noqa: SIM118 - a store is no mapping
        model = shard.state.models.get(key)
        assert model is not None
        counted[key.split("/")[1]] += model.observations
    expected = Counter(application for application, _, _ in world.predicted.runs.values())
    assert counted == expected
    journalled = {record.event.run_id for record in world.journal() if hasattr(record.event, "run_time_s")}
    assert set(world.predicted.runs) <= journalled


def the_state_is_that_of_an_undisturbed_fold(world: World, shard: Shard) -> None:
    store = MemoryLog(world.broker, state_topic=CONFIG.topics.state).checkpoints(0)
    restored = store.take_over()
    everything = shard.unsaved(with_hosts=True).states()
    expected = {key: value for key, value in everything.items() if value is not None}
    assert restored.marker is not None
    assert restored.marker.offset == len(world.journal())
    assert restored.marker.hosts is not None
    assert (restored.marker.now_ms, restored.marker.hosts.now_ms) == (shard.now_ms, shard.now_ms)
    assert set(restored.states) == set(expected)
    differing = [key for key, value in expected.items() if restored.states[key] != value]
    assert not differing, (restored.states[differing[0]], expected[differing[0]])


def every_emission_arrived_and_repeats_are_equal(world: World, sent: dict[str, dict[Any, int]]) -> None:
    for kind, topic in TOPICS.items():
        arrived = {((key or b"").decode(), value) for key, value in world.records(topic)}
        compacted = kind in {"predictions", "job_predictions", "alerts", "runs"}
        expected = set(sent.get(kind, {}))
        assert arrived <= expected, f"{kind}: sent, but not by an undisturbed fold"
        if not compacted:
            assert arrived == expected, f"{kind}: lost"
            continue
        newest = {key: value for (key, value), _ in sorted(sent.get(kind, {}).items(), key=lambda item: item[1])}
        retained = {key for key, value in arrived if value is not None}
        assert {key for key, value in newest.items() if value is not None} <= retained, f"{kind}: lost"


def every_bad_message_is_a_dead_letter(world: World) -> None:
    dead_letters = [
        msgspec.json.decode(value, type=DeadLetter) for _, value in world.records(CONFIG.topics.deadletters) if value
    ]
    assert len({dead_letter.id for dead_letter in dead_letters}) == world.bad()
    by_id = defaultdict(set)
    for dead_letter in dead_letters:
        by_id[dead_letter.id].add(msgspec.json.encode(dead_letter))
    assert all(len(versions) == 1 for versions in by_id.values())


def every_minute_of_a_host_is_that_of_an_undisturbed_pass(world: World) -> None:
    """Windows fill again after a crash as they were; of one minute the highest revision counts.

    Which revision that is may differ: a minute that was told again for a late sample may be told first by who began to read
    after what was before it.
    """
    reported, found = newest(world.undisturbed_minutes()), newest(world.minutes())
    assert set(found) == set(reported)
    differing = [key for key in reported if content(reported[key]) != content(found[key])]
    assert not differing, (reported[differing[0]], found[differing[0]])


def newest(minutes: Iterable[HostMinute]) -> dict[str, HostMinute]:
    """Return of each minute what its highest revision says, which must always say the same."""
    found: dict[str, HostMinute] = {}
    by_revision: dict[tuple[str, int], HostMinute] = {}
    for minute in minutes:
        again = by_revision.setdefault((minute.identity, minute.revision), minute)
        assert again == minute, "a minute was told in two ways"
        if minute.identity not in found or found[minute.identity].revision < minute.revision:
            found[minute.identity] = minute
    return found


def content(minute: HostMinute) -> HostMinute:
    """Return a minute without its revision."""
    return msgspec.structs.replace(minute, revision=0)


def every_profile_is_that_of_a_journal_in_which_nothing_is_reported_twice(world: World) -> None:
    """What crashes made roles write again counts once, and what was settled is what arrived.

    Of a run that was reported in two ways the last report counts, and which is last depends on what was written again.
    """
    once: dict[bytes, JournalRecord] = {}
    for record in world.journal():
        once.setdefault(encode_record(JournalRecord(record.event)), record)
    reports = Counter(record.event.run_id for record in once.values() if isinstance(record.event, JobCompleted))
    shard = compose.make_shard(CONFIG)
    expected = profiles(message for record in once.values() for message in shard.fold(record))
    found = profiles(msgspec.json.decode(value, type=Run) for _, value in world.records(CONFIG.topics.runs) if value)
    assert set(found) == set(expected)
    differing = [run for run in found if found[run] != expected[run] and reports[run] == 1]
    assert not differing, (found[differing[0]], expected[differing[0]])


def profiles(messages: Iterable[object]) -> dict[str, Profile | None]:
    """Return the profile that each run was told with last; one that knows of no minute is as none."""
    return {
        message.run_id: message.profile
        if message.profile and (message.profile.minutes or message.profile.shared)
        else None
        for message in messages
        if isinstance(message, Run)
    }


def test_there_are_profiles_of_runs_whole_and_in_part() -> None:
    found = []
    for seed in range(1, 13):
        shard = compose.make_shard(CONFIG)
        world = World(seed).lived()
        world.heal()
        found += [
            profile for profile in profiles(m for r in world.journal() for m in shard.fold(r)).values() if profile
        ]
    assert len(found) > 40
    assert sum(bool(profile.minutes and profile.counters) for profile in found) > 20
    assert any(profile.power_w for profile in found)
    assert any(profile.shared for profile in found)
    assert any(profile.left_out for profile in found)


def test_there_are_minutes_reported_once_and_reported_again() -> None:
    minutes = [minute for seed in range(1, 11, 2) for minute in World(seed).lived().undisturbed_minutes()]
    assert {minute.revision for minute in minutes} == {0, 1}
    assert len(minutes) > 100


def test_settled_runs_carry_what_a_rebuild_needs() -> None:
    world = World(FIRST)
    world.live()
    world.heal()
    runs = [msgspec.json.decode(value, type=Run) for _, value in world.records(CONFIG.topics.runs) if value]
    assert {run.run_id for run in runs if run.state == "COMPLETED"} == set(world.predicted.runs)
    assert all(run.run_id.startswith(SYSTEM) for run in runs)
