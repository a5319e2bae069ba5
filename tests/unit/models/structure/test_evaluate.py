"""Run times from equations: worked figures, values that stand twice, many hosts, and what cannot be evaluated."""

import numpy as np
import pytest

from processors.models.histogram import Histogram, add, cumulative, divide, given, mean
from processors.models.structure.evaluate import Draws, Evaluated, evaluate
from processors.models.structure.form import Alike, Builder, Value, sorted_out
from processors.models.structure.parse import EquationError, parse
from tests.kit.cases import each

X, Y = given([1, 2, 4], [0.5, 0.5]), given([2, 3], [1.0])
C1, C2 = given([0.8, 1], [1.0]), given([0.4, 0.6, 0.8], [0.5, 0.5])


def run_time(text: str, /, *, check: bool = True, **variables: Value) -> Evaluated:
    return evaluate(parse(text, variables), variables, check=check)


def test_two_hosts_with_different_loads_give_the_worked_run_time() -> None:
    slower = run_time("max(10 / c1, 8 / c2)", c1=C1, c2=C2)
    assert slower.histogram.edges == pytest.approx(np.linspace(10, 20, 6))
    assert slower.histogram.shares == pytest.approx([0.24, 0.31, 0.15, 0.15, 0.15])
    found = run_time("max(10 / c1, 8 / c2) + exchange", c1=C1, c2=C2, exchange=given([1, 2], [1.0]))
    assert found.histogram.edges == pytest.approx(np.linspace(11, 22, 6))
    assert found.histogram.shares == pytest.approx([0.196667, 0.311333, 0.202, 0.17, 0.12], abs=1e-6)
    assert float(mean(found.histogram)) == pytest.approx(15.851733)
    assert found.quantiles_s == pytest.approx((11.5593, 15.3435, 21.0833), abs=1e-4)


def test_each_hosts_part_is_the_worked_one() -> None:
    assert run_time("10 / c1", c1=C1).histogram.shares == pytest.approx([0.2] * 5)
    second = run_time("8 / c2", c2=C2).histogram
    assert second.edges == pytest.approx(np.linspace(10, 20, 6))
    assert second.shares == pytest.approx([0.3, 0.25, 0.15, 0.15, 0.15])


@pytest.mark.parametrize("text", ["d / e", "1 / e * d", "2 * d / e / two", "d / e / f * f2"])
def test_a_quotient_is_that_of_each_pair_of_intervals_and_not_the_product_with_an_inverse(text: str) -> None:
    d, e = given([1, 3, 5], [0.3, 0.7]), given([2, 4, 7], [0.4, 0.6])
    found = run_time(text, check=False, d=d, e=e, two=2.0, f=4.0, f2=4.0).histogram
    assert found.edges == pytest.approx(np.linspace(1 / 7, 2.5, 6))
    assert found.shares == pytest.approx([0.269693, 0.38025, 0.1992, 0.075429, 0.075429], abs=1e-6)


def test_a_common_divisor_is_divided_by_once() -> None:
    d, e, f = (given(edges, [0.3, 0.7]) for edges in ([1, 3, 5], [2, 4, 7], [1, 2, 3]))
    found = run_time("d / e + f / e", check=False, d=d, e=e, f=f)
    assert found.histogram.shares == pytest.approx(divide(add(d, f), e).shares)


def test_windows_of_hosts_give_the_same_as_hosts_one_by_one() -> None:
    cpu = given([[0.8, 0.9, 1.0], [0.4, 0.6, 0.8]], [[0.5, 0.5]] * 2)
    joint = run_time("max_over(hosts, work / cpu_available)", cpu_available=cpu, work=np.array([10.0, 8.0]), hosts=2)
    alone = run_time("max(10 / c1, 8 / c2)", c1=cpu.host(0), c2=C2)
    assert joint.histogram.edges == pytest.approx(alone.histogram.edges)
    assert joint.histogram.shares == pytest.approx(alone.histogram.shares, abs=0.03)


