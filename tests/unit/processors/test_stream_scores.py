"""Scores of telemetry: one line per sample, one per host and interval."""

import numpy as np

from processors.contracts.names import rfc3339
from processors.contracts.telemetry import Samples, Series, SeriesIndex
from processors.hosts.stream import ScoreLine, StreamScorer

TEN_MINUTES_MS = 600_000
RESOURCES = ("cpu_available", "memory_free", "bandwidth>group3")


def stream(steps: int, hosts: int = 2, every_ms: int = 10_000) -> tuple[SeriesIndex, Samples]:
    """Hosts of three resources that follow one load, by default every 10 seconds."""
    index, rng = SeriesIndex(series_max=100), np.random.default_rng(3)
    numbers = [index.number(Series("exa", f"nid{h}", name)) for h in range(hosts) for name in RESOURCES]
    load = np.repeat(rng.normal(size=(steps, hosts)), len(RESOURCES), axis=1)
    values = load * np.tile([1.0, -20.0, 3.0], hosts) + 0.01 * rng.normal(size=load.shape)
    time_ms = np.repeat(np.arange(steps) * every_ms, len(numbers))
    return index, Samples(np.tile(np.array(numbers, np.int32), steps), time_ms, values.ravel())


def lines(index: SeriesIndex, samples: Samples, cuts: tuple[int, ...] = ()) -> list[ScoreLine]:
    scorer, found = StreamScorer(index), list[ScoreLine]()
    for start, stop in zip((0, *cuts), (*cuts, samples.value.size), strict=True):
        found += scorer.score(
            Samples(samples.series[start:stop], samples.time_ms[start:stop], samples.value[start:stop])
        )
    return [*found, *scorer.end()]


def test_each_sample_has_a_line_and_each_host_one_per_interval() -> None:
    index, samples = stream(5)
    found = lines(index, samples)
    assert [(line.host, line.resource) for line in found[:8]] == [
        *[("nid0", name) for name in RESOURCES],
        *[("nid1", name) for name in RESOURCES],
        ("nid0", "*"),
        ("nid1", "*"),
    ]
    assert len(found) == 5 * 8
    assert found[-1].time == "1970-01-01T00:00:40Z"


def test_it_does_not_matter_how_the_stream_is_cut_into_pieces() -> None:
    index, samples = stream(60)
    assert lines(index, samples, (1, 7, 50, 51, 200)) == lines(index, samples)


def test_a_host_whose_memory_contradicts_its_load_fires_and_its_neighbour_does_not() -> None:
    index, samples = stream(1300, every_ms=TEN_MINUTES_MS)
    values = samples.value.reshape(1300, 6).copy()
    values[1200:1230, 1] *= -1.0  # after the week in which how resources go together is learned
    found = lines(index, Samples(samples.series, samples.time_ms, values.ravel()))
    fired = [line for line in found if line.resource == "*" and line.fired]
    assert {line.host for line in fired} == {"nid0"}
    assert rfc3339(1200 * TEN_MINUTES_MS) <= fired[0].time <= rfc3339(1206 * TEN_MINUTES_MS)


def test_a_host_of_one_resource_has_no_combined_score() -> None:
    index = SeriesIndex(series_max=1)
    number = index.number(Series("exa", "nid1", "cpu_available"))
    assert number is not None
    samples = Samples(np.array([number] * 3, np.int32), np.arange(3) * 10_000, np.ones(3))
    assert [line.resource for line in lines(index, samples)] == ["cpu_available"] * 3


def test_what_comes_too_late_is_counted_and_a_second_sample_in_the_interval_is_scored() -> None:
    index = stream(1, hosts=1)[0]
    scorer = StreamScorer(index)
    of = np.zeros(4, np.int32)
    found = list(scorer.score(Samples(of, np.array([10_000, 12_000, 9_000, 20_000]), np.ones(4))))
    assert [line.time for line in found] == ["1970-01-01T00:00:10Z", "1970-01-01T00:00:12Z"]
    assert scorer.late == 1
    assert list(scorer.score(Samples(of[:0], np.zeros(0, np.int64), np.zeros(0)))) == []


def test_a_resource_that_comes_later_joins_its_host() -> None:
    index, samples = stream(40, hosts=1)
    later = (samples.series != 2) | (samples.time_ms >= 200_000)
    found = lines(index, Samples(samples.series[later], samples.time_ms[later], samples.value[later]))
    assert sum(line.resource == "*" for line in found) == 40


def test_values_that_are_no_numbers_are_scored_zero() -> None:
    index, samples = stream(3, hosts=1)
    found = lines(index, Samples(samples.series, samples.time_ms, np.full(9, np.nan)))
    assert [line.score for line in found] == [0.0] * 9
