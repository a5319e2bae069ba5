import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.simulation.truth import downey
from agent.simulation.workload import DOZEN, hostlist
from tests.kit.cases import each


@pytest.mark.parametrize(
    ("parallelism", "sigma", "n", "speedup"),
    [
        (16.0, 0.0, 8.0, 8.0),
        (16.0, 0.5, 24.0, 14.912621),
        (16.0, 0.5, 31.0, 16.0),
        (16.0, 1.0, 24.0, 13.963636),
        (16.0, 2.0, 31.0, 13.777778),
        (40.0, 0.3, 64.0, 38.641509),
        (40.0, 1.5, 128.0, 40.0),
    ],
)
def test_downeys_law_has_the_published_speed_ups(parallelism: float, sigma: float, n: float, speedup: float) -> None:
    assert 1.0 / downey(1.0, parallelism, sigma)(n) == pytest.approx(speedup, abs=5e-7)


@given(st.floats(1.0, 500.0), st.floats(0.0, 4.0), st.floats(1.0, 1e4))
def test_downeys_law_never_speeds_up_beyond_the_size_or_the_parallelism(a: float, sigma: float, n: float) -> None:
    speedup = 1.0 / downey(1.0, a, sigma)(n)
    assert speedup <= min(n, a) * (1 + 1e-9)


@each("application", DOZEN)
def test_run_times_are_short_enough_for_a_demo_and_long_enough_to_matter(application: object) -> None:
    for n in application.sizes:  # type: ignore[attr-defined]  # pytest hands it over as an object
        assert 60.0 <= application.law(n) <= 2 * 3600.0  # type: ignore[attr-defined]


@given(st.sets(st.integers(0, 999_999), min_size=1, max_size=40))
def test_a_host_list_names_every_node_once(nodes: set[int]) -> None:
    text = hostlist(sorted(nodes))
    named: list[int] = []
    for part in text.removeprefix("nid").strip("[]").split(","):
        first, _, last = part.partition("-")
        named.extend(range(int(first), int(last or first) + 1))
    assert named == sorted(nodes)
