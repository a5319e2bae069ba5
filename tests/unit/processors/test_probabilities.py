"""Where runs fell in the distributions that were published: what is known of it, and when."""

import math
from itertools import repeat

import msgspec
import numpy as np
import pytest

from processors.contracts.names import Horizon
from processors.contracts.outputs import HorizonQuality, Quality
from processors.facts import COVERAGE_RUNS_MIN as RUNS_MIN
from processors.facts import RunFact, Scored
from processors.models.numerics.statistics import Z95
from processors.run_time.quality import ByHorizon, with_probabilities, with_run
from tests.kit.scenario import Scenario

DEVIATION = 0.1
LOW_S, HIGH_S = 100.0 * math.exp(-Z95 * DEVIATION), 100.0 * math.exp(Z95 * DEVIATION)


def scored(run_time_s: float, horizon: Horizon = "inside") -> Scored:
    """A run of which 100 s were published, with the band of a normal law."""
    run = RunFact("exa/1@0", 4.0, run_time_s, 0, 0, 0)
    ln_ratio = math.log(run_time_s / 100.0)
    return Scored(run, 100.0, LOW_S, HIGH_S, ln_ratio, Z95 * DEVIATION, LOW_S <= run_time_s <= HIGH_S, horizon, 9)


def after(*runs: Scored) -> HorizonQuality:
    fallen: ByHorizon = {}
    for run in runs:
        fallen = with_run(fallen, run)
    return with_probabilities(Quality(horizons=(HorizonQuality("inside", len(runs), 0.1, 0.9),)), fallen).horizons[0]


def test_runs_of_the_law_that_was_published_fall_evenly() -> None:
    random = np.random.default_rng(1)
    runs = (scored(100.0 * math.exp(random.normal(0.0, DEVIATION))) for _ in range(4000))
    found = after(*runs)
    assert sum(found.pit) == pytest.approx(1.0, abs=1e-3)
    assert all(0.04 < share < 0.17 for share in found.pit)
    # of a normal law, the loss of the .05 quantile is the density there, in deviations
    density = math.exp(-(Z95**2) / 2) / math.sqrt(2 * math.pi)
    assert found.pinball_05 == pytest.approx(DEVIATION * density, rel=0.25)
    assert found.pinball_95 == pytest.approx(DEVIATION * density, rel=0.25)


def test_runs_that_take_longer_than_predicted_fall_into_the_last_tenth() -> None:
    found = after(*repeat(scored(150.0), 30))
    assert found.pit == (0.0,) * 9 + (1.0,)
    assert found.pinball_95 == pytest.approx(0.95 * math.log(150.0 / HIGH_S), rel=1e-3)
    assert found.pinball_05 == pytest.approx(0.05 * math.log(150.0 / LOW_S), rel=1e-3)


def test_runs_as_predicted_lie_on_both_sides_of_the_middle() -> None:
    assert after(*repeat(scored(100.0), 30)).pit == (0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0)


def test_of_few_runs_nothing_is_known() -> None:
    assert after(*repeat(scored(90.0), RUNS_MIN - 1)).pit == ()
    assert after(*repeat(scored(90.0), RUNS_MIN - 1)).pinball_05 is None
    assert after(*repeat(scored(90.0), RUNS_MIN)).pit[1] == 1.0


def test_runs_of_another_horizon_count_there() -> None:
    found = after(*repeat(scored(100.0), RUNS_MIN), *repeat(scored(150.0, "beyond_4x"), 50))
    assert found.pit[9] == 0.0


def test_old_runs_are_forgotten_and_the_state_does_not_grow() -> None:
    fallen: ByHorizon = {}
    for run in (*repeat(scored(150.0), 1000), *repeat(scored(100.0), 1000)):
        fallen = with_run(fallen, run)
    found = with_probabilities(Quality(horizons=(HorizonQuality("inside", 64, 0.1, 0.9),)), fallen).horizons[0]
    assert found.pit[9] < 0.01
    assert len(msgspec.json.encode(fallen)) < 200


def test_what_is_published_shows_where_later_runs_fell() -> None:
    centre = Scenario()
    for hour in range(60):
        n = (1, 2, 4, 8)[hour % 4]
        centre.at(f"{hour // 24}d {hour % 24:02d}:00" if hour >= 24 else f"{hour:02d}:00")
        centre.ran(f"r{hour}", "lammps", n, 1000.0 / n * (1.0 + 0.01 * (hour % 7 - 3)))
    centre.at("3d 12:00")
    (quality,) = (message["quality"] for message in centre.topic("predictions").values())
    inside = next(part for part in quality["horizons"] if part["horizon"] == "inside")
    assert sum(inside["pit"]) == pytest.approx(1.0, abs=1e-3)
    assert 0.0 < inside["pinball_05"] < 0.02
    restored = Scenario()
    centre.checkpoint()
    restored.shard.restore(centre.stored, centre.now_ms, centre.shard.hosts.state.now_ms)
    assert restored.state() == centre.state()
