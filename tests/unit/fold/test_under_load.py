"""Run times under the load of the hosts: told when a job starts, to who asks, and with predictions; scored at the end."""

from typing import Any, Literal

import numpy as np
import pytest

from processors.contracts.hosts import ForecastHistogram
from processors.contracts.names import rfc3339
from processors.pipeline.alerts import Warnings
from processors.pipeline.completions import Forgetting
from tests.kit.host_minutes import minute
from tests.kit.host_windows import KnownWindows
from tests.kit.scenario import Scenario, moment_ms

SIZES = (1, 2, 4, 8, 16) * 4
NID = "nid[1-4]"
NAMES = ("nid1", "nid2", "nid3", "nid4")


def even(low: float, high: float) -> list[float]:
    return [float(each) for each in np.linspace(low, high, 30)]


def learned(windows: KnownWindows | None = None) -> Scenario:
    """Return a centre that knows lammps: 270 s on 4 nodes."""
    centre = Scenario()
    centre.shard.state.windows = windows or KnownWindows()
    centre.at("08:00").scales("lammps", *SIZES)
    return centre.at("10:00")


def loaded(*low: float, at: str = "10:00", width: float = 0.05) -> KnownWindows:
    """Return windows of four hosts that have so much of their processors left, and a little more."""
    windows = KnownWindows({"standard": NAMES})
    for name, value in zip(NAMES, low, strict=True):
        windows.report(name, even(value, value + width), moment_ms(at))
    return windows


def started(centre: Scenario, job: str = "1", **fields: Any) -> dict[str, Any]:
    centre.starts(job, "lammps", nodes=4, **({"hosts": (NID,)} | fields))
    prediction: dict[str, Any] = centre.topic("job_predictions")[f"exa/{job}"]
    return prediction


def test_a_job_on_hosts_that_are_half_busy_takes_twice_as_long() -> None:
    prediction = started(learned(loaded(0.5, 0.95, 0.95, 0.95)))
    under = prediction["under_load"]
    assert under["q50_s"] == pytest.approx(prediction["run_time_s"] / 0.525, rel=0.02)
    assert under["q05_s"] < under["mean_s"] < under["q95_s"]
    assert under["load"] == pytest.approx(1 / 0.525, rel=0.01)
    assert (under["hosts"], under["hosts_count"], under["n"], under["missing"]) == (NID, 4.0, 4.0, 0)
    assert (under["variation"], under["equation"], under["baseline_load"]) == ("low", "default", 1.0)
    assert len(under["histogram"]["edges_s"]) == 6
    assert sum(under["histogram"]["probabilities"]) == pytest.approx(1.0)


def test_hosts_that_are_free_change_nothing_but_what_the_window_adds() -> None:
    prediction = started(learned(loaded(0.95, 0.95, 0.95, 0.95)))
    assert prediction["under_load"]["q50_s"] == pytest.approx(prediction["run_time_s"], rel=0.06)
    assert (
        prediction["low_s"]
        < prediction["under_load"]["q50_s"]
        < prediction["under_load"]["q95_s"]
        < 1.2 * prediction["high_s"]
    )


def test_minutes_of_hosts_in_the_journal_are_what_a_start_is_reported_by() -> None:
    """No window is made by hand here: minutes are folded, as collectors write them."""
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    centre.at("10:00")
    last = centre.now_ms // 60_000 - 1
    for name in NAMES:
        for number in (last - 1, last):
            left = (0.5, 0.55) if name == "nid3" else (0.95, 1.0)
            centre.fold(minute(name, number, cpu_available=left))
    centre.at("10:00:20")
    prediction = started(centre, partition="standard")
    assert prediction["under_load"]["load"] == pytest.approx(1 / 0.525, rel=0.01)
    assert prediction["under_load"]["missing"] == 0
    centre.at("10:01")
    (point,) = centre.asks("r1", 4, application="lammps", partition="standard")["points"]
    assert point["under_load"]["hosts"] == "partition standard"
    assert point["under_load"]["load"] > 1.2


