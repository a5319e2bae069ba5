"""Profiles of settled runs: kept with the run, learned by its application, corrected and taken away with it."""

from collections.abc import Callable

import msgspec
import pytest

from processors.contracts.events import JobCompleted, JobProfile
from processors.contracts.hosts import Hosts, Profile
from processors.pipeline.state import ShardState
from processors.power.model import ProfileModels
from tests.kit.copies import copied
from tests.kit.profiled_runs import START_MS, profiled_run
from tests.kit.scenario import Scenario, evidence

KEY = "exa/lammps//nodes"
Restart = Callable[[Scenario], None]
WITH_AND_WITHOUT_RESTART = pytest.mark.parametrize(
    "pause", [lambda _: None, lambda centre: centre.restart()], ids=["no-restart", "restart"]
)


class FromHosts(Hosts):
    """Hosts that know the profiles of runs."""

    def __init__(self) -> None:
        self.known: dict[str, Profile] = {}

    def profile(self, job: str, run_id: str) -> Profile | None:
        """Return the profile of a run."""
        assert run_id.startswith(f"{job}@")
        return self.known.get(run_id)

    def profile_so_far(self, job: str, run_id: str) -> Profile | None:
        """Return nothing: they know runs that ended."""
        return None


def runs(centre: Scenario, count: int, first: int = 0, *, disturbed: bool = False) -> list[JobCompleted]:
    """Let runs end, a minute apart, each with a profile that is told."""
    events = []
    for i in range(first, first + count):
        fact = profiled_run(i, disturbed=disturbed)
        centre.at_ms(START_MS + i * 60_000)
        event = centre.ran(f"r{i}", "lammps", fact.n, fact.run_time_s * (1.1 if disturbed else 1.0))
        centre.fold(JobProfile("exa", f"r{i}", event.run_id, fact.profile))
        events.append(event)
    return events


@copied
def with_settled_runs() -> Scenario:
    centre = Scenario()
    runs(centre, 40)
    settle(centre)
    return centre


def state_of(centre: Scenario) -> ShardState:
    return centre.shard.state


def models(centre: Scenario, key: str = KEY) -> ProfileModels:
    found = state_of(centre).profile_models.get(key)
    assert found is not None
    return found


def retained(centre: Scenario, run_id: str, key: str = KEY) -> bool:
    found = state_of(centre).profile_models.get(key)
    return found is not None and found.run(run_id) is not None


def settle(centre: Scenario) -> None:
    centre.at_ms(centre.now_ms + 200_000)


@WITH_AND_WITHOUT_RESTART
def test_a_run_that_settles_is_reported_with_its_profile_and_teaches_its_application(pause: Restart) -> None:
    centre = Scenario()
    runs(centre, 40)
    pause(centre)
    settle(centre)
    pause(centre)
    reported = centre.topic("runs")["exa/r7@" + centre.messages("runs")[7]["run_id"].partition("@")[2]]
    assert reported["profile"]["power_w"]["system"] == pytest.approx(profiled_run(7).profile.power_w["system"])
    centre.at_ms(centre.now_ms + 600_000)
    assert {"run_time_s", "system_power_w"} <= {each.target for each in models(centre).models()}
    power = models(centre).power_w([4.0])[0]
    assert power is not None
    assert power.low < 4 * 320.0 < power.high


def test_profiles_are_asked_of_the_hosts_when_nobody_reported_them() -> None:
    centre, hosts = Scenario(), FromHosts()
    state_of(centre).profiles = hosts
    centre.at_ms(START_MS)
    event = centre.ran("1", "lammps", 4, 60.0)
    hosts.known[event.run_id] = profiled_run(2).profile
    settle(centre)
    assert retained(centre, event.run_id)
    assert centre.messages("runs")[0]["profile"]["hosts"] == profiled_run(2).profile.hosts


@pytest.mark.parametrize(
    ("state", "minutes"), [("FAILED", 10), ("COMPLETED", 7)], ids=["a run that failed", "a run seen in part"]
)
def test_what_has_too_little_is_kept_and_not_learned(state: str, minutes: int) -> None:
    centre = Scenario()
    centre.at_ms(START_MS)
    event = centre.ran("1", "lammps", 4, 60.0, state=state)
    reported = msgspec.structs.replace(profiled_run(2).profile, minutes=minutes)
    centre.fold(JobProfile("exa", "1", event.run_id, reported))
    settle(centre)
    assert not retained(centre, event.run_id)
    assert centre.messages("runs")[0]["profile"]["minutes"] == minutes


def test_hosts_that_raise_cost_a_profile_and_not_the_run() -> None:
    class Broken(Hosts):
        def profile(self, job: str, run_id: str) -> Profile | None:
            raise RuntimeError(job + run_id)

        profile_so_far = profile

    centre = Scenario()
    state_of(centre).profiles = Broken()
    centre.at_ms(START_MS)
    centre.ran("1", "lammps", 4, 60.0)
    settle(centre)
    assert "profile" not in centre.messages("runs")[0] or centre.messages("runs")[0]["profile"] is None
    assert centre.tally["fault:profile_models"] == 1


