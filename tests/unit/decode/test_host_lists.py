"""Hosts spread over lists: the same names as when all are written out, whatever the lists look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import expand, spread

NAMES = st.sampled_from(["a", "nid[1-3]", "r[0-1]n[00-02]", "x[1,3,7-9]b", "login1", "c[10-12]-[1-2]"])


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


@pytest.mark.parametrize("text", ["a,,b", "a b", "a, b", ",a", "a,", " a", "nid[1-", "nid]", "nid[]"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        spread([text], limit=10)


@pytest.mark.parametrize("text", ["", "None assigned", "(null)"])
def test_no_host_is_no_host(text: str) -> None:
    assert spread([text], limit=10) == (0, ())
