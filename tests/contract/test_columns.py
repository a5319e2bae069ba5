"""One suite for all columns that are kept per series or host. Test ids are ``kind:check``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from processors.contracts.alerts import PeerDifference
from processors.hosts.detectors import AnomalyCandidates, MultivariateDetector, Places, Records
from processors.hosts.peers import HostCauses, HostLevels, PeerComparison
from processors.hosts.rows import BLOCK, HOST_BLOCK, HostRows, MeasuredProcessors, SeriesRows
from processors.hosts.windows import HostForecastErrors, HostForecasts, HostWindows, MinuteBatch, ReportedWindows
from processors.models.detect.multivariate import RESOURCES_MAX
from processors.pipeline.host_state import COLUMNS
from processors.power.profiles.meters import Covered, HostMeters, LastReadings, MeterHosts, PowerLevels

ROWS = 40
BLOCK_BYTES_MAX = 600_000  # a broker takes a million, of which base64 leaves three quarters
OF_HOSTS = {
    HostRows.name,
    MultivariateDetector.name,
    AnomalyCandidates.name,
    MeterHosts.name,
    Covered.name,
    PowerLevels.name,
}
Learn = Callable[[Any, np.ndarray[Any, Any], int], None]


def numbers(rows: np.ndarray[Any, Any], minute: int, width: int) -> np.ndarray[Any, Any]:
    """Return numbers that follow from the row and the minute alone."""
    return np.stack([np.random.default_rng([int(row), minute]).random(width) for row in rows])


def minutes(rows: np.ndarray[Any, Any], minute: int) -> MinuteBatch:
    return MinuteBatch(rows, rows % 7, np.full(len(rows), minute * 60_000), numbers(rows, minute, 6))


def windows(columns: HostWindows, rows: np.ndarray[Any, Any], minute: int) -> None:
    one, edges = np.ones(len(rows), dtype=np.int64), np.sort(numbers(rows, minute, 6))
    even = np.full((len(rows), 5), 0.2)
    columns.take(
        ReportedWindows(
            rows, one * minute * 60_000, one.astype(np.uint32), one, edges[:, :3], one, one * 5, edges, even, one * 0
        )
    )


def times(columns: HostRows | SeriesRows, rows: np.ndarray[Any, Any], minute: int) -> None:
    columns.rows["last_ms"][rows] = minute * 60_000 + rows


def hosts(rows: np.ndarray[Any, Any], minute: int) -> MinuteBatch:
    """Each row is a host with the largest number of resources."""
    host = np.repeat(rows, RESOURCES_MAX)
    return minutes(host * RESOURCES_MAX + np.tile(np.arange(RESOURCES_MAX), len(rows)), minute)._replace(host=host)


def joint(columns: MultivariateDetector, rows: np.ndarray[Any, Any], minute: int) -> None:
    batch, place = hosts(rows, minute), np.tile(np.arange(RESOURCES_MAX), len(rows))
    columns.places.grow(int(batch.row.max()) + 1)
    known = (
        columns.hosts.rows["places"][batch.host] > 0
    )  # then the places are those of the columns of series, stored beside these
    columns.places.rows["host"][batch.row[known]], columns.places.rows["place"][batch.row[known]] = (
        batch.host[known],
        place[known],
    )
    columns.take(batch)


def places(columns: Places, rows: np.ndarray[Any, Any], minute: int) -> None:
    columns.rows["host"][rows], columns.rows["place"][rows] = rows % 7, minute


def candidates(columns: AnomalyCandidates, rows: np.ndarray[Any, Any], minute: int) -> None:
    columns.observed(rows, np.full(len(rows), minute * 60_000))
    columns.rows["odd_ms"][rows] = minute * 60_000 + rows


def levels(columns: HostLevels, rows: np.ndarray[Any, Any], minute: int) -> None:
    for row in rows.tolist():
        columns.keep(row, minute * 60_000, float(row), float(row + minute))
    columns.rows["high"][rows] += minute


def causes(columns: HostCauses, rows: np.ndarray[Any, Any], minute: int) -> None:
    for row in rows.tolist():
        columns.begin(row, "odd_ms", minute * 60_000, minute * 60_000 + row)
        columns.met(row, minute)


def measured(columns: MeasuredProcessors, rows: np.ndarray[Any, Any], minute: int) -> None:
    for row in rows.tolist():
        columns.note(row, minute * 60_000)


def last_values(columns: LastReadings, rows: np.ndarray[Any, Any], minute: int) -> None:
    columns.rows["last"][rows], columns.rows["reach"][rows] = numbers(rows, minute, 1)[:, 0], minute


def covered(columns: Covered, rows: np.ndarray[Any, Any], minute: int) -> None:
    columns.rows["until_ms"][rows] = minute * 60_000 + rows


def power_levels(columns: PowerLevels, rows: np.ndarray[Any, Any], minute: int) -> None:
    columns.learn(rows.astype(np.int64), minute % 4, numbers(rows, minute, 1)[:, 0] / 1000.0)


def forecasts(columns: HostForecasts, rows: np.ndarray[Any, Any], minute: int) -> None:
    columns.errors.grow(int(rows.max()) + 1)
    columns.take(minutes(rows, minute))


def forecast_errors(columns: HostForecastErrors, rows: np.ndarray[Any, Any], minute: int) -> None:
    for scaled in numbers(rows, minute, 6).T:
        columns.take(rows, scaled.astype(np.float32))


def new_peer_comparison() -> PeerComparison:
    return PeerComparison(PeerDifference(resources="cpu"))


SUBJECTS: dict[str, tuple[Callable[[], Any], Learn]] = {
    HostRows.name: (HostRows, times),
    SeriesRows.name: (SeriesRows, times),
    HostWindows.name: (HostWindows, windows),
    HostForecasts.name: (HostForecasts, forecasts),
    HostForecastErrors.name: (HostForecastErrors, forecast_errors),
    Records.name: (Records, lambda columns, rows, minute: columns.take(minutes(rows, minute))),
    PeerComparison.name: (new_peer_comparison, lambda columns, rows, minute: columns.take(minutes(rows, minute))),
    Places.name: (Places, places),
    MultivariateDetector.name: (MultivariateDetector, joint),
    AnomalyCandidates.name: (AnomalyCandidates, candidates),
    HostLevels.name: (HostLevels, levels),
    HostCauses.name: (HostCauses, causes),
    MeasuredProcessors.name: (MeasuredProcessors, measured),
    MeterHosts.name: (MeterHosts, times),
    HostMeters.name: (HostMeters, times),
    LastReadings.name: (LastReadings, last_values),
    Covered.name: (Covered, covered),
    PowerLevels.name: (PowerLevels, power_levels),
}


def transferred(kind: str, rows: np.ndarray[Any, Any], count: int = 8) -> Any:
    build, learn = SUBJECTS[kind]
    columns = build()
    columns.grow(ROWS)
    for minute in range(count):
        learn(columns, rows, minute)
    return columns


def new_rows_are_empty_and_alike(kind: str) -> None:
    columns = transferred(kind, np.arange(ROWS))
    columns.grow(ROWS + 2 * BLOCK)
    empty = SUBJECTS[kind][0]()
    empty.grow(BLOCK)
    assert columns.stored(ROWS + BLOCK, ROWS + 2 * BLOCK) == empty.stored(0, BLOCK)


def a_row_depends_on_its_own_values_alone(kind: str) -> None:
    columns, learn = transferred(kind, np.arange(ROWS), count=0), SUBJECTS[kind][1]
    for minute in range(8):
        for part in (np.arange(0, ROWS, 2), np.arange(1, ROWS, 2)):
            learn(columns, part, minute)
    assert columns.stored(0, ROWS) == transferred(kind, np.arange(ROWS)).stored(0, ROWS)


def a_cleared_row_is_as_a_new_one_and_the_others_stay(kind: str) -> None:
    columns, rows = transferred(kind, np.arange(ROWS)), np.arange(3, 9)
    columns.clear(rows)
    assert columns.stored(0, ROWS) == transferred(kind, np.setdiff1d(np.arange(ROWS), rows)).stored(0, ROWS)


def stored_rows_come_back_and_go_on_the_same(kind: str) -> None:
    columns, twin, learn = transferred(kind, np.arange(ROWS)), SUBJECTS[kind][0](), SUBJECTS[kind][1]
    twin.grow(ROWS)
    for first in range(0, ROWS, 10):
        twin.restore(first, first + 10, columns.stored(first, first + 10))
    for each in (columns, twin):
        for minute in range(8, 12):
            learn(each, np.arange(ROWS), minute)
    assert twin.stored(0, ROWS) == columns.stored(0, ROWS)


def what_was_stored_is_a_copy(kind: str) -> None:
    columns = transferred(kind, np.arange(ROWS))
    stored = columns.stored(0, ROWS)
    before = bytes(bytearray(stored))
    SUBJECTS[kind][1](columns, np.arange(ROWS), 9)
    assert (stored == before, columns.stored(0, ROWS) == before) == (True, False)


def bytes_of_another_form_are_refused(kind: str) -> None:
    columns = transferred(kind, np.arange(ROWS))
    stored = columns.stored(0, ROWS)
    for wrong in (stored[:-1], stored + b"x", b""):
        with pytest.raises(ValueError):
            columns.restore(0, ROWS, wrong)
    assert columns.stored(0, ROWS) == stored


def a_block_is_well_below_what_a_broker_takes(kind: str) -> None:
    columns, block = transferred(kind, np.arange(ROWS)), HOST_BLOCK if kind in OF_HOSTS else BLOCK
    columns.grow(block)
    assert len(columns.stored(0, block)) < BLOCK_BYTES_MAX


CHECKS = (
    new_rows_are_empty_and_alike,
    a_row_depends_on_its_own_values_alone,
    a_cleared_row_is_as_a_new_one_and_the_others_stay,
    stored_rows_come_back_and_go_on_the_same,
    what_was_stored_is_a_copy,
    bytes_of_another_form_are_refused,
    a_block_is_well_below_what_a_broker_takes,
)
CASES = {f"{kind}:{check.__name__}": (kind, check) for kind in SUBJECTS for check in CHECKS}


@pytest.mark.parametrize("case", CASES)
def test_columns(case: str) -> None:
    kind, check = CASES[case]
    check(kind)


def test_all_columns_of_the_fold_are_under_this_suite() -> None:
    assert set(SUBJECTS) == {kind.name for kind in COLUMNS}
