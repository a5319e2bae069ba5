"""Meters of hosts: what they tell adds up to what truly ran, is what decoders take, and what is amiss is where it should be."""

import json
from functools import cache
from itertools import takewhile
from typing import Any

import numpy as np
import pytest

from agent.decode.message import TelemetryOptions
from agent.decode.telemetry.native import load_decoder
from agent.simulation.centre import Centre
from agent.simulation.load import HOUR_MS, SharedNodes
from agent.simulation.meters import (
    ENERGY_RANGE_J,
    HUNGRY,
    IDLE_W,
    LOSSES,
    PER_EVENT_J,
    Metered,
    MinuteReport,
    job_meters,
)
from agent.simulation.workload import COUNTERS
from processors.contracts.names import parse_rfc3339
from processors.contracts.telemetry import SeriesIndex, is_profiled
from tests.kit.simulated_power import true_power_w

START_MS = parse_rfc3339("2026-11-20T10:00:00Z")
MINUTE_MS = 60_000
SEEDS = (1, 2)
Walked = tuple[tuple[MinuteReport, ...], tuple[Metered, ...]]


@cache
def shared(seed: int, hours: int = 6) -> Walked:
    """What the shared nodes told, and the runs as they were."""
    nodes, runs = SharedNodes(seed, START_MS), list[Metered]()
    reported = nodes.meters(runs.append).messages(nodes.events())
    return tuple(takewhile(lambda each: each.time_ms <= START_MS + hours * HOUR_MS, reported)), tuple(runs)


@cache
def measured(seed: int, hours: int = 3) -> Walked:
    centre, runs = Centre(seed, START_MS), list[Metered]()
    reported = job_meters(centre, runs.append).messages(centre.events())
    return tuple(takewhile(lambda each: each.time_ms <= START_MS + hours * HOUR_MS, reported)), tuple(runs)


def events(reported: tuple[MinuteReport, ...], kind: str) -> list[dict[str, Any]]:
    return [event for each in reported for event in json.loads(each.events) if event["type"] == kind]


def joules(reported: tuple[MinuteReport, ...], host: str, component: str) -> list[float]:
    wanted = f"rapl,host={host},component={component} joules="
    lines = [line for each in reported for line in each.lines.decode().splitlines() if line.startswith(wanted)]
    return [float(line.removeprefix(wanted).split()[0]) for line in lines]


