import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.adept.study import Study, study
from processors.models.downey.curve import speedup
from processors.models.downey.two_step import curve_bounds
from processors.models.numerics.arrays import Floats
from tests.kit.cases import each
from tests.kit.effort import examples, seeds

DENSE, EVEN, POWERS = np.arange(1.0, 17.0), np.arange(2.0, 17.0, 2.0), 2.0 ** np.arange(6.0)
SQUARES = np.array([4.0, 9.0, 12.0, 16.0, 20.0, 25.0, 30.0, 36.0, 42.0, 49.0])


def downey(n: Floats, parallelism: float, sigma: float, t1_s: float = 1000.0) -> Floats:
    return np.asarray(t1_s / speedup(n, parallelism, sigma))


def patterns(found: Study) -> tuple[str | None, list[float], int]:
    special = found.patterns.special.name if found.patterns.special else None
    return (
        special,
        [size.n for size in found.anomalies],
        len(found.patterns.phases.phases) if found.patterns.phases else 0,
    )


def test_the_patterns_of_the_reference_curves() -> None:
    clean = downey(DENSE, 24.0, 0.6)
    assert patterns(study(DENSE, clean)) == (None, [], 0)
    assert patterns(study(DENSE, clean * np.where(np.isin(DENSE, POWERS), 1.0, 1.3))) == ("pow2", [], 0)
    square = np.isin(SQUARES, np.arange(8.0) ** 2)
    assert patterns(study(SQUARES, downey(SQUARES, 60.0, 0.6) * np.where(square, 1.0, 1.25))) == ("square", [], 0)
    assert patterns(study(EVEN, downey(EVEN, 40.0, 0.4) * np.where(EVEN >= 10, 1.4, 1.0))) == (None, [], 2)
    assert patterns(study(POWERS, downey(POWERS, 40.0, 0.4) * np.where(POWERS == 8, 1.5, 1.0))) == (None, [8.0], 0)


def test_predictions_of_the_reference_application() -> None:
    found = study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).predict([4, 12, 24, 64])
    assert found.run_time_s == pytest.approx([262.0, 98.41, 67.29, 62.59], rel=0.005)
    assert found.source == ("observed", "interpolated", "interpolated", "extrapolated")
    assert found.extrapolation.tolist() == [0.125, 0.375, 0.75, 2.0]
    assert found.speedup / [4, 12, 24, 64] == pytest.approx(found.efficiency)
    assert found.speedup[3] == pytest.approx(15.8, rel=0.03)


def test_without_the_serial_time_the_speedup_is_against_the_predicted_one() -> None:
    n = np.array([4.0, 8.0, 16.0, 24.0, 32.0])
    predicted = study(n, downey(n, 16.0, 0.5)).predict([1.0, 8.0])
    assert predicted.speedup == pytest.approx([1.0, 7.211], rel=0.03)


def test_a_size_out_of_line_does_not_bend_the_curve() -> None:
    t = downey(POWERS, 40.0, 0.4)
    predicted = study(POWERS, t * np.where(POWERS == 8, 1.5, 1.0)).predict([8.0, 16.0]).run_time_s
    assert predicted == pytest.approx(t[[3, 4]], rel=0.03)


