"""Predictions under load against runs whose load is known: as often inside their ranges and intervals as they say."""

import numpy as np
import pytest

from processors.models.histogram import Histogram, crps, from_samples, interval_index, mean, pit, point
from processors.models.structure.evaluate import evaluate
from processors.models.structure.form import Alike, Value
from processors.models.structure.parse import parse

RUNS = 500
RESOURCES = ("cpu_available", "bandwidth")
ONE_HOST = parse("10 / cpu_available + 80 / bandwidth", RESOURCES)
MANY_HOSTS = parse("max_over(hosts, 10 / cpu_available) + max_over(hosts, 80 / bandwidth)", RESOURCES)


def availability(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A host that is mostly free and sometimes shared."""
    shared = draw.random(shape) < 0.3
    return np.where(shared, draw.uniform(0.4, 0.6, shape), draw.uniform(0.7, 1.0, shape))


def window(values: np.ndarray) -> Histogram:
    return from_samples(values)


@pytest.mark.parametrize("hosts", [1, 16])
def test_nineteen_of_twenty_runs_lie_in_the_range_and_intervals_hold_their_shares(hosts: int) -> None:
    draw = np.random.default_rng(11)
    cpu, bandwidth = window(availability(draw, (300,))), window(draw.uniform(20, 40, 300))
    model = ONE_HOST if hosts == 1 else MANY_HOSTS
    values: dict[str, Value] = {"cpu_available": Alike(cpu), "bandwidth": Alike(bandwidth), "hosts": hosts}
    found = evaluate(model, values).histogram
    actual = (10 / availability(draw, (hosts, RUNS))).max(axis=0) + (80 / draw.uniform(20, 40, (hosts, RUNS))).max(
        axis=0
    )
    index = interval_index(found, actual)
    inside = (index >= 0) & (index < found.intervals)
    assert inside.mean() >= 0.95
    reported = np.array([found.shares[each] for each in range(found.intervals)])
    counted = np.bincount(index[inside], minlength=found.intervals) / RUNS
    assert counted == pytest.approx(reported, abs=0.12)
    assert abs(float(pit(found, actual).mean()) - 0.5) < 0.08


def test_a_range_scores_better_than_the_one_value_of_the_mean() -> None:
    draw = np.random.default_rng(12)
    values: dict[str, Value] = {"cpu_available": window(availability(draw, (30,))), "bandwidth": 30.0}
    found = evaluate(ONE_HOST, values).histogram
    actual = 10 / availability(draw, (RUNS,)) + 80 / 30
    assert float(crps(found, actual).mean()) < 0.8 * float(crps(point(mean(found)), actual).mean())


def test_intervals_of_draws_hold_their_shares_within_chance() -> None:
    draw = np.random.default_rng(13)
    samples = availability(draw, (20_000,))
    values: dict[str, Value] = {"cpu_available": from_samples(samples, 25), "bandwidth": 30.0}
    joint = parse("10 / cpu_available + 5 * cpu_available + 0 * bandwidth", RESOURCES)
    found = evaluate(joint, values)
    actual = availability(draw, (RUNS,))
    index = interval_index(found.histogram, 10 / actual + 5 * actual)
    counted = np.bincount(np.clip(index, 0, 4), minlength=5)
    reported = found.histogram.shares
    assert (np.abs(counted - RUNS * reported) <= 3 * np.sqrt(RUNS * reported * (1 - reported)) + 5).all()
