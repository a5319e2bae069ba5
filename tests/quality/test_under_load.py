"""Run times under load, on a centre whose truth is known: the guard of what the table tells."""

import numpy as np
import pytest

from tests.quality import under_load
from tests.quality.under_load import KINDS, Outcome, availability, score, simulated, table

# in range at least, hits off by at most (deviations), CRPS over that of the plain band at most
GUARD = {
    "covered": (0.90, 5.0, 0.70),  # by forecasts: far sharper, and its shares are told from few levels
    "fickle": (0.90, 4.0, 1.1),
}


@pytest.mark.parametrize("name", ["covered", pytest.param("fickle", marks=pytest.mark.thorough)])
def test_runs_under_load_are_reported_as_well_as_they_were(name: str) -> None:
    found = simulated(name, [2], runs=180)
    inside, deviations, ratio = GUARD[name]
    assert found.runs == 100
    assert found.inside >= inside
    assert found.deviations <= deviations
    assert found.crps_ratio <= ratio


def test_scores_distinguish_a_good_histogram_from_one_that_is_off() -> None:
    even = (0.2,) * 5
    good = score(
        [Outcome(i % 5, inside=True, expected=even, pit=(i % 5) / 5 + 0.1, loaded=1.0, plain=2.0) for i in range(100)]
    )
    assert (good.inside, good.crps_ratio) == (1.0, 0.5)
    assert good.deviations == pytest.approx(0.0, abs=1e-9)
    off = score([Outcome(5, inside=False, expected=even, pit=1.0, loaded=2.0, plain=1.0) for _ in range(100)])
    assert (off.inside, off.crps_ratio) == (0.0, 2.0)
    assert off.uneven == pytest.approx(0.9)
    assert off.deviations == pytest.approx(5.0)


def test_load_that_lasts_stays_alike_and_load_that_does_not_changes() -> None:
    for lasting_s, alike in ((3600.0, True), (0.0, False)):
        left = availability(np.random.default_rng(3), 2000, lasting_s)
        assert 0.05 <= left.min() <= left.max() <= 1
        correlation = float(np.mean([np.corrcoef(row[:-1], row[1:])[0, 1] for row in left]))
        assert (correlation > 0.9) is alike


def test_the_table_has_a_line_for_each_kind_of_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_load, "WARM_UP", 10)
    lines = list(table([1], runs=16))
    assert [line.rsplit("|")[-1].split(":")[0].strip() for line in lines[2:]] == list(KINDS)
