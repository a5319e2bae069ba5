"""An application that becomes slower or faster for good: what is reported it, and what is predicted from then on."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from processors.contracts.events import JobCompleted, Tick
from processors.pipeline.alerts import Warnings
from processors.pipeline.completions import Forgetting
from tests.kit.scenario import DAY_MS, Scenario

SIZES = (1, 2, 4, 8, 16)
EVERY_MS = 900_000
KEY = "exa/lammps//nodes"
Restart = Callable[[Scenario], None]
WITH_AND_WITHOUT_RESTART = pytest.mark.parametrize(
    "pause", [lambda _: None, lambda centre: centre.restart()], ids=["no-restart", "restart"]
)


class Day:
    """An application that is run every quarter of an hour, at all sizes in turn, with a scatter of some per cent."""

    def __init__(self, **alerts: Any) -> None:
        self.centre = Scenario(alerts=alerts)
        self.runs = 0

    def goes_on(self, runs: int, factor: float = 1.0, build: str = "2026.1", size: int | None = None) -> "Day":
        for _ in range(runs):
            i, self.runs = self.runs, self.runs + 1
            n = size or SIZES[i % 5]
            self.centre.at_ms(DAY_MS + self.runs * EVERY_MS)
            run_time_s = (500.0 / n + 10.0) * factor * (1 + 0.01 * (i * 7 % 5 - 2))
            self.centre.ran(f"r{i}", "lammps", n, run_time_s, attributes={"build": build})
        return self

    def predicted_s(self, n: float) -> float:
        points = self.centre.topic("predictions")[KEY]["curve"]
        return float(next(point["run_time_s"] for point in points if point["n"] == n))


@WITH_AND_WITHOUT_RESTART
def test_a_slowdown_is_reported_within_five_runs_with_its_build_and_predictions_follow_at_once(pause: Restart) -> None:
    day = Day().goes_on(40)
    before_s = day.predicted_s(16.0)
    pause(day.centre)
    day.goes_on(3, 1.25, "2026.2")
    pause(day.centre)
    day.goes_on(2, 1.25, "2026.2")
    (prediction,) = (each for each in day.centre.messages("alerts") if each["labels"]["alertname"] == "Regression")
    assert (prediction["status"], prediction["severity"], prediction["kind"]) == ("firing", "warning", "anomaly")
    assert prediction["labels"] == {
        "alertname": "Regression", "severity": "warning", "application": "lammps", "system": "exa", "input": "",
        "unit": "nodes",
    }  # fmt: skip
    summary = prediction["annotations"]["summary"]
    assert summary.startswith("lammps on exa has taken 1.2")
    assert "times as long as before since 10:04 on 20 Nov (UTC), in " in summary
    assert summary.endswith(" runs; build changed from 2026.1 to 2026.2 then.")
    detail = prediction["evidence"]["detail"]
    assert detail["since_run"].startswith("exa/r40@")
    assert (detail["changed"], detail["before"], detail["after"]) == ("build", "2026.1", "2026.2")
    assert prediction["evidence"]["observed"] > prediction["evidence"]["expected"]
    assert day.predicted_s(16.0) == pytest.approx(1.25 * before_s, rel=0.04)
    assert day.predicted_s(1.0) == pytest.approx(1.25 * 510, rel=0.04), "sizes that were not run since move, too"


def test_one_run_has_one_alert_at_a_time() -> None:
    day = Day().goes_on(40).goes_on(1, 1.4)
    assert day.centre.alerts("StrangeRun") == ["firing"]
    day.goes_on(5, 1.4)
    assert day.centre.alerts("Regression") == ["firing"]
    assert day.centre.alerts("StrangeRun") == ["firing", "resolved"], "what the shift explains is not strange"
    last = [
        prediction for prediction in day.centre.messages("alerts") if prediction["labels"]["alertname"] == "StrangeRun"
    ][-1]
    summary, description = (last["annotations"][name] for name in ("summary", "description"))
    assert summary == "The run times of lammps on exa have changed for good: this was not a single run."
    assert description.startswith("The alert was: lammps on 2 nodes took ")
    assert last["evidence"]["observed"] == pytest.approx(1.4 * last["evidence"]["expected"], rel=0.1)


def test_after_a_day_at_the_new_level_it_resolves_and_states_that_the_level_was_learned() -> None:
    day = Day().goes_on(40).goes_on(90, 1.25)
    assert day.centre.alerts("Regression") == ["firing"]
    day.goes_on(20, 1.25)
    assert day.centre.alerts("Regression") == ["firing", "resolved"]
    assert "learned the new level" in day.centre.messages("alerts")[-1]["annotations"]["description"]
    assert day.centre.alerts("Improvement") == []


@WITH_AND_WITHOUT_RESTART
def test_a_slowdown_that_is_over_ends_the_alert_and_is_no_improvement(pause: Restart) -> None:
    day = Day().goes_on(40)
    before_s = day.predicted_s(4.0)
    day.goes_on(10, 1.25)
    pause(day.centre)
    day.goes_on(8)
    assert day.centre.alerts("Regression") == ["firing", "resolved"]
    assert day.centre.alerts("Improvement") == []
    last = day.centre.messages("alerts")[-1]["annotations"]
    assert last["summary"] == "The run times of lammps on exa are back to their previous level."
    assert last["description"].startswith("The alert was: lammps on exa has taken 1.2")
    assert day.predicted_s(4.0) == pytest.approx(before_s, rel=0.02)


def test_faster_is_an_improvement_and_information() -> None:
    day = Day().goes_on(40).goes_on(6, 0.8)
    assert day.centre.alerts("Improvement") == ["firing"]
    prediction = [each for each in day.centre.messages("alerts") if each["labels"]["alertname"] == "Improvement"]
    assert prediction[0]["severity"] == "info"
    assert day.centre.alerts("Regression") == []


def test_a_new_build_that_changes_nothing_reports_nothing() -> None:
    day = Day().goes_on(40)
    before_s = day.predicted_s(4.0)
    day.goes_on(20, build="2026.2")
    assert day.centre.messages("alerts") == []
    assert day.predicted_s(4.0) == pytest.approx(before_s, rel=0.01)


def test_one_slow_size_of_several_is_no_slowdown_of_the_application() -> None:
    day = Day().goes_on(40)
    before_s = day.predicted_s(2.0)
    day.goes_on(12, 1.5, size=16)
    assert day.centre.alerts("Regression") == []
    assert day.predicted_s(2.0) == pytest.approx(before_s, rel=0.05)


def test_history_moves_the_model_and_wakes_nobody() -> None:
    live, late = Day().goes_on(40).goes_on(8, 1.25), Scenario()
    for event in live.centre.events:
        if isinstance(event, Tick):
            late.at_ms(event.time_ms + 7 * 3_600_000)
        else:
            late.fold(event)
    assert live.centre.alerts("Regression") == ["firing"]
    assert late.messages("alerts") == []
    model = late.model("lammps")
    assert model is not None
    assert model.snapshot().sizes["levels"]


def test_switched_off_it_reports_nothing_and_predictions_follow_all_the_same() -> None:
    day = Day(shift={"enabled": False}, strange_run={"enabled": False}).goes_on(40).goes_on(6, 1.25)
    assert day.centre.messages("alerts") == []
    assert day.predicted_s(16.0) == pytest.approx(1.25 * 41.25, rel=0.05)


def test_an_application_that_is_forgotten_takes_its_detector_and_its_alert_along() -> None:
    day = Day().goes_on(40).goes_on(6, 1.25)
    assert list(day.centre.shard.state.drifts.keys()) == [KEY]
    state = day.centre.shard.state
    list(Forgetting(state, Warnings(state)).forget(KEY))
    day.centre.at_ms(day.centre.now_ms + 60_000)
    assert day.centre.alerts("Regression") == ["firing", "resolved"]
    assert KEY not in day.centre.shard.state.drifts


def test_a_corrected_report_replaces_its_run_after_the_level_moved_too() -> None:
    day, other = Day().goes_on(40).goes_on(6, 1.25), Day().goes_on(40).goes_on(6, 1.25)
    wrong = other.centre.runs_of("lammps")
    event = next(each for each in day.centre.events if isinstance(each, JobCompleted) and each.job_id == "r39")
    for run_time_s in (77.0, event.run_time_s):
        day.centre.fold(msgspec.structs.replace(event, run_time_s=run_time_s))
    assert day.centre.runs_of("lammps") == wrong
    first, second = day.centre.model("lammps"), other.centre.model("lammps")
    assert first is not None
    assert second is not None
    assert first.study().predict([3.0]).run_time_s == second.study().predict([3.0]).run_time_s


def test_a_shift_is_counted_by_its_direction() -> None:
    day = Day().goes_on(40).goes_on(6, 1.25)
    assert day.centre.tally["shift:regression"] == 1
    assert day.centre.tally["shift:improvement"] == 0


def test_a_typical_detector_is_small() -> None:
    day = Day().goes_on(200)
    stored = day.centre.shard.state.drifts.encode(KEY)
    assert stored is not None
    assert len(stored) < 1200
