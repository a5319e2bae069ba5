"""Records of series by their 10-second means."""

import numpy as np

from processors.hosts.detectors import Mark, Records
from processors.hosts.windows import MinuteBatch

MINUTE_MS = 60_000


def take(records: Records, minute: int, *rows: list[float]) -> None:
    at = np.arange(len(rows))
    records.take(MinuteBatch(at, at, np.full(at.size, minute * MINUTE_MS), np.array(rows)))


def transferred() -> Records:
    records = Records()
    records.grow(2)
    for minute in range(20):
        take(records, minute, [1.0, 2.0] * 3, [5.0, 6.0] * 3)
    return records


def test_a_record_reports_the_step_of_the_minute_what_was_measured_and_the_usual_range() -> None:
    records = transferred()
    take(records, 20, [1.0, 2.0, 9.0, 2.0, 1.0, 2.0], [5.0, 6.0] * 3)
    at_ms = 20 * MINUTE_MS + 20_000
    assert records.mark(0) == Mark(at_ms, at_ms, 9.0, 1.0, 2.0, "value", over=True)
    assert records.mark(1) is None
    assert records.marks.rows["fired_ms"].tolist() == [at_ms, -1]


def test_a_series_that_is_back_and_leaves_its_range_again_has_been_odd_since_then() -> None:
    records = transferred()
    take(records, 20, [9.0] + [1.0] * 5, [5.0] * 6)
    take(records, 21, [1.0, 2.0] * 3, [5.0, 6.0] * 3)
    mark = records.mark(0)
    assert mark is not None
    assert (mark.since_ms, mark.observed, mark.over) == (20 * MINUTE_MS, 9.0, True)
    take(records, 22, [1.0, 2.0, 0.5, 0.4, 0.5, 0.5], [5.0, 6.0] * 3)
    mark = records.mark(0)
    assert mark is not None
    assert mark.fired_ms == 20 * MINUTE_MS, "what comes soon after a record is none"
    assert (mark.since_ms, mark.observed, mark.over) == (22 * MINUTE_MS + 20_000, 0.4, False)
    assert (mark.low, mark.high) == (1.0, 2.0), "the range until then"


def test_a_series_that_is_back_for_seconds_has_been_odd_all_along() -> None:
    records = transferred()
    take(records, 20, [9.0, 9.0, 9.0, 2.0, 2.0, 9.5], [5.0] * 6)
    mark = records.mark(0)
    assert mark is not None
    assert (mark.since_ms, mark.observed, mark.over) == (20 * MINUTE_MS, 9.5, False)


def test_a_record_that_goes_further_belongs_to_the_one_before_and_keeps_its_range() -> None:
    records = transferred()
    for minute in range(20, 50):
        take(records, minute, [9.0 + minute] * 6, [5.0] * 6)
    mark = records.mark(0)
    assert mark is not None
    assert mark.fired_ms > 20 * MINUTE_MS
    assert (mark.since_ms, mark.low, mark.high) == (20 * MINUTE_MS, 1.0, 2.0)


def test_a_record_long_after_another_begins_anew() -> None:
    records = transferred()
    take(records, 20, [9.0] + [1.0] * 5, [5.0] * 6)
    for minute in range(21, 120):
        take(records, minute, [1.0, 2.0] * 3, [5.0, 6.0] * 3)
    take(records, 120, [40.0] + [1.0] * 5, [5.0] * 6)
    later = records.mark(0)
    assert later is not None
    assert (later.since_ms, later.low, later.high) == (120 * MINUTE_MS, 1.0, 9.0)


def test_missing_parts_of_a_minute_are_passed_over() -> None:
    records, other = transferred(), transferred()
    take(records, 20, [np.nan, 9.0, np.nan, np.nan, np.nan, np.nan], [np.nan] * 6)
    take(other, 20, [np.nan, 9.0, np.nan, np.nan, np.nan, np.nan], [np.nan] * 6)
    assert records.marks.rows["fired_ms"][0] == 20 * MINUTE_MS + 10_000
    assert records.stored(0, 2) == other.stored(0, 2)
