"""Stories that mislead, and what a user must be given of each; those of `test_hard_stories` that were always right."""

import pytest

from tests.kit.stories import EVERYWHERE, Story, kazmina


def vasp(n: float) -> float:
    """What a job of VASP took; the slope turns from -.35 to +.2 within one doubling."""
    return {4: 2258.0, 8: 1192.8, 16: 657.0, 32: 402.4, 64: 315.5, 128: 362.7}[int(n)]


@pytest.mark.parametrize("seed", range(3))
def test_a_curve_that_turns_up_right_after_the_data_stays_within_its_band(seed: int) -> None:
    (given,) = Story(seed).repeated(vasp, (4, 8, 16, 32, 64), 2).given(128)
    assert given.holds(vasp(128))
    assert given.verdict != "reliable"


@pytest.mark.parametrize("seed", range(3))
def test_the_minimum_of_the_law_of_kazmina_is_found_where_a_size_beyond_it_ran(seed: int) -> None:
    given = Story(seed, noise=0.003).repeated(kazmina, (1, 2, 4, 8, 16, 32, 64), 2).given(*EVERYWHERE)
    assert 26 <= min(given, key=lambda point: point.run_time_s).n <= 104