def ahead(windows: KnownWindows, left: float) -> None:
    """Let the hosts be expected to have so much of their processors left next, within a hundredth."""
    for name in NAMES:
        windows.expect(name, ForecastHistogram((left - 0.01, left, left + 0.01), (0.5, 0.5)))


def runs_met(followed: Literal["window", "forecast"], count: int = 24) -> tuple[Scenario, KnownWindows]:
    """Return a centre whose runs took as long follows from one source of load, while the other is off.

    Its curve was learned under the load that is usual, so that a run without any would take 186 s.
    """
    random, windows = np.random.default_rng(6), KnownWindows()
    centre = learned(windows)
    for number in range(count):
        left, other = random.uniform(0.45, 0.95, 2)
        window, forecast = (left, other) if followed == "window" else (other, left)
        for name in NAMES:
            windows.report(name, even(window - 0.01, window + 0.01), centre.now_ms)
        ahead(windows, forecast)
        started(centre, f"past{number}")
        centre.at_ms(centre.now_ms + round(18.6 / left) * 10_000)
        centre.ends(f"past{number}")
        centre.at_ms(centre.now_ms + 60_000)
    return centre, windows


@pytest.mark.parametrize("followed", ["window", "forecast"])
def test_the_source_of_load_that_predicted_better_answers(followed: Literal["window", "forecast"]) -> None:
    centre, windows = runs_met(followed)
    for name in NAMES:
        windows.report(name, even(0.69, 0.71), centre.now_ms)
    ahead(windows, 0.5)
    under = started(centre)["under_load"]
    assert under["source"] == followed
    assert under["load"] == pytest.approx(1 / (0.7 if followed == "window" else 0.5), rel=0.05)
    assert (under["quality"]["forecast_ratio"] < 1) is (followed == "forecast")


def test_windows_answer_until_a_dozen_runs_were_scored_and_where_nothing_is_predicted() -> None:
    centre, windows = runs_met("forecast", count=10)
    assert started(centre)["under_load"]["source"] == "window"
    centre, windows = runs_met("forecast")
    windows.expected.clear()
    under = started(centre)["under_load"]
    assert (under["source"], under["q50_s"] is None) == ("window", False)


def test_windows_after_the_start_are_not_used() -> None:
    """A job's own load is not what it met."""
    windows = loaded(0.95, 0.95, 0.95, 0.95, at="09:59")
    for name in NAMES:
        windows.report(name, even(0.1, 0.15), moment_ms("10:01"))
    assert started(learned(windows))["under_load"]["load"] < 1.06


def test_without_any_window_nothing_is_reported_and_nothing_is_kept() -> None:
    centre = learned()
    assert started(centre)["under_load"] is None
    centre.at("10:05").ends("1")
    assert not any(key.startswith("load_scores") for key in centre.state())


def test_half_of_the_windows_will_do_and_fewer_give_a_reason() -> None:
    windows = KnownWindows()
    windows.report("nid1", even(0.5, 0.55), moment_ms("10:00"), stale=True)
    centre = learned(windows)
    under = started(centre)["under_load"]
    assert under["histogram"] is None
    assert under["q50_s"] is None
    assert under["reason"] == "3 of 4 hosts have no window of cpu_available."
    windows.report("nid2", [0.9, 0.91], moment_ms("10:00"))
    under = started(centre, "2")["under_load"]
    assert (under["missing"], under["stale"], under["thin"], under["looked_at"]) == (2, 1, 1, 4)
    assert under["load"] == pytest.approx(1 / 0.52, rel=0.05)


def test_a_window_of_an_hour_ago_reports_nothing() -> None:
    assert started(learned(loaded(0.5, 0.5, 0.5, 0.5, at="09:00")))["under_load"] is None


def test_what_was_reported_at_the_start_stays_while_the_job_runs_and_over_a_restart() -> None:
    centre = learned(windows := loaded(0.5, 0.95, 0.95, 0.95))
    first = started(centre)["under_load"]
    centre.restart()
    centre.shard.state.windows = windows
    centre.at("10:08")
    last = centre.messages("job_predictions")[-1]
    assert last["run_time_s"] > 300
    assert last["under_load"] == first


