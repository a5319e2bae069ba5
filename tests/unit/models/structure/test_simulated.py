"""Any equation gives what a simulation of it gives, however often its values stand in it."""

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from processors.models.histogram import Histogram, given, quantiles
from processors.models.structure.evaluate import Draws, evaluate
from processors.models.structure.form import Alike, Builder, Value, sorted_out
from processors.models.structure.parse import EquationError, parse
from tests.kit.effort import examples
from tests.kit.equations import valued

HOSTS, DRAWS = 7, 20_000
X, Y = given([1, 2, 4], [0.5, 0.5]), given([2, 3], [1])
POOL, GPU = (
    given(np.linspace(1, 2, 6), [0.1, 0.2, 0.3, 0.2, 0.2]),
    given(np.linspace(3, 5, 6), [0.3, 0.2, 0.1, 0.2, 0.2]),
)
OWN = given(np.linspace(1, 3, 6) + np.arange(HOSTS)[:, None] / 10, np.full((HOSTS, 5), 0.2))
VALUES: dict[str, Value] = {"x": X, "y": Y, "own": OWN, "pool": Alike(POOL), "gpu": Alike(GPU), "hosts": HOSTS}


def joined(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.tuples(below, st.sampled_from("+-*/"), below).map(lambda part: f"({part[0]} {part[1]} {part[2]})")
    return signs | st.tuples(st.sampled_from(["max", "min"]), below, below).map(lambda p: f"{p[0]}({p[1]}, {p[2]})")


def equations(own: list[str]) -> st.SearchStrategy[str]:
    inner = st.recursive(st.sampled_from([*own, "x", "y", "2"]), joined, max_leaves=5)
    over = st.tuples(st.sampled_from(["max_over", "min_over"]), inner).map(lambda part: f"{part[0]}(hosts, {part[1]})")
    return st.recursive(over | st.sampled_from(["x", "y", "2"]), joined, max_leaves=5)


def drawn(x: Histogram, hosts: int, random: np.random.Generator) -> np.ndarray:
    return np.stack([quantiles(x.host(host) if x.hosts else x, random.random(DRAWS)) for host in range(hosts)])


@pytest.fixture(scope="module")
def simulated() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    shared = {"x": drawn(X, 1, random), "y": drawn(Y, 1, random), "hosts": np.full((1, 1), float(HOSTS))}
    return shared | {name: drawn(x, HOSTS, random) for name, x in (("own", OWN), ("pool", POOL), ("gpu", GPU))}


@settings(max_examples=examples(60), deadline=None)
@for_all(equations(["own", "pool", "gpu"]))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the simulation divides by what is refused
def test_bands_are_those_of_a_simulation_but_for_what_the_check_allows(
    simulated: dict[str, np.ndarray], text: str
) -> None:
    model = parse(text, VALUES)
    try:
        found = evaluate(model, VALUES)
    except EquationError as refused:
        assert "divisor" in str(refused)  # noqa: PT017  # the only thing that can be wrong with these
        return
    wanted = np.broadcast_to(valued(model.result, simulated), (1, DRAWS))[0]
    ends = np.quantile(wanted, (0.05, 0.95))
    length = max(np.ptp(np.quantile(wanted, (0.005, 0.995))), np.ptp(found.histogram.edges))
    near = 0.2 * float(length) + 1e-6 * float(np.abs(wanted).max())
    assert found.quantiles_s[::2] == pytest.approx(ends, abs=near, rel=1e-9)
    assert abs(found.histogram.shares.sum() - 1) < 1e-12


@settings(max_examples=examples(80), deadline=None)
@for_all(equations(["own"]))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_collecting_terms_changes_no_draw(text: str) -> None:
    values = {name: VALUES[name] for name in ("x", "y", "own", "hosts")}
    model = parse(text, values)
    inputs = sorted_out(values, model.names | values.keys())
    try:
        evaluate(model, values, check=False)
        builder = Builder(model, inputs)
        draws = Draws(builder.table, inputs, every=True)
        found = draws.form(builder.result())
    except EquationError as refused:
        assert "divisor" in str(refused)  # noqa: PT017  # the only thing that can be wrong with these
        return
    names = {name: draws._variable(name) for name in ("x", "y", "own")}
    found, wanted = np.broadcast_arrays(found, valued(model.result, names))
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-9 * float(np.abs(wanted).max() + 1))
