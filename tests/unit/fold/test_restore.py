"""A shard that goes on from a checkpoint, whenever it was taken, sends and remembers what an undisturbed one does."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from processors.contracts.events import JobCompleted
from processors.contracts.settings import JobSettings, RunTimeSettings
from tests.kit.effort import examples
from tests.kit.scenario import SYSTEM, Scenario, completed, evidence

APPLICATIONS = ("lammps", "gromacs", None)
JOBS = tuple("123456")
SIZES = (1.0, 2.0, 4.0, 8.0)
STEPS_S = (10, 60, 180, 600, 3600, 90_000)


@pytest.fixture(autouse=True, scope="module")
def _few_buckets_and_scores() -> Iterator[None]:
    """Let the bounds that are constants be reached, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobSettings, "deduplication_buckets_max", 12)
        patch.setattr(RunTimeSettings, "scores_max", 12)
        yield


SMALL: dict[str, dict[str, Any]] = {
    "jobs": {"open_jobs_max": 4, "settle_max_s": 120.0},
    "run_time": {"applications_max": 3, "unmerged_runs_max": 4, "fits_per_tick_max": 2},
    "alerts": {"open_max": 3, "failure_rate": {"recent_runs": 4, "hosts_max": 2, "failures_min": 1}},
}


@st.composite
def happenings(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw what happens next: its name and what it needs."""
    name = draw(
        st.sampled_from(
            ("start", "end", "end", "ran", "ran", "ran", "tick", "tick", "evidence", "ask", "again", "correct")
        )
    )
    return name, {
        "job": draw(st.sampled_from(JOBS)),
        "application": draw(st.sampled_from(APPLICATIONS)),
        "nodes": draw(st.sampled_from(SIZES)),
        "seconds": draw(st.sampled_from(STEPS_S)),
        "state": draw(st.sampled_from(("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "RESIZING"))),
        "run_time_s": draw(st.sampled_from((50.0, 100.0, 101.0, 400.0))),
        "index": draw(st.integers(0, 30)),
    }


def happens(centre: Scenario, name: str, given: dict[str, Any]) -> None:
    fields = {"job_name": "run7", "hosts": (f"nid{given['job']}",)}
    job, application, nodes = given["job"], given["application"], given["nodes"]
    if name == "tick":
        centre.at_ms(centre.now_ms + given["seconds"] * 1000)
    elif name == "start":
        centre.starts(job, application, nodes, time_limit_s=120.0, **fields)
    elif name == "end" and job in centre._starts:
        centre.ends(job, given["state"])
    elif name == "ran":
        start_ms = centre.now_ms - given["seconds"] * 1000
        centre.fold(
            completed(
                job, start_ms, given["run_time_s"], given["state"], application=application, nodes=nodes, **fields
            )
        )
    elif name == "evidence":
        centre.report_from(f"source{given['index'] % 3}", job, executable=f"/opt/{application or 'lmp'}")
    elif name == "ask":
        centre.asks(f"r{given['index'] % 5}", nodes, application=application or "x")
    elif name == "again" and centre.events:
        centre.fold(centre.events[given["index"] % len(centre.events)])
    elif name == "correct":
        reports = [event for event in centre.events if isinstance(event, JobCompleted)]
        reported = evidence(application, nodes, hosts=("nid1",))
        report = reports[given["index"] % len(reports)]
        centre.fold(structs.replace(report, state=given["state"], run_time_s=given["run_time_s"], evidence=reported))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(happenings(), st.booleans()), min_size=5, max_size=60), st.sampled_from((SMALL, {})))
def test_a_shard_that_restarts_anywhere_equals_one_that_never_stopped(
    steps: list[tuple[tuple[str, dict[str, Any]], bool]], bounds: dict[str, dict[str, Any]]
) -> None:
    steady, restarted = Scenario(identify=None, **bounds), Scenario(identify=None, **bounds)
    for centre in (steady, restarted):
        centre.at("08:00").scales("lammps", *SIZES, *SIZES, *SIZES)
        centre.at("08:01")
    for (name, given_), restart in steps:
        for centre in (steady, restarted):
            happens(centre, name, given_)
        if restart:
            restarted.restart()
    for centre in (steady, restarted):
        centre.at_ms(centre.now_ms + 7_200_000)
        centre.checkpoint()
    assert restarted.sent == steady.sent
    assert restarted.state() == steady.state()
    assert restarted.stored == steady.stored == {key: value for key, value in steady.state().items() if value}
    assert not [name for name in steady.tally if name.startswith("fault")]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(happenings(), min_size=5, max_size=40), st.integers(0, 30), st.sampled_from((SMALL, {})))
def test_a_checkpoint_that_is_encoded_while_the_fold_goes_on_is_that_of_its_beginning(
    steps: list[tuple[str, dict[str, Any]]], begins: int, bounds: dict[str, dict[str, Any]]
) -> None:
    centre, twin = Scenario(identify=None, **bounds), Scenario(identify=None, **bounds)
    for each in (centre, twin):
        each.at("08:00").scales("lammps", *SIZES, *SIZES, *SIZES)
        for name, given_ in steps[:begins]:
            happens(each, name, given_)
    at_once, sliced = twin.shard.unsaved(with_hosts=True).states(), centre.shard.unsaved(with_hosts=True)
    for name, given_ in steps[begins:]:
        sliced.encode(1)
        happens(centre, name, given_)
    assert sliced.states() == at_once
    centre.shard.confirm(with_hosts=True)
    centre.stored = {key: value for key, value in at_once.items() if value is not None}
    centre.checkpoint()
    assert centre.stored == {key: value for key, value in centre.state().items() if value}


def test_a_checkpoint_that_was_lost_is_in_the_next_one() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    lost = centre.shard.unsaved().states()
    centre.at("08:05").starts("1", "gromacs", nodes=4)
    assert set(lost) <= set(centre.shard.unsaved().states())
    centre.restart()
    assert centre.state() == {key: value for key, value in centre.stored.items() if value}
    assert f"job/{SYSTEM}/1" in centre.stored


def test_a_job_that_came_and_went_between_two_checkpoints_leaves_nothing_to_write() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    centre.at("08:10").starts("seen", "lammps", nodes=4)
    centre.checkpoint()
    centre.at("08:11").starts("unseen", "lammps", nodes=4)
    centre.at("08:20").ends("seen")
    centre.ends("unseen")
    centre.at("09:00")
    written = centre.shard.unsaved().states()
    assert {key: value for key, value in written.items() if key.startswith("job/")} == {f"job/{SYSTEM}/seen": None}
    assert f"run_time/{SYSTEM}/lammps//nodes" in written


def test_a_shard_that_goes_back_to_its_checkpoint_and_folds_again_sends_the_same_once_more() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES, *SIZES)
    centre.at("08:01").checkpoint()
    now_ms, sent, events = centre.now_ms, len(centre.sent), len(centre.events)
    centre.at("08:10").starts("1", "lammps", nodes=4)
    centre.asks("r1", 4, application="lammps")
    centre.at("08:20").ends("1")
    centre.at("08:40")
    first, reported, state = centre.events[events:], centre.sent[sent:], centre.state()
    centre.shard = centre.new_shard()
    centre.shard.restore(centre.stored, now_ms, now_ms)
    again = [message for event in first for message in centre.fold(event)]
    assert len(reported) > 5
    assert again == reported
    assert centre.state() == state
