"""What a host measures towards others: found by its plain name, and put together."""

import pytest

from processors.contracts.hosts import HostWindow
from processors.hosts.rows import RowIndex
from processors.hosts.windows import merged_window


def window(value: float, until_ms: int = 300_000, *, stale: bool = False) -> HostWindow:
    return HostWindow(until_ms, (value,), (1.0,), count=30, mean=value, low=value, high=value, stale=stale)


def test_a_resource_is_measured_as_long_as_any_host_measures_it() -> None:
    index = RowIndex(10)
    assert not index.is_measured("bandwidth")
    index.enter("exa", "nid1", "cpu_available", 0)
    index.enter("exa", "nid1", "bandwidth>nid3", 0)
    index.enter("exa", "nid1", "bandwidth>nid2", 60_000)
    assert index.is_measured("bandwidth")
    assert not index.is_measured("latency")
    found = [index.series.ids.key(row) for row in index.rows_towards("exa", "nid1", "bandwidth")]
    assert [key[1] for key in found if key] == ["bandwidth>nid2", "bandwidth>nid3"]
    assert index.rows_towards("exa", "nid2", "bandwidth") == []
    copied = RowIndex(10)
    copied.fill(list(index.hosts.ids), list(index.series.ids))
    for each in (index, copied):
        assert each.is_measured("bandwidth")
    index.forget_before(60_000)
    assert index.is_measured("bandwidth")
    assert not index.is_measured("cpu_available")
    index.forget_before(120_000)
    assert not index.is_measured("bandwidth")


def test_windows_towards_several_hosts_are_one_with_each_counting_the_same() -> None:
    found = merged_window([window(4e9), window(1e9, stale=True)])
    assert found is not None
    assert found.edges[0] == 1e9
    assert found.edges[-1] == pytest.approx(4e9)
    assert (found.shares[0], found.shares[-1]) == pytest.approx((0.5, 0.5))
    assert (found.mean, found.count, found.stale, found.thin) == (2.5e9, 60, False, False)


def test_a_window_of_earlier_is_left_out_and_none_is_none() -> None:
    assert merged_window([]) is None
    assert merged_window([window(4e9), window(1e9, until_ms=240_000)]) == window(4e9)
    assert merged_window([window(4e9), window(4e9)]).edges == (4e9,)