@each(
    ("text", "low", "high"),
    [("x + x", 2, 8), ("x - x", 0, 0), ("2 * x / x", 2, 2), ("x * x", 1, 16), ("3 * x - 2 * x", 1, 4), ("x / (2 * x)", 0.5, 0.5),
     ("max(x, x)", 1, 4), ("(x + y) - y", 1, 4), ("(x + y) * x / x - y", 1, 4), ("(2 * x + 2 * y) / (x + y)", 2, 2),
     ("p = x + y; p - p", 0, 0), ("x * (y / x)", 2, 3)],
)  # fmt: skip
def test_a_value_that_stands_twice_is_the_same_value(text: str, low: float, high: float) -> None:
    found = run_time(text, x=X, y=Y)
    assert found.histogram.edges[[0, -1]] == pytest.approx([low, high])


def test_a_common_factor_is_taken_out() -> None:
    found = run_time("x * y + x * z", x=X, y=Y, z=given([5, 7], [1.0]))
    assert found.histogram.edges[[0, -1]] == pytest.approx([7, 40])


def test_what_cannot_be_factored_is_drawn_together() -> None:
    found = run_time("max(x, 2 * x) + y", x=X, y=Y)
    assert found.histogram.edges[[0, -1]] == pytest.approx([4, 11], abs=0.02)
    assert run_time("x * (1 / x + y)", x=X, y=Y).quantiles_s[1] == pytest.approx(1 + 5.0, abs=0.4)


def test_the_same_question_has_the_same_answer() -> None:
    one, other = (run_time("x / (x + y)", x=X, y=Y) for _ in range(2))
    assert one.histogram.shares.tolist() == other.histogram.shares.tolist()
    assert (one.quantiles_s, one.mc_gap) == (other.quantiles_s, other.mc_gap)


def test_where_arithmetic_is_off_the_draws_answer() -> None:
    wide = {f"x{i}": given([0.0, 1.0], [1.0]) for i in range(12)}
    found = run_time(" + ".join(wide), check=True, **wide)
    assert found.mc_gap is not None
    assert found.mc_gap < -0.05
    many = run_time("max_over(hosts, 1 / cpu)", cpu=Alike(given([0.5, 1.0], [1.0])), hosts=8)
    assert many.mc_gap is not None
    assert many.mc_gap > 0.15
    assert many.quantiles_s[0] == pytest.approx(1 / (1 - 0.5 * 0.05 ** (1 / 8)), rel=0.01)
    unchecked = run_time("max_over(hosts, 1 / cpu)", check=False, cpu=Alike(given([0.5, 1.0], [1.0])), hosts=8)
    assert unchecked.mc_gap is None


def hosts_of(draw: np.random.Generator, count: int) -> Histogram:
    return given(np.linspace(0.3, 0.9, 6) + draw.uniform(0, 0.1, (count, 1)), draw.dirichlet(np.ones(5), count))


def test_the_slowest_of_many_hosts_is_as_simulated() -> None:
    cpu = hosts_of(np.random.default_rng(3), 24)
    found = run_time("max_over(hosts, 10 / cpu_available) + 1", cpu_available=cpu)
    assert found.mc_gap is not None
    assert abs(found.mc_gap) < 0.1
    alike = run_time("max_over(hosts, 10 / cpu_available)", cpu_available=Alike(cpu.host(0)), hosts=24.5)
    assert float(cumulative(alike.histogram, [alike.quantiles_s[1]])[0]) == pytest.approx(0.5)


def test_phases_that_wait_for_the_same_hosts_are_collected() -> None:
    cpu = hosts_of(np.random.default_rng(3), 5)
    one = run_time("5 * max_over(hosts, 2 / cpu)", cpu=cpu)
    two = run_time("2 * max_over(hosts, 2 / cpu) + max_over(hosts, 6 / cpu)", cpu=cpu)
    assert two.histogram.edges == pytest.approx(one.histogram.edges)


