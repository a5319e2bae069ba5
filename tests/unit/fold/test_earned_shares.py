"""A classic law that was right about larger sizes as they came has a say in what is predicted of the next ones."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from processors.models.battery import REFERENCE
from processors.models.combination.evidence import ENSEMBLE
from tests.kit.scenario import SYSTEM
from tests.kit.stories import APPLICATION, Story

RISING = (1, 1, 1, 2, 4, 8, 16, 32)
FALLING = tuple(reversed(RISING))
Law = Callable[[float], float]


def barnes(n: float) -> float:
    """Return a law whose logarithm is a parabola in that of the size."""
    x = math.log2(n)
    return float(2.0 ** (10.0 - 0.9 * x + 0.04 * x * x))


def kazmina(n: float) -> float:
    """Return the law of Kazmina and Antonov with its minimum at 23."""
    return 2.0 * n + 1000.0 / n + 100.0 / math.sqrt(n)


def downey(n: float) -> float:
    """Return Downey's law with A = 12, sigma = .3: its last section begins at 23."""
    return 1000.0 / (12 * n / (12 + 0.15 * (n - 1)) if n <= 12 else min(12 * n / (0.3 * 11.5 + 0.85 * n), 12.0))


def members(story: Story) -> dict[str, dict[str, Any]]:
    return {member["name"]: member for member in story.answer(64)["model"]["members"]}


def error(story: Story, law: Law, n: float) -> float:
    return abs(math.log(story.given(n)[0].run_time_s / law(n)))


@pytest.mark.parametrize(("law", "n"), [(barnes, 64), (barnes, 128), (kazmina, 64), (kazmina, 128), (downey, 256)])
def test_runs_that_a_classic_law_foresaw_make_the_next_prediction_better(law: Law, n: float) -> None:
    largest = (64,) if n > 128 else ()
    rising, falling = Story().ran(law, (*RISING, *largest)), Story().ran(law, (*largest, *FALLING))
    assert error(rising, law, n) < 0.75 * error(falling, law, n)
    assert rising.given(n)[0].holds(law(n))


@pytest.mark.parametrize(("law", "name"), [(barnes, "barnes_quadratic"), (kazmina, "kazmina"), (downey, "adept")])
def test_the_law_that_was_right_is_part_of_the_prediction_and_reports_its_weight(law: Law, name: str) -> None:
    found = members(Story().ran(law, (*RISING, 64)))
    assert found[name]["role"] == "part"
    assert found[name]["weight"] > 0.3
    assert max((found[each]["weight"], each) for each in REFERENCE)[1] == name
    assert all((member["role"] == "part") == (member["weight"] > 0.0) for member in map(found.get, REFERENCE) if member)
    assert sum(member["weight"] for member in found.values()) == pytest.approx(1.0, abs=1e-4)
    assert set(found) == {*ENSEMBLE, *REFERENCE}


def test_laws_without_a_record_beyond_the_data_stand_beside_the_prediction() -> None:
    found = members(Story().ran(barnes, FALLING))
    assert {name for name in found if found[name]["role"] == "part"} == set(ENSEMBLE)
    assert all(found[name]["weight"] == 0.0 for name in REFERENCE)


def test_a_law_that_was_right_once_weighs_less_than_one_that_was_right_four_times() -> None:
    once, often = Story().ran(barnes, (1, 1, 4, 2, 8, 16)), Story().ran(barnes, RISING)
    weight = [members(story)["barnes_quadratic"]["weight"] for story in (once, often)]
    assert weight[0] < 0.8 * weight[1]


def test_runs_of_one_size_again_and_again_earn_no_more_than_the_first() -> None:
    story = Story(noise=0.0).ran(barnes, (1, 1, 1, 2, 4, 8))
    once = members(story)["barnes_quadratic"]["weight"]
    again = members(story.ran(barnes, (8,) * 6))["barnes_quadratic"]["weight"]
    assert again == pytest.approx(once, abs=0.05)


@pytest.mark.parametrize("law", [barnes, kazmina, downey])
def test_the_curve_has_no_jumps_where_one_horizon_ends_and_the_next_begins(law: Law) -> None:
    sizes = [32.0 * 2.0 ** (i / 32) for i in range(1 + 4 * 32)]
    given = Story().ran(law, RISING).given(*sizes)
    for numbers in ([each.run_time_s for each in given], [each.high_s for each in given[1:]]):
        slope = np.diff(np.log(numbers)) * 32
        assert np.abs(np.diff(slope)).max() < 0.35


def test_bands_are_wider_where_laws_and_combination_are_apart() -> None:
    rising, falling = Story().ran(kazmina, RISING).given(256)[0], Story().ran(kazmina, FALLING).given(256)[0]
    assert rising.width > falling.width


def test_the_record_of_other_inputs_of_an_application_counts_for_a_new_one() -> None:
    def new(first: Law) -> float:
        story = Story()
        story.centre.asks("q", 1.0, application=APPLICATION)
        for i, n in enumerate(RISING):
            story.centre.at(f"{i + 1}d 08:00").ran(f"a{i}", APPLICATION, n, first(n), input="known")
        for i, n in enumerate((8, 4, 2, 1)):
            story.centre.at(f"{i + 12}d 08:00").ran(f"b{i}", APPLICATION, n, 3.0 * barnes(n), input="new")
        story.centre.at("20d 08:00")
        prediction = story.centre.topic("predictions")[f"{SYSTEM}/{APPLICATION}/new/nodes"]
        return next(
            float(each["weight"]) for each in prediction["model"]["members"] if each["name"] == "barnes_quadratic"
        )

    assert new(barnes) > 0.1


def test_a_restart_changes_no_share() -> None:
    plain, restarted = Story(), Story()
    for n in RISING:
        plain.ran(barnes, (n,))
        restarted.ran(barnes, (n,)).centre.restart()
    assert plain.answer(64, 128) == restarted.answer(64, 128)
