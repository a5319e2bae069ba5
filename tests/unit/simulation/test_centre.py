"""What a user of the simulated centre relies on: the truth, the order, and that every application shows its trait."""

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise, takewhile
from math import exp, log
from statistics import median, stdev
from typing import Any

import pytest

from agent.decode.message import DecodeOptions
from agent.decode.native import native_decoder
from agent.simulation.centre import Centre, TimedEvent
from agent.simulation.truth import amdahl_log, downey
from agent.simulation.workload import DOZEN, NOISE
from processors.contracts.events import JobCompleted, JobStarted
from processors.contracts.names import parse_rfc3339
from tests.kit.cases import each

START_MS = parse_rfc3339("2026-11-20T10:00:00Z")
HOURS_20_MS = 20 * 3_600_000
SEEDS = (1, 2, 3)


@cache
def twenty_hours(seed: int) -> tuple[TimedEvent, ...]:
    events = Centre(seed, START_MS).events()
    return tuple(takewhile(lambda entry: entry.time_ms < START_MS + HOURS_20_MS, events))


def completed(seed: int, name: str) -> list[dict[str, Any]]:
    return [entry.event for entry in twenty_hours(seed)
            if entry.event["type"] == "job.completed" and entry.event["job_name"].startswith(name)]  # fmt: skip


def successful(seed: int, name: str) -> list[dict[str, Any]]:
    return [event for event in completed(seed, name) if event["state"] == "COMPLETED"]


def in_second_half(event: dict[str, Any]) -> bool:
    return parse_rfc3339(event["start"]) >= START_MS + HOURS_20_MS // 2


def deviations(seed: int, name: str) -> list[float]:
    """ln of run time over truth, of every successful run."""
    centre = Centre(seed, START_MS)
    application = next(entry for entry in DOZEN if entry.name == name)
    key = application.key(centre.system).id
    found = []
    for event in successful(seed, name):
        truth = centre.truth(key, event["n"], parse_rfc3339(event["start"]))
        assert truth is not None
        found.append(log(event["run_time_s"] / truth))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_events_come_in_the_order_of_their_times(seed: int) -> None:
    events = twenty_hours(seed)
    assert all(before.time_ms <= after.time_ms for before, after in pairwise(events))
    for time_ms, event, *_ in events:
        assert parse_rfc3339(event["start" if event["type"] == "job.started" else "end"]) == time_ms


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    again = takewhile(lambda entry: entry.time_ms < START_MS + HOURS_20_MS, Centre(1, START_MS).events())
    assert [entry.value for entry in again] == [entry.value for entry in twenty_hours(1)]
    assert twenty_hours(1)[0].value != twenty_hours(2)[0].value


@pytest.mark.parametrize("seed", SEEDS)
def test_in_twenty_hours_every_application_has_thirty_successful_runs_at_all_its_sizes(seed: int) -> None:
    assert len(DOZEN) == 12
    for application in DOZEN:
        runs = successful(seed, application.name)
        assert len(runs) >= 30
        assert {run["n"] for run in runs} == set(application.sizes)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_is_a_native_event_without_unknown_fields(seed: int) -> None:
    decode = native_decoder(DecodeOptions())
    for time_ms, event, *_ in twenty_hours(seed):
        decoded = decode(TimedEvent(time_ms, event).value, time_ms)
        assert (decoded.unknown_fields, decoded.rejects) == (0, [])
        assert type(decoded.events[0]) is {"job.started": JobStarted, "job.completed": JobCompleted}[event["type"]]


@each("application", DOZEN)
def test_run_times_scatter_by_two_per_cent_around_the_truth(application: Any) -> None:
    found = [deviation for seed in SEEDS for deviation in deviations(seed, application.name)]
    assert stdev(found) == pytest.approx(NOISE, rel=0.25)
    assert abs(median(found)) < 0.005


def test_every_job_is_charged_to_the_project_of_its_application() -> None:
    projects = {event["account"]: set[str]() for _, event, *_ in twenty_hours(1)}
    for _, event, *_ in twenty_hours(1):
        projects[event["account"]].add(event["job_name"].rpartition("-")[0])
    assert projects["climate"] == {"ocean-model", "weather-ensemble", "climate-coupler"}
    assert len(projects) > 5


def test_every_start_has_one_end_or_still_runs() -> None:
    events = [entry.event for entry in twenty_hours(1)]
    started = Counter((event["job_id"], event["start"]) for event in events if event["type"] == "job.started")
    ended = Counter((event["job_id"], event["start"]) for event in events if event["type"] == "job.completed")
    assert set(started.values()) == set(ended.values()) == {1}
    assert set(ended) <= set(started)
    assert len(started) - len(ended) < 60


def nodes_of(hostlist: str) -> set[int]:
    nodes: set[int] = set()
    for part in hostlist.removeprefix("nid").strip("[]").split(","):
        first, _, last = part.partition("-")
        nodes.update(range(int(first), int(last or first) + 1))
    return nodes