def hosts_of(seed: int) -> list[str]:
    return [host.name for host in SharedNodes(seed, START_MS).hosts]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_measures_the_same_and_nothing_of_it_is_refused(seed: int) -> None:
    nodes, index = SharedNodes(seed, START_MS), SeriesIndex(10_000)
    decode, again = load_decoder(TelemetryOptions()), nodes.meters().messages(nodes.events())
    for reported in shared(seed)[0][:90]:
        assert next(again) == reported
        batch = decode([reported.events], [reported.time_ms], index)
        refused = [decoded for _, decoded in batch.others if decoded.rejects]
        assert not refused
        assert len(batch.samples.series) > 36 * len(COUNTERS)
    names = {index[number].resource for number in range(len(index))}
    assert names == {"power_w>system", *(f"counter_delta>{name}" for name in COUNTERS)}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_counters_reported_over_a_run_is_what_the_run_truly_counted(seed: int) -> None:
    reported, runs = shared(seed)
    names = hosts_of(seed)
    grew = {(event["host"], event["time"]): event["counters"] for event in events(reported, "counters")}
    moments = {each.time_ms: json.loads(each.events)[0]["time"] for each in reported}
    checked = 0
    for run in runs:
        whole = range(-(-run.start_ms // MINUTE_MS) * MINUTE_MS + MINUTE_MS, run.end_ms + 1, MINUTE_MS)
        rows = [grew.get((names[node], moments[time_ms])) for time_ms in whole for node in run.nodes]
        if len(whole) < 8 or None in rows:
            continue
        own = np.array([[row[name] for name in COUNTERS] for row in rows if row]).mean(axis=0) / 60.0
        assert own == pytest.approx(run.counts / run.seconds / len(run.nodes), rel=0.1)
        checked += 1
    assert checked > 40


@pytest.mark.parametrize("seed", SEEDS)
def test_power_is_what_the_counters_explain_but_of_the_one_host_that_draws_more(seed: int) -> None:
    reported, _ = shared(seed)
    nodes, names = SharedNodes(seed, START_MS), hosts_of(seed)
    watts: dict[tuple[str, int], list[float]] = {}
    for event in events(reported, "power"):
        if event["power_w"]:
            at_ms = parse_rfc3339(event["time"]) // MINUTE_MS
            watts.setdefault((event["host"], at_ms), []).append(event["power_w"])
    ratios: dict[str, list[tuple[int, float]]] = {}
    for event in events(reported, "counters"):
        at_ms = parse_rfc3339(event["time"]) - MINUTE_MS
        counts = np.array([event["counters"][name] for name in COUNTERS]) / 60.0
        explained_w = LOSSES * (IDLE_W.sum() + float((PER_EVENT_J @ counts).sum()))
        if found := watts.get((event["host"], at_ms // MINUTE_MS)):
            ratios.setdefault(event["host"], []).append((at_ms, sum(found) / len(found) / explained_w))
    hungry = ratios.pop(names[nodes.hungry_host])
    assert np.mean([ratio for at_ms, ratio in hungry if at_ms < nodes.hungry_ms]) == pytest.approx(1.0, abs=0.06)
    assert np.mean([ratio for at_ms, ratio in hungry if at_ms >= nodes.hungry_ms]) == pytest.approx(HUNGRY, abs=0.1)
    assert len(ratios) == 29, "every sixth host has no sensor"
    assert all(np.mean([ratio for _, ratio in each]) == pytest.approx(1.0, abs=0.06) for each in ratios.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_energy_counters_wrap_where_rapl_does_and_add_up_to_the_energy(seed: int) -> None:
    reported, _ = shared(seed)
    host = hosts_of(seed)[0]
    for component, span in zip(("cpu:0", "memory"), ENERGY_RANGE_J, strict=True):
        read = np.array(joules(reported, host, component))
        assert len(read) > 340
        assert read.max() < span
        assert (np.diff(read) < 0).sum() >= 4
        watts = (np.diff(read) % span) / 60.0
        assert watts[:60].min() > (25.0 if component == "cpu:0" else 10.0)
        assert watts.max() < 400.0


@pytest.mark.parametrize("seed", SEEDS)
def test_disturbed_runs_are_known_take_longer_and_do_fewer_instructions_in_a_cycle(seed: int) -> None:
    runs = shared(seed)[1]
    disturbed = [run for run in runs if run.job.slowed > 1]
    assert 2 <= len(disturbed) < 0.05 * len(runs)
    for run in disturbed:
        alike = [one for one in runs if one.job.n == run.job.n and one.job.slowed == 1.0]
        per_cycle = np.median([one.counts[1] / one.counts[0] for one in alike])
        assert run.counts[1] / run.counts[0] < 0.8 * per_cycle
        if run.seconds < run.job.time_limit_s:
            assert run.seconds > 1.2 * float(np.median([one.seconds for one in alike]))


def test_readings_that_are_none_minutes_of_zero_watts_and_silent_hosts_come_now_and_then() -> None:
    reported = shared(1)[0]
    power = [event["power_w"] for event in events(reported, "power")]
    assert 5 < power.count(0.0) < 0.02 * len(power)
    assert 5 < power.count(None) < 0.02 * len(power)
    silent = sum(36 - each.events.count(b'"counters",') for each in reported)
    assert 10 < silent < 0.01 * 36 * len(reported)


@pytest.mark.parametrize("seed", SEEDS)
def test_measured_jobs_name_the_job_and_draw_what_is_usual_for_their_size(seed: int) -> None:
    reported, runs = measured(seed)
    chosen = [run for run in runs if run.job.application.name in ("battery-design", "molecules")]
    counters = events(reported, "counters")
    assert {event["job_id"] for event in counters} <= {run.job.job_id for run in chosen} | {
        event["job_id"] for event in counters if parse_rfc3339(event["time"]) > START_MS + 1.5 * HOUR_MS
    }
    index = SeriesIndex(100_000)
    load_decoder(TelemetryOptions())([each.events for each in reported], [each.time_ms for each in reported], index)
    assert len(index) > 300
    assert all(is_profiled(index[number].resource) for number in range(len(index)))
    centre = Centre(seed, START_MS)
    assert len(chosen) > 20
    for run in chosen:
        usual_w = true_power_w(centre, run.job.application.key("simulated").id, run.job.n)
        assert run.power_w[0] == pytest.approx(usual_w, rel=0.08)
    assert true_power_w(centre, "simulated/lattice-qcd//nodes", 8) is None
