"""Who is right: means of errors by law and horizon."""

import math

import pytest

from processors.contracts.names import Horizon
from processors.models.battery import MEMBERS
from processors.run_time.members import (
    ERROR_MAX,
    PUBLISHED,
    ROWS,
    WINDOW,
    Fits,
    MemberFact,
    Members,
)

ENSEMBLE = {"usl": (100.0, 5.0, 0.0), "ideal": (120.0,)}  # 30 and 30 s at 4, 55 and 60 s at 2


def fits(members: dict[str, tuple[float, ...]] | None = None) -> Fits:
    own = ENSEMBLE if members is None else members
    return Fits(1.0, 4.0, 30.0, 3, 3, tuple(own.get(name, ()) for name in MEMBERS), ())


def published() -> Members:
    members = Members()
    members.publish(fits())
    return members


def run(n: float, run_time_s: float, horizon: Horizon = "inside", ln_ratio: float | None = None) -> MemberFact:
    return MemberFact(n, run_time_s, horizon, ln_ratio)


def error(members: Members, name: str, horizon: str = "inside") -> tuple[int, float]:
    found = next(each for each in members.errors[name] if each.horizon == horizon)
    return found.scored, found.error


def test_a_law_that_met_every_run_has_no_error_and_another_the_mean_of_its_own() -> None:
    members = published()
    members.learn(run(2.0, 55.0))
    members.learn(run(1.0, 105.0))
    runs, off = error(members, "usl")
    assert runs == 2
    assert off == pytest.approx(0.0, abs=1e-5)
    mean = (math.log(60 / 55) + math.log(120 / 105)) / 2
    runs, off = error(members, "ideal")
    assert runs == 2
    assert off == pytest.approx(mean, abs=1e-5)


def test_horizons_are_distinguished() -> None:
    members = published()
    members.learn(run(2.0, 55.0))
    members.learn(run(8.0, 15.0, "up_to_2x"))
    assert [each.horizon for each in members.errors["usl"]] == ["inside", "up_to_2x"]
    assert error(members, "usl", "up_to_2x")[0] == 1


def test_what_was_published_is_judged_by_what_it_reported() -> None:
    members = published()
    members.learn(run(2.0, 55.0, ln_ratio=-0.2))
    members.learn(run(2.0, 55.0))
    runs, off = error(members, PUBLISHED)
    assert runs == 1
    assert off == pytest.approx(0.2, abs=1e-6)
    assert error(members, "usl")[0] == 2


def test_a_law_without_numbers_is_not_judged() -> None:
    members = published()
    members.learn(run(2.0, 55.0))
    assert {name for name, found in members.errors.items() if found} == set(ENSEMBLE)


def test_without_laws_only_what_was_published_is_judged() -> None:
    members = Members()
    members.publish(None)
    members.learn(run(2.0, 55.0, ln_ratio=0.1))
    assert {name for name, found in members.errors.items() if found} == {PUBLISHED}


def test_runs_are_compared_with_the_laws_that_were_published_last() -> None:
    members = published()
    members.learn(run(2.0, 55.0))
    members.publish(fits({"usl": (100.0, 60.0, 0.0)}))
    members.learn(run(2.0, 110.0))
    runs, off = error(members, "usl")
    assert runs == 2
    assert off == pytest.approx(0.0, abs=1e-5)


def test_errors_of_long_ago_fade() -> None:
    members = published()
    members.learn(run(2.0, 110.0))
    for _ in range(10 * WINDOW):
        members.learn(run(2.0, 55.0))
    scored, found = error(members, "usl")
    assert scored == 10 * WINDOW + 1
    assert found < 1e-3


def test_one_wild_run_counts_no_more_than_the_bound() -> None:
    members = published()
    members.learn(run(2.0, 1e8))
    assert error(members, "usl") == (1, ERROR_MAX)


def test_every_row_is_reported() -> None:
    assert tuple(Members().errors) == ROWS
