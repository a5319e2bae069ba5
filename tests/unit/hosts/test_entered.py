"""The rows of all resources that a host reports in one minute."""

from processors.contracts.telemetry import BY_LOAD, CPU_AVAILABLE
from processors.hosts.rows import RowIndex

NAMES = (BY_LOAD, "power_w>system#812", "load1", "memory_free")


def test_a_host_keeps_its_rows_and_an_estimate_has_the_row_of_the_estimated_resource() -> None:
    index = RowIndex(10)
    first = index.enter_all("exa", "nid1", NAMES, 60_000)
    again = index.enter_all("exa", "nid1", NAMES, 0)
    assert first.resources == again.resources == (BY_LOAD, "load1", "memory_free")
    assert first.row.tolist() == again.row.tolist() == list(index.resources(first.host).values())
    assert list(index.resources(first.host)) == [CPU_AVAILABLE, "load1", "memory_free"]
    assert {*index.series.rows["last_ms"][first.row].tolist(), int(index.hosts.rows["last_ms"][first.host])} == {60_000}
    index.enter_all("exa", "nid1", NAMES, 120_000)
    assert {*index.series.rows["last_ms"][first.row].tolist(), int(index.hosts.rows["last_ms"][first.host])} == {
        120_000
    }


def test_a_resource_that_was_forgotten_gets_a_row_again() -> None:
    index = RowIndex(3)
    index.enter_all("exa", "nid1", ("load1", "memory_free"), 0)
    index.enter_all("exa", "nid2", ("load1", "memory_free"), 60_000)
    assert index.forget_before(60_000) == 1
    returned = index.enter_all("exa", "nid1", ("load1", "memory_free"), 120_000)
    assert returned.resources == ("load1", "memory_free")
    assert [index.series.ids.key(row) for row in returned.row] == [(returned.host, name) for name in returned.resources]
    assert index.enter_all("exa", "nid2", ("load1", "memory_free"), 120_000).resources == ("load1",)


def test_resources_beyond_the_largest_number_have_no_row_until_others_are_forgotten() -> None:
    index = RowIndex(2)
    for _ in range(2):
        entered = index.enter_all("exa", "nid1", ("load1", "load5", "load15"), 60_000)
        assert (entered.resources, entered.refused) == (("load1", "load5"), 1)
        assert index.enter_all("exa", "nid2", ("load1",), 60_000)[:2] == (-1, ())
    index.forget_before(120_000)
    assert index.enter_all("exa", "nid2", ("load1",), 120_000).refused == 0
