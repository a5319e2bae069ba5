"""A coarse guard of what one slow size may cost; `python -m tests.quality.slow_sizes` measures more of it."""

import pytest

from tests.quality.slow_sizes import CASES, Case, story


@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=lambda case: case.name)
def test_a_slow_size_has_one_alert_that_stays_and_a_shift_is_found_where_there_is_one(case: Case) -> None:
    reported = story(case, seed=1)
    assert (reported.slow, reported.stays, reported.others) == (1, True, 0)
    assert len(reported.shifts) == (case.factor != 1.0)
    assert all(0 < shift <= 9 for shift in reported.shifts)
    assert reported.by_size == 1.0