def test_other_sizes_than_the_favoured_ones_are_predicted_slower() -> None:
    favoured = np.isin(DENSE, POWERS)
    t = downey(DENSE, 24.0, 0.6) * np.where(favoured, 1.0, 1.3)
    found = study(DENSE, t)
    predicted = found.predict([16.0, 15.0, 32.0, 31.0]).run_time_s
    assert predicted[:2] == pytest.approx([t[15], t[14]], rel=0.02)
    assert predicted[3] > 1.2 * predicted[2]
    assert found.preferred_sizes == (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    assert "powers of two" in " ".join(found.verdict.advice)


def test_favoured_sizes_are_found_where_their_neighbours_were_merged() -> None:
    n = np.arange(1.0, 49.0)
    t = downey(n, 60.0, 0.6) * np.where(np.fmod(n, 8) == 0, 1.0, 1.3)
    merged = np.array([1.0, 2.0, 4.0, 8.5, 14.2, 22.7, 33.1, 48.0])
    times = np.exp(np.interp(np.log(merged), np.log(n), np.log(t)))
    assert study(merged, times).patterns.special is None
    found = study(merged, times, unthinned=(n, t))
    assert found.patterns.special is not None
    assert (found.patterns.special.name, round(found.patterns.special.slowdown, 2)) == ("multiple of 8", 0.3)
    assert found.predict([40.0, 41.0]).run_time_s == pytest.approx(t[[39, 40]], rel=0.03)


def test_merged_sizes_stay_where_no_size_is_favoured() -> None:
    n = np.arange(1.0, 49.0)
    t = downey(n, 60.0, 0.6)
    found = study(n[::6], t[::6], unthinned=(n, t))
    assert found.n.tolist() == n[::6].tolist()


def test_one_size_in_four_is_reported_but_stays_in_the_curve() -> None:
    found = study([1, 2, 4, 8], [100.0, 52.0, 40.0, 15.0])
    assert [size.n for size in found.anomalies] == [4.0]
    assert found.predict([4.0]).run_time_s[0] > 30.0


def test_a_stepwise_curve_is_predicted_by_phase_and_never_reliable_beyond() -> None:
    t = downey(EVEN, 40.0, 0.4) * np.where(EVEN >= 10, 1.4, 1.0)
    found = study(EVEN, t)
    assert found.predict(EVEN).run_time_s == pytest.approx(t, rel=0.02)
    assert found.predict([18.0]).run_time_s[0] == pytest.approx(1.4 * downey(np.array([18.0]), 40.0, 0.4)[0], rel=0.06)
    assert "+40 %" in " ".join(found.verdict.advice)


def test_parameters_and_envelope_hold_the_true_curve() -> None:
    n = np.array([1.0, 4.0, 8.0, 16.0, 24.0, 32.0])
    found = study(n, downey(n, 16.0, 0.5))
    assert found.envelope.t1_low_s < 1000.0 < found.envelope.t1_high_s
    assert found.envelope.parallelism_low < 16.0 < found.envelope.parallelism_high
    assert found.parameters() == pytest.approx({"A": 16.0, "sigma": 0.5, "t1_s": 1000.0}, rel=0.06)
    assert found.fluctuation.shape == (5,)


def test_useful_sizes_are_those_of_the_curve() -> None:
    n = np.array([1.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0])
    useful = study(n, downey(n, 16.0, 0.5)).useful
    assert useful.knee == 16.0
    assert useful.at_half_efficiency == pytest.approx(32.0, rel=0.03)
    assert useful.max == pytest.approx(31.0, rel=0.06)


def test_whole_nodes_are_looked_for_where_the_cores_of_a_node_are_known() -> None:
    n = np.array([10.0, 14.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 56.0, 60.0])
    t = downey(n, 90.0, 0.6) * np.where(np.fmod(n, 10.0) == 0, 1.0, 1.25)
    found = study(n, t, cores_per_node=10)
    assert found.patterns.special is not None
    assert found.patterns.special.name == "multiple of 10"


@pytest.mark.parametrize("seed", seeds(5, 20))
def test_the_order_of_the_sizes_changes_no_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = np.sort(rng.choice(np.arange(1.0, 129.0), int(rng.integers(1, 13)), replace=False))
    t, weight = downey(n, 40.0, 0.8) * np.exp(rng.normal(0.0, 0.1, n.size)), rng.uniform(1.0, 3.0, n.size)
    order = rng.permutation(n.size)
    first, second = study(n, t, weight, 0.05), study(n[order], t[order], weight[order], 0.05)
    targets = np.append(n, [3.3, 200.0])
    for one, other in zip(first.predict(targets)[:6], second.predict(targets)[:6], strict=True):
        assert one.tolist() == other.tolist()
    assert first.verdict == second.verdict
    assert first.useful == second.useful


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.integers(-300, 300))
def test_the_unit_of_time_scales_the_times_exactly_and_changes_nothing_else(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    n = np.sort(rng.choice(np.arange(1.0, 65.0), int(rng.integers(1, 10)), replace=False))
    t = downey(n, 30.0, 0.8) * np.exp(rng.normal(0.0, 0.1, n.size))
    first, second = study(n, t), study(n, t * 2.0**power)
    targets = [1.0, 5.0, 130.0]
    assert (first.predict(targets).run_time_s * 2.0**power).tolist() == second.predict(targets).run_time_s.tolist()
    assert (first.predict(targets).low_s * 2.0**power).tolist() == second.predict(targets).low_s.tolist()
    assert first.predict(targets).speedup.tolist() == second.predict(targets).speedup.tolist()
    assert first.fluctuation.tolist() == second.fluctuation.tolist()
    assert first.parameters()["A"] == second.parameters()["A"]
    assert first.verdict == second.verdict


times = st.one_of(st.floats(1e-300, 1e300), st.sampled_from([1e-300, 1.0, 7.0, 1e300]), st.floats(0.5, 2.0))
sizes = st.one_of(st.floats(1e-300, 1e300), st.integers(1, 20).map(float), st.sampled_from([0.5, 1e-300, 1e300]))


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(sizes, times), min_size=1, max_size=12), st.floats(0.0, 3.0), sizes)
def test_any_positive_sizes_and_times_get_an_answer_without_a_warning(
    rows: list[tuple[float, float]], noise: float, target: float
) -> None:
    found = study([n for n, _ in rows], [t for _, t in rows], noise=noise, cores_per_node=4)
    targets = np.append(found.n, [target, 0.3, 1.0, 1e300])
    predicted = found.predict(targets)
    for field in predicted[:6]:
        assert field.shape == targets.shape
        assert not np.isnan(field).any()
    assert np.isfinite(predicted.run_time_s).all()
    assert (predicted.low_s <= predicted.run_time_s).all()
    assert (predicted.run_time_s <= predicted.high_s).all()
    assert (predicted.run_time_s > 0).all()
    assert found.verdict.verdict in {*found.verdict.reasons, "reliable"}
    assert found.envelope.parallelism_low >= 1
    assert found.useful is not None
    assert found.parameters()["t1_s"] > 0
    assert not np.isnan(found.fluctuation).any()


