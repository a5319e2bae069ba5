"""A coarse guard of what shifts cost; `python -m tests.quality.drift` measures more of it, and on logs of jobs."""

from tests.quality.drift import shifts


def test_a_quarter_slower_is_found_soon_never_wrongly_and_hardly_costs_precision() -> None:
    found = shifts(1.25, range(2))
    assert found.found == found.stories
    assert found.delay[2] <= 6
    assert found.false_alarms <= 1
    assert found.before < 5.0
    assert found.first < 8.5, "20 % without moving the level"
    assert found.later < 5.2