def test_phases_that_wait_for_hosts_in_different_ways_are_drawn() -> None:
    cpu, work = hosts_of(np.random.default_rng(3), 5), np.arange(1.0, 6.0)
    found = run_time("max_over(hosts, 2 / cpu) + max_over(hosts, work / cpu)", cpu=cpu, work=work)
    pool = run_time("max_over(hosts, 1 / cpu) + max_over(hosts, 2 - cpu)", cpu=Alike(cpu.host(0)), hosts=50)
    assert [abs(each.mc_gap or 0.0) < 0.1 for each in (found, pool)] == [True, True]


def test_what_all_hosts_share_is_not_drawn_for_each() -> None:
    network = given([1.0, 2.0], [1.0])
    found = run_time("max_over(hosts, 1 / cpu + network)", cpu=Alike(given([0.5], [1.0])), network=network, hosts=1000)
    assert found.histogram.edges[[0, -1]] == pytest.approx([3, 4])
    assert found.histogram.shares.tolist() == [1.0]
    mixed = run_time("max_over(hosts, network / cpu)", cpu=Alike(given([0.5, 1], [1.0])), network=network, hosts=100)
    assert mixed.histogram.edges[0] < 2.5


@pytest.mark.parametrize("hosts", [2, 40, 5000])
def test_draws_of_hosts_that_are_alike_are_the_same_however_they_are_made(hosts: int) -> None:
    window = Alike(given(np.linspace(0.5, 1, 6), [0.1, 0.1, 0.2, 0.3, 0.3]))
    values: dict[str, Value] = {"cpu": window, "net": window, "hosts": float(hosts)}
    model = parse("max_over(hosts, 2 / cpu - net)", values)
    builder = Builder(model, sorted_out(values, model.names))
    (monomial,) = [monomial for monomial in builder.result() if monomial]
    draws = Draws(builder.table, sorted_out(values, model.names), every=True)
    each, quick = draws._drawn(builder.table.atoms[monomial[0][0]]), draws._extreme(monomial[0][0])
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    assert np.quantile(quick, levels) == pytest.approx(np.quantile(each, levels), abs=0.12 * np.ptp(each))
    assert evaluate(model, values).histogram.edges[-1] == pytest.approx(3.5, abs=0.02)


@pytest.mark.parametrize("hosts", [64, 65, 700])
def test_windows_that_differ_give_their_slowest_host_at_any_number_of_hosts(hosts: int) -> None:
    windows = given(np.linspace(0, 1, 6) + np.zeros((hosts, 1)), np.full((hosts, 5), 0.2))
    found = run_time("max_over(hosts, cpu) + 10", cpu=windows)
    assert found.mc_gap is not None
    assert abs(found.mc_gap) < 0.12
    draws = Draws(Builder(parse("cpu", ("cpu",)), sorted_out({"cpu": windows}, frozenset({"cpu"}))).table,
                  sorted_out({"cpu": windows}, frozenset({"cpu"})), every=True)  # fmt: skip
    assert np.median(draws._variable("cpu").max(axis=0)) == pytest.approx(0.5 ** (1 / hosts), abs=0.3 / hosts)


def test_a_maximum_within_a_maximum_is_over_the_same_hosts() -> None:
    window = given(np.linspace(0.5, 1, 6), [0.1, 0.1, 0.2, 0.3, 0.3])
    found = run_time("max_over(hosts, cpu * max_over(hosts, cpu))", cpu=Alike(window), hosts=50)
    largest = run_time("max_over(hosts, cpu)", cpu=Alike(window), hosts=50)
    assert found.quantiles_s == pytest.approx([value**2 for value in largest.quantiles_s], rel=0.01)


def test_a_job_on_one_host_needs_no_maximum() -> None:
    cpu = given([[0.5, 1.0]], [[1.0]])
    plain = run_time("1 / cpu", cpu=cpu).histogram
    assert plain.edges.tolist() == run_time("max_over(hosts, 1 / cpu)", cpu=cpu).histogram.edges.tolist()


