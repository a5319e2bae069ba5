"""Hosts in the fold raise alerts: several odd resources make one, a rack makes one, a straggler makes one."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from agent.app.compose import make_shard
from agent.config.load import loads
from agent.config.tree import Config
from processors.contracts.alerts import PeerDifference, RackAnomaly
from processors.contracts.events import (
    Evidence,
    HostMinute,
    HostState,
    JobStarted,
    JournalEvent,
    JournalRecord,
    Tick,
)
from processors.contracts.hosts import HostCounts
from processors.contracts.outputs import Alert
from processors.hosts.rows import Block
from processors.pipeline.host_state import COLUMNS
from processors.pipeline.shard import Shard
from tests.kit.agent_topics import host_states
from tests.kit.host_minutes import MINUTE_MS, SYSTEM, minute

RESOURCES = ("cpu_available", "load1", "memory_free", "power", "network")
SOURCE = "load/0"
QUIET = 120  # minutes in which hosts are learned
SETTINGS = {"learn_s": 3600, "keep_firing_s": 600, "not_again_s": 0}


def new(**alerts: object) -> Shard:
    return make_shard(Config.model_validate({"alerts": {"host_anomaly": SETTINGS, **alerts}}))


def predicted(host: str, number: int, odd: Iterable[str] = ()) -> HostMinute:
    """A quiet minute of a host, as every ten minutes; what is odd is ten times as large, much later a hundred."""
    rng = np.random.default_rng([number % 10, *host.encode()])
    factor = 10.0 if number < QUIET + 50 else 100.0
    means = {name: (1.0 + rng.random(6)) * (factor if name in odd else 1.0) for name in RESOURCES}
    return minute(host, number, SOURCE, **{name: tuple(values.tolist()) for name, values in means.items()})


def story(
    hosts: Iterable[str], minutes: range, odd: Mapping[tuple[str, int], Iterable[str]] | None = None
) -> Iterator[JournalEvent]:
    """Minutes of hosts, each told 20 s after its end, and ticks every 10 s."""
    for number in minutes:
        for second in range(0, 60, 10):
            yield Tick("", time_ms=number * MINUTE_MS + second * 1000)
            if second == 20:
                yield from (predicted(host, number - 1, (odd or {}).get((host, number - 1), ())) for host in hosts)


def alerts(shard: Shard, events: Iterable[JournalEvent]) -> list[Alert]:
    found = [message for event in events for message in shard.fold(JournalRecord(event))]
    assert not [name for name in shard.tallied() if name[0] == "fault"]
    return [message for message in found if isinstance(message, Alert)]


def named(found: Iterable[Alert]) -> list[tuple[str, str, str]]:
    return [(one.labels["alertname"], one.labels.get("host", one.labels.get("rack", "")), one.status) for one in found]


@pytest.fixture(scope="module")
def learned() -> dict[str, bytes]:
    """The state of a shard that knows twelve hosts of two racks."""
    shard = new()
    assert alerts(shard, story(XNAMES, range(1, QUIET))) == []
    return stored(shard)


XNAMES = [f"x{1000 + rack}c0s{node}b0n0" for rack in range(2) for node in range(6)]
FIRST = XNAMES[0]


def stored(shard: Shard, before: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """Return the states after a checkpoint, which writes those that changed."""
    states = {**(before or {}), **host_states(shard)}
    shard.confirm(with_hosts=True)
    return {key: value for key, value in states.items() if value is not None}


def restored(states: dict[str, bytes], now_ms: int = (QUIET - 1) * MINUTE_MS + 50_000, **settings: object) -> Shard:
    shard = new(**settings)
    shard.state.now_ms = now_ms
    shard.hosts.restore(states, now_ms)
    return shard


def test_four_odd_resources_of_a_host_make_one_alert_that_lists_them_and_ends_by_itself(
    learned: dict[str, bytes],
) -> None:
    odd = {(FIRST, QUIET + 3): ("load1", "power"), (FIRST, QUIET + 5): ("network", "memory_free")}
    found = alerts(restored(learned), story(XNAMES, range(QUIET, QUIET + 25), odd))
    assert named(found) == [("HostAnomaly", FIRST, "firing"), ("HostAnomaly", FIRST, "resolved")]
    assert found[0].labels == {"alertname": "HostAnomaly", "severity": "warning", "system": SYSTEM, "host": FIRST}
    summary = found[0].annotations["summary"]
    assert summary.startswith(f"{FIRST} on exa: 4 of 5 resources became anomalous at 02:03 on 1 Jan (UTC): load1 ")
    assert len(summary) <= 300
    assert "until then)" in summary
    assert set(found[0].evidence.detail) == {"load1", "power", "network", "memory_free"}
    assert found[0].evidence.observed is not None
    assert found[0].evidence.high is not None
    assert found[0].evidence.observed > 5 > found[0].evidence.high


def test_three_odd_resources_are_not_enough_nor_are_four_far_apart(learned: dict[str, bytes]) -> None:
    odd = {(FIRST, QUIET + 3): ("load1", "power", "network"), (FIRST, QUIET + 20): ("memory_free",)}
    assert alerts(restored(learned), story(XNAMES, range(QUIET, QUIET + 25), odd)) == []


def test_a_rack_makes_one_alert_in_the_place_of_its_hosts(learned: dict[str, bytes]) -> None:
    odd = {(host, QUIET + 3): RESOURCES for host in XNAMES[:5]}
    found = alerts(restored(learned), story(XNAMES, range(QUIET, QUIET + 8), odd))
    assert named(found) == [("RackAnomaly", "x1000", "firing")]
    assert found[0].severity == "critical"
    assert (
        found[0].annotations["summary"].startswith("5 of 6 hosts of rack x1000 on exa have been anomalous since 02:03")
    )
    assert found[0].evidence.detail["power"] == "on 5 hosts"
    assert (
        found[0].annotations["description"].endswith("Rack guessed from host names. Set `reference.racks` to be sure.")
    )


def test_hosts_that_were_reported_before_join_the_alert_of_their_rack(learned: dict[str, bytes]) -> None:
    odd = {(host, QUIET + 3 + 3 * (host != FIRST)): RESOURCES for host in XNAMES[:5]}
    found = alerts(restored(learned), story(XNAMES, range(QUIET, QUIET + 12), odd))
    assert named(found) == [
        ("HostAnomaly", FIRST, "firing"),
        ("RackAnomaly", "x1000", "firing"),
        ("HostAnomaly", FIRST, "resolved"),
    ]
    assert found[2].annotations["summary"] == f"{FIRST} is part of the anomaly of rack x1000 on exa."
    assert found[2].annotations["description"].startswith(f"The alert was: {FIRST} on exa: 5 of 5 resources ")


def test_a_few_hosts_of_a_rack_are_reported_one_by_one(learned: dict[str, bytes]) -> None:
    odd = {(host, QUIET + 3): RESOURCES for host in XNAMES[:2]}
    found = alerts(restored(learned), story(XNAMES, range(QUIET, QUIET + 8), odd))
    assert sorted(named(found)) == [("HostAnomaly", host, "firing") for host in XNAMES[:2]]


def test_racks_follow_the_configured_pattern_else_the_partition(learned: dict[str, bytes]) -> None:
    odd = {(host, QUIET + 3): RESOURCES for host in XNAMES if "s0" not in host}
    job = JobStarted(SYSTEM, "9", "exa/9@0", 0, Evidence(hosts=tuple(XNAMES), partition="standard"))
    shard = restored(learned, rack_anomaly={"pattern": r"^(rack\d)-"})
    shard.fold(JournalRecord(job))
    found = alerts(shard, story(XNAMES, range(QUIET, QUIET + 8), odd))
    assert [one.labels.get("partition") for one in found] == ["standard"]


def test_racks_follow_the_list_of_the_centre_whatever_hosts_are_called(
    learned: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "racks.csv").write_text("".join(["host,rack\n", *(f"{host},door\n" for host in XNAMES[4:10])]))
    shard = make_shard(
        loads(
            "reference: {racks: racks.csv}\nalerts: {host_anomaly: {learn_s: 3600}}",
            folder=tmp_path,
        )
    )
    shard.state.now_ms = (QUIET - 1) * MINUTE_MS + 50_000
    shard.hosts.restore(learned, shard.state.now_ms)
    odd = {(host, QUIET + 3): RESOURCES for host in XNAMES[4:9]}
    found = alerts(shard, story(XNAMES, range(QUIET, QUIET + 8), odd))
    assert named(found) == [("RackAnomaly", "door", "firing")]
    assert "5 of 6 hosts of rack door on exa" in found[0].annotations["summary"]
    assert "Rack guessed" not in found[0].annotations["description"]


def test_a_host_out_of_service_is_mute_and_its_open_alert_ends_with_the_reason(learned: dict[str, bytes]) -> None:
    odd = {(FIRST, QUIET + 3): RESOURCES, (FIRST, QUIET + 12): RESOURCES, (FIRST, QUIET + 30): RESOURCES}
    shard = restored(learned)
    found = alerts(shard, story(XNAMES, range(QUIET, QUIET + 8), odd))
    assert named(found) == [("HostAnomaly", FIRST, "firing")]
    found = alerts(shard, [HostState(SYSTEM, FIRST, "drain", (QUIET + 8) * MINUTE_MS)])
    found += alerts(shard, story(XNAMES, range(QUIET + 8, QUIET + 20), odd))
    assert named(found) == [("HostAnomaly", FIRST, "resolved")]
    assert found[0].annotations["summary"] == (
        f"{FIRST} is out of service (drain). It raises no alerts until it is back."
    )
    found = alerts(shard, [HostState(SYSTEM, FIRST, "up", (QUIET + 20) * MINUTE_MS)])
    found += alerts(shard, story(XNAMES, range(QUIET + 20, QUIET + 40), odd))
    assert found == [], "it is back, and left alone for a while"
    odd = {(FIRST, QUIET + 55): RESOURCES}
    found = alerts(shard, story(XNAMES, range(QUIET + 40, QUIET + 60), odd))
    assert named(found) == [("HostAnomaly", FIRST, "firing")]


def test_a_new_host_raises_no_alert(learned: dict[str, bytes]) -> None:
    odd = {("nid7", QUIET + 45): RESOURCES}
    assert alerts(restored(learned), story([*XNAMES, "nid7"], range(QUIET, QUIET + 50), odd)) == []


@pytest.mark.parametrize(("ending", "expected"), [("_total", []), ("", [("HostAnomaly", "nid7", "firing")])])
def test_what_only_ever_grows_is_no_anomaly(
    ending: str, expected: list[tuple[str, str, str]], learned: dict[str, bytes]
) -> None:
    shard, found = restored(learned, host_anomaly={**SETTINGS, "learn_s": 0}), list[Alert]()
    for number in range(QUIET, QUIET + 120):
        grown = {
            f"{name}{ending}": (2.0 ** max(number - QUIET - 100, 0),) * 6
            for name in ("received", "sent", "read", "written")
        }
        first, last = Tick("", time_ms=number * MINUTE_MS), Tick("", time_ms=number * MINUTE_MS + 30_000)
        found += alerts(shard, [first, minute("nid7", number, SOURCE, **grown), last])
    assert named(found) == expected


def test_history_raises_no_alert(learned: dict[str, bytes]) -> None:
    odd = {(FIRST, QUIET + 3): RESOURCES}
    shard = restored(learned, run_age_max_s=30)
    assert alerts(shard, story(XNAMES, range(QUIET, QUIET + 8), odd)) == []


def test_a_switched_off_alert_is_not_raised(learned: dict[str, bytes]) -> None:
    odd = {(FIRST, QUIET + 3): RESOURCES}
    shard = restored(learned, host_anomaly={**SETTINGS, "enabled": False})
    assert alerts(shard, story(XNAMES, range(QUIET, QUIET + 8), odd)) == []


AT_ONCE = {"false_per_day": 1e9}  # however long spells of load usually last
HOURS_LATER = QUIET + 240


def test_a_spell_of_load_is_no_straggler_and_one_that_lasts_for_hours_is(learned: dict[str, bytes]) -> None:
    shard = restored(learned)
    job = JobStarted(SYSTEM, "812", "exa/812@0", QUIET * MINUTE_MS, Evidence(hosts=tuple(XNAMES)))
    shard.fold(JournalRecord(job))
    spell = {(FIRST, number): ("power",) for number in range(QUIET + 8, QUIET + 38)}
    assert alerts(shard, story(XNAMES, range(QUIET, QUIET + 45), spell)) == []
    lasting = {(FIRST, number): ("power",) for number in range(QUIET + 45, HOURS_LATER)}
    found = alerts(shard, story(XNAMES, range(QUIET + 45, HOURS_LATER), lasting))
    assert named(found) == [("PeerDifference", FIRST, "firing")]


def test_a_slow_host_of_a_job_is_a_straggler_until_it_is_like_the_others(
    learned: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PeerDifference, "clear_s", 120)
    slow = {(FIRST, number): ("power",) for number in range(QUIET + 8, QUIET + 22)}
    shard = restored(learned, peer_difference=AT_ONCE)
    job = JobStarted(SYSTEM, "812", "exa/812@0", QUIET * MINUTE_MS, Evidence(hosts=tuple(XNAMES)))
    shard.fold(JournalRecord(job))
    found = alerts(shard, story(XNAMES, range(QUIET, QUIET + 30), slow))
    assert named(found) == [("PeerDifference", FIRST, "firing"), ("PeerDifference", FIRST, "resolved")]
    assert (
        found[0]
        .annotations["summary"]
        .startswith(f"{FIRST} has differed from the other hosts of job exa/812 since 02:10 on 1 Jan (UTC): power 1")
    )
    assert found[0].evidence.detail["job"] == "exa/812"


def with_power(events: Iterable[JournalEvent]) -> Iterator[JournalEvent]:
    """Return the events, and the power of each host in each minute; the first host draws three times as much."""
    for event in events:
        yield event
        if isinstance(event, HostMinute):
            power_w = 300.0 if event.host == FIRST else 100.0 + XNAMES.index(event.host)
            yield minute(event.host, event.minute_ms // MINUTE_MS, "power/0", power_w=(power_w,) * 6)


@pytest.mark.parametrize("is_anomalous", [False, True])
def test_an_anomaly_of_a_host_replaces_the_alert_about_its_power_alone(*, is_anomalous: bool) -> None:
    odd = {(FIRST, QUIET + 15): RESOURCES} if is_anomalous else {}
    shard = new(peer_difference={**AT_ONCE, "resources": "power_w"})
    shard.fold(JournalRecord(JobStarted(SYSTEM, "812", "exa/812@0", 0, Evidence(hosts=tuple(XNAMES)))))
    found = alerts(shard, with_power(story(XNAMES, range(1, QUIET + 25), odd)))
    assert named(found)[0] == ("PeerDifference", FIRST, "firing")
    folded = [("HostAnomaly", FIRST, "firing"), ("PeerDifference", FIRST, "resolved")]
    assert named(found)[1:3] == (folded if is_anomalous else [])


def test_an_idle_host_unlike_the_idle_ones_of_its_partition_is_reported(learned: dict[str, bytes]) -> None:
    shard = restored(learned, peer_difference=AT_ONCE)
    evidence = Evidence(hosts=tuple(XNAMES), partition="standard")
    events = [JobStarted(SYSTEM, "1", "exa/1@0", 0, evidence), JobStarted(SYSTEM, "1", "exa/1@9", 9, Evidence())]
    for event in events:
        shard.fold(JournalRecord(event))
    left_over = {(FIRST, number): ("power",) for number in range(QUIET, QUIET + 15)}
    found = alerts(shard, story(XNAMES, range(QUIET, QUIET + 15), left_over))
    assert "the other idle hosts of its partition" in found[0].annotations["summary"]


def test_a_restart_in_the_middle_gives_the_same_alerts_and_the_same_state(learned: dict[str, bytes]) -> None:
    odd = {(host, QUIET + 3 + 3 * (host != FIRST)): RESOURCES for host in XNAMES[:5]}
    events = list(story(XNAMES, range(QUIET, QUIET + 20), odd))
    whole, prediction = restored(learned), list[Alert]()
    expected = alerts(whole, events)
    shard, states = restored(learned), learned
    after_ticks = [i + 1 for i, event in enumerate(events) if isinstance(event, Tick)][7::9]
    for start, stop in pairwise([0, *after_ticks, len(events)]):
        prediction += alerts(shard, events[start:stop])
        states = stored(shard, states)
        shard = restored(states, shard.hosts.state.now_ms)
    assert prediction == expected
    assert states == stored(whole, learned)


def test_a_reader_sees_which_hosts_and_resources_are_anomalous(learned: dict[str, bytes]) -> None:
    odd = {(FIRST, QUIET + 3): ("load1", "power", "network", "memory_free")}
    shard = restored(learned)
    assert shard.hosts.alerts.anomalous() == []
    alerts(shard, story(XNAMES, range(QUIET, QUIET + 7), odd))
    host = shard.hosts.state.index.host(SYSTEM, FIRST)
    assert host is not None
    assert shard.hosts.alerts.anomalous() == [host]
    assert shard.hosts.alerts.since_ms(host, "load1") == (QUIET + 3) * MINUTE_MS
    assert shard.hosts.alerts.since_ms(host, "cpu_available") is None
    assert shard.hosts.alerts.host_score(host) is not None


def test_a_host_that_differs_from_its_peers_stays_so_for_readers_until_it_is_out_of_service(
    learned: dict[str, bytes],
) -> None:
    slow = {(FIRST, number): ("power",) for number in range(QUIET + 8, QUIET + 40)}
    shard = restored(learned, peer_difference=AT_ONCE)
    shard.fold(JournalRecord(JobStarted(SYSTEM, "812", "exa/812@0", QUIET * MINUTE_MS, Evidence(hosts=tuple(XNAMES)))))
    alerts(shard, story(XNAMES, range(QUIET, QUIET + 16), slow))
    alerts(shard, story([FIRST], range(QUIET + 16, QUIET + 36), slow))  # nobody to compare it with
    view = shard.views(SYSTEM).host(FIRST)
    assert view is not None
    assert view.finding is not None
    assert (view.finding.anomalous_since, view.finding.jobs) == (None, 1)
    assert (view.finding.differs_since or "") > "1970-01-01T02:07"
    assert [entry.resource for entry in view.resources if entry.anomalous_since] == ["power"]
    assert shard.first_hosts(1) == [(SYSTEM, FIRST)]

    drained = HostState(SYSTEM, FIRST, "drain", (QUIET + 36) * MINUTE_MS)
    for event in (drained, *story(XNAMES, range(QUIET + 36, QUIET + 39))):
        shard.fold(JournalRecord(event))
    assert shard.tallied()["resolved_out_of_service", "PeerDifference"] == 1
    view = shard.views(SYSTEM).host(FIRST)
    assert view is not None
    assert view.finding is None


def test_a_reader_sees_since_when_a_host_is_suspected(learned: dict[str, bytes]) -> None:
    odd = {(FIRST, QUIET + 3): ("load1", "power", "network", "memory_free")}
    shard = restored(learned)
    alerts(shard, story(XNAMES, range(QUIET, QUIET + 7), odd))
    views = [shard.hosts.views.host(SYSTEM, host) for host in XNAMES[:2]]
    assert [view.suspected_since if view else "" for view in views] == ["1970-01-01T02:03:00Z", None]
    alerts(shard, story(XNAMES, range(QUIET + 7, QUIET + 20)))
    later = shard.hosts.views.host(SYSTEM, FIRST)
    assert later is not None
    assert later.suspected_since is None


EVERY_MINUTES, DAY_MINUTES = 5, 1440  # how often a host of the long story is measured


def day(hosts: Iterable[str], number: int, broken: range = range(0), at: int = 0) -> Iterator[JournalEvent]:
    """A day of hosts measured every five minutes, whose load follows the hour; in the minutes `broken` a stray process runs on host `at`."""
    for minutes in range(number * DAY_MINUTES, (number + 1) * DAY_MINUTES, EVERY_MINUTES):
        yield Tick("", time_ms=minutes * MINUTE_MS)
        for place, host in enumerate(hosts):
            noise = np.random.default_rng([minutes, place]).normal(size=5)
            load = 2.0 + np.sin(2.0 * np.pi * minutes / DAY_MINUTES) + 0.2 * noise[0]
            steals = place == at and minutes in broken
            means = {
                "load1": 3.0 * load + 0.1 * noise[1] + (12.0 if steals else 0.0),
                "power": 100.0 * load + 5.0 * noise[2],
                "memory_free": 60.0 - 5.0 * load + noise[3] - (40.0 if steals else 0.0),
                "network": load + 0.2 * noise[4] + (6.0 if steals else 0.0),
            }
            yield minute(host, minutes, SOURCE, **{name: (value,) * 6 for name, value in means.items()})


def test_with_the_shipped_settings_a_host_is_learned_for_three_days_and_only_what_is_broken_raises_an_alert() -> None:
    shard, hosts = make_shard(Config()), XNAMES[:4]
    early = range(DAY_MINUTES + 600, DAY_MINUTES + 660)
    assert alerts(shard, chain(day(hosts, 0), day(hosts, 1, early, at=1), day(hosts, 2))) == []
    view = shard.hosts.views.host(SYSTEM, hosts[0])
    assert view is not None
    assert view.learned_until == "1970-01-04T00:00:00Z"
    assert alerts(shard, day(hosts, 3)) == []
    late = range(4 * DAY_MINUTES + 600, 4 * DAY_MINUTES + 660)
    found = alerts(shard, chain(day(hosts, 4, late), day(hosts, 5)))
    assert named(found) == [("HostAnomaly", hosts[0], "firing"), ("HostAnomaly", hosts[0], "resolved")]
    assert shard.hosts.views.counts().learning == 0


def test_new_hosts_are_counted_while_they_are_learned_and_tell_until_when() -> None:
    shard = new()
    alerts(shard, story(XNAMES, range(1, 5)))
    counts = shard.hosts.views.counts()
    assert counts == HostCounts(known=12, learning=12, learned_until="1970-01-01T01:00:00Z")
    view = shard.hosts.views.host(SYSTEM, FIRST)
    assert view is not None
    assert view.learned_until == counts.learned_until
    alerts(shard, story(XNAMES, range(5, 64)))
    assert shard.hosts.views.counts() == HostCounts(known=12)


def test_what_an_older_agent_learned_of_anomalies_begins_anew_and_the_hosts_go_on(learned: dict[str, bytes]) -> None:
    newer = {kind.name for kind in COLUMNS if kind.version > 1}
    older = {
        key: msgspec.json.encode(msgspec.structs.replace(msgspec.json.decode(value, type=Block), version=1))
        if key.partition("/")[0] in newer
        else value
        for key, value in learned.items()
    }
    shard = restored(older)
    assert alerts(shard, story(XNAMES, range(QUIET, QUIET + 5))) == []
    assert shard.hosts.state.index.host(SYSTEM, FIRST) is not None


def minutes_of(found: Iterable[Alert]) -> list[tuple[str, str, str]]:
    """Return name, status and time of alerts, to the minute."""
    return [(one.labels["alertname"], one.status, (one.ends or one.time)[11:16]) for one in found]


def test_the_alert_of_a_rack_ends_soon_after_its_hosts_are_back(learned: dict[str, bytes]) -> None:
    held_up = {(host, QUIET + 3 + n): RESOURCES for host in XNAMES[:5] for n in range(20)}
    found = alerts(restored(learned), story(XNAMES, range(QUIET, QUIET + 50), held_up))
    assert minutes_of(found) == [("RackAnomaly", "firing", "02:05"), ("RackAnomaly", "resolved", "02:39")], (
        "a quarter of an hour after its last minute, 02:22, was told"
    )


def test_a_host_that_does_not_come_back_with_its_rack_has_an_alert_of_its_own(
    learned: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RackAnomaly, "clear_s", 300)
    held_up = {(host, QUIET + 3 + n): RESOURCES for host in XNAMES[:5] for n in range(10 + 30 * (host == FIRST))}
    shard = restored(learned)
    found = alerts(shard, story(XNAMES, range(QUIET, QUIET + 25), held_up))
    assert sorted(named(found)) == [
        ("HostAnomaly", FIRST, "firing"),
        ("RackAnomaly", "x1000", "firing"),
        ("RackAnomaly", "x1000", "resolved"),
    ]


def test_a_resource_that_was_odd_for_a_moment_before_has_no_part_in_when_a_host_became_odd(
    learned: dict[str, bytes],
) -> None:
    shard = restored(learned)
    odd: dict[tuple[str, int], Iterable[str]] = {(FIRST, QUIET + 8 + n): RESOURCES for n in range(8)}
    found = alerts(shard, story(XNAMES, range(QUIET, QUIET + 16), odd | {(FIRST, QUIET + 3): ("load1",)}))
    assert named(found) == [("HostAnomaly", FIRST, "firing")]
    assert "became anomalous at 02:08" in found[0].annotations["summary"]
    assert "since 02:08" in str(found[0].evidence.detail["load1"])
    view = shard.views(SYSTEM).host(FIRST)
    assert view is not None
    assert {str(one.anomalous_since)[11:16] for one in view.resources} == {"02:08"}