def runs(centre: Scenario, windows: KnownWindows, count: int, load: float, noise: float = 0.02, **fields: Any) -> None:
    """Run jobs one after the other, each on hosts of some load, which stretches it."""
    random = np.random.default_rng(3)
    for i in range(count):
        low = 1 / load if load != 1 else float(random.uniform(0.3, 0.9))
        for name in NAMES:
            windows.report(name, even(low, low + 0.02), centre.now_ms)
        centre.starts(f"r{i}", "lammps", nodes=4, **({"hosts": (NID,), "partition": "standard"} | fields))
        took_s = 270 / (low + 0.01) * float(np.exp(random.normal(0, noise)))
        centre.at_ms(centre.now_ms + round(took_s / 10) * 10_000).ends(f"r{i}")
        centre.at_ms(centre.now_ms + 60_000)


def test_runs_that_follow_the_load_make_it_better_than_the_plain_band() -> None:
    centre = learned(windows := KnownWindows({"standard": NAMES}))
    runs(centre, windows, 40, 1)
    for name in NAMES:
        windows.report(name, even(0.5, 0.55), centre.now_ms)
    under = started(centre)["under_load"]
    quality = under["quality"]
    assert (quality["of"], quality["scored"]) == ("application", 40)
    assert quality["crps_ratio"] < 1
    assert under["follows"] > 0.8
    assert under["width"] < 1
    assert under["better"]
    assert sum(quality["pit"]) == pytest.approx(1, abs=0.01)


class Shared:
    """An application at three sizes on hosts that it shares: runs take as long as what its hosts have left lets them."""

    def __init__(self) -> None:
        self.centre = Scenario()
        self.centre.shard.state.windows = self.windows = KnownWindows({"standard": NAMES})
        self.centre.at("08:00")
        self._random = np.random.default_rng(3)
        self._runs = 0
        self.go_on(75)

    def load(self, left: float) -> None:
        for name in NAMES:
            self.windows.report(name, even(left - 0.01, left + 0.01), self.centre.now_ms)

    def go_on(self, count: int, left: float | None = None, slower: float = 1.0) -> "Shared":
        """Run jobs one after the other on hosts that have so much left, by default any share; `slower` is what that does not explain."""
        for _ in range(count):
            job, n, here = f"s{self._runs}", (1, 2, 4)[self._runs % 3], left or float(self._random.uniform(0.5, 0.95))
            self._runs += 1
            self.load(here)
            self.centre.starts(job, "cfd", nodes=n, hosts=(f"nid[1-{n}]",), partition="standard")
            took_s = slower * (1000 / n + 20) / here * float(np.exp(self._random.normal(0, 0.02)))
            self.centre.at_ms(self.centre.now_ms + round(took_s / 10) * 10_000).ends(job)
            self.centre.at_ms(self.centre.now_ms + 60_000)
        return self

    def predicted(self, n: float) -> float:
        points = self.centre.topic("predictions")["exa/cfd//nodes"]["curve"]
        return next(float(point["run_time_s"]) for point in points if point["n"] == n)


def test_the_end_of_a_job_is_that_under_load_once_such_figures_have_the_better_record() -> None:
    shared = Shared()
    centre = shared.centre
    assert centre.messages("job_predictions", "exa/s9")[0]["source"] == "curve"
    shared.load(0.3)
    centre.starts("1", "cfd", nodes=4, hosts=("nid[1-4]",), partition="standard", time_limit_s=600.0)
    prediction = centre.topic("job_predictions")["exa/1"]
    under = prediction["under_load"]
    assert (under["better"], prediction["source"]) == (True, "under_load")
    assert [prediction[name] for name in ("run_time_s", "low_s", "high_s")] == [
        pytest.approx(under[name], rel=5e-3) for name in ("q50_s", "q05_s", "q95_s")
    ]
    assert prediction["end"] == rfc3339(centre.now_ms + 600_000), "it will be stopped at its limit"
    assert prediction["run_time_s"] == pytest.approx(270 / 0.3, rel=0.15)
    assert prediction["probability_exceeds_limit"] > 0.9, "under the usual load it would take 370 s"
    assert prediction["coverage_measured"] is None, "that of the curve says nothing of it"
    centre.at_ms(centre.now_ms + 890_000)
    last = centre.topic("job_predictions")["exa/1"]
    assert (last["source"], last["probability_exceeds_limit"]) == ("under_load", 1.0)
    centre.ends("1")
    centre.at_ms(centre.now_ms + 600_000)
    assert centre.messages("runs")[-1]["predicted"]["source"] == "under_load"


