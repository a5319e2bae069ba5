"""Hosts with unexplained power: a host is named only if the runs tell it apart from the hosts beside it."""

from collections.abc import Iterable

import pytest

from processors.power.blame import SUSPECTS_MAX, Blamed, JudgedPower, PowerBlame

DEVIATION_W = 10.0
EXCESS_W = 200.0


def after(runs: Iterable[tuple[str, float]], blame: PowerBlame | None = None) -> PowerBlame:
    """Return the processor after runs, each as (hosts joined by spaces, excess in W)."""
    blame = blame or PowerBlame()
    for hosts, excess_w in runs:
        run_id, off = f"exa/r{len(blame.runs)}@0", abs(excess_w) > 5 * DEVIATION_W
        blame.learn(JudgedPower(run_id, "exa/lammps//nodes", tuple(hosts.split()), excess_w, DEVIATION_W, off))
    return blame


def hosts_of(blamed: Blamed | None) -> str:
    return blamed.hosts if blamed is not None else ""


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_hosts_that_always_run_together_are_both_named_whatever_they_are_called(names: tuple[str, str]) -> None:
    blamed = after([(" ".join(names), EXCESS_W)] * 4 + [("c", 0.0)] * 4).score(names)
    assert blamed is not None
    assert (blamed.hosts, round(blamed.excess_w), blamed.runs) == ("a,b", round(EXCESS_W), 4)


@pytest.mark.parametrize("guilty", ["a", "b"])
def test_a_run_without_the_other_host_shows_which_of_two_hosts_is_to_blame(guilty: str) -> None:
    innocent = "b" if guilty == "a" else "a"
    together = [("a b", EXCESS_W)] * 4
    assert hosts_of(after([*together, (guilty, EXCESS_W)]).score(("a", "b"))) == guilty
    assert hosts_of(after([*together, (innocent, 0.0), (innocent, 0.0)]).score(("a", "b"))) == guilty


def test_the_host_that_deviating_runs_have_in_common_is_to_blame() -> None:
    runs = [("a b", EXCESS_W), ("b c", 0.0), ("a c", EXCESS_W), ("a d", EXCESS_W), ("c d", 0.0)]
    assert hosts_of(after(runs).score(("a", "d"))) == "a"


def test_a_host_that_draws_less_is_named_as_well() -> None:
    blamed = after([("a b", -EXCESS_W), ("a", -EXCESS_W), ("b", 0.0)] * 2).score(("a", "b"))
    assert blamed is not None
    assert (blamed.hosts, blamed.excess_w < 0) == ("a", True)


@pytest.mark.parametrize(("hosts", "is_named"), [(SUSPECTS_MAX, True), (SUSPECTS_MAX + 1, False)])
def test_too_many_hosts_with_equal_evidence_are_not_named(hosts: int, *, is_named: bool) -> None:
    names = [f"n{number}" for number in range(hosts)]
    blamed = after([(" ".join(names), EXCESS_W)] * 6).score(names)
    assert hosts_of(blamed) == (",".join(names) if is_named else "")


def test_runs_without_excess_blame_nobody() -> None:
    assert after([("a b", 0.0), ("a", 5.0), ("b", -5.0)] * 5).score(("a", "b")) is None


def test_a_named_host_replaces_two_suspects_and_stays_named_beside_a_new_one() -> None:
    blame = after([("a b", EXCESS_W)] * 4)
    suspects = blame.score(("a", "b"))
    assert suspects is not None
    assert blame.name_hosts(suspects) == []
    single = after([("a", EXCESS_W)] * 2, blame).score(("a",))
    assert single is not None
    assert blame.name_hosts(single) == ["a,b"]
    assert list(blame.named) == ["a"]
    assert hosts_of(after([("a e", EXCESS_W)] * 2, blame).score(("a", "e"))) == "a"


def test_suspects_are_cleared_once_each_of_them_is_normal_again() -> None:
    blame = after([("a b", EXCESS_W)] * 4)
    suspects = blame.score(("a", "b"))
    assert suspects is not None
    blame.name_hosts(suspects)
    assert after([("b", 0.0)] * 3, blame).over(("b",)) == []
    assert after([("a", 0.0)] * 3, blame).over(("a",)) == ["a,b"]
    assert blame.named == {}
