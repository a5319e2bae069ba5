"""What the alert of an application that became slower says of its counters: the one that moved with it, by how much, with which build."""

from typing import Any

import numpy as np
import pytest

from processors.contracts.events import JobProfile
from processors.contracts.hosts import Profile
from tests.kit.scenario import DAY_MS, SYSTEM, Scenario

SIZES = (1, 2, 4, 8)
EVERY_MS = 900_000
CYCLES_PER_S = 2.4e9
LEARNED = "The model has learned the new level and predicts it from now on."


class Counted:
    """An application that is run every quarter of an hour; each run has counters that scatter by 5 %, and its time by 1 %."""

    def __init__(self) -> None:
        self.centre, self.runs, self.rng = Scenario(), 0, np.random.default_rng(5)

    def goes_on(self, runs: int, factor: float = 1.0, build: str = "6", **changes: float) -> "Counted":
        """Run it; `changes` are factors of counters per instruction, of `instructions` per run and of the `clock`."""
        for _ in range(runs):
            i, self.runs = self.runs, self.runs + 1
            n = SIZES[i % len(SIZES)]
            self.centre.at_ms(DAY_MS + self.runs * EVERY_MS)
            run_time_s = (500.0 / n + 10.0) * factor * float(np.exp(0.01 * self.rng.normal()))
            event = self.centre.ran(f"r{i}", "lammps", n, run_time_s, attributes={"build": build})
            profile = Profile(n, 10, 10, counters=self.counters(n, run_time_s, changes))
            self.centre.fold(JobProfile(SYSTEM, f"r{i}", event.run_id, profile))
        return self

    def counters(self, n: int, run_time_s: float, changes: dict[str, float]) -> dict[str, float]:
        """Return rates per second and host: so many instructions are to be done, however long they take."""
        done = changes.get("instructions", 1.0) * 1e12 / n
        per_instruction = {"PAPI_L2_DCM": 0.01, "PAPI_L1_DCM": 0.04, "PAPI_BR_MSP": 0.002, "PAPI_TLB_DM": 0.0005}
        found = {name: changes.get(name, 1.0) * rate for name, rate in per_instruction.items()}
        found = {name: rate * float(np.exp(0.05 * self.rng.normal())) * done for name, rate in found.items()}
        found |= {"PAPI_TOT_INS": done}
        rates = {name: count / run_time_s for name, count in found.items()}
        return rates | {"PAPI_TOT_CYC": CYCLES_PER_S * changes.get("clock", 1.0)}

    def alert(self, name: str = "Regression") -> dict[str, Any]:
        alerts = self.centre.messages("alerts")
        (found,) = (each for each in alerts if each["labels"]["alertname"] == name and each["status"] == "firing")
        return found

    def description(self, name: str = "Regression") -> str:
        return str(self.alert(name)["annotations"]["description"])


def test_a_regression_names_the_counter_that_rose_by_how_much_and_with_which_build() -> None:
    story = Counted().goes_on(60).goes_on(6, 1.3, "7", PAPI_L2_DCM=1.4)
    found = story.alert()
    text, detail = found["annotations"]["description"], found["evidence"]["detail"]
    start, _, rest = text.partition(" by ")
    percent, _, rest = rest.partition(" %")
    assert start == "PAPI_L2_DCM per instruction rose"
    assert int(percent) == pytest.approx(40, abs=8)
    assert rest.startswith(f" with build 7. {LEARNED} Single runs scatter by ")
    assert len(text) <= 600
    assert detail["counter"] == "PAPI_L2_DCM per instruction"
    assert detail["counter_since"] / detail["counter_before"] == pytest.approx(1.4, rel=0.06)
    assert detail["counter_runs"] >= 2


def test_an_improvement_names_the_counter_that_fell() -> None:
    story = Counted().goes_on(60).goes_on(6, 0.75, PAPI_BR_MSP=0.5)
    assert story.description("Improvement").startswith("PAPI_BR_MSP per instruction fell by ")
    assert "build" not in story.description("Improvement")


def test_more_work_is_named_as_instructions_per_run() -> None:
    story = Counted().goes_on(60).goes_on(6, 1.3, "7", instructions=1.3)
    assert story.description().startswith("PAPI_TOT_INS per run and host rose by ")


def test_processors_that_go_slower_are_named_as_cycles_per_second() -> None:
    story = Counted().goes_on(60).goes_on(6, 1.3, clock=1 / 1.3)
    assert story.description().startswith("PAPI_TOT_CYC per second fell by 23 %.")


def test_where_no_counter_but_the_speed_of_instructions_moved_that_is_named() -> None:
    story = Counted().goes_on(60).goes_on(6, 1.3, "7")
    assert story.description().startswith("PAPI_TOT_INS per cycle fell by ")


def test_a_counter_that_rose_to_a_multiple_is_reported_as_one() -> None:
    story = Counted().goes_on(60).goes_on(6, 1.3, PAPI_TLB_DM=3.0)
    assert story.description().startswith("PAPI_TLB_DM per instruction rose to ")
    assert " times as much. " in story.description()


def test_without_counters_a_regression_reads_as_ever() -> None:
    centre = Scenario()
    for i in range(66):
        centre.at_ms(DAY_MS + (i + 1) * EVERY_MS)
        centre.ran(f"r{i}", "lammps", SIZES[i % 4], (500.0 / SIZES[i % 4] + 10.0) * (1.3 if i >= 60 else 1.0))
    (found,) = (each for each in centre.messages("alerts") if each["labels"]["alertname"] == "Regression")
    assert found["annotations"]["description"].startswith(f"{LEARNED} Single runs scatter by ")
    assert "counter" not in found["evidence"]["detail"]
