"""The rule by which a classic law earns a share: by how many sizes, how much better, how near."""

import math
from itertools import pairwise

import numpy as np
import pytest

from processors.models.battery import MEMBERS, Battery
from processors.models.numerics.statistics import Z95
from processors.run_time.earned import CENTRES, SEEDS, Duels, Seeds, Shares, shares, widened

KAZMINA = SEEDS.index("kazmina")


def record(scored: int, error: float, alone: float = 0.2, name: str = "kazmina") -> Duels:
    duels, place = Duels.none(), SEEDS.index(name)
    for i in range(scored):
        duels.learn(2.0**i, [error if other == place else None for other in range(len(SEEDS))], alone)
    return duels


def share(scored: int, error: float, alone: float = 0.2, horizon: int = 1) -> float:
    found = shares({1: record(scored, error, alone)})
    return found[horizon - 1][KAZMINA] if found else 0.0


def test_without_a_record_or_a_better_one_there_is_no_share() -> None:
    assert shares({}) == ()
    assert share(20, 0.2) == 0.0
    assert share(20, 0.185) == 0.0, "within the margin"
    assert share(20, 0.5) == 0.0


def test_a_share_grows_with_the_sizes_that_were_scored_and_with_how_much_better_they_were() -> None:
    assert 0.0 < share(1, 0.02) < share(2, 0.02) < share(8, 0.02) < 1.0
    assert 0.0 < share(8, 0.15) < share(8, 0.1) < share(8, 0.02)


def test_a_share_begins_without_a_jump() -> None:
    steps = [share(8, 0.2 - 0.0005 * i) for i in range(400)]
    assert max(after - before for before, after in pairwise(steps)) < 0.02


def test_errors_within_the_noise_of_runs_earn_little() -> None:
    assert share(8, 0.001, 0.01) < 0.5
    assert share(8, 0.01, 0.2) > 0.95


def test_farther_horizons_learn_less_from_near_ones() -> None:
    near, middle, far = (share(4, 0.02, horizon=horizon) for horizon in (1, 2, 3))
    assert near > middle > far > 0.0


def test_laws_that_agree_earn_no_more_than_one_of_them() -> None:
    duels = Duels.none()
    duels.learn(8.0, [0.02] * len(SEEDS), 0.2)
    assert sum(shares({1: duels})[0]) == pytest.approx(share(1, 0.02), abs=1e-3)


def test_other_curves_of_the_application_count_half() -> None:
    elsewhere = shares({}, [{1: record(4, 0.02)}])[0][KAZMINA]
    assert elsewhere == pytest.approx(share(2, 0.02), abs=1e-4)


def test_a_size_that_is_scored_again_counts_once() -> None:
    duels = record(1, 0.02)
    for _ in range(9):
        duels.learn(1.0, [None, None, 0.02, None, None], 0.2)
    assert duels.scored[KAZMINA] == 1


def test_the_opponent_s_error_is_that_of_the_same_sizes() -> None:
    duels = Duels.none()
    duels.learn(4.0, [None] * len(SEEDS), 1.0)
    duels.learn(8.0, [None, None, 0.1, None, None], 0.1)
    assert shares({1: duels}) == ()


def laws(parallel_s: float) -> Battery:
    own = {"kazmina": (parallel_s, 0.0, 0.0)}
    return Battery(1.0, 4.0, 25.0, tuple(own.get(name, ()) for name in MEMBERS), ())


SHARES: Shares = tuple(tuple(part if i == KAZMINA else 0.0 for i in range(len(SEEDS))) for part in (0.5, 0.25, 0.0))


def test_forecasts_move_by_the_share_of_their_distance_and_not_at_all_at_the_largest_size() -> None:
    n = 4.0 * 2.0 ** np.array([-1.0, *CENTRES, 0.5, 5.0])
    alone = np.log(200.0 / n)
    moved = Seeds(laws(100.0), SHARES).moved(n, alone)
    assert moved.share.tolist() == pytest.approx([0.0, 0.0, 0.5, 0.25, 0.0, 0.25, 0.0])
    assert (moved.ln_t - alone).tolist() == pytest.approx((-math.log(2.0) * moved.share).tolist())
    assert Seeds(laws(100.0), SHARES).weights == {"kazmina": 0.5}


def test_the_band_is_that_of_the_mixture() -> None:
    moved = Seeds(laws(100.0), SHARES).moved(np.array([8.0]), np.log([25.0]))
    assert moved.deviation[0] == pytest.approx(0.5 * math.log(2.0))
    assert widened(np.array([0.3]), moved.deviation)[0] == pytest.approx(math.hypot(0.3, Z95 * 0.5 * math.log(2.0)))


def test_a_law_that_reports_nothing_has_no_weight_in_a_size() -> None:
    silent = Battery(1.0, 4.0, 25.0, ((),) * len(MEMBERS), ())
    moved = Seeds(silent, SHARES).moved(np.array([8.0]), np.log([25.0]))
    assert (moved.ln_t[0], moved.share[0], moved.deviation[0]) == (math.log(25.0), 0.0, 0.0)
    assert Seeds(silent, SHARES).weights == {}
