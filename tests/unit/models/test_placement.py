"""Features of placements on a torus and in a tree of switches, against routes that are written out."""

from itertools import combinations

import numpy as np
import pytest

from processors.models.features.placement import Torus, Tree, routed, spread
from tests.kit.torus import halo_3d, mappings

SIDE = 4
TREE = np.array([[0, 1], [0, 1], [0, 2], [0, 2], [3, -1]])  # two leaves below one switch, and a host below another one


def route(start: np.ndarray, end: np.ndarray, sides: tuple[int, ...]) -> list[tuple[tuple[int, ...], int, int]]:
    """Return the links between two places, one dimension after the other, the shorter way round, ahead where both are alike."""
    here, links = start.tolist(), []
    for dimension, side in enumerate(sides):
        ahead = (int(end[dimension]) - here[dimension]) % side
        step = 1 if 2 * ahead <= side else -1
        for _ in range(ahead if step == 1 else side - ahead):
            links.append((tuple(here), dimension, step))
            here[dimension] = (here[dimension] + step) % side
    return links


@pytest.mark.parametrize("sides", [(4, 4, 4), (5, 3), (7,), (2, 3, 2, 4)])
def test_messages_on_a_torus_pass_the_links_of_the_shortest_ways(sides: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    at = np.array([rng.integers(0, side, 20) for side in sides]).T
    torus = Torus(at, np.array(sides))
    sender, receiver = rng.integers(0, 20, 50), rng.integers(0, 20, 50)
    expected = [route(at[a], at[b], sides) for a, b in zip(sender, receiver, strict=True)]
    assert torus.hops(sender, receiver).tolist() == [len(links) for links in expected]
    passed = torus.passed(sender, receiver)
    numbers: dict[int, set[int]] = {}
    for message, links in enumerate(expected):
        own = set(passed.link[passed.message == message].tolist())
        assert len(own) == len(links)
        for other, before in numbers.items():  # two messages share as many links as their ways do
            assert len(own & before) == len(set(links) & set(expected[other]))
        numbers[message] = own
    pairs = list(combinations(range(20), 2))
    assert torus.mean_hops() == pytest.approx(np.mean([len(route(at[a], at[b], sides)) for a, b in pairs]))


def test_messages_in_a_tree_go_up_to_the_first_common_switch() -> None:
    tree = Tree(TREE)
    hops = {(0, 0): 0, (0, 1): 2, (0, 2): 4, (2, 3): 2, (0, 4): 5, (4, 3): 5}
    for (a, b), expected in hops.items():
        sender, receiver = np.array([a]), np.array([b])
        assert tree.hops(sender, receiver).tolist() == [expected]
        assert len(set(tree.passed(sender, receiver).link.tolist())) == expected
    pairs = np.array(list(combinations(range(5), 2))).T
    assert tree.mean_hops() == pytest.approx(tree.hops(*pairs).mean())


def test_messages_that_leave_a_leaf_share_its_way_up_and_none_of_it_down() -> None:
    tree = Tree(TREE)
    up = tree.passed(np.array([0, 1]), np.array([2, 3]))
    assert np.unique(up.link, return_counts=True)[1].tolist().count(2) == 2, "the leaf's link up and the other's down"
    back = tree.passed(np.array([0, 2]), np.array([2, 0]))
    assert len(set(back.link.tolist())) == 8, "each way has links of its own"


def test_a_mapping_by_turns_sends_every_message_off_its_host_and_a_block_one_few() -> None:
    torus = Torus(np.arange(4)[:, None], np.array([16]))
    block, cyclic = spread(torus, np.repeat(np.arange(4), 8)), spread(torus, np.tile(np.arange(4), 8))
    assert block["next_off_host"] == pytest.approx(3 / 31)
    assert cyclic["next_off_host"] == 1.0
    assert block["next_max_link"] == 1.0
    assert cyclic["next_max_link"] == 8.0
    assert {name: block[name] for name in spread(torus)} == spread(torus), "hosts alone stand for ranks in blocks"


@pytest.mark.parametrize("places", [[[3, 1]], [[3, 1], [3, 1]]])
def test_hosts_without_a_link_between_them_have_no_hops(places: list[list[int]]) -> None:
    found = spread(Torus(np.array(places), np.array([4, 4])))
    assert found == {} if len(places) == 1 else set(found.values()) == {0.0}


def test_bytes_of_known_messages_add_up_on_the_links_that_they_pass() -> None:
    pattern, nodes = halo_3d(SIDE), mappings(1, seed=4)[0]
    at = np.array([(node % SIDE, node // SIDE % SIDE, node // SIDE**2) for node in nodes.tolist()])
    sender, receiver = np.array(pattern.pairs).T
    carried = np.arange(1.0, len(sender) + 1)
    load: dict[tuple[tuple[int, ...], int, int], float] = {}
    dilation = []
    for a, b, size in zip(sender, receiver, carried, strict=True):
        links = route(at[a], at[b], (SIDE,) * 3)
        dilation.append(len(links))
        for link in links:
            load[link] = load.get(link, 0.0) + size
    hops, link_features = routed(Torus(at, np.array([SIDE] * 3)), sender, receiver, carried)
    assert hops.tolist() == dilation
    assert link_features["max_bytes"] == max(load.values())
    assert link_features["avg_bytes"] == pytest.approx(np.mean(list(load.values())))
