"""Hosts spread over lists: the same names as when all are written out, whatever the lists look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import count, expand, expand_all, folded, spread
from tests.kit.cases import each

NAMES = st.sampled_from(["a", "nid[1-3]", "r[0-1]n[00-02]", "x[1,3,7-9]b", "login1", "c[10-12]-[1-2]"])


HOSTS = st.from_regex(r"[a-c]{0,2}(0{0,2}[0-9]{1,3}-?){0,3}[a-b]?", fullmatch=True).filter(bool)


@given(st.lists(HOSTS | NAMES, max_size=40), st.integers(1, 3))
def test_folded_lists_name_the_same_hosts(names: list[str], parts: int) -> None:
    texts = [",".join(names[i::parts]) for i in range(parts) if names[i::parts]]
    whole = {name for text in texts for name in expand(text, limit=10_000)}
    assert {name for text in folded(texts) for name in expand(text, limit=10_000)} == whole


@given(st.lists(HOSTS, max_size=40, unique=True))
def test_a_host_that_is_named_once_is_named_once_in_a_folded_list(names: list[str]) -> None:
    assert sum(map(count, folded(names))) == len(names)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([f"nid{i:06d}" for i in range(1, 2501)], "nid[000001-002500]"),
        ([f"n{i}" for i in range(8, 12)], "n[8-11]"),
        (["n01", "n1", "n10", "n2"], "n[01,10],n[1-2]"),
        ([f"x{c}c{s}s0b{b}n{n}" for c in (1000, 1001) for s in range(8) for b in (0, 1) for n in (0, 1)],
         "x[1000-1001]c[0-7]s0b[0-1]n[0-1]"),
        (["b2", "a1.hpc.example", "login"], "b2,a1.hpc.example,login"),
    ],
)  # fmt: skip
def test_names_that_differ_in_numbers_become_ranges(names: list[str], expected: str) -> None:
    assert folded(names) == folded([",".join(names)]) == (expected,)


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 6))
def test_a_part_of_the_hosts_is_spread_evenly_over_all(names: list[str], limit: int, parts: int) -> None:
    texts = [",".join(names[i::parts]) for i in range(parts) if names[i::parts]]
    whole = [name for text in texts for name in expand(text, limit=10_000)]
    total, found = spread(texts, limit)
    assert total == len(whole)
    taken = min(limit, total)
    assert list(found) == [whole[i * total // taken] for i in range(taken)]


def test_a_hundred_thousand_names_that_are_written_out_are_picked_from() -> None:
    total, found = spread([",".join(f"n{i}" for i in range(100_000))], limit=4)
    assert (total, found) == (100_000, ("n0", "n25000", "n50000", "n75000"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n[0-9999]" + "x" * 100_000, "256 characters"),
        ("n[1-9]" * 20_000, "16 ranges"),
    ],
)
def test_a_short_list_of_huge_names_or_of_many_ranges_in_a_name_is_refused(text: str, why: str) -> None:
    for ask in (count, lambda text: expand(text, 10_000), lambda text: spread([text], 4)):
        with pytest.raises(InvalidInputError, match=why):
            ask(text)


def test_the_bound_on_hosts_is_that_of_all_lists_together() -> None:
    assert expand_all(["n[1-2]", "m"], limit=3) == ["n1", "n2", "m"]
    with pytest.raises(InvalidInputError, match="More than 65536 hosts"):
        expand_all(["n[1-60000]"] * 1_000, limit=65_536)


def test_names_with_thousands_of_numbers_stay_as_they_are() -> None:
    text = "a1" * 100_000
    assert folded([text]) == (text,)


@each("text", ["a,,b", "a b", "a, b", ",a", "a,", " a", "nid[1-", "nid]", "nid[]"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        spread([text], limit=10)
    with pytest.raises(InvalidInputError):
        folded([text])


@pytest.mark.parametrize("text", ["", "None assigned", "(null)"])
def test_no_host_is_no_host(text: str) -> None:
    assert spread([text], limit=10) == (0, ())
    assert folded([text, "n1"]) == ("n1",)
