"""The part of runs that waits for the network, learned from made stories whose truth is known."""

import math
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.load.records import RUNS_MIN, CommunicationShare, Followed, NetworkEffect, NetworkRecord
from tests.kit.effort import examples

RUNS: Final = 60
AMOUNTS: Final = st.floats(1e-12, 1e12, allow_nan=False)


def story(
    share: float, *, noise: float = 0.05, cpu: float = 0.3, network: float = 0.5, seed: int = 1
) -> CommunicationShare:
    """Return what runs taught whose load and bandwidth vary by so much, in ln, each on its own."""
    random = np.random.default_rng(seed)
    known = CommunicationShare()
    for _ in range(RUNS):
        load, wait = (math.exp(deviation * random.normal()) for deviation in (cpu, network))
        took = ((1 - share) * load + share * wait) * math.exp(noise * random.normal())
        known = known.ran(load, wait, took)
    return known


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_share_of_a_made_story_is_found(share: float, seed: int) -> None:
    assert story(share, seed=seed).share() == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize("prior", [0.0, 0.2, 0.6])
def test_bandwidth_that_never_varies_teaches_nothing(prior: float) -> None:
    assert story(0.5, network=0.0).share(prior) == pytest.approx(prior, abs=1e-9)
    assert CommunicationShare().share(prior) == prior


def test_bandwidth_that_is_always_less_than_was_usual_teaches_nothing() -> None:
    """A curve that is off by as much for another reason must not look like waiting."""
    known = CommunicationShare()
    for number in range(RUNS):
        known = known.ran(1.0 + 0.3 * (number % 3), 1.5, 1.4 * (1.0 + 0.3 * (number % 3)))
    assert known.share() < 0.01


def test_run_times_that_scatter_more_than_bandwidth_explains_teach_little() -> None:
    found = [story(0.0, noise=0.4, network=0.1, seed=seed).share() for seed in range(20)]
    assert max(found) < 0.2
    assert np.mean(found) < 0.05


def test_load_that_comes_with_a_busy_network_is_not_taken_for_waiting() -> None:
    """Both are stretched alike and runs follow their processors alone: two that cannot be told apart are no news."""
    random, known = np.random.default_rng(4), CommunicationShare()
    for _ in range(RUNS):
        load = math.exp(0.4 * random.normal())
        known = known.ran(load, load, load * math.exp(0.05 * random.normal()))
    assert known.share() < 0.1
    for _ in range(RUNS):
        load = math.exp(0.4 * random.normal())
        wait = load * math.exp(0.2 * random.normal())
        known = known.ran(load, wait, load * math.exp(0.05 * random.normal()))
    assert known.share() < 0.1


def test_a_share_that_changes_is_followed() -> None:
    known, random = story(0.0), np.random.default_rng(5)
    for _ in range(3 * RUNS):
        load, wait = math.exp(0.3 * random.normal()), math.exp(0.5 * random.normal())
        known = known.ran(load, wait, 0.4 * load + 0.6 * wait)
    assert known.share() == pytest.approx(0.6, abs=0.05)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), max_size=40), st.floats(0.0, 1.0))
@settings(max_examples=examples(200), deadline=None)
def test_whatever_runs_met_the_share_is_one(runs: list[tuple[float, float, float]], prior: float) -> None:
    known = CommunicationShare()
    for run in runs:
        known = known.ran(*run)
        assert 0.0 <= known.share(prior) <= 1.0
        assert all(map(math.isfinite, (known.weight, known.load, known.wait, known.run, known.ww, known.wr, known.rr)))


def test_a_run_is_stretched_by_both_each_by_its_part() -> None:
    network = NetworkEffect(0.25, bandwidth=8e9)
    assert network.stretched(2.0, 2e9) == pytest.approx(0.75 * 2 + 0.25 * 4)
    assert network._replace(persistence=0.0).stretched(2.0, 2e9) == pytest.approx(0.75 * 2 + 0.25)


def test_the_usual_bandwidth_is_known_after_three_runs_and_falls_with_the_size() -> None:
    record = NetworkRecord().met(4.0, 1e9).met(8.0, 5e8)
    assert record.bandwidth(4.0) is None
    record = record.met(4.0, 1e9).met(8.0, 5e8).met(2.0, 2e9)
    small, large = record.bandwidth(2.0), record.bandwidth(8.0)
    assert small is not None
    assert large is not None
    assert 5e8 < large < small < 2e9
    assert record.met(4.0, None) == record


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_how_much_of_a_busy_network_lasts_is_found(part: float) -> None:
    random, record = np.random.default_rng(3), NetworkRecord()
    for _ in range(RUNS):
        z = 0.5 * random.normal()
        record = record.ran(0.0, z, part * z + 0.1 * random.normal())
    assert record.persistence == pytest.approx(part, abs=0.05)


def test_a_network_that_was_not_seen_during_runs_is_taken_to_last() -> None:
    record = NetworkRecord()
    for number in range(RUNS):
        record = record.ran(0.0, 0.5 * (-1) ** number, None)
    assert record.persistence == 1.0


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_the_rest_of_a_run_follows_its_processors_as_closely_as_it_did(share: float, correlation: float) -> None:
    """Run times as a whole follow the load by less, for a part of them waits, and by more where the network is busy with it."""
    random, record, followed = np.random.default_rng(3), NetworkRecord(), Followed()
    for _ in range(4 * RUNS):
        x = 0.3 * random.normal()
        z = correlation * x + 0.3 * math.sqrt(1 - correlation**2) * random.normal()
        took = (1 - share) * math.exp(0.8 * x) + share * math.exp(z)
        record, followed = record.ran(x, z, z), followed.ran(x, math.log(took), 0.0)
    assert record.follows(followed, 1.0, NetworkEffect(share, 1e9)) == pytest.approx(0.8, abs=0.07)


def test_the_network_counts_after_a_dozen_runs_that_were_predicted_better_with_it() -> None:
    record = NetworkRecord()
    for _ in range(RUNS_MIN - 1):
        record = record.scored(0.25, 0.5)
    assert not record.earned
    assert record.scored(0.25, 0.5).earned
    for _ in range(RUNS):
        record = record.scored(0.5, 0.5)
    assert record.earned, "it is remembered for long"
    for _ in range(RUNS):
        record = record.scored(0.6, 0.5)
    assert not record.earned
    even = NetworkRecord()
    for _ in range(RUNS):
        even = even.scored(0.5, 0.5)
    assert not even.earned


def test_one_run_whose_prediction_was_absurd_decides_nothing() -> None:
    record = NetworkRecord()
    for _ in range(RUNS):
        record = record.scored(0.1, 0.2)
    assert record.scored(300.0, 0.2).earned


def test_a_share_next_to_none_counts_for_nothing() -> None:
    record = NetworkRecord()
    for _ in range(3):
        record = record.met(4.0, 1e9)
    assert record.network(0.01, 4.0) is None
    found = record.network(0.3, 4.0)
    assert found is not None
    assert found.share == 0.3
    assert found.bandwidth == pytest.approx(1e9, rel=1e-3)