@pytest.mark.parametrize("nodes", [512, 128])
def test_no_two_jobs_share_a_node_and_each_has_as_many_as_it_asked_for(nodes: int) -> None:
    busy: dict[str, set[int]] = {}
    events = takewhile(lambda entry: entry.time_ms < START_MS + HOURS_20_MS, Centre(1, START_MS, nodes=nodes).events())
    for _, event, *_ in events:
        own = nodes_of(event["hosts"][0])
        assert len(own) == event["n"]
        assert own <= set(range(nodes))
        if event["type"] == "job.completed":
            assert busy.pop(event["job_id"]) == own
        else:
            assert not any(own & others for others in busy.values())
            busy[event["job_id"]] = own


def test_on_a_small_machine_jobs_wait_in_the_queue() -> None:
    events = takewhile(lambda entry: entry.time_ms < START_MS + HOURS_20_MS, Centre(1, START_MS, nodes=128).events())
    waits = [parse_rfc3339(event["start"]) - parse_rfc3339(event["submit"]) for _, event, *_ in events]
    assert max(waits) > 3_600_000


@pytest.mark.parametrize("seed", SEEDS)
def test_one_application_becomes_thirty_per_cent_slower_half_way(seed: int) -> None:
    by_half = defaultdict(list)
    for run in successful(seed, "crash-test"):
        law = DOZEN[5].law(run["n"])
        by_half[in_second_half(run)].append(run["run_time_s"] / law)
    assert median(by_half[False]) == pytest.approx(1.0, abs=0.02)
    assert median(by_half[True]) == pytest.approx(1.3, abs=0.03)


SMOOTH = {  # the laws that the uneven ones are made of
    "climate-coupler": amdahl_log(40.0, 10_000.0, 5.0),
    "genome-assembly": downey(14_000.0, 150.0, 0.5),
    "spectral-solver": downey(15_000.0, 200.0, 0.3),
}


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [
        ("climate-coupler", 16.0, 1.5),
        ("climate-coupler", 8.0, 1.0),
        ("genome-assembly", 16.0, 1.0),
        ("genome-assembly", 24.0, 1.4),
        ("spectral-solver", 32.0, 1.0),
        ("spectral-solver", 24.0, 1.25),
    ],
)
def test_a_slow_size_a_step_and_favoured_sizes_show_in_truth_and_runs(name: str, n: float, expected: float) -> None:
    application = next(entry for entry in DOZEN if entry.name == name)
    smooth = SMOOTH[name](n)
    assert Centre(1, START_MS).truth(application.key("simulated").id, n) == pytest.approx(expected * smooth)
    runs = [run["run_time_s"] for run in successful(1, name) if run["n"] == n]
    assert exp(median(map(log, runs))) == pytest.approx(expected * smooth, rel=0.03)


def test_the_traits_have_as_many_sizes_as_it_takes_to_see_them() -> None:
    sizes = {application.name: len(application.sizes) for application in DOZEN}
    assert sizes["genome-assembly"] >= 6
    assert sizes["spectral-solver"] >= 9
    assert sizes["reactor-core"] == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_one_application_fails_more_often_from_half_way_on(seed: int) -> None:
    failed = defaultdict(list)
    for run in completed(seed, "galaxy-merger"):
        failed[in_second_half(run)].append(run["state"] == "FAILED")
    assert sum(failed[False]) / len(failed[False]) < 0.12
    assert 0.25 < sum(failed[True]) / len(failed[True]) < 0.55


@pytest.mark.parametrize("seed", SEEDS)
def test_a_requeued_job_keeps_its_id_and_gets_a_new_start(seed: int) -> None:
    runs = defaultdict(list)
    for event in completed(seed, "ocean-model"):
        runs[event["job_id"]].append(event)
    twice = [events for events in runs.values() if len(events) == 2]
    assert len(twice) >= 3
    for first, second in twice:
        assert (first["state"], first["n"]) == ("NODE_FAIL", second["n"])
        assert second["state"] in {"COMPLETED", "FAILED"}
        assert parse_rfc3339(second["start"]) >= parse_rfc3339(first["end"]) + 60_000


@pytest.mark.parametrize("seed", SEEDS)
def test_a_time_limit_too_short_ends_the_run_at_the_limit(seed: int) -> None:
    ended = [event for event in completed(seed, "battery-design") if event["state"] == "TIMEOUT"]
    assert len(ended) >= 4
    assert all(event["run_time_s"] == event["time_limit_s"] for event in ended)
    others = [event for event in completed(seed, "") if event["state"] != "TIMEOUT"]
    assert all(event["run_time_s"] <= event["time_limit_s"] for event in others)


def test_an_array_job_has_tasks_with_ids_of_their_own() -> None:
    tasks = defaultdict(set)
    for event in completed(1, "weather-ensemble"):
        tasks[event["array_job_id"]].add(event["job_id"])
    assert max(map(len, tasks.values())) == 5


def test_truth_is_silent_on_what_it_does_not_know() -> None:
    centre = Centre(1, START_MS)
    assert centre.truth("simulated/unheard-of//nodes", 4.0) is None
    assert centre.truth("simulated/crash-test//nodes", 0.0) is None