def test_what_the_load_of_its_hosts_explains_is_no_alert_about_the_application_and_moves_no_level() -> None:
    """Three of four regressions of the simulated centre were loaded hosts."""
    shared = Shared()
    before = {n: shared.predicted(n) for n in (1, 2, 4)}
    shared.go_on(9, left=0.35)
    assert shared.centre.alerts("StrangeRun") == shared.centre.alerts("Regression") == []
    assert shared.centre.tally["shift:regression"] == shared.centre.tally["size_shift:regression"] == 0
    for n, run_time_s in before.items():
        assert shared.predicted(n) == pytest.approx(run_time_s, rel=0.1)


def test_what_the_load_does_not_explain_is_an_alert_of_the_application_under_load_too() -> None:
    shared = Shared().go_on(9, left=0.7, slower=1.5)
    assert shared.centre.alerts("Regression") == ["firing"]


def test_runs_that_do_not_follow_the_load_are_reported_as_without_it() -> None:
    """On hosts that a job has for itself, what others did there before says nothing."""
    centre = learned(windows := KnownWindows({"standard": NAMES}))
    random = np.random.default_rng(4)
    for i in range(40):
        low = float(random.uniform(0.1, 0.9))
        for name in NAMES:
            windows.report(name, even(low, low + 0.02), centre.now_ms)
        centre.starts(f"r{i}", "lammps", nodes=4, hosts=(NID,))
        centre.at_ms(centre.now_ms + 260_000 + 10_000 * int(random.integers(3))).ends(f"r{i}")
    for name in NAMES:
        windows.report(name, even(0.1, 0.12), centre.now_ms)
    prediction = started(centre)
    assert prediction["source"] == "curve" or prediction["run_time_s"] == pytest.approx(270, rel=0.15)
    assert prediction["under_load"]["follows"] < 0.1
    assert prediction["under_load"]["load"] > 8
    assert prediction["under_load"]["q50_s"] == pytest.approx(prediction["run_time_s"], rel=0.15)


def test_a_load_that_is_usual_is_not_counted_twice() -> None:
    """The curve was measured on hosts that are half busy: on such hosts it holds as it is."""
    centre = Scenario()
    centre.shard.state.windows = windows = KnownWindows({"standard": NAMES})
    centre.at("08:00")
    runs(centre, windows, 12, 2.0)
    for name in NAMES:
        windows.report(name, even(0.5, 0.52), centre.now_ms)
    prediction = started(centre)
    assert prediction["run_time_s"] == pytest.approx(270 / 0.51, rel=0.03)
    assert prediction["under_load"]["baseline_load"] == pytest.approx(1 / 0.501, rel=0.02)
    assert prediction["under_load"]["q50_s"] == pytest.approx(prediction["run_time_s"], rel=0.03)


def test_a_prediction_reports_the_size_run_last_on_the_usual_partition() -> None:
    centre = learned(windows := KnownWindows({"standard": NAMES}))
    assert centre.topic("predictions")["exa/lammps//nodes"]["under_load"] is None
    runs(centre, windows, 4, 2.0)
    centre.at_ms(centre.now_ms + 900_000)
    for name in NAMES:
        windows.report(name, even(0.25, 0.27), centre.now_ms)
    centre.scales("lammps", 2, 2, 2, 2, 2, 2, prefix="more")
    centre.at_ms(centre.now_ms + 700_000)
    under = centre.topic("predictions")["exa/lammps//nodes"]["under_load"]
    assert (under["hosts"], under["n"], under["hosts_count"]) == ("partition standard", 4.0, 4.0)
    assert under["load"] == pytest.approx(1 / 0.253, rel=0.02)
    assert under["baseline_load"] == pytest.approx(1 / 0.502, rel=0.02)


