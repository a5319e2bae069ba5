"""The end of a stream that ends, such as a file."""

import numpy as np
import pytest

from processors.contracts.events import HostMinute
from processors.contracts.telemetry import SeriesIndex
from processors.windows.partition import PartitionWindows
from processors.windows.settings import WindowSettings
from tests.kit.effort import seeds
from tests.kit.window_oracle import Record, fold

START_MS = 1_795_168_800_000
DAY_MS = 86_400_000
SETTINGS = WindowSettings(part_hosts=2)


def stream(seed: int) -> list[Record]:
    rng = np.random.default_rng(seed)
    records, now_ms = [], START_MS + int(rng.integers(60_000))
    for offset in range(int(rng.integers(1, 300))):
        now_ms += int(rng.integers(0, 8_000))
        delay_ms = int(rng.choice([0, int(rng.integers(0, 110_000))], p=[0.8, 0.2]))
        host = f"nid{int(rng.integers(3))}"
        records.append(Record(offset, now_ms, ((host, "cpu_available", now_ms - delay_ms, round(rng.random(), 3)),)))
    return records


def predicted(records: list[Record]) -> tuple[list[HostMinute], PartitionWindows]:
    index = SeriesIndex(series_max=10)
    windows = PartitionWindows("load/0", index, SETTINGS)
    return list(fold(windows, index, records)), windows


@pytest.mark.parametrize("seed", seeds(5, 20))
def test_at_the_end_all_minutes_are_reported_as_if_another_host_went_on_for_ever(seed: int) -> None:
    records = stream(seed)
    later_ms = records[-1].received_ms + DAY_MS
    going_on, _ = predicted([*records, Record(len(records), later_ms, (("other", "cpu_available", later_ms, 0.5),))])
    ended, windows = predicted(records)
    for part in windows.end():
        ended += windows.events(part)
    assert ended == going_on
    assert {event.minute_ms // 60_000 for event in ended} == {
        time_ms // 60_000 for record in records for _, _, time_ms, _ in record.samples
    }