@each("k", range(3, 13))
def test_identical_times_are_a_curve_that_does_not_scale(k: int) -> None:
    found = study(np.arange(1.0, k + 1.0), np.full(k, 10.0))
    assert found.predict([2.0, 50.0]).run_time_s == pytest.approx([10.0, 10.0], rel=0.05)
    assert found.verdict.verdict == "reliable"


def test_the_same_size_twice_is_one_size() -> None:
    found = study([4, 4, 8], [100.0, 104.0, 52.0])
    assert found.predict([4.0]).run_time_s[0] == pytest.approx(102.0, rel=0.01)
    assert found.verdict.verdict == "insufficient"


def test_a_share_of_a_processor_is_predicted() -> None:
    found = study([0.5, 1.0, 2.0, 4.0], [200.0, 100.0, 52.0, 28.0]).predict([0.25, 0.5])
    assert found.run_time_s == pytest.approx([400.0, 200.0], rel=0.02)
    assert found.source == ("extrapolated", "observed")


@pytest.mark.parametrize(
    ("n", "t", "noise"),
    [([], [], 0.03), ([1.0], [0.0], 0.03), ([0.0], [1.0], 0.03), ([1.0], [np.nan], 0.03), ([1.0], [1.0], np.nan)],
)
def test_what_is_no_measurement_is_refused(n: list[float], t: list[float], noise: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        study(n, t, noise=noise)


@pytest.mark.parametrize("target", [0.0, -1.0, np.nan, np.inf])
def test_a_target_that_is_no_size_is_refused(target: float) -> None:
    found = study([1, 2, 4], [100.0, 52.0, 28.0])
    with pytest.raises(ValueError, match="must be"):
        found.predict([target])


def test_bands_of_clean_applications_hold_the_run_times() -> None:
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(100):
        n = 2.0 ** np.arange(rng.integers(3, 6)) * rng.choice([1.0, 2.0, 4.0])
        parallelism, sigma = np.exp(rng.uniform(np.log(8.0), np.log(256.0))), abs(rng.normal(1.0, 0.8))
        t = downey(n, parallelism, sigma) * np.exp(rng.normal(0.0, 0.03, n.size))
        targets = np.array([1.4 * n[-2], 2.0 * n[-1], 4.0 * n[-1]])
        runs = downey(targets, parallelism, sigma) * np.exp(rng.normal(0.0, 0.03, 3))
        predicted = study(n, t).predict(targets)
        inside.append((predicted.low_s <= runs) & (runs <= predicted.high_s))
    assert (np.mean(inside, axis=0) >= 0.88).all()


def test_predictions_of_clean_curves_stay_within_the_bounds_of_the_family() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        n = np.sort(rng.choice(np.arange(1.0, 65.0), 6, replace=False))
        t = downey(n, np.exp(rng.uniform(1.0, 5.0)), abs(rng.normal(1.0, 0.8)))
        targets = np.array([1.0, 10.0, 70.0, 200.0])
        low, high = curve_bounds(n, t, targets)
        predicted = study(n, t).predict(targets).run_time_s
        assert (low <= predicted).all()
        assert (predicted <= high).all()
