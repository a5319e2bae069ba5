"""Runs on hosts of which something is wrong: what a host explains is listed under it and raises no alert of its own."""

from typing import Any

import pytest

from processors.contracts.hosts import HostCause, Hosts
from processors.pipeline.shard import Shard
from tests.kit.scenario import DAY_MS, Scenario

SIZES = (1, 2, 4, 8, 16)
EVERY_MS = 900_000
FOREVER_MS = 10**15


class OddHosts(Hosts):
    """Hosts of which something is wrong, and since when."""

    def __init__(self) -> None:
        self.odd: dict[str, HostCause] = {}

    def cause(self, system: str, hosts: tuple[str, ...], start_ms: int, end_ms: int) -> HostCause | None:
        del system
        found = (self.odd.get(host) for host in hosts)
        return next((one for one in found if one and one.from_ms <= end_ms and one.until_ms >= start_ms), None)


class Centre(Scenario):
    """A centre that knows which of its hosts are odd, also after a restart; an application runs at all sizes in turn."""

    def __init__(self, **settings: Any) -> None:
        self.hosts = OddHosts()
        self.runs = 0
        super().__init__(**settings)

    def new_shard(self) -> Shard:
        shard = super().new_shard()
        shard.state.causes = self.hosts
        return shard

    def goes_on(self, runs: int, factor: float = 1.0, host: str = "n9", size: int | None = None) -> "Centre":
        for _ in range(runs):
            i, self.runs = self.runs, self.runs + 1
            n = size or SIZES[i % 5]
            self.at_ms(DAY_MS + self.runs * EVERY_MS)
            run_time_s = (500.0 / n + 10.0) * factor * (1 + 0.01 * (i * 7 % 5 - 2))
            self.ran(f"r{i}", "lammps", n, run_time_s, hosts=(host,))
        return self

    def is_odd(self, host: str, *, power_only: bool = False) -> "Centre":
        self.hosts.odd[host] = HostCause(host, self.now_ms, FOREVER_MS, power_only)
        return self


def test_slow_runs_on_an_odd_host_raise_nothing_and_are_listed_under_it() -> None:
    centre = Centre().goes_on(40).is_odd("n1")
    for _ in range(5):
        centre.goes_on(1, 1.6, host="n1").goes_on(2)
    assert centre.alerts("StrangeRun") == []
    assert centre.alerts("Regression") == []
    listed = centre.shard.views("exa").explained_runs("n1")
    assert listed.count == 5
    assert [run.application_id for run in listed.runs] == ["exa/lammps//nodes"] * 5
    assert [run.factor for run in listed.runs] == pytest.approx([1.6] * 5, abs=0.15)


def test_a_settled_run_names_the_odd_host_that_slowed_it() -> None:
    centre = Centre().goes_on(40).is_odd("n1").goes_on(1, 1.6, host="n1").goes_on(3)
    slowed = {key: run["slowed_by"] for key, run in centre.topic("runs").items() if run["slowed_by"]}
    assert [run.partition("@")[0] for run in slowed] == ["exa/r40"]
    assert [(found["host"], round(found["factor"], 1)) for found in slowed.values()] == [("n1", 1.6)]


def test_what_the_odd_host_does_not_explain_is_reported_as_ever() -> None:
    centre = Centre().goes_on(40).is_odd("n1").goes_on(6, 1.3)
    assert centre.alerts("Regression") == ["firing"]


def test_runs_on_an_odd_host_that_are_not_slow_are_runs_as_all() -> None:
    centre = Centre().goes_on(40).is_odd("n1").goes_on(6, host="n1")
    assert not len(centre.shard.state.explained_runs)
    model = centre.shard.state.models.get("exa/lammps//nodes")
    assert model is not None
    assert model.observations == 46


def test_a_host_that_only_draws_too_much_explains_no_slow_run() -> None:
    centre = Centre().goes_on(40).is_odd("n1", power_only=True).goes_on(6, 1.3, host="n1")
    assert centre.alerts("Regression") == ["firing"]


def test_a_run_that_ended_before_its_host_was_odd_is_not_explained_by_it() -> None:
    centre = Centre().goes_on(40)
    centre.hosts.odd["n1"] = HostCause("n1", FOREVER_MS, FOREVER_MS, power_only=False)
    assert centre.goes_on(1, 1.6, host="n1").alerts("StrangeRun") == ["firing"]


def test_what_was_listed_is_forgotten_after_a_month() -> None:
    centre = Centre().goes_on(40).is_odd("n1").goes_on(1, 1.6, host="n1")
    centre.at_ms(centre.now_ms + 31 * 86_400_000)
    assert not len(centre.shard.state.explained_runs)
