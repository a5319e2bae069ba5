"""Everything that is kept has a bound; what goes is tallied, and what was said of it leaves."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from processors.contracts.events import Tick
from processors.contracts.settings import JobSettings
from processors.jobs import memory
from processors.pipeline.fits import SLICE
from tests.kit.scenario import Scenario, moment_ms

QUARTER_S = 900


def test_the_application_that_was_unused_for_longest_goes_with_its_prediction() -> None:
    centre = Scenario(run_time={"applications_max": 2})
    for minute, name in enumerate(("lammps", "gromacs", "lammps", "nektar")):
        centre.at(f"08:0{minute}").scales(name, 1, 2, 4, prefix=str(minute))
    centre.at("08:05")
    assert sorted(centre.topic("predictions")) == ["exa/lammps//nodes", "exa/nektar//nodes"]
    assert centre.tombstones("predictions") == ["exa/gromacs//nodes"]
    assert len(centre.shard.state.models) == 2
    assert centre.tally["bound:applications_max"] >= 1


def test_an_application_that_comes_back_begins_anew() -> None:
    centre = Scenario(run_time={"applications_max": 1})
    centre.at("08:00").scales("lammps", 1, 2, 4)
    centre.at("08:01").scales("gromacs", 1, 2)
    centre.at("08:02").ran("9", "lammps", 4, 100.0)
    assert centre.runs_of("lammps") == [("9", 4.0, 100.0)]


def test_a_correction_for_an_evicted_application_is_refused_and_counted() -> None:
    centre = Scenario(run_time={"applications_max": 1})
    event = centre.at("08:00").ran("1", "lammps", 4, 100.0)
    centre.at("08:01").scales("gromacs", 1, 2, state="FAILED", prefix="f")
    centre.scales("gromacs", 1, 2)
    centre.at("08:02").fold(msgspec.structs.replace(event, run_time_s=90.0))
    assert centre.runs_of("lammps") in ([], [("1", 4.0, 90.0)]), "at most once"


def test_names_that_only_ever_fail_do_not_pile_up() -> None:
    centre = Scenario(run_time={"applications_max": 10})
    centre.at("08:00")
    for i in range(100):
        centre.ran(f"{i}", f"typo-{'abcdefghij'[i % 10]}-{'abcdefghij'[i // 10]}", 4, 1.0, state="FAILED")
    centre.at("08:01")
    assert len(centre.shard.state.failures) <= 10
    assert len(centre.shard.state._application_ids) <= 10
    assert centre.tally["bound:applications_max"] > 80


def test_open_jobs_over_the_bound_are_settled_and_leave() -> None:
    centre = Scenario(jobs={"open_jobs_max": 3})
    centre.at("10:00")
    for i in range(4):
        centre.starts(f"running{i}", "lammps", nodes=4)
    centre.ran("ended", "lammps", 4, 60.0)
    centre.report_from("xalt", "unknown", executable="/opt/x")
    centre.at("10:00:10")
    assert len(centre.shard.state.jobs) == 3
    assert centre.tally["bound:open_jobs_max"] == 3
    assert len(centre.messages("runs")) == 1
    assert centre.tombstones("job_predictions") == ["exa/running0", "exa/running1"]


def test_the_memory_of_runs_drops_its_oldest_quarter_and_refuses_what_it_can_no_longer_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JobSettings, "deduplication_buckets_max", 8)
    centre = Scenario()
    centre.at("08:00")
    first = centre.ran("0", "lammps", 4, 60.0)
    for i in range(1, 40):
        centre.at_ms(moment_ms("08:00") + i * QUARTER_S * 1000).ran(f"{i}", "lammps", 4, 60.0)
    assert len(centre.shard.state.known_runs) == 8
    assert centre.tally["bound:deduplication_buckets_max"] == 32
    centre.fold(first)
    centre.fold(msgspec.structs.replace(first, run_time_s=50.0))
    assert centre.tally["refused:too_old"] == 2
    assert ("0", 4.0, 60.0) in centre.runs_of("lammps")
    assert len(centre.runs_of("lammps")) == 40


def test_what_was_forgotten_stays_forgotten_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JobSettings, "deduplication_buckets_max", 8)
    centre = Scenario()
    centre.at("08:00")
    first = centre.ran("0", "lammps", 4, 60.0)
    for i in range(1, 40):
        centre.at_ms(moment_ms("08:00") + i * QUARTER_S * 1000).ran(f"{i}", "lammps", 4, 60.0)
    centre.restart()
    centre.fold(first)
    assert centre.tally["refused:too_old"] == 1


def test_a_quarter_of_an_hour_takes_every_run_in_records_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "BUCKET_RUNS_MAX", 5)
    centre = Scenario()
    centre.at("08:00")
    events = [centre.ran(f"{i}", "lammps", 4, 60.0 + i) for i in range(64)]
    buckets = centre.shard.state.known_runs
    assert all(len(buckets.open(key)) <= 5 for key in buckets.keys())  # noqa: SIM118 - no mapping
    assert len(centre.runs_of("lammps")) == 64
    known = centre.state()
    for event in events:
        centre.fold(event)
    assert centre.tally["event:repeated"] == 64
    assert centre.state() == known
    centre.restart()
    centre.fold(msgspec.structs.replace(events[40], run_time_s=50.0))
    assert len(centre.runs_of("lammps")) == 64
    assert ("40", 4.0, 50.0) in centre.runs_of("lammps")


def test_runs_over_the_bound_of_all_drop_the_oldest_quarter_and_are_counted() -> None:
    centre = Scenario(jobs={"deduplication_runs_max": 40})
    first = centre.at("08:00").ran("first", "lammps", 4, 60.0)
    for quarter in range(1, 16):
        centre.at_ms(moment_ms("08:00") + quarter * QUARTER_S * 1000)
        for i in range(4):
            centre.ran(f"{quarter}-{i}", "lammps", 4, 60.0)
    buckets = centre.shard.state.known_runs
    assert 30 < sum(len(buckets.open(key)) for key in buckets.keys()) <= 40  # noqa: SIM118 - no mapping
    assert centre.tally["bound:deduplication_runs_max"] >= 10
    assert centre.tally["refused:too_old"] == 0
    centre.fold(first)
    assert centre.tally["refused:too_old"] == 1
    assert centre.shard.state.models.open("exa/lammps//nodes").observations == 61, "each run once"


def test_hosts_over_the_bound_leave_the_longest_unused_first_and_their_alerts_resolve() -> None:
    centre = Scenario(alerts={"failure_rate": {"hosts_max": 2}})
    centre.at("08:00")
    for i in range(30):
        centre.ran(f"good{i}", "lammps", 1, 60.0)
    for i in range(8):
        centre.ran(f"bad{i}", ("lammps", "gromacs")[i % 2], 1, 1.0, state="FAILED", hosts=("nid1",))
    assert centre.alerts("HostFailureRate") == ["firing"]
    for minute in range(2, 5):
        centre.at(f"08:0{minute}").ran(f"x{minute}", "nektar", 1, 1.0, state="FAILED", hosts=(f"nid{minute}",))
    centre.at("08:05")
    assert list(centre.shard.state.hosts.keys()) == ["exa/nid3", "exa/nid4"]
    assert centre.tally["bound:hosts_max"] == 2
    centre.at("09:10")
    assert centre.alerts("HostFailureRate") == ["firing", "resolved"]


def test_fits_over_the_bound_of_a_tick_wait_for_the_next_the_oldest_first() -> None:
    centre = Scenario(run_time={"fits_per_tick_max": 2})
    centre.at("08:00")
    names = ("lammps", "gromacs", "nektar", "vasp", "cp2k")
    for i, name in enumerate(names):
        centre.at_ms(moment_ms("08:00") + i * 10_000)
        centre.ran(f"{name}", name, 4, 60.0)
    for name in reversed(names):
        centre.ran(f"{name}2", name, 4, 61.0)
    reported: list[list[str]] = []
    for i in range(5, 9):
        before = len(centre.messages("predictions"))
        centre.at_ms(moment_ms("08:00") + i * 10_000)
        reported.append([prediction["application"] for prediction in centre.messages("predictions")[before:]])
    assert reported == [["lammps", "gromacs"], ["nektar", "vasp"], ["cp2k"], []]
    assert centre.tally["bound:fits_per_tick_max"] == 2


def test_a_tick_soon_after_another_does_its_share_of_the_fits_and_no_bound_was_hit() -> None:
    centre = Scenario(run_time={"fits_per_tick_max": 20})
    centre.at("08:00")
    for number in range(5):
        centre.ran(f"{number}", f"app{number}", 4, 60.0)
        centre.ran(f"{number}b", f"app{number}", 4, 61.0)
    reported: list[int] = []
    for i in range(1, 5):
        before = len(centre.messages("predictions"))
        centre.fold(Tick(system="", time_ms=moment_ms("08:00") + i * 1000))
        reported.append(len(centre.messages("predictions")) - before)
    assert reported == [2, 2, 1, 0]
    assert centre.tally["bound:fits_per_tick_max"] == 0


def test_questions_are_let_in_between_slices_of_a_tick_that_fits_many() -> None:
    centre = Scenario()
    centre.at("08:00")
    for number in range(2 * SLICE):
        centre.scales(f"app{'abcdefghij'[number % 10]}{'abcdefghij'[number // 10]}", 1, 2, prefix=f"{number}-")
    seen: list[int] = []
    models = centre.shard.state.models
    centre.shard.give_way_by(
        lambda: seen.append(sum(models.open(key).published is not None for key in list(models.keys())))
    )
    centre.at("08:10")
    assert len(seen) >= 3
    assert seen == sorted(seen)
    assert seen[-1] == 2 * SLICE
    assert max(after - before for before, after in pairwise(seen)) <= 1, "one prediction at a time"


def test_short_ticks_that_cannot_follow_have_hit_the_bound() -> None:
    centre = Scenario(run_time={"fits_per_tick_max": 10})
    centre.at("08:00")
    for number in range(20):
        centre.ran(f"{number}", f"app{number}", 4, 60.0)
        centre.ran(f"{number}b", f"app{number}", 4, 61.0)
    for i in range(1, 19):
        centre.fold(Tick(system="", time_ms=moment_ms("08:00") + i * 1000))
    assert len(centre.messages("predictions")) == 18
    assert centre.tally["bound:fits_per_tick_max"] >= 8


def test_where_many_models_wait_none_waits_for_more_than_a_minute_and_no_tick_does_much_more_than_others() -> None:
    centre = Scenario()
    centre.at("08:00")
    for number in range(600):
        name = "".join("abcdefghij"[int(digit)] for digit in str(number))
        centre.ran(f"{number}", name, 4, 60.0)
        centre.ran(f"{number}b", name, 4, 61.0)
    reported: list[int] = []
    for i in range(1, 61):
        before = len(centre.messages("predictions"))
        centre.fold(Tick(system="", time_ms=moment_ms("08:00") + i * 1000))
        reported.append(len(centre.messages("predictions")) - before)
    assert sum(reported) == 600
    assert min(reported[:50]) >= 9
    assert max(reported) <= 13
    assert centre.tally["bound:fits_per_tick_max"] == 0


def test_ticks_of_any_length_fit_as_many_in_ten_seconds() -> None:
    for every_ms in (200, 1_000, 5_000):
        centre = Scenario(run_time={"fits_per_tick_max": 12})
        centre.at("08:00")
        for number in range(40):
            name = "".join("abcdefghij"[int(digit)] for digit in str(number))
            centre.ran(f"{number}", name, 4, 60.0)
            centre.ran(f"{number}b", name, 4, 61.0)
        for time_ms in range(every_ms, 20_001, every_ms):
            centre.fold(Tick(system="", time_ms=moment_ms("08:00") + time_ms))
        assert len(centre.messages("predictions")) == 24, every_ms


def test_a_states_record_stays_far_below_a_brokers_limit_after_many_runs() -> None:
    centre = Scenario()
    centre.at("08:00")
    for i in range(3000):
        fields: dict[str, Any] = {"hosts": (f"nid{i % 100}",), "state": "FAILED" if i % 9 == 0 else "COMPLETED"}
        centre.ran(f"{i}", "lammps", 1 + i % 200, 100.0 + i % 13, **fields)
        if i % 500 == 0:
            centre.at_ms(centre.now_ms + 600_000)
    sizes = {key: len(value or b"") for key, value in centre.state().items()}
    assert max(sizes.values()) < 200_000, max(sizes, key=lambda key: sizes[key])
