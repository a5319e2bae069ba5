"""The structural models that are shipped: each is good, and gives the figures that its comment works out by hand."""

import re
from pathlib import Path

import numpy as np
import pytest

from agent.config.load import load
from processors.contracts.load import StructuralModel
from processors.models.histogram import given
from processors.models.structure.evaluate import Evaluated, evaluate
from processors.models.structure.form import Alike, Value
from processors.models.structure.parse import parse

MODELS = Path(__file__).parents[3] / "deploy" / "models"
HALVES = [[0.5, 0.5], [0.5, 0.5]]
EVEN = given(np.linspace(0.5, 1, 6), [0.2] * 5)

# model -> an application that is one, what its comment says of the hosts
WORKED: dict[str, tuple[str, dict[str, Value]]] = {
    "sor": ("sor-2d", {"cpu_available": given([[0.8, 0.9, 1], [0.4, 0.6, 0.8]], HALVES),
                       "bandwidth": given([[6.25e6, 12.5e6]] * 2, [[1], [1]]), "latency": 0.002}),
    "ga": ("genetic", {"hosts": 8, "cpu_available": Alike(EVEN), "master_bandwidth": 12.5e6}),
    "lu": ("lu.C.64", {"hosts": 4, "cpu_available": 0.8, "T(n)": 120.0, "latency": given([1e-4, 3e-4], [1]), "bandwidth": 1e7}),
}  # fmt: skip


def shipped(name: str) -> StructuralModel:
    (model,) = load(MODELS / f"{name}.yaml", environment={}).under_load.models
    return model


def run_time(name: str) -> Evaluated:
    model = shipped(name)
    return evaluate(
        parse(model.equation, (*model.parameters, *model.resources)), {**model.parameters, **WORKED[name][1]}
    )


def test_every_model_that_is_shipped_is_looked_at_here() -> None:
    assert {file.stem for file in MODELS.iterdir()} == set(WORKED)


@pytest.mark.parametrize("name", WORKED)
def test_it_is_for_the_application_that_its_comment_names(name: str) -> None:
    assert re.search(shipped(name).application, WORKED[name][0])
    assert not re.search(shipped(name).application, "gromacs")


@pytest.mark.parametrize("name", WORKED)
def test_its_run_times_lie_between_those_worked_out_by_hand(name: str) -> None:
    comment = " ".join(
        line[1:].strip() for line in (MODELS / f"{name}.yaml").read_text().splitlines() if line[:1] == "#"
    )
    reported = {float(figure) for figure in re.findall(r"(?<![\d.])\d+(?:\.\d+)?(?=\.? |$|:|,|\.$| s)", comment)}
    low, high = {"sor": (252.0, 503.6), "ga": (50.0, 80.0), "lu": (140.2, 150.2)}[name]
    assert {low, high} <= reported
    found = run_time(name)
    assert found.histogram.edges[-1] == pytest.approx(high, rel=1e-4)
    assert low <= found.histogram.edges[0] * 1.000001
    assert found.mc_gap is not None
    assert abs(found.mc_gap) < 0.15


def test_both_phases_of_over_relaxation_wait_for_the_same_hosts() -> None:
    found = run_time("sor")
    assert found.histogram.edges[0] == pytest.approx(252.0)


def test_the_slowest_of_eight_hosts_is_nearer_to_the_slowest_possible() -> None:
    found = run_time("ga")
    median_s = 50 * (0.4 + 0.6 / (0.5 + 0.5 * (1 - 0.5 ** (1 / 8))))
    assert found.quantiles_s[1] == pytest.approx(median_s, rel=0.02)


def test_a_pipeline_of_small_messages_waits_for_latency() -> None:
    assert run_time("lu").quantiles_s == pytest.approx((140.7, 145.2, 149.7))
