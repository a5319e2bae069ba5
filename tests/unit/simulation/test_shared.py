"""Shared nodes: their load is known, calm or bursty; what is amiss shows where it should; jobs go at the pace of their hosts."""

import json
from functools import cache
from itertools import islice, pairwise, takewhile
from statistics import median
from typing import Any

import numpy as np
import pytest

from agent.decode.message import TelemetryOptions
from agent.decode.telemetry.native import load_decoder
from agent.simulation.centre import TimedEvent
from agent.simulation.load import (
    ANALYSIS,
    BANDWIDTH_B_S,
    HOUR_MS,
    RESOURCES,
    Host,
    Loads,
    SharedNodes,
    shared_hosts,
)
from agent.simulation.meters import STEP_MS
from processors.contracts.names import parse_rfc3339
from processors.contracts.telemetry import SeriesIndex

START_MS = parse_rfc3339("2026-11-20T10:00:00Z")
SEEDS = (1, 2, 3)
ID = "simulated/image-analysis//nodes"


@cache
def hours(seed: int, count: int = 20) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What every host measured of every resource, (steps, hosts, resources)."""
    loads = SharedNodes(seed, START_MS).loads()
    return np.array([loads.at(START_MS + step * STEP_MS) for step in range(count * HOUR_MS // STEP_MS)])


@cache
def predicted(seed: int, count: int = 20) -> tuple[TimedEvent, ...]:
    events = SharedNodes(seed, START_MS).events()
    return tuple(takewhile(lambda entry: entry.time_ms < START_MS + count * HOUR_MS, events))


def jobs(seed: int) -> list[dict[str, Any]]:
    return [entry.event for entry in predicted(seed)]


def ended(seed: int) -> list[dict[str, Any]]:
    """Return the completed jobs that no neighbour slowed down."""
    return [
        entry.event
        for entry in predicted(seed)
        if entry.event.get("state") == "COMPLETED" and entry.job is not None and entry.job.slowed == 1.0
    ]


def step_of(time_ms: int) -> int:
    return (time_ms - START_MS) // STEP_MS


@pytest.mark.parametrize("seed", SEEDS)
def test_samples_are_native_loads_of_every_host_every_ten_seconds(seed: int) -> None:
    index = SeriesIndex(1000)
    decode = load_decoder(TelemetryOptions())
    sent = list(islice(SharedNodes(seed, START_MS).samples(), 12))
    batch = decode([message for _, message in sent], [time_ms for time_ms, _ in sent], index)
    assert len(index) == 36 * len(RESOURCES)
    assert (len(batch.samples.series), batch.others) == (12 * 36 * 3, [])
    assert sorted(set(batch.samples.time_ms.tolist())) == [START_MS + step * STEP_MS for step in range(12)]
    assert np.allclose(batch.samples.value, hours(seed)[:12].ravel(), rtol=1e-5)


def test_the_same_seed_gives_the_same_load_and_jobs_and_another_one_others() -> None:
    first, again, other = ([*islice(SharedNodes(seed, START_MS).samples(), 50)] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert json.dumps(jobs(1)) == json.dumps(
        [entry.event for entry in islice(SharedNodes(1, START_MS).events(), len(jobs(1)))]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_calm_hosts_stay_where_they_are_and_bursty_ones_are_busy_now_and_then(seed: int) -> None:
    nodes = SharedNodes(seed, START_MS)
    cpu = hours(seed)[: step_of(nodes.slow_ms), :, 0]
    calm = np.array([host.temper == "calm" for host in nodes.hosts])
    assert calm.sum() == 27
    assert cpu[:, calm].std(axis=0).max() < 0.02
    assert (cpu[:, calm].mean(axis=0) > 0.75).all()
    busy = (cpu[:, ~calm] < 0.71).mean()
    assert 0.08 < busy < 0.4
    assert ((cpu >= 0) & (cpu <= 1)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_one_host_is_slow_for_good_and_nobody_else_then(seed: int) -> None:
    nodes = SharedNodes(seed, START_MS)
    at = step_of(nodes.slow_ms)
    before, after = (hours(seed)[part, :, 0].mean(axis=0) for part in (slice(at - 300, at), slice(at, at + 300)))
    ratio = after / before
    assert ratio[nodes.slow_host] == pytest.approx(0.65, abs=0.02)
    assert hours(seed)[-1, nodes.slow_host, 0] < 0.7
    calm = [host for host in range(36) if nodes.hosts[host].temper == "calm" and host != nodes.slow_host]
    assert np.abs(ratio[calm] - 1).max() < 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_a_whole_rack_loses_its_bandwidth_for_twenty_minutes(seed: int) -> None:
    nodes = SharedNodes(seed, START_MS)
    rack = np.array([host.rack == 3 for host in nodes.hosts])
    others = ~rack & (np.arange(36) != nodes.slow_host)
    bandwidth = hours(seed)[..., 2] / BANDWIDTH_B_S
    first, last = step_of(nodes.rack_ms), step_of(nodes.rack_ms) + 120
    assert bandwidth[first:last, rack].max() < 0.3
    assert bandwidth[first:last, others].min() > 0.5
    assert bandwidth[last : last + 120, rack | others].min() > 0.5
    assert bandwidth[first - 120 : first, rack | others].min() > 0.5


def test_work_ends_when_the_slowest_host_has_done_it() -> None:
    quiet = (Host("a", 1, "calm", 0.5, 0.5, 0.5), Host("b", 1, "calm", 1.0, 1.0, 0.5))
    loads = Loads(1, 0, quiet)
    assert loads.end_ms(3_333, (1,), 100.0, 1e4) == pytest.approx(3_333 + 100_000, rel=0.03)
    assert loads.end_ms(3_333, (0, 1), 100.0, 1e4) == pytest.approx(3_333 + 200_000, rel=0.03)
    assert loads.end_ms(0, (0,), 5_000.0, 7_200.0) == 7_200_000, "no longer than asked for"
    paces = np.array([min(loads.at(step * STEP_MS)[:, 0]) for step in range(700)])
    exact_s = float(np.interp(2_500.0, np.cumsum(paces) * 10, np.arange(1, 701) * 10.0))
    assert loads.end_ms(0, (0, 1), 2_500.0, 1e4) == pytest.approx(exact_s * 1000, abs=2), "over the end of an hour too"


def test_load_that_is_long_past_is_not_kept() -> None:
    loads = Loads(1, 0, shared_hosts(1))
    loads.at(12 * HOUR_MS)
    with pytest.raises(ValueError, match="no longer kept"):
        loads.at(0)


@pytest.mark.parametrize("seed", SEEDS)
def test_run_times_are_those_of_the_load_that_the_hosts_had(seed: int) -> None:
    nodes = SharedNodes(seed, START_MS)
    place = {host.name: number for number, host in enumerate(nodes.hosts)}
    errors = []
    for event in ended(seed):
        start, end = (step_of(parse_rfc3339(event[name])) for name in ("start", "end"))
        rate = hours(seed)[start : end + 1, [place[host] for host in event["hosts"]], 0].min(axis=1).mean()
        errors.append(event["run_time_s"] * rate / ANALYSIS.law(event["n"]) - 1)
    assert len(errors) > 300
    assert abs(median(errors)) < 0.01
    assert np.abs(errors).max() < 0.12


@pytest.mark.parametrize("seed", SEEDS)
def test_the_load_before_a_start_reports_how_long_a_run_takes_better_than_its_size_alone(seed: int) -> None:
    nodes = SharedNodes(seed, START_MS)
    place = {host.name: number for number, host in enumerate(nodes.hosts)}
    by_size, by_load = [], []
    for event in ended(seed):
        start = step_of(parse_rfc3339(event["start"]))
        typical_s = nodes.truth(ID, event["n"])
        assert typical_s is not None
        window = hours(seed)[max(start - 30, 0) : start, [place[host] for host in event["hosts"]], 0]
        if len(window):
            loaded_s = ANALYSIS.law(event["n"]) / window.mean(axis=0).min()
            by_size.append(abs(np.log(event["run_time_s"] / typical_s)))
            by_load.append(abs(np.log(event["run_time_s"] / loaded_s)))
    assert np.mean(by_load) < 0.75 * np.mean(by_size)


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_come_in_order_on_hosts_of_their_own_and_the_truth_is_their_usual_run_time(seed: int) -> None:
    moments = [parse_rfc3339(event["start" if event["type"] == "job.started" else "end"]) for event in jobs(seed)]
    assert all(before <= after for before, after in pairwise(moments))
    busy: dict[str, set[str]] = {}
    for event in jobs(seed):
        if event["type"] == "job.started":
            assert not any(set(event["hosts"]) & others for others in busy.values())
            busy[event["job_id"]] = set(event["hosts"])
        else:
            assert busy.pop(event["job_id"]) == set(event["hosts"])
    nodes = SharedNodes(seed, START_MS)
    for n in ANALYSIS.sizes:
        runs = [event["run_time_s"] for event in ended(seed) if event["n"] == n]
        assert len(runs) > 50
        assert median(runs) == pytest.approx(nodes.truth(ID, n), rel=0.2)
    assert nodes.truth("simulated/unheard-of//nodes", 4) is None
    assert nodes.truth(ID, 3) is None
