"""Power of runs becomes power and energy in what is reported later ones."""

from collections.abc import Callable
from typing import Any

import pytest

from processors.contracts.events import JobProfile
from processors.contracts.hosts import Profile
from sinks.prometheus.table import PROFILES
from tests.kit.measured_runs import EVERY_MS, KEY, Measured, measured_after
from tests.kit.scenario import DAY_MS, Scenario

Restart = Callable[[Scenario], None]
WITH_AND_WITHOUT_RESTART = pytest.mark.parametrize(
    "pause", [lambda _: None, lambda centre: centre.restart()], ids=["no-restart", "restart"]
)


def point_at(points: list[dict[str, Any]], n: float) -> dict[str, Any]:
    return next(point for point in points if point["n"] == n)


def true_power_w(n: float) -> float:
    """The power of all hosts of an undisturbed run, from the formula of the simulated runs."""
    comm = (n / 4) ** -0.08
    return float(n * (150.0 + (70.0 * 1.4 + 150.0 * 0.2) * comm + 6000.0 * 0.004))


@WITH_AND_WITHOUT_RESTART
def test_a_prediction_carries_the_power_of_all_hosts_and_the_energy_of_the_run_with_bands(pause: Restart) -> None:
    day = measured_after(12)
    pause(day.centre)
    day.runs_on(8).settles()
    for n in (4.0, 8.0, 16.0, 32.0):
        point = point_at(day.prediction["curve"], n)
        assert point["power_w"] == pytest.approx(true_power_w(n), rel=0.04)
        assert point["power_low_w"] < point["power_w"] < point["power_high_w"]
        assert point["energy_j"] == pytest.approx(point["power_w"] * point["run_time_s"], rel=1e-2)
        assert point["energy_low_j"] < point["power_low_w"] * point["run_time_s"]
        assert point["energy_high_j"] > point["power_high_w"] * point["run_time_s"]
        assert point["energy_high_j"] < point["power_high_w"] * point["high_s"]
    assert day.prediction["power"]["scored"] > 10
    assert day.prediction["power"]["measured"] == 1.0


def test_a_prediction_names_the_sizes_of_least_energy_and_of_least_energy_times_run_time() -> None:
    prediction = Measured().runs_on(24).settles().prediction
    inside = [point for point in prediction["curve"] if point["source"] in {"observed", "interpolated"}]
    assert prediction["useful_n"]["least_energy"] == min(inside, key=lambda point: point["energy_j"])["n"] == 4.0
    best = min(prediction["curve"], key=lambda point: point["energy_j"] * point["run_time_s"])
    assert prediction["useful_n"]["least_energy_delay"] >= 16.0
    assert (
        best["n"] >= prediction["useful_n"]["least_energy_delay"]
    )  # the best of all may lie where nothing can be relied on
    reliable = prediction["reliable_n"]["max"] if prediction["reliable_n"] else 32.0
    assert prediction["useful_n"]["least_energy_delay"] <= max(reliable, 32.0)


def test_an_answer_carries_power_and_energy_at_the_sizes_asked_for() -> None:
    day = measured_after(20).settles()
    answer = day.centre.asks("q1", 8.0, 64.0, application="lammps")
    prediction = point_at(day.prediction["curve"], 8.0)
    requested = point_at(answer["points"], 8.0)
    assert (requested["power_w"], requested["energy_j"]) == (prediction["power_w"], prediction["energy_j"])
    assert point_at(answer["points"], 64.0)["power_w"] == pytest.approx(true_power_w(64.0), rel=0.15)
    assert answer["useful_n"]["least_energy"] == published_least_energy(day)


def published_least_energy(day: Measured) -> float:
    least: float = day.prediction["useful_n"]["least_energy"]
    return least


def test_a_running_job_is_shown_the_power_of_its_hosts() -> None:
    day = measured_after(20).settles()
    day.centre.starts("now", "lammps", nodes=16)
    reported = day.centre.topic("job_predictions")["exa/now"]
    assert reported["power_w"] == pytest.approx(true_power_w(16.0), rel=0.05)
    assert reported["power_low_w"] < reported["power_w"] < reported["power_high_w"]


def test_where_power_was_never_measured_none_is_reported_and_all_else_is_the_same() -> None:
    dark, measured = Measured().runs_on(12, profiles=False).settles(), measured_after(12).settles()
    assert dark.prediction["power"] is None
    assert dark.prediction["useful_n"]["least_energy"] is None
    assert all(point["power_w"] is None and point["energy_j"] is None for point in dark.prediction["curve"])
    times = [
        [(point["n"], point["run_time_s"], point["low_s"]) for point in day.prediction["curve"]]
        for day in (dark, measured)
    ]
    assert times[0] == times[1]


def test_a_component_alone_reports_no_power_of_a_host() -> None:
    day = Measured()
    for i in range(6):
        day.centre.at_ms(DAY_MS + (i + 1) * EVERY_MS)
        event = day.centre.ran(f"r{i}", "lammps", 4.0, 100.0)
        profile = Profile(hosts=4, minutes=4, expected=4, power_w={"cpu": 120.0}, measured={"cpu": 1.0})
        day.centre.fold(JobProfile("exa", f"r{i}", event.run_id, profile))
    assert point_at(day.settles().prediction["curve"], 4.0)["power_w"] is None


@WITH_AND_WITHOUT_RESTART
def test_power_that_becomes_known_after_the_last_run_is_published_without_another(pause: Restart) -> None:
    day = Measured().runs_on(2)
    day.centre.at_ms(day.centre.now_ms + 60_000)
    assert point_at(day.prediction["curve"], 4.0)["power_w"] is None
    day.centre.at_ms(day.centre.now_ms + 200_000)  # the second run has settled
    pause(day.centre)
    day.settles()
    assert point_at(day.prediction["curve"], 4.0)["power_w"] == pytest.approx(true_power_w(4.0), rel=0.1)


def test_power_makes_no_more_predictions_than_run_times_do() -> None:
    dark, measured = Measured().runs_on(30, profiles=False).settles(), Measured().runs_on(30).settles()
    counts = [len(day.centre.messages("predictions", KEY)) for day in (dark, measured)]
    assert counts[1] <= counts[0] + 2


def test_what_became_of_profiles_is_counted_by_reason() -> None:
    day = Measured().runs_on(3).runs_on(2, profiles=False)
    event = day.centre.ran("failed", "lammps", 4.0, 60.0, state="FAILED")
    day.centre.predicted.by_run[event.run_id] = Profile(hosts=4, minutes=4, expected=4)
    event = day.centre.ran("shared", "lammps", 4.0, 60.0)
    day.centre.predicted.by_run[event.run_id] = Profile(hosts=4, minutes=3, expected=4, shared=1)
    event = day.centre.ran("nameless", None, 4.0, 60.0)
    day.centre.predicted.by_run[event.run_id] = Profile(hosts=4, minutes=4, expected=4)
    day.settles()
    counted = {name: day.centre.tally[f"profile:{name}"] for name in PROFILES}
    assert counted == {
        "learned": 3, "no_telemetry": 2, "coverage": 1, "not_completed": 1, "not_identified": 1, "end_late": 0,
    }  # fmt: skip
