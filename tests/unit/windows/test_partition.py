"""Windows of a source partition: what is reported minutes, whatever the order, the batches and the crashes."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from processors.contracts.events import HostMinute
from processors.contracts.telemetry import Samples, SeriesIndex
from processors.windows.partition import PartitionWindows
from processors.windows.settings import Resume, WindowSettings
from tests.kit.effort import seeds
from tests.kit.rings import memory_bytes
from tests.kit.window_oracle import Oracle, Record, alike, fold

START_MS = 1_795_168_800_000  # a full minute
METRICS = [*(f"metric_{i}" for i in range(9)), "heat_w"]
RESOURCES = ["cpu_available", "power_w", "network_total", "energy_total>cpu:0", "counter_delta>cycles#812"]
SETTINGS = WindowSettings(part_hosts=2)


def stream(seed: int, count: int = 1_200) -> list[Record]:
    """Four hosts for about a quarter of an hour: jitter, late and too late, repeats, clocks ahead, pauses, no numbers."""
    rng = np.random.default_rng(seed)
    now_ms, records, sent = START_MS + int(rng.integers(60_000)), list[Record](), list[tuple[str, str, int, float]]()
    for offset in range(count):
        now_ms += int(rng.integers(0, 2_000)) + (int(rng.integers(0, 400_000)) if rng.random() < 0.004 else 0)
        samples = [_sample(rng, now_ms) for _ in range(int(rng.integers(1, 4)))]
        if sent and rng.random() < 0.1:
            samples.append(sent[int(rng.integers(len(sent)))])
        sent += samples
        records.append(Record(offset * 2, now_ms, tuple(samples)))
    return records


def _sample(rng: np.random.Generator, now_ms: int) -> tuple[str, str, int, float]:
    delay_ms = rng.choice([int(rng.integers(0, 5_000)), int(rng.integers(0, 150_000)), -3_600_000], p=[0.9, 0.09, 0.01])
    value = float(rng.choice([round(rng.random(), 3), 5.0, np.nan], p=[0.8, 0.19, 0.01]))
    host = f"nid{int(rng.integers(4))}"
    return host, str(rng.choice(RESOURCES)), int(now_ms - delay_ms), value


def wide_stream(seed: int) -> list[Record]:
    """The same, but that a record has ten metrics of its host, now and then one less, or one that is no number."""
    rng, records = np.random.default_rng(seed), []
    for one in stream(seed, 900):
        host, _, time_ms, _ = one.samples[0]
        names = [name for name in METRICS if rng.random() > 0.0005]
        values = [
            float(value) for value in np.where(rng.random(len(names)) < 0.0005, np.nan, rng.random(len(names)).round(3))
        ]
        samples = tuple((host, name, time_ms, value) for name, value in zip(names, values, strict=True))
        records.append(Record(one.offset, one.received_ms, samples + one.samples[1:]))
    return records


def batches(records: list[Record], seed: int) -> Iterator[list[Record]]:
    rng = np.random.default_rng(seed)
    at = 0
    while at < len(records):
        size = int(rng.choice([1, 7, 60, 400]))
        yield records[at : at + size]
        at += size


def run(records: list[Record], seed: int) -> tuple[list[HostMinute], PartitionWindows]:
    index = SeriesIndex(series_max=200)
    windows = PartitionWindows("load/0", index, SETTINGS)
    return [event for batch in batches(records, seed) for event in fold(windows, index, batch)], windows


def last_of_each(events: list[HostMinute]) -> dict[str, HostMinute]:
    return {event.identity: event for event in events}


@pytest.mark.parametrize("made", [stream, wide_stream])
@pytest.mark.parametrize("seed", seeds(4, 12))
def test_settled_minutes_are_those_summed_up_from_every_sample(made: Callable[[int], list[Record]], seed: int) -> None:
    records = made(seed)
    oracle = Oracle(SETTINGS)
    for record in records:
        oracle.take(record)
    reported = {(event.host, event.minute_ms // 60_000): event.resources for event in run(records, seed)[0]}
    expected = oracle.settled()
    last = oracle.clock() - 1 - SETTINGS.settle_minutes
    assert {key for key in reported if key[1] <= last} == set(expected)
    for key, resources in expected.items():
        assert reported[key].keys() == resources.keys()
        for name, resource in resources.items():
            assert alike(reported[key][name], resource), (key, name, reported[key][name], resource)


@pytest.mark.parametrize("made", [stream, wide_stream])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_reported_does_not_depend_on_how_records_are_split_over_polls(
    made: Callable[[int], list[Record]], seed: int
) -> None:
    records = made(seed)
    one, other = run(records, 1), run(records, 2)
    assert one[0] == other[0]
    assert one[1].counts == other[1].counts
    assert one[1].position(1).resume == other[1].position(1).resume


@pytest.mark.parametrize("seed", range(4))
def test_names_are_forgotten_without_a_trace(seed: int) -> None:
    """Hosts come and go: with numbers given anew again and again the same is told."""
    records = [
        Record(one.offset, one.received_ms, tuple((f"{host}-{offset // 200}", *rest) for host, *rest in one.samples))  # type: ignore[misc]
        for offset, one in enumerate(stream(seed))
    ]
    index, reported = SeriesIndex(series_max=200), list[HostMinute]()
    windows = PartitionWindows("load/0", index, SETTINGS)
    for batch in batches(records, seed):
        reported += fold(windows, index, batch)
        index = SeriesIndex(series_max=200)
        windows.renumber(index)
        assert windows.rings.series_count() + len(windows.sums) <= len(index)
    assert reported == run(records, seed + 1)[0]
    assert len(index) < len({(host, name) for record in records for host, name, _, _ in record.samples})


def with_crashes(records: list[Record], seed: int) -> tuple[list[HostMinute], int]:
    """Fold with crashes and commits at chance; no settled minute is told otherwise later."""
    rng, index = np.random.default_rng(seed), SeriesIndex(series_max=200)
    windows, reported, at = PartitionWindows("load/0", index, SETTINGS), list[HostMinute](), 0
    offset, resume, settled, crashes = 0, None, dict[str, HostMinute](), 0
    while at < len(records):
        batch = records[at : at + int(rng.integers(1, len(records) // 8))]
        reported += fold(windows, index, batch)
        at += len(batch)
        if rng.random() < 0.6:
            position = windows.position(batch[-1].offset + 1)
            offset, resume = position.offset, position.resume
            assert resume is not None
            done = last_of_each([event for event in reported if event.minute_ms < resume.first_open_ms])
            assert all(done[identity] == event for identity, event in settled.items())
            settled = done
        if rng.random() < 0.25:
            crashes += 1
            index = SeriesIndex(series_max=200)
            windows = PartitionWindows("load/0", index, SETTINGS, Resume.parse(resume.text()) if resume else None)
            at = next((i for i, record in enumerate(records) if record.offset >= offset), len(records))
    return reported, crashes


@pytest.mark.parametrize("made", [stream, wide_stream])
@pytest.mark.parametrize("seed", seeds(4, 12))
def test_after_crashes_the_last_word_on_every_minute_is_that_of_an_undisturbed_pass(
    made: Callable[[int], list[Record]], seed: int
) -> None:
    records = made(seed)
    reported, crashes = with_crashes(records, seed + 100)
    assert crashes > 1
    assert last_of_each(reported) == last_of_each(run(records, seed)[0])


@pytest.mark.parametrize("rate", [1.3, 2.0, 5.0])
def test_what_is_thinned_is_thinned_the_same_way_after_crashes(rate: float) -> None:
    rng, records = np.random.default_rng(3), []
    for offset in range(int(1_200 * rate)):
        now_ms = START_MS + int(offset * 1_000 / rate)
        delay_ms = int(rng.integers(60_000)) if rng.random() < 0.05 else 0
        records.append(Record(offset, now_ms, (("a", "cpu_available", now_ms - delay_ms, float(rng.random())),)))
    undisturbed, windows = run(records, 1)
    assert windows.counts["thinned"] > 50
    reported, crashes = with_crashes(records, 7)
    assert crashes > 1
    assert last_of_each(reported) == last_of_each(undisturbed)


def test_a_minute_is_reported_ten_seconds_after_its_end_and_again_only_where_it_changed() -> None:
    index = SeriesIndex(series_max=10)
    windows = PartitionWindows("load/0", index, SETTINGS)

    def at(second: int, host: str, sample_second: int | None = None) -> list[tuple[str, int]]:
        time_ms = START_MS + (second if sample_second is None else sample_second) * 1000
        record = Record(second, START_MS + second * 1000, ((host, "cpu_available", time_ms, 0.5),))
        events = list(fold(windows, index, [record]))
        return [(event.host, (event.minute_ms - START_MS) // 60_000) for event in events]

    assert at(5, "a") == at(6, "b") == at(69, "a") == []
    assert at(70, "a") == [("a", 0), ("b", 0)]
    assert at(75, "b", sample_second=50) == []
    assert at(131, "a") == [("a", 1)]
    assert at(191, "a") == [("a", 2), ("b", 0)]


def test_a_clock_far_ahead_moves_no_watermark_and_a_value_that_is_none_counts_nowhere() -> None:
    index = SeriesIndex(series_max=10)
    windows = PartitionWindows("load/0", index, SETTINGS)
    ahead = Record(0, START_MS, (("a", "cpu_available", START_MS + 60_001, 0.5),))
    nothing = Record(1, START_MS, (("a", "cpu_available", START_MS, float("inf")),))
    assert list(fold(windows, index, [ahead, nothing])) == []
    assert windows.watermark_ms is None
    assert tuple(windows.counts[name] for name in ("ahead", "not_finite", "taken")) == (1, 1, 0)
    assert windows.position(2).offset == 2
    list(fold(windows, index, [Record(2, START_MS, (("a", "cpu_available", START_MS + 60_000, 0.5),))]))
    assert windows.watermark_ms == START_MS + 60_000


def test_resume_offsets_are_as_long_as_open_windows_and_its_bookkeeping_stays_small() -> None:
    index = SeriesIndex(series_max=10)
    windows = PartitionWindows("load/0", index, SETTINGS)
    for second in range(0, 7_200, 5):
        record = Record(second, START_MS + second * 1000, (("a", "cpu_available", START_MS + second * 1000, 0.5),))
        list(fold(windows, index, [record]))
        position = windows.position(second + 1)
        assert second - position.offset <= 300 + 120 + 60 + 10 + 10
        assert len(windows._resume) <= 60
    assert position.offset > 6_600


def test_hosts_gone_quiet_leave_the_memory() -> None:
    index = SeriesIndex(series_max=1_000)
    windows = PartitionWindows("load/0", index, SETTINGS)
    crowd = tuple((f"nid{i}", "cpu_available", START_MS, 0.5) for i in range(500))
    list(fold(windows, index, [Record(0, START_MS, crowd)]))
    full = memory_bytes(windows.rings)
    for minute in range(1, 12):
        time_ms = START_MS + minute * 60_000
        list(fold(windows, index, [Record(minute, time_ms, (("nid0", "cpu_available", time_ms, 0.5),))]))
    assert windows.counts["cleared"] == 499
    assert windows.rings.series_count() == 1
    assert memory_bytes(windows.rings) < full / 1.5


def test_a_fold_that_was_not_exhausted_is_a_fault_of_the_caller() -> None:
    index = SeriesIndex(series_max=10)
    windows = PartitionWindows("load/0", index, SETTINGS)
    times = [START_MS, START_MS + 200_000, START_MS + 200_001]
    records = [Record(i, t, (("a", "cpu_available", t, 0.5),)) for i, t in enumerate(times)]
    assert list(fold(windows, index, records[:1])) == []
    assert next(fold(windows, index, records[1:])).host == "a"
    with pytest.raises(RuntimeError, match="not exhausted"):
        list(fold(windows, index, records[2:]))


def test_no_samples_are_no_fold() -> None:
    windows = PartitionWindows("load/0", SeriesIndex(series_max=1), SETTINGS)
    empty = np.zeros(0, np.int64)
    assert list(windows.fold(Samples(empty.astype(np.int32), empty, empty.astype(float)), empty, empty)) == []