def test_a_request_is_answered_for_hosts_and_for_a_partition_and_by_none_without() -> None:
    centre = learned(loaded(0.5, 0.95, 0.95, 0.95))
    (plain,) = centre.asks("r0", 4, application="lammps")["points"]
    assert plain["under_load"] is None
    (named,) = centre.asks("r1", 4, application="lammps", hosts=(NID,))["points"]
    assert named["under_load"]["q50_s"] == pytest.approx(plain["run_time_s"] / 0.525, rel=0.02)
    two, four, many = centre.asks("r2", 2, 4, 16, application="lammps", partition="standard")["points"]
    assert two["under_load"]["load"] < four["under_load"]["load"] < many["under_load"]["load"] < 2.01
    assert many["under_load"]["variation"] == "low"
    (few,) = centre.asks("r3", 2, application="lammps", hosts=(NID,))["points"]
    assert few["under_load"]["hosts"] == "2 of nid[1-4]"


def test_what_cannot_be_answered_under_load_has_a_reason() -> None:
    centre = learned(loaded(0.5, 0.95, 0.95, 0.95))

    def reason(*n: float, **fields: Any) -> str:
        prediction = centre.asks(f"r{len(centre.events)}", *n, application="lammps", **fields)
        text: str = prediction["points"][-1]["under_load"]["reason"]
        return text

    assert reason(8, hosts=(NID,)) == "8 hosts are needed, 4 are named."
    assert reason(4, hosts=("nid[1-",)) == "The host list has unbalanced brackets, empty names or blanks."
    assert reason(4, partition="gpu") == "No host of partition gpu is known."
    assert reason(4, hosts=("x[1-4]",)) == "4 of 4 hosts have no window of cpu_available."
    assert (
        reason(*range(1, 18), partition="standard") == "Only the first 16 sizes of a request are predicted under load."
    )


def test_a_hundred_thousand_hosts_are_looked_at_in_part() -> None:
    names = [f"n{i:06d}" for i in range(100_000)]
    windows = KnownWindows({"standard": names})
    for name in names[:: 100_000 // 128]:
        windows.report(name, even(0.5, 1.0), moment_ms("10:00"))
    centre = learned(windows)
    windows.requested = 0
    (point,) = centre.asks("r1", 16, application="lammps", partition="standard")["points"]
    assert windows.requested <= 128
    assert point["under_load"]["looked_at"] == 128
    (point,) = centre.asks("r2", 16, application="lammps", hosts=("n[000000-099999]",))["points"]
    assert windows.requested <= 256
    assert point["under_load"]["hosts"] == "16 of n[000000-099999]"


def test_a_run_that_failed_or_was_taken_for_something_else_scores_nothing() -> None:
    windows = loaded(0.5, 0.95, 0.95, 0.95)
    centre = learned(windows)
    started(centre)
    started(centre, "2")
    centre.at("10:05").ends("1", state="FAILED")
    centre.ends("2", application="gromacs")
    assert not any(key.startswith("load_scores") for key in centre.state())


def test_scores_leave_with_their_application() -> None:
    windows = loaded(0.5, 0.95, 0.95, 0.95)
    centre = learned(windows)
    started(centre)
    centre.at("10:05").ends("1")
    assert {key for key in centre.state() if key.startswith("load_scores")} == {
        "load_scores/exa/lammps//nodes",
        "load_scores/centre/exa",
    }
    state = centre.shard.state
    list(Forgetting(state, Warnings(state)).forget("exa/lammps//nodes"))
    assert {key for key in centre.state() if key.startswith("load_scores")} == {"load_scores/centre/exa"}
