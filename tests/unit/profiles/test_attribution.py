"""Whose the minutes of hosts are: of the one job that was there all the time, whatever came late, twice or never."""

import pytest

from processors.contracts.events import HostMinute, JournalEvent
from processors.contracts.settings import ProfileSettings
from tests.kit.profiled_hosts import (
    Resources,
    at,
    ended,
    folded,
    grew,
    in_time,
    level,
    minute,
    of_run,
    profile,
    started,
    tick,
)

POWER = "power_w>system"
CYCLES = "counter_delta>cycles"


def busy(watts: float = 400.0, cycles: float = 6e10) -> Resources:
    return {POWER: level(watts), CYCLES: grew(cycles)}


def minutes(hosts: tuple[str, ...], first: int, last: int, watts: float = 400.0) -> list[HostMinute]:
    return [minute(host, number, busy(watts)) for number in range(first, last) for host in hosts]


def test_a_run_has_the_mean_power_and_the_rates_of_its_hosts() -> None:
    hosts = ("nid1", "nid2")
    reported: list[JournalEvent] = [started("1", 0, "nid[1-2]"), *minutes(hosts, -3, 12), ended("1", 0, 10)]
    found = of_run(folded(*in_time(reported, until=13)))
    assert (found.hosts, found.minutes, found.expected, found.coverage) == (2, 20, 20, 1.0)
    assert (found.power_w, found.energy_j) == ({"system": 400.0}, {"system": 400.0 * 2 * 600})
    assert (found.counters, found.measured) == ({"cycles": 1e9}, {"system": 1.0})
    assert (found.short, found.retrospective, found.shared, found.left_out) == (False, False, 0, {})


def test_what_hosts_did_before_and_after_a_run_is_not_its_own() -> None:
    idle, work = minutes(("nid1",), 0, 20, watts=100.0), minutes(("nid1",), 5, 9, watts=500.0)
    reported = {each.minute_ms: each for each in (*idle, *work)}
    events: list[JournalEvent] = [started("1", 4.5, "nid1"), *reported.values(), ended("1", 4.5, 9.5)]
    found = of_run(folded(*in_time(events, until=13)), start=4.5)
    assert (found.minutes, found.expected, found.power_w) == (4, 4, {"system": 500.0})


def test_a_long_run_has_all_its_minutes_when_it_settles() -> None:
    reported: list[JournalEvent] = [started("1", 0, "nid1"), *minutes(("nid1",), 0, 100), ended("1", 0, 100)]
    found = of_run(folded(*in_time(reported, until=103)))
    assert (found.minutes, found.power_w) == (100, {"system": 400.0})


def test_minutes_with_two_jobs_on_a_host_are_nobodys_and_are_counted() -> None:
    reported: list[JournalEvent] = [
        started("1", 0, "nid[1-2]"),
        started("2", 3, "nid2"),
        *minutes(("nid1", "nid2"), 0, 12),
    ]
    reported += [ended("2", 3, 6), ended("1", 0, 10)]
    hosts = folded(*in_time(reported, until=14))
    found, other = of_run(hosts), of_run(hosts, "2", 3)
    assert (found.minutes, found.shared, found.expected) == (17, 3, 20)
    assert (other.minutes, other.shared, other.expected, other.power_w) == (0, 3, 3, {})


def test_what_is_reported_one_job_is_its_own_on_a_shared_node() -> None:
    own = [minute("nid1", n, {**busy(), f"{CYCLES}#1": grew(1.2e10), f"{CYCLES}#2": grew(3e10)}) for n in range(12)]
    reported: list[JournalEvent] = [
        started("1", 0, "nid1"),
        started("2", 0, "nid1"),
        *own,
        ended("1", 0, 10),
        ended("2", 0, 10),
    ]
    hosts = folded(*in_time(reported, until=14))
    assert of_run(hosts).counters == {"cycles": 2e8}
    assert of_run(hosts, "2").counters == {"cycles": 5e8}
    assert (of_run(hosts).coverage, of_run(hosts).shared) == (1.0, 0)


def test_hosts_that_report_nothing_lower_the_coverage_and_no_mean() -> None:
    reported: list[JournalEvent] = [
        started("1", 0, "nid[1-4]"),
        *minutes(("nid1", "nid2", "nid3"), 0, 12),
        ended("1", 0, 10),
    ]
    found = of_run(folded(*in_time(reported, until=13)))
    assert (found.minutes, found.expected, found.power_w) == (30, 40, {"system": 400.0})
    assert found.energy_j == {"system": 400.0 * 4 * 600}


def test_a_run_of_whose_hosts_nothing_was_ever_reported_has_no_profile() -> None:
    reported: list[JournalEvent] = [started("1", 0, "nid9"), *minutes(("nid1",), 0, 12), ended("1", 0, 10)]
    assert profile(folded(*in_time(reported, until=13)), "1", 0) is None


def test_minutes_that_come_twice_or_in_another_order_count_once() -> None:
    reported = minutes(("nid1",), 0, 12)
    once = folded(*in_time([started("1", 0, "nid1"), *reported, ended("1", 0, 10)], until=13))
    late_first: list[JournalEvent] = [
        started("1", 0, "nid1"),
        *reversed(reported),
        *reported,
        ended("1", 0, 10),
        tick(13),
    ]
    assert of_run(folded(*late_first)) == of_run(once)


def test_the_highest_revision_of_a_minute_counts_whatever_the_order() -> None:
    first, second = busy(400.0), busy(500.0)
    for revisions in ((0, 1), (1, 0), (1, 0, 0)):
        again = [minute("nid1", n, second if each else first, revision=each) for each in revisions for n in range(3)]
        found = of_run(folded(started("1", 0, "nid1"), *again, ended("1", 0, 3), tick(8)))
        assert found.power_w == {"system": 500.0}