def test_numbers_alone_give_a_number() -> None:
    found = run_time(
        "a = 2; max(a, 3) * -(x - 1) / 4 + max_over(hosts, w) + hosts", x=5.0, w=np.array([1.0, 7.0]), hosts=2
    )
    assert found.histogram.edges.tolist() == [6.0, 6.0]
    assert (found.quantiles_s, found.mc_gap) == ((6.0, 6.0, 6.0), None)
    assert run_time("x * 2", x=given([3.0], [1.0])).histogram.edges.tolist() == [6.0, 6.0]


@each(
    ("text", "message"),
    [
        ("x / (y - y)", "column 6: the divisor is 0."),
        ("x + 1 / z", "column 9: the divisor may be 0, with z."),
        ("1 / (x - y)", "column 6: the divisor may be 0, with x, y."),
        ("x / (x - y)", "column 6: the divisor may be 0, with x, y."),
        ("max_over(hosts, 1 / w)", "column 21: the divisor may be 0, with w."),
        ("0 / z", "column 5: the divisor may be 0, with z."),
        ("z / z", "column 5: the divisor may be 0, with z."),
        ("max_over(hosts, w / w)", "column 21: the divisor may be 0, with w."),
        ("x + 0 / min(x - x, y)", "column 9: the divisor may be 0, with y."),
        ("1 / cpu", "cpu is a host's own, and there are 3; use max_over(hosts, ...)."),
        ("x * cpu + 1", "cpu is a host's own, and there are 3; use max_over(hosts, ...)."),
        ("1e300 * 1e300 * x", "the result is too large for a number."),
        ("huge * huge * huge", "the result is too large for a number."),
        ("huge * (huge * huge * x + huge)", "the result is too large for a number."),
    ],
)
def test_what_has_no_value_is_refused_with_a_message(text: str, message: str) -> None:
    with pytest.raises(EquationError, match=r"line 1, column \d+: ") as refused:
        run_time(text, x=X, y=Y, z=given([-1, 1], [1.0]), w=np.array([0.0, 1.0, 2.0]), huge=given([1e150, 1e151], [1.0]),
                 cpu=given([[0.5, 1]] * 3, [[1.0]] * 3), hosts=3)  # fmt: skip
    assert message in str(refused.value)


@each(
    ("variables", "message"),
    [
        ({}, "x, y has no value."),
        ({"x": 1.0, "y": float("nan"), "hosts": 2}, "y is no finite number."),
        ({"x": 1.0, "y": Y}, "the number of hosts has no value."),
        ({"x": 1.0, "y": np.array([1.0, 2.0]), "hosts": 3}, "the values are for different numbers of hosts."),
        ({"x": 1.0, "y": Y, "hosts": Y}, "the number of hosts is one number."),
        ({"x": 1.0, "y": np.ones((2, 2))}, "y has more axes than hosts."),
        ({"x": 1.0, "y": Alike(given([[1, 2], [1, 3]], [[1.0], [1.0]]))}, "y has more axes than hosts."),
        ({"x": 1.0, "y": np.ones(20_000)}, "at most 16384 hosts can have windows of their own; pool them."),
        ({"x": 1.0, "y": Y, "hosts": 0}, "there has to be at least one host."),
    ],
)
def test_values_that_do_not_fit_are_refused(variables: dict[str, Value], message: str) -> None:
    with pytest.raises(EquationError) as refused:
        evaluate(parse("max_over(hosts, x + y)", ("x", "y")), variables)
    assert message in str(refused.value)


def test_a_host_without_any_processor_time_delays_a_hundredfold() -> None:
    found = run_time("1 / cpu_available", check=False, cpu_available=given([0.0, 0.5, 1.0], [0.5, 0.5]))
    assert found.histogram.edges[-1] == pytest.approx(100.0)
