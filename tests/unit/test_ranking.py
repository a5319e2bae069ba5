"""The order of laws that people see."""

from processors.contracts.outputs import HorizonError, Member, Model
from sinks.web.views.overview import horizons, ranked


def member(name: str, *errors: HorizonError, weight: float = 0.0, role: str = "reference", **more: object) -> Member:
    return Member(name, weight, {}, role, errors=errors, **more)  # type: ignore[arg-type]  # plain values


def names(*members: Member, errors: tuple[HorizonError, ...] = ()) -> list[str]:
    return [law.name for law in ranked(Model("combination", members, errors))]


def test_what_was_right_beyond_the_sizes_comes_before_what_was_right_inside() -> None:
    inside, beyond = HorizonError("inside", 90, 0.01), HorizonError("up_to_4x", 2, 0.5)
    steady = (HorizonError("inside", 90, 0.2), HorizonError("up_to_4x", 2, 0.1))
    assert names(member("a", inside, beyond), member("b", *steady)) == ["b", "a"]


def test_runs_count_alike_over_the_horizons_beyond() -> None:
    many = (HorizonError("up_to_2x", 9, 0.1), HorizonError("beyond_4x", 1, 1.0))
    few = (HorizonError("up_to_2x", 1, 0.1), HorizonError("beyond_4x", 1, 0.4))
    assert names(member("few", *few), member("many", *many)) == ["many", "few"]


def test_before_any_run_the_weightiest_comes_first() -> None:
    heavy = member("heavy", weight=0.9, role="part")
    assert names(member("reference"), member("light", weight=0.1, role="part"), heavy) == [
        "heavy",
        "light",
        "reference",
    ]


def test_the_prediction_itself_stands_among_the_laws() -> None:
    good, bad = HorizonError("up_to_2x", 5, 0.1), HorizonError("up_to_2x", 5, 0.3)
    middle = (HorizonError("up_to_2x", 5, 0.2),)
    assert names(member("good", good), member("bad", bad), errors=middle) == ["good", "prediction", "bad"]


def test_a_law_states_what_it_cannot_answer() -> None:
    members = ranked(Model("m", (member("x", answers="nothing", sizes_min=4), member("adept", answers="larger sizes"))))
    assert {law.name: law.remark for law in members} == {
        "x": "not used: needs 4 sizes, or does not apply", "adept": "only for sizes larger than those run",
    }  # fmt: skip


def test_only_horizons_with_runs_are_shown_the_nearest_first() -> None:
    members = ranked(
        Model("m", (member("a", HorizonError("beyond_4x", 1, 0.1)), member("b", HorizonError("inside", 1, 0.1))))
    )
    assert horizons(members) == ["inside", "beyond_4x"]