def test_samples_of_two_sources_are_one_minute() -> None:
    reported = [
        minute("nid1", n, {CYCLES: grew(3e10)}, source=source) for n in range(5) for source in ("load/0", "load/1")
    ]
    found = of_run(folded(*in_time([started("1", 0, "nid1"), *reported, ended("1", 0, 5)], until=9)))
    assert (found.minutes, found.counters) == (5, {"cycles": 1e9})


def test_a_start_that_is_reported_late_takes_minutes_that_were_closed() -> None:
    reported = in_time([*minutes(("nid1",), 0, 12), ended("1", 0, 10)], until=20)
    place = next(i for i, event in enumerate(reported) if event == tick(6))
    found = of_run(folded(*reported[:place], started("1", 0, "nid1"), *reported[place:]))
    assert (found.minutes, found.retrospective) == (10, False)


def test_an_end_that_is_reported_late_leaves_minutes_after_it_out() -> None:
    reported = in_time(
        [started("1", 0, "nid1"), *minutes(("nid1",), 0, 10, 400.0), *minutes(("nid1",), 10, 16, 100.0)], until=16
    )
    found = of_run(folded(*reported, ended("1", 0, 10), tick(17)))
    assert (found.minutes, found.power_w) == (10, {"system": 400.0})


def test_an_end_that_is_reported_after_its_minutes_were_mixed_with_others_gives_no_profile() -> None:
    reported = in_time([started("1", 0, "nid1"), *minutes(("nid1",), 0, 40)], until=40)
    assert profile(folded(*reported, ended("1", 0, 10), tick(41)), "1", 0) is None


def test_where_only_ends_are_reported_minutes_are_given_in_retrospect(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[JournalEvent] = [*minutes(("nid1", "nid2"), 0, 40), ended("1", 0, 30, "nid[1-2]")]
    found = of_run(folded(*in_time(reported, until=40)))
    assert (found.retrospective, found.minutes, found.coverage) == (True, 60, 1.0)
    monkeypatch.setattr(ProfileSettings, "attribution_horizon_s", 600.0)
    longer = of_run(folded(*in_time(reported, until=40)))
    assert 0 < longer.coverage < 0.5, "of what was longer ago nothing is kept"


def test_a_job_whose_start_was_lost_has_what_is_kept_of_its_hosts() -> None:
    reported: list[JournalEvent] = [started("0", -60, "nid9"), *minutes(("nid1",), 0, 12), ended("1", 4, 10, "nid1")]
    found = of_run(folded(*in_time(reported, until=14)), start=4)
    assert (found.retrospective, found.minutes, found.expected) == (True, 6, 6)


def test_a_requeued_job_has_a_profile_for_each_run() -> None:
    reported: list[JournalEvent] = [
        started("1", 0, "nid1"),
        *minutes(("nid1",), 0, 5, 300.0),
        *minutes(("nid1",), 5, 12, 500.0),
    ]
    hosts = folded(*in_time([*reported, ended("1", 0, 5), started("1", 5, "nid1"), ended("1", 5, 10)], until=14))
    assert [of_run(hosts, "1", start).power_w["system"] for start in (0, 5)] == [300.0, 500.0]


def test_a_run_that_was_replaced_without_an_end_gets_no_later_minutes() -> None:
    reported: list[JournalEvent] = [
        started("1", 0, "nid1"),
        *minutes(("nid1",), 0, 5, 300.0),
        *minutes(("nid1",), 5, 12, 500.0),
    ]
    hosts = folded(*in_time([*reported, started("1", 5, "nid1"), ended("1", 5, 10)], until=14))
    assert [of_run(hosts, "1", start).power_w["system"] for start in (0, 5)] == [300.0, 500.0]


def test_a_corrected_end_corrects_the_profile() -> None:
    reported = in_time([started("1", 0, "nid1"), *minutes(("nid1",), 0, 12), ended("1", 0, 10)], until=13)
    hosts = folded(*reported, ended("1", 0, 8), tick(13.5))
    assert (of_run(hosts).minutes, of_run(hosts).energy_j) == (8, {"system": 400.0 * 480})


def test_host_lists_may_name_hosts_twice_and_in_every_syntax() -> None:
    hosts = [f"nid{number:03}" for number in range(1, 5)] + ["login1"]
    reported = [minute(host, n, busy()) for host in hosts for n in range(5)]
    lists = ("nid[001-003,003]", "nid002,nid004", "login1")
    found = of_run(folded(*in_time([started("1", 0, *lists), *reported, ended("1", 0, 5)], until=9)))
    assert (found.hosts, found.minutes) == (5, 25)


@pytest.mark.parametrize(("start", "end", "watts"), [(0.25, 0.75, 300.0), (0.5, 1.5, 375.0)])
def test_a_run_within_a_minute_or_two_is_reported_by_parts_of_minutes(start: float, end: float, watts: float) -> None:
    reported = [minute("nid1", 0, busy(300.0)), minute("nid1", 1, busy(450.0))]
    found = of_run(
        folded(*in_time([started("1", start, "nid1"), *reported, ended("1", start, end)], until=8)), start=start
    )
    assert (found.short, found.power_w["system"], found.coverage) == (True, watts, 1.0)


def test_runs_are_forgotten_and_leave_nothing_behind() -> None:
    reported: list[JournalEvent] = [started("1", 0, "nid1"), *minutes(("nid1",), 0, 12), ended("1", 0, 10)]
    hosts = folded(*in_time(reported, until=120))
    assert profile(hosts, "1", 0) is None
    assert not any(hosts.state.profiles.sizes()[kind] for kind in ("profile_sums", "profile_minutes", "profile_meters"))
    assert at(0) not in hosts.state.profiles.retained.minutes
