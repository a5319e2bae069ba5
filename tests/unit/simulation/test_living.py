"""A centre with a past: whenever one listens it tells the same of jobs, and of hosts what happens from then on."""

import json
from itertools import takewhile

import pytest

from agent.simulation.load import HOUR_MS, LivingCentre, TimedMessage
from agent.simulation.meters import MINUTE_MS

BEGAN_MS = 1_795_168_800_000
OPENED_MS = BEGAN_MS + 12 * HOUR_MS
UNTIL_MS = OPENED_MS + HOUR_MS


def centre() -> LivingCentre:
    return LivingCentre(seed=1, began_ms=BEGAN_MS, opened_ms=OPENED_MS)


def jobs(from_ms: int) -> list[TimedMessage]:
    return list(takewhile(lambda prediction: prediction.time_ms <= UNTIL_MS, centre().jobs(from_ms)))


def measured(from_ms: int) -> list[TimedMessage]:
    return list(
        takewhile(lambda prediction: prediction.time_ms <= from_ms + 20 * MINUTE_MS, centre().measured(from_ms))
    )


def test_jobs_are_reported_in_the_order_of_time_and_the_same_whenever_one_listens() -> None:
    every, late = jobs(BEGAN_MS), jobs(OPENED_MS)
    assert [prediction.time_ms for prediction in every] == sorted(prediction.time_ms for prediction in every)
    assert late == [prediction for prediction in every if prediction.time_ms >= OPENED_MS]
    assert {prediction.kind for prediction in every} == {"jobs"}


def test_shared_nodes_take_jobs_from_the_opening_on() -> None:
    shared = [prediction for prediction in jobs(BEGAN_MS) if json.loads(prediction.value)["partition"] == "shared"]
    assert shared
    assert min(prediction.time_ms for prediction in shared) > OPENED_MS


def test_an_application_became_slower_two_hours_before_the_opening() -> None:
    before, after = (
        centre().truth("simulated/crash-test//nodes", 8.0, OPENED_MS - hours * HOUR_MS) for hours in (3, 1)
    )
    assert before is not None
    assert after is not None
    assert after > 1.2 * before


def test_hosts_are_measured_from_any_minute_on_with_the_jobs_that_run_then() -> None:
    from_ms = OPENED_MS + HOUR_MS
    reported = measured(from_ms)
    assert min(prediction.time_ms for prediction in reported) >= from_ms
    assert {prediction.kind for prediction in reported} == {"load", "energy"}
    events = [event for prediction in reported if prediction.kind == "load" for event in json.loads(prediction.value)]
    assert {event["type"] for event in events} == {"load", "counters", "power"}
    assert len({event["host"] for event in events if event["type"] == "load"}) == 36
    running = {json.loads(prediction.value)["job_id"] for prediction in jobs(BEGAN_MS) if prediction.time_ms < from_ms}
    assert {event["job_id"] for event in events if "job_id" in event} & running


@pytest.mark.parametrize("from_ms", [OPENED_MS + 1, OPENED_MS - MINUTE_MS])
def test_measurements_begin_with_a_full_minute_after_the_opening(from_ms: int) -> None:
    with pytest.raises(ValueError, match="is no full minute since"):
        centre().measured(from_ms)
