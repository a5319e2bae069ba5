"""Profiles in the fold: what is stored goes on as if nothing had been, wherever it was cut, and faults stay by themselves."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.errors import ConfigError
from processors.contracts.events import JournalEvent, JournalRecord
from processors.contracts.hosts import Profile
from processors.pipeline.host_state import ARRAYS
from processors.pipeline.shard import Shard
from tests.kit.agent_topics import host_states
from tests.kit.profiled_hosts import SYSTEM, Resources, ended, grew, in_time, level, minute, started, tick, total

SETTINGS = Config.model_validate({"hosts": {"quiet_s": 300.0}})
RUN_MAX_BYTES = 400_000


def resources(host: int, number: int) -> Resources:
    found = {
        "power_w>system": level(300.0 + host, low=0.0 if number % 7 == 3 else None),
        "counter_delta>cycles": grew(6e10 + host + number),
        "energy_total>cpu:0": total((200_000.0 + 7000.0 * number) % 262_143.328850),
        "energy_total>cpu:1": total((100_000.0 + 7100.0 * number) % 262_143.328850),
    }
    return found | ({f"counter_delta>cycles#{number // 6}": grew(3e10)} if host == 1 else {})


def life() -> list[JournalEvent]:
    """Return forty minutes of hosts that come and go, with jobs that are told in time, late, twice, in part and never."""
    reported: list[Any] = [
        minute(f"nid{host}", number, resources(host, number), revision=revision)
        for number in range(40)
        for host in range(4)
        if (number + host) % 9
        for revision in range(1 + (number % 5 == 2))
    ]
    jobs: list[JournalEvent] = [
        started("0", 0, "nid[0-1]"),
        ended("0", 0, 6.5),
        started("1", 6.5, "nid[0-2]"),
        started("2", 9, "nid2"),
    ]
    jobs += [ended("2", 9, 11), ended("1", 6.5, 12), started("3", 12.5, "nid[0-3]"), started("3", 20, "nid[0-3]")]
    return in_time([*reported, *jobs, ended("3", 20, 34), ended("9", 15, 18, "nid3")], until=42)


EVENTS = life()


def folded(shard: Shard, events: list[JournalEvent]) -> Iterator[Profile | None]:
    for event in events:
        for sent in shard.fold(JournalRecord(event)):
            profile = getattr(sent, "profile", None)
            if profile is not None:
                yield profile


def retained(shard: Shard) -> dict[str, bytes]:
    return {key: value for key, value in host_states(shard).items() if value is not None}


def again(shard: Shard) -> Shard:
    """Return a shard that knows what a checkpoint of this one holds."""
    stored = {key: value for key, value in shard.unsaved(with_hosts=True).states().items() if value is not None}
    twin = make_shard(SETTINGS)
    twin.restore(stored, shard.now_ms, shard.hosts.state.now_ms)
    return twin


def test_settled_runs_carry_their_profiles() -> None:
    found = list(folded(make_shard(SETTINGS), EVENTS))
    assert len(found) >= 3
    assert [bool(each and each.power_w) for each in found].count(True) >= 3


def test_a_run_that_ended_before_an_hour_without_ticks_settles_with_its_profile() -> None:
    reported = [minute("nid0", number, resources(0, number)) for number in range(8)]
    before = in_time([*reported, started("0", 0, "nid0"), ended("0", 0, 7)], until=8)
    (found,) = folded(make_shard(SETTINGS), [*before, tick(68), tick(69)])
    assert found is not None
    assert found.minutes == 7


def test_a_start_that_comes_again_after_its_run_was_settled_shares_no_host_with_the_next_job() -> None:
    reported = [minute("nid0", number, resources(0, number)) for number in range(40)]
    jobs: list[JournalEvent] = [started("0", 0, "nid0"), ended("0", 0, 7), started("1", 30, "nid0"), ended("1", 30, 38)]
    events = in_time([*reported, *jobs], until=60)
    again_at = events.index(next(event for event in events if event == jobs[2]))
    expected = list(folded(make_shard(SETTINGS), events))
    found = list(folded(make_shard(SETTINGS), [*events[:again_at], jobs[0], *events[again_at:]]))
    assert [profile.minutes for profile in found if profile] == [7, 8]
    assert found == expected


@pytest.mark.parametrize("cut", range(3, len(EVENTS), 31))
def test_what_is_stored_goes_on_as_if_nothing_had_been(cut: int) -> None:
    whole, part = make_shard(SETTINGS), make_shard(SETTINGS)
    expected = list(folded(whole, EVENTS))
    before = list(folded(part, EVENTS[:cut]))
    twin = again(part)
    for event in EVENTS[cut - part.hosts.waiting : cut]:
        twin.fold_hosts(JournalRecord(event))
    after = list(folded(twin, EVENTS[cut:]))
    assert before + after == expected
    assert {key: value for key, value in (retained(part) | host_states(twin)).items() if value is not None} == retained(
        whole
    )


def test_no_record_is_larger_than_a_broker_takes() -> None:
    shard = make_shard(Config())
    names = {f"counter_delta>{'c' * 40}{number}": grew(6e10) for number in range(200)}
    many = [minute(f"nid{host}", number, names) for host in range(100) for number in range(2)]
    list(folded(shard, in_time(many, until=4)))
    sizes = {key: len(value or b"") for key, value in host_states(shard).items()}
    assert {key.partition("/")[0] for key in sizes} >= {"profile_readings", "profile_names", "profile_meters"}
    assert max(sizes.values()) < RUN_MAX_BYTES


def test_a_job_on_more_hosts_than_can_be_followed_has_no_profile_and_no_record_of_its_lists() -> None:
    shard, lists = make_shard(Config()), tuple(f"nid[{i}0001-{i}9000]" for i in range(1, 4))
    jobs: list[JournalEvent] = [
        started("1", 0, *lists),
        started("2", 0, "x" * 500_000),
        ended("1", 0, 5),
        ended("2", 0, 5),
    ]
    assert not list(folded(shard, in_time([minute("nid10001", 0, resources(0, 0)), *jobs], until=9)))
    assert all(len(value) < 1_000 for key, value in retained(shard).items() if key.startswith("profile_run"))


@pytest.mark.parametrize("kind", ARRAYS)
def test_damage_is_refused(kind: str) -> None:
    shard = make_shard(SETTINGS)
    list(folded(shard, EVENTS[:160]))
    stored = retained(shard)
    hit = next(key for key in stored if key.startswith(kind))
    with pytest.raises(ConfigError, match="scalewatch rebuild"):
        make_shard(SETTINGS).restore(stored | {hit: stored[hit][:-20]}, shard.now_ms, shard.hosts.state.now_ms)


def test_what_does_not_fit_the_hosts_that_are_known_is_refused() -> None:
    shard = make_shard(SETTINGS)
    list(folded(shard, EVENTS[:160]))
    stored = {key: value for key, value in retained(shard).items() if "profile_hosts" not in key}
    with pytest.raises(ConfigError, match="scalewatch rebuild"):
        make_shard(SETTINGS).restore(stored, shard.now_ms, shard.hosts.state.now_ms)


def test_states_from_before_profiles_are_put_back() -> None:
    shard = make_shard(SETTINGS)
    list(folded(shard, EVENTS[:160]))
    stored = {
        key: value for key, value in shard.unsaved(with_hosts=True).states().items() if value and "profile" not in key
    }
    twin = make_shard(SETTINGS)
    twin.restore(stored, shard.now_ms, shard.hosts.state.now_ms)
    list(folded(twin, EVENTS[160:]))
    assert twin.hosts.profile(f"{SYSTEM}/3", "") is None
    assert twin.sizes()["profile_meters"] > 0
