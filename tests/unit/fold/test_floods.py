"""A flood of names, starts or runs of one user delays itself: others keep their fits, their models and their forecasts."""

from collections.abc import Iterator
from itertools import product

import msgspec
import pytest

from processors.contracts.events import Tick
from processors.contracts.names import run_id
from processors.jobs.lifecycle import BURST
from tests.kit.scenario import Scenario, completed, moment_ms

FLOOD = 300


def flooded(centre: Scenario, runs: int = 2, names: int = FLOOD, user: str | None = "mallory") -> None:
    for run in range(runs):
        for i in range(names):
            centre.ran(f"flood{run}-{i}", f"new-{spelled(i)}", 4, 60.0 + run, user=user)


def spelled(number: int) -> str:
    """Return a number in letters: digits at the end of a name are taken off."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def applications(centre: Scenario, since: int) -> list[str]:
    return [prediction["application"] for prediction in centre.messages("predictions")[since:]]


def ticks(centre: Scenario, count: int) -> Iterator[list[str]]:
    """Yield the applications that each of the next ticks publishes."""
    for _ in range(count):
        before = len(centre.messages("predictions"))
        centre.at_ms(centre.now_ms + 10_000)
        yield applications(centre, before)


@pytest.mark.parametrize("user", ["mallory", None])
def test_an_application_of_another_user_is_fitted_at_the_next_tick_though_thousands_wait_longer(
    user: str | None,
) -> None:
    centre = Scenario(run_time={"fits_per_tick_max": 4})
    centre.at("08:00").scales("lammps", 1, 2, 4, user="alice")
    assert "lammps" in next(ticks(centre, 1))
    flooded(centre, user=user)
    next(ticks(centre, 1))
    centre.scales("lammps", 8, 16, user="alice", prefix="more")
    centre.scales("gromacs", 1, 2, user="bob", prefix="g")
    published = next(ticks(centre, 1))
    assert {"lammps", "gromacs"} < set(published)
    assert len(published) == 4, "and the rest of the tick is the flood's"


def longest_wait_s(loud_names: int) -> int:
    """Return how long names of a quiet system waited for their curve, where another system has so many new ones a second."""
    centre = Scenario().at("08:00")
    longest_s, ran_s = 0, dict[str, int]()
    for second in range(40):
        names = [("quiet", f"quiet-{spelled(4 * second + i)}") for i in range(4)]
        names += [("loud", f"loud-{spelled(loud_names * second + i)}") for i in range(loud_names)]
        for run, (system, name) in product(range(2), names):
            event = completed(f"{name}-{run}", centre.now_ms - 60_000, 60.0 + run, application=name, nodes=4)
            centre.fold(
                msgspec.structs.replace(event, system=system, run_id=run_id(system, event.job_id, event.start_ms))
            )
            ran_s[name] = second
        before = len(centre.messages("predictions"))
        centre.fold(Tick(system="", time_ms=centre.now_ms + 1000))
        longest_s = max(
            [longest_s, *(second - ran_s[name] for name in applications(centre, before) if "quiet" in name)]
        )
    return longest_s


def test_names_of_a_quiet_system_wait_no_longer_beside_a_flood_of_another_system() -> None:
    assert longest_wait_s(loud_names=20) <= longest_wait_s(loud_names=0) + 1


def test_nothing_of_the_flood_is_lost_it_only_waits() -> None:
    centre = Scenario(run_time={"fits_per_tick_max": 40})
    flooded(centre.at("08:00"), names=60)
    assert sum(len(found) for found in ticks(centre, 3)) == 60
    assert {prediction["observations"] for prediction in centre.topic("predictions").values()} == {2}


def test_the_order_of_fits_is_the_same_after_a_restart() -> None:
    published = []
    for restarts in (False, True):
        centre = Scenario(run_time={"fits_per_tick_max": 4})
        flooded(centre.at("08:00"), names=20)
        for name, user in (("lammps", "alice"), ("gromacs", "bob")):
            centre.scales(name, 1, 2, user=user, prefix=name)
        if restarts:
            centre.restart()
        published.append(list(ticks(centre, 6)))
    assert published[0] == published[1]
    assert {"lammps", "gromacs"} < set(published[0][0])


def test_new_names_push_out_each_other_and_no_application_of_others() -> None:
    centre = Scenario(run_time={"applications_max": 20, "similar_runs_max": 40})
    centre.at("08:00")
    for name in ("lammps", "gromacs", "nektar"):
        centre.scales(name, 1, 2, 4, user="alice", prefix=name)
    centre.at("09:00")
    flooded(centre, runs=2, names=100)
    centre.at("09:01")
    known = centre.topic("predictions")
    assert {f"exa/{name}//nodes" for name in ("lammps", "gromacs", "nektar")} <= set(known)
    assert len(centre.shard.state.models) == len(centre.shard.state.failures) - 1 + 1 == 20
    assert centre.tally["bound:applications_max"] >= 80
    assert len(centre.runs_of("lammps")) == 3


def test_without_users_an_application_with_many_runs_outlives_new_names() -> None:
    centre = Scenario(run_time={"applications_max": 5})
    centre.at("08:00").scales("lammps", *(1, 2, 4, 8) * 4)
    centre.at("20:00")
    flooded(centre, runs=1, names=50, user=None)
    centre.at("20:01")
    assert len(centre.runs_of("lammps")) == 16
    assert centre.tombstones("predictions") == [], "a name that was run once leaves no message to take back"


def test_running_jobs_of_others_are_not_forgotten_for_a_flood_of_starts() -> None:
    centre = Scenario(jobs={"open_jobs_max": 10})
    centre.at("08:00").starts("long", "lammps", nodes=4, user="alice")
    centre.at("10:00")
    for i in range(50):
        centre.starts(f"flood{i}", "array", nodes=1, user="mallory")
    centre.at("10:01")
    assert "exa/long" in centre.shard.state.jobs
    assert len(centre.shard.state.jobs) == 10


def test_starts_beyond_a_burst_get_their_forecasts_with_later_ticks_and_others_at_once() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", 1, 2, 4, user="alice")
    centre.at("08:01")
    for i in range(BURST + 60):
        centre.starts(f"flood{i}", "array", nodes=1, user="mallory")
    assert len(centre.messages("job_predictions")) == BURST
    centre.starts("mine", "lammps", nodes=4, user="alice")
    assert centre.messages("job_predictions")[-1]["job_id"] == "mine"
    assert centre.tally["bound:forecasts_per_user_max"] == 60
    centre.fold(Tick(system="", time_ms=moment_ms("08:01") + 1000))
    assert len(centre.messages("job_predictions")) == BURST + 1 + 50
    centre.restart()
    centre.at("08:01:20")
    assert len({each["job_id"] for each in centre.messages("job_predictions")}) == BURST + 61


def test_a_job_that_ends_before_its_forecast_has_nothing_to_take_back_and_is_learned() -> None:
    centre = Scenario()
    centre.at("08:01")
    for i in range(BURST + 100):
        centre.starts(f"flood{i}", "array", nodes=1, user="mallory")
    centre.fold(Tick(system="", time_ms=centre.now_ms + 1000))
    centre.ends(f"flood{BURST + 99}")
    assert centre.tombstones("job_predictions") == []
    assert len(centre.runs_of("array")) == 1


def test_who_floods_is_named() -> None:
    centre = Scenario(run_time={"fits_per_tick_max": 64})
    flooded(centre.at("08:00"), names=600)
    centre.fold(Tick(system="", time_ms=centre.now_ms + 1000))
    assert centre.shard.state.waiting_fits == {"exa/user/mallory": 594}
    assert centre.shard.flood() == "user mallory of exa"
