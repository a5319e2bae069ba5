"""Runs of which a part waits for the network of their hosts: predicted by it once that was better, and excused by it."""

from typing import Any

import numpy as np
import pytest

from tests.kit.host_windows import KnownWindows
from tests.kit.scenario import Scenario

NAMES = ("nid1", "nid2", "nid3", "nid4")
FULL_B_S = 1e10


class Waiting:
    """An application at three sizes, half of whose run time waits for the network where that is free by a half."""

    def __init__(self, *, measured: bool = True, waits: float = 0.5) -> None:
        self.centre = Scenario()
        self.centre.shard.state.windows = self.windows = KnownWindows({"standard": NAMES})
        self.centre.at("08:00")
        self._random = np.random.default_rng(3)
        self._runs, self._measured, self._waits = 0, measured, waits

    def measure(self, free: float) -> None:
        for name in NAMES:
            self.windows.report(name, np.linspace(0.9, 0.92, 30).tolist(), self.centre.now_ms)
            if self._measured:
                values = np.linspace(free - 0.01, free + 0.01, 30) * FULL_B_S
                self.windows.report(name, values.tolist(), self.centre.now_ms, "bandwidth")

    def go_on(self, count: int, free: float | None = None, slower: float = 1.0) -> "Waiting":
        """Run jobs one after the other on hosts that have so much bandwidth left, by default any; `slower` is what that does not explain."""
        for _ in range(count):
            job, n = f"s{self._runs}", (1, 2, 4)[self._runs % 3]
            here = free or float(self._random.uniform(0.35, 0.95))
            self._runs += 1
            self.measure(here)
            self.centre.starts(job, "cfd", nodes=n, hosts=(f"nid[1-{n}]",), partition="standard")
            stretch = (1 - self._waits) + self._waits * 0.5 / here
            took_s = slower * (1000 / n + 20) * stretch * float(np.exp(self._random.normal(0, 0.02)))
            self.centre.at_ms(self.centre.now_ms + round(took_s / 10) * 10_000).ends(job)
            self.centre.at_ms(self.centre.now_ms + 60_000)
        return self

    def starts(self, free: float) -> dict[str, Any]:
        self.measure(free)
        self.centre.starts("1", "cfd", nodes=4, hosts=("nid[1-4]",), partition="standard")
        found: dict[str, Any] = self.centre.topic("job_predictions")["exa/1"]
        return found


def test_a_job_on_hosts_with_little_bandwidth_takes_as_long_as_its_like_took_there() -> None:
    waiting = Waiting().go_on(75)
    prediction = waiting.starts(0.25)
    under = prediction["under_load"]
    assert under["communication_share"] == pytest.approx(0.45, abs=0.1)
    assert under["bandwidth"] == pytest.approx(0.25 * FULL_B_S, rel=0.03)
    assert under["baseline_bandwidth"] == pytest.approx(0.6 * FULL_B_S, rel=0.15)
    assert under["q50_s"] == pytest.approx(270 * (0.5 + 0.5 * 0.5 / 0.25), rel=0.1)
    assert prediction["source"] == "under_load"


def test_a_request_is_answered_for_the_bandwidth_of_its_hosts() -> None:
    waiting = Waiting().go_on(75)
    answers = []
    for number, free in enumerate((0.3, 0.9)):
        waiting.measure(free)
        for where in ({"hosts": ("nid[1-4]",)}, {"partition": "standard"}):
            (point,) = waiting.centre.asks(f"r{number}{len(where)}{[*where]}", 4, application="cfd", **where)["points"]
            answers.append(point["under_load"])
    few, many = answers[0], answers[2]
    assert few["communication_share"] == many["communication_share"] > 0.3
    assert few["q50_s"] / many["q50_s"] == pytest.approx((0.5 + 0.5 * 0.5 / 0.3) / (0.5 + 0.5 * 0.5 / 0.9), rel=0.1)


def test_what_the_network_of_its_hosts_explains_is_no_alert_about_the_application() -> None:
    waiting = Waiting().go_on(75).go_on(9, free=0.17)
    assert waiting.centre.alerts("StrangeRun") == waiting.centre.alerts("Regression") == []
    unmeasured = Waiting(measured=False).go_on(75).go_on(9, free=0.17)
    assert unmeasured.centre.alerts("StrangeRun") + unmeasured.centre.alerts("Regression") != []


def test_what_the_network_does_not_explain_is_an_alert_of_the_application() -> None:
    waiting = Waiting().go_on(75).go_on(9, free=0.6, slower=2.0)
    assert waiting.centre.alerts("Regression") == ["firing"]


def test_an_application_that_never_waits_is_predicted_as_if_there_were_no_network() -> None:
    with_, without = (Waiting(measured=measured, waits=0.0).go_on(60).starts(0.2) for measured in (True, False))
    assert with_["under_load"]["communication_share"] == 0
    assert with_["under_load"]["bandwidth"] == pytest.approx(0.2 * FULL_B_S, rel=0.05)
    for name in ("run_time_s", "low_s", "high_s"):
        assert with_[name] == pytest.approx(without[name], rel=0.02)


def test_what_was_learned_of_the_network_stays_over_a_restart() -> None:
    waiting = Waiting().go_on(45)
    before = waiting.starts(0.25)["under_load"]
    waiting.centre.restart()
    waiting.centre.shard.state.windows = waiting.windows
    (point,) = waiting.centre.asks("r1", 4, application="cfd", hosts=("nid[1-4]",))["points"]
    assert point["under_load"]["communication_share"] == before["communication_share"] > 0
