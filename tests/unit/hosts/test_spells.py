"""How many long spells are to be expected of a host."""

import numpy as np

from processors.hosts.peers import DAY_MS, Spells, expected_per_day

HOUR_MS = 3_600_000.0
USUAL_MS = 600_000.0


def spells(count: float = 0.0, mean_ms: float = 0.0, compared_ms: float = 0.0) -> Spells:
    return Spells(*np.array([[count], [count * mean_ms], [compared_ms]]))


def expected(spell_ms: float, own: Spells, others: Spells) -> float:
    return float(expected_per_day(np.array([spell_ms]), own, others, USUAL_MS)[0])


def test_before_anything_is_known_one_spell_a_day_is_presumed_and_long_ones_are_rare() -> None:
    assert expected(0.0, spells(), spells()) == 1.0
    assert expected(HOUR_MS, spells(), spells()) < 0.1


def test_the_spells_of_others_stand_in_until_a_host_has_its_own() -> None:
    restless, quiet = spells(100, HOUR_MS, 40 * DAY_MS), spells(0, 0.0, 40 * DAY_MS)
    assert expected(2 * HOUR_MS, spells(), restless) > 10 * expected(2 * HOUR_MS, spells(), quiet)
    calm, bursty = spells(0, 0.0, 10 * DAY_MS), spells(40, HOUR_MS, 10 * DAY_MS)
    assert expected(2 * HOUR_MS, bursty, restless) > 10 * expected(2 * HOUR_MS, calm, restless)


def test_as_many_spells_are_expected_as_there_are_where_there_are_many() -> None:
    # exp(-2) of exponential lengths are longer than twice their mean; the tail here is a bit heavier
    often = spells(100, HOUR_MS, 10 * DAY_MS)
    assert 10 * np.exp(-2) < expected(2 * HOUR_MS, often, often) < 1.3 * 10 * np.exp(-2)
