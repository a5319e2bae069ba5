"""Events that no machine can have sent never raise out of the fold and never spoil what is known."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from processors.contracts.events import STATES, JobCompleted, JobStarted
from processors.contracts.names import EARLIEST_MS, LATEST_MS
from tests.kit.scenario import SYSTEM, Scenario, completed, evidence, moment_ms

SIZES = (1, 2, 4, 8, 16) * 3
TEN_MS = moment_ms("10:00")
ODD_NUMBERS = (0.0, 5e-324, 1e-300, 1e-9, 0.5, 1.0, 1e9, 1e12, 1e300, 1e308, -1.0, -1e308)


def finite(value: Any) -> bool:
    """Return whether all numbers in a message are numbers; msgspec writes those that are none as null."""
    if isinstance(value, dict):
        return all(finite(each) for each in value.values())
    if isinstance(value, list):
        return all(finite(each) for each in value)
    return not isinstance(value, float) or math.isfinite(value)


def learned() -> Scenario:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    return centre.at("09:00")


def goes_on_well(centre: Scenario) -> None:
    """Check that good runs are still learned, published and answered after whatever came, also after a restart."""
    centre.restart()
    at_ms = max(centre.now_ms, TEN_MS) + 3_600_000
    centre.at_ms(at_ms).scales("lammps", *SIZES, prefix="later")
    centre.at_ms(at_ms + 3_600_000)
    prediction = centre.topic("predictions")["exa/lammps//nodes"]
    near = next(point for point in prediction["curve"] if point["n"] == 4)
    assert abs(near["run_time_s"] / 271 - 1) < 0.1
    assert near["low_s"] < near["run_time_s"] < near["high_s"]
    assert centre.asks("still-there", 4, 32, application="lammps")["known"]
    assert all(
        finite(message) for kind in ("predictions", "answers", "job_predictions") for message in centre.messages(kind)
    )


@pytest.mark.parametrize("run_time_s", ODD_NUMBERS)
def test_no_run_time_spoils_a_model(run_time_s: float) -> None:
    centre = learned()
    for i, n in enumerate((4.0, 1e-300, 1e308)):
        centre.fold(completed(str(i), TEN_MS, run_time_s, application="lammps", nodes=n, end_ms=TEN_MS + 5))
    goes_on_well(centre)


@pytest.mark.parametrize("n", ODD_NUMBERS)
def test_no_size_spoils_a_model(n: float) -> None:
    centre = learned()
    centre.fold(completed("1", TEN_MS, 60.0, application="lammps", nodes=n))
    before = {size for _, size, _ in centre.runs_of("lammps")} - {*map(float, SIZES)}
    assert before <= {0.5, 1e9}, "the sizes that can be true"
    if n not in {0.5, 1e9}:
        goes_on_well(centre)


@pytest.mark.parametrize("n", [1e-300, 1e308])
@pytest.mark.parametrize("run_time_s", [1e-300, 1e308])
def test_what_cannot_be_true_is_refused_and_counted(n: float, run_time_s: float) -> None:
    centre = Scenario()
    centre.at("08:00").fold(completed("1", TEN_MS, 60.0, application="lammps", nodes=n))
    centre.fold(completed("2", TEN_MS, run_time_s, application="lammps", nodes=4, end_ms=TEN_MS + 1))
    assert centre.tally["refused:implausible"] == 2
    assert (centre.runs_of("lammps"), len(centre.shard.state.models)) == ([], 0)


def test_a_run_that_completed_in_no_time_is_no_observation() -> None:
    centre = learned()
    before = centre.runs_of("lammps")
    centre.ran("1", "lammps", 4, 0.0)
    assert centre.runs_of("lammps") == before
    goes_on_well(centre)


def test_a_run_that_ended_before_it_started_is_taken_by_its_run_time() -> None:
    centre = learned()
    centre.fold(completed("1", TEN_MS, 270.0, application="lammps", nodes=4, end_ms=TEN_MS - 3_600_000))
    assert ("1", 4.0, 270.0) in centre.runs_of("lammps")
    goes_on_well(centre)


@pytest.mark.parametrize("limit_s", [0.0, 1e-300, 1e300, 1e308, -5.0])
def test_no_time_limit_stops_a_forecast(limit_s: float) -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=limit_s)
    chance = centre.topic("job_predictions")["exa/1"]["probability_exceeds_limit"]
    assert chance == (1.0 if limit_s < 1 else 0.0)
    goes_on_well(centre)


def test_runs_as_long_as_can_be_are_forecast_without_an_end_that_no_calendar_has() -> None:
    centre = Scenario()
    centre.at("08:00")
    for i in range(12):
        centre.fold(completed(str(i), TEN_MS, 1e9, application="eternal", nodes=2.0 ** (i % 4), end_ms=TEN_MS + 1))
    centre.at("08:10").starts("new", "eternal", nodes=4)
    prediction = centre.topic("job_predictions")["exa/new"]
    assert prediction["known"]
    assert prediction["end_high"] is None or prediction["end_high"] < "2100"
    assert centre.at("12:00").messages("job_predictions")


NUMBERS = st.sampled_from(ODD_NUMBERS) | st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.sampled_from((EARLIEST_MS, LATEST_MS, TEN_MS, TEN_MS - 1, 0)) | st.integers(EARLIEST_MS, LATEST_MS)
NAMES = st.sampled_from(("lammps", "", "a/b", "%2F", "\x00", "#", "..", "é" * 300)) | st.text(max_size=5)
EVIDENCE = st.builds(
    evidence,
    st.none() | NAMES,
    st.none() | NUMBERS,
    job_name=st.none() | NAMES,
    hosts=st.sampled_from(((), ("nid[1-",), ("nid[1-3]",), ("nid[9-1]",), ("",), ("nid[1-99999999]",))),
    time_limit_s=st.none() | NUMBERS,
    input=st.none() | NAMES,
)
IDS = st.sampled_from(("1", "2", "a/b@c", ""))


@st.composite
def odd_events(draw: st.DrawFn) -> JobStarted | JobCompleted:
    job, start_ms, reported = draw(IDS), draw(MOMENTS), draw(EVIDENCE)
    run = f"{SYSTEM}/{job}@{start_ms}"
    if draw(st.booleans()):
        return JobStarted(SYSTEM, job, run, start_ms, reported)
    state = draw(st.sampled_from((*STATES, "COMPLETED", "COMPLETED", "no such state")))
    return JobCompleted(SYSTEM, job, run, start_ms, draw(MOMENTS), draw(NUMBERS), state, reported)


def test_a_host_list_that_is_none_costs_a_start_its_load_and_is_no_fault() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", 1, 2, 4)
    centre.at("08:30").starts("1", "lammps", 4, hosts=("nid[1-",))
    assert centre.topic("job_predictions")
    assert not [name for name in centre.tally if name.startswith("fault")]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(odd_events(), max_size=12))
def test_nothing_raises_out_of_the_fold_and_every_message_can_be_read(events: list[JobStarted | JobCompleted]) -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", 1, 2, 4)
    centre.at("08:01")
    for event in events:
        try:
            sent = centre.fold(event)
        except UnicodeEncodeError:  # a lone surrogate: no decoder lets it in, and no journal can hold it
            continue
        assert all(msgspec.json.decode(message.value) for message in sent if message.value)
    centre.at("08:30").at("12:00")
    assert not [name for name in centre.tally if name.startswith("fault")]
    state = centre.state()
    centre.restart()
    assert centre.state() == state
    assert centre.asks("r", 4, application="lammps")