def test_a_profile_of_a_run_that_nobody_knows_is_counted() -> None:
    centre = Scenario()
    centre.at_ms(START_MS)
    centre.fold(JobProfile("exa", "9", "exa/9@0", Profile(hosts=1)))
    assert centre.tally["event:dropped"] == 1
    assert not list(state_of(centre).profile_models.keys())


def test_a_corrected_report_replaces_the_run_and_one_of_another_application_takes_it_away() -> None:
    centre = Scenario()
    events = runs(centre, 12)
    settle(centre)
    event = events[5]
    again = msgspec.structs.replace(event, run_time_s=event.run_time_s + 1.0)
    centre.fold(again)
    centre.fold(JobProfile("exa", "r5", event.run_id, profiled_run(5).profile))
    settle(centre)
    assert retained(centre, event.run_id)
    run = models(centre).run(event.run_id)
    assert run is not None
    assert run.targets["run_time_s"] == pytest.approx(again.run_time_s)
    late = msgspec.structs.replace(event, run_time_s=event.run_time_s + 2.0)
    centre.fold(late)  # its profile is not told again
    settle(centre)
    run = models(centre).run(event.run_id)
    assert run is not None
    assert run.targets["run_time_s"] == pytest.approx(late.run_time_s)
    assert "system_power_w" in run.targets
    other = msgspec.structs.replace(event, evidence=msgspec.structs.replace(event.evidence, application="gromacs"))
    centre.fold(other)
    assert not retained(centre, event.run_id)
    failed = msgspec.structs.replace(events[6], state="FAILED")
    centre.fold(failed)
    assert not retained(centre, failed.run_id)


@WITH_AND_WITHOUT_RESTART
def test_a_slow_run_that_was_disturbed_counts_as_an_outlier_for_run_times_too(pause: Restart) -> None:
    plain, disturbed = with_settled_runs(), with_settled_runs()
    for centre, off in ((plain, False), (disturbed, True)):
        runs(centre, 1, 44, disturbed=off)
        pause(centre)
        settle(centre)
    marked = [
        {run.run_id.partition("@")[0] for run in state_of(centre).models.open(KEY).snapshot().runs if run.outlier}
        for centre in (plain, disturbed)
    ]
    assert marked[1] - marked[0] == {"exa/r44"}


def test_history_teaches_as_much_as_the_present_and_wakes_nobody() -> None:
    centre = Scenario()
    centre.at_ms(START_MS + 40 * 86_400_000)
    for i in range(60):
        fact = profiled_run(i, disturbed=i > 50)
        start_ms = START_MS + i * 3_600_000
        event = JobCompleted(
            "exa",
            f"r{i}",
            f"exa/r{i}@{start_ms}",
            start_ms,
            start_ms + round(fact.run_time_s * 1000),
            fact.run_time_s,
            "COMPLETED",
            evidence("lammps", fact.n),
        )
        centre.fold(event)
        centre.fold(JobProfile("exa", f"r{i}", event.run_id, fact.profile))
    centre.at_ms(centre.now_ms + 1_800_000)
    assert models(centre).power_w([4.0])[0] is not None
    assert models(centre).models()
    assert not centre.messages("alerts")


def test_many_applications_are_fitted_in_turn_and_each_tick_does_a_bounded_part() -> None:
    centre = Scenario()
    centre.at_ms(START_MS)
    for i in range(30):
        for name in ("a", "b", "c"):
            fact = profiled_run(i)
            event = centre.ran(f"{name}{i}", name, fact.n, fact.run_time_s)
            centre.fold(JobProfile("exa", f"{name}{i}", event.run_id, fact.profile))
    settle(centre)
    fitted = []
    for _ in range(40):
        centre.at_ms(centre.now_ms + 10_000)
        keys = [f"exa/{name}//nodes" for name in ("a", "b", "c")]
        fitted.append(sum(bool(models(centre, key).models()) for key in keys))
    assert fitted == sorted(fitted)
    assert fitted[-1] == 3


def test_a_fit_that_raises_costs_that_application_its_models_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    centre = Scenario()
    runs(centre, 4)

    def broken(self: ProfileModels) -> bool:
        raise RuntimeError(self.name)

    monkeypatch.setattr(ProfileModels, "tick", broken)
    settle(centre)
    assert centre.tally["fault:profile_models"] > 0
    assert centre.model("lammps") is not None


def test_models_of_profiles_go_with_the_application() -> None:
    centre = Scenario(run_time={"applications_max": 1})
    runs(centre, 6)
    settle(centre)
    assert KEY in state_of(centre).profile_models
    for i in range(3):
        centre.ran(f"g{i}", "gromacs", 2**i, 100.0)
    centre.at_ms(centre.now_ms + 60_000)
    assert KEY not in state_of(centre).profile_models
