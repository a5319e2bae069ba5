"""What minutes report power and of counters besides their levels."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.events import ResourceMinute
from processors.contracts.telemetry import SeriesIndex
from processors.windows.minutes import energy_j
from processors.windows.partition import PartitionWindows
from processors.windows.settings import WindowSettings
from tests.kit import window_oracle
from tests.kit.window_oracle import Record, fold

MINUTE_MS = 60_000
START_MS = 1_795_168_800_000


def minutes(resource: str, *samples: tuple[int, float]) -> dict[int, ResourceMinute]:
    """Samples (s, value) of one resource as minutes, by number; the last word on each."""
    records = [
        Record(offset, START_MS + 10**6, (("nid1", resource, START_MS + second * 1000, value),))
        for offset, (second, value) in enumerate(samples)
    ]
    index = SeriesIndex(9)
    windows = PartitionWindows("load/0", index, WindowSettings())
    reported = list(fold(windows, index, records))
    for part in windows.end():
        reported += windows.events(part)
    return {(event.minute_ms - START_MS) // MINUTE_MS: event.resources[resource] for event in reported}


def test_constant_power_gives_its_energy_however_often_it_was_measured() -> None:
    for step in (1, 7, 10, 30, 59):
        reported = minutes("power_w", *((second, 400.0) for second in range(0, 300, step)))
        assert [minute.energy_j for minute in reported.values()] == [24_000.0] * 5


def test_rising_power_is_linear_between_measurements() -> None:
    reported = minutes("power_w", *((second, 100.0 + second) for second in range(0, 241, 20)))
    expected = [100.0 * 60 + (60 * minute + 30) * 60 for minute in range(4)]
    tail = 20 * 20 / 2  # of the last twenty seconds nobody knows yet that power goes on to rise
    assert [reported[minute].energy_j for minute in range(4)] == [energy - tail for energy in expected]


def test_a_gap_has_no_energy_and_power_is_not_drawn_across_it() -> None:
    reported = minutes("power_w", (0, 100.0), (30, 100.0), (330, 500.0))
    assert {minute: reported[minute].energy_j for minute in reported} == {0: 6_000.0, 5: 30_000.0}


def test_one_lost_measurement_is_bridged() -> None:
    reported = minutes("power_w>cpu", (0, 100.0), (120, 300.0))
    assert reported[2].energy_j == 18_000.0
    reported = minutes("power_w>cpu", (30, 100.0), (150, 300.0))
    assert reported[2].energy_j == pytest.approx(30 * 275 + 30 * 300)


def test_a_measurement_that_comes_late_corrects_the_energy() -> None:
    reported = minutes("power_w", (0, 100.0), (40, 100.0), (75, 100.0), (20, 400.0))
    assert reported[0].energy_j == 20 * 250 + 20 * 250 + 20 * 100


def test_levels_and_counters_have_no_energy_and_levels_no_last_value() -> None:
    assert minutes("load1", (0, 1.0))[0].energy_j is None
    assert minutes("load1", (0, 1.0))[0].last is None
    assert minutes("energy_total", (0, 1.0))[0].energy_j is None
    assert minutes("power_w", (0, 1.0))[0].last is None


def test_a_counter_reports_its_last_value_to_the_last_digit() -> None:
    reported = minutes("energy_total>package0", (0, 2.0**52), (50, 2.0**52 + 1), (65, 2.0**52 + 3), (30, 7.0))
    assert [reported[minute].last for minute in range(2)] == [2.0**52 + 1, 2.0**52 + 3]
    assert reported[0].low == 7.0


def test_of_two_values_of_one_moment_the_first_counts_as_in_the_window() -> None:
    reported = minutes("energy_total", (10, 5.0), (10, 6.0))
    assert (reported[0].last, reported[0].mean) == (5.0, 5.0)


@given(
    st.lists(st.tuples(st.integers(-200, 59), st.integers(0, 500)), max_size=12, unique_by=lambda sample: sample[0]),
    st.lists(st.tuples(st.integers(-200, 59), st.integers(0, 500)), max_size=12, unique_by=lambda sample: sample[0]),
)
def test_energy_is_that_of_adding_up_piece_by_piece(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    rows = [(row, second, power) for row, samples in enumerate((one, other)) for second, power in samples]
    columns = np.array(rows, np.float64).reshape(-1, 3).T
    found = energy_j(columns[0].astype(np.int64), columns[1].astype(np.int64) * 1000, columns[2], 2)
    for row, samples in enumerate((one, other)):
        values = {START_MS + second * 1000: float(power) for second, power in samples}
        if any(second >= 0 for second, _ in samples):
            assert found[row] == pytest.approx(window_oracle.energy_j(values, START_MS // MINUTE_MS))
        else:
            assert math.isnan(found[row])


def test_counters_keep_their_values_when_series_are_renumbered() -> None:
    index, records = SeriesIndex(9), []
    for offset, (resource, second) in enumerate(
        [("load1", 0), ("counter_total>a", 5), ("counter_total>b", 10), ("power_w", 10)]
    ):
        records.append(Record(offset, START_MS + 10**6, (("nid1", resource, START_MS + second * 1000, second + 0.1),)))
    windows = PartitionWindows("load/0", index, WindowSettings())
    reported = list(fold(windows, index, records))
    renumbered = SeriesIndex(9)
    windows.renumber(renumbered)
    reported += fold(
        windows, renumbered, [Record(9, START_MS + 10**6, (("nid1", "counter_total>b", START_MS + 95_000, 9e15),))]
    )
    for part in windows.end():
        reported += windows.events(part)
    resources = reported[0].resources
    assert (resources["counter_total>a"].last, resources["counter_total>b"].last, resources["load1"].last) == (
        5.1,
        10.1,
        None,
    )
    assert resources["power_w"].energy_j == pytest.approx(606.0)
    assert reported[-1].resources["counter_total>b"].last == 9e15


@pytest.mark.parametrize(
    "resource", ["counter_delta>PAPI_TOT_INS", "counter_total>PAPI_TOT_INS#812", "nic_total>cxi0:rx"]
)
def test_what_is_only_part_of_profiles_has_no_window(resource: str) -> None:
    minute = minutes(resource, (0, 1e9), (30, 3e9))[0]
    assert (minute.count, minute.mean, minute.low, minute.high) == (2, 2e9, 1e9, 3e9)
    assert (minute.means, minute.edges, minute.shares, minute.window_count, minute.energy_j) == ((), (), (), 0, None)
    assert minute.last == (3e9 if "_total" in resource else None)


def test_power_of_one_job_has_its_energy_and_no_window() -> None:
    minute = minutes("power_w>cpu:0#812", (0, 100.0), (30, 100.0))[0]
    assert (minute.energy_j, minute.window_count) == (6_000.0, 0)
    assert minutes("power_w>cpu:0", (0, 100.0), (30, 100.0))[0].window_count == 2


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=60))
def test_the_sum_of_what_a_counter_grew_by_is_its_mean_times_its_count(grew: list[float]) -> None:
    minute = minutes("counter_delta>cycles", *enumerate(grew))[0]
    assert minute.mean * minute.count == pytest.approx(sum(grew), rel=7e-7, abs=1e-30)
