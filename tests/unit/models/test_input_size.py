"""An input is predicted from others: where the truth is known, in any order, and whatever is asked."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.models.input_size import ExpectedLnTime, Input, Knot, expected, pooled, regress, values

NODES = (1.0, 4.0, 16.0)
REQUESTED = np.array([2.0, 8.0])


def ln_truth(atoms: float, steps: float, n: float) -> float:
    return math.log(1e-3 * atoms**1.5 * steps * (1 / n + 0.02))


def known(atoms: float, steps: float = 100.0, place: str = "exa", nodes: tuple[float, ...] = NODES) -> Input:
    knots = tuple(Knot(n, ln_truth(atoms, steps, n), 0.02) for n in nodes)
    return Input(place, (math.log(atoms), math.log(steps)), knots)


GRID = [known(atoms, steps) for atoms in (1e3, 2e3, 4e3, 8e3) for steps in (100.0, 1000.0)]


@pytest.mark.parametrize(("atoms", "steps"), [(3e3, 300.0), (16e3, 100.0), (500.0, 2000.0), (64e3, 1000.0)])
def test_a_power_law_of_the_sizes_is_found_within_and_beyond_the_inputs(atoms: float, steps: float) -> None:
    found = expected(GRID, "exa", (math.log(atoms), math.log(steps)), REQUESTED)
    truth = np.array([ln_truth(atoms, steps, n) for n in REQUESTED])
    assert (np.abs(found.ln_run_time - truth) < 0.1 + 0.1 * max(math.log(atoms / 8e3), math.log(500 / atoms), 0)).all()
    assert (np.abs(found.ln_run_time - truth) < found.half_width).all()


def test_bands_widen_away_from_the_inputs_and_with_fewer_of_them() -> None:
    widths = [
        float(expected(GRID, "exa", (math.log(atoms), math.log(100.0)), [4.0]).half_width[0])
        for atoms in (4e3, 16e3, 64e3, 1e6)
    ]
    assert widths == sorted(widths)
    few = expected(GRID[:2], "exa", (math.log(4e3), math.log(100.0)), [4.0])
    assert few.half_width[0] > 5 * widths[0]


def test_an_unknown_exponent_is_not_pretended_to_be_known() -> None:
    one_step = [known(atoms) for atoms in (1e3, 2e3, 4e3, 8e3)]
    same, other = (expected(one_step, "exa", (math.log(3e3), math.log(steps)), [4.0]) for steps in (100.0, 1000.0))
    assert same.half_width[0] < 0.4
    assert other.half_width[0] > 1.5


def test_another_place_reports_the_exponents_and_little_of_the_level() -> None:
    slower = [
        Input("other", one.ln_sizes, tuple(knot._replace(ln_run_time=knot.ln_run_time + 1.0) for knot in one.knots))
        for one in GRID
    ]
    sizes = (math.log(8e3), math.log(1000.0))
    single = expected([known(1e3)], "exa", sizes, [4.0])
    helped = expected([known(1e3), *slower], "exa", sizes, [4.0])
    truth = ln_truth(8e3, 1000.0, 4.0)
    assert abs(helped.ln_run_time[0] - truth) < 0.5 * abs(single.ln_run_time[0] - truth)
    assert helped.half_width[0] < 0.6 * single.half_width[0]


def test_inputs_that_ran_at_one_size_each_are_brought_to_the_same_size() -> None:
    single = [known(1e3 * 1.4**i, nodes=(2.0 ** (i % 4),)) for i in range(10)]
    found = expected(single, "exa", (math.log(4e3), math.log(100.0)), [4.0])
    assert abs(found.ln_run_time[0] - ln_truth(4e3, 100.0, 4.0)) < 0.2


def test_runs_of_the_input_itself_move_the_forecast_near_them_the_most() -> None:
    sizes = (math.log(3e3), math.log(300.0))
    before = expected(GRID[:3], "exa", sizes, [4.0, 8.0, 1024.0])
    own = Knot(4.0, before.ln_run_time[0] + 0.5, 0.02)
    after = expected(GRID[:3], "exa", sizes, [4.0, 8.0, 1024.0], own=[own])
    moved = after.ln_run_time - before.ln_run_time
    assert 0.5 >= moved[0] > moved[1] > moved[2] > 0
    assert abs(moved[0] - 0.5) < 0.02
    assert (after.half_width < before.half_width).all()


@given(st.permutations(GRID))
def test_the_order_of_inputs_does_not_matter(inputs: list[Input]) -> None:
    sizes = (math.log(3e3), math.log(300.0))
    assert [column.tolist() for column in expected(inputs, "exa", sizes, REQUESTED)] == [
        column.tolist() for column in expected(GRID, "exa", sizes, REQUESTED)
    ]


SIZE = st.floats(1e-300, 1e300)
N = st.floats(1e-3, 1e9)
INPUT = st.builds(
    lambda place, size, knots: Input(
        place, (math.log(size),), tuple(Knot(n, math.log(t), 0.02) for n, t in sorted(knots.items()))
    ),
    st.sampled_from(["exa", "other"]),
    SIZE,
    st.dictionaries(st.sampled_from([1e-3, 0.5, 1.0, 3.0, 64.0, 1e9]), st.floats(1e-3, 1e9), min_size=1, max_size=5),
)


@given(st.lists(INPUT, min_size=1, max_size=6), SIZE, st.lists(N, min_size=1, max_size=3))
def test_whatever_was_run_the_forecast_is_finite_with_a_band(inputs: list[Input], size: float, n: list[float]) -> None:
    for own in ([], list(inputs[0].knots[:2])):
        found = expected(inputs, "exa", (math.log(size),), n, own)
        assert np.isfinite(found.ln_run_time).all()
        assert np.isfinite(found.half_width).all()
        assert (found.half_width > 0).all()


def test_weights_of_the_mixture_add_up_to_one_and_its_band_is_that_of_its_parts() -> None:
    found = regress(GRID, "exa", (math.log(3e3), math.log(300.0)), REQUESTED)
    assert abs(found.weight.sum() - 1) < 1e-12
    single = found._replace(weight=np.eye(found.weight.size)[0])
    assert single.half_width(0.0) == pytest.approx(1.6448536 * np.sqrt(single.variance[0]), rel=1e-6)


def test_curves_pass_through_their_knots_and_go_on_beyond_them_with_less_trust() -> None:
    one = known(1e3)
    read = values([one], np.array([0.25, *NODES, 64.0]))
    assert read.ln_run_time[0, 1:4] == pytest.approx([knot.ln_run_time for knot in one.knots])
    assert read.deviation[0, 1:4] == pytest.approx([0.02] * 3)
    assert (read.deviation[0, [0, 4]] > 0.3).all()
    assert read.ln_run_time[0, 0] > read.ln_run_time[0, 1]
    between = values([one], np.array([2.0, 8.0])).ln_run_time[0]
    assert between == pytest.approx([ln_truth(1e3, 100.0, n) for n in (2.0, 8.0)], abs=0.03)


def test_what_is_surer_counts_more_and_disagreement_widens_the_band() -> None:
    n = np.array([64.0])
    others, law = ExpectedLnTime(np.array([0.0]), np.array([0.1])), ExpectedLnTime(np.array([1.0]), np.array([1.0]))
    both, share = pooled(others, law, n, [8.0])
    assert share[0] == pytest.approx(1 / 1.01)
    assert both.ln_run_time[0] == pytest.approx(0.01 / 1.01)
    assert both.half_width[0] > 0.1
    near = pooled(others, ExpectedLnTime(np.array([1.0]), np.array([0.01])), np.array([8.0]), [8.0])
    assert near[1][0] < 0.02
