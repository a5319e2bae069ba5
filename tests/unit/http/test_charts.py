"""Charts: ticks that people count in, and sparklines that any browser reads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.web.charts import (
    bars,
    duration_ticks,
    powers,
    round_ticks,
    run_time_axis,
    share_axis,
    size_axis,
    sparkline,
    steps,
    time_axis,
)
from sinks.web.views.overview import sketch
from tests.kit.messages import alert, curve, curve_point, prediction
from tests.kit.pages import HOSTILE, parsed

DAY_MS = 86_400_000
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


def test_sizes_and_durations_people_count_in_are_on_the_axes() -> None:
    sizes, times = (
        size_axis((point.n for point in curve()), "nodes"),
        run_time_axis(point.run_time_s for point in curve()),
    )
    assert [label for _, label in sizes.ticks] == ["1", "2", "4", "8", "16", "32", "64", "128", "256"]
    assert {"1 min", "5 min"} <= {label for _, label in times.ticks}
    assert size_axis([0.0, -1.0], "nodes").ticks == ()


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(0.75, 1.45, ["0.8", "1", "1.2", "1.4"]), (310.0, 440.0, ["350", "400"])],
)
def test_a_narrow_axis_has_even_steps_of_one_two_or_five(low: float, high: float, labels: list[str]) -> None:
    assert [f"{tick:.3g}" for tick in round_ticks(low, high)] == labels


@pytest.mark.parametrize(
    ("top", "labels"), [(1.0, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]), (0.1, ["0 %", "2 %", "4 %"])]
)
def test_shares_are_on_round_values(top: float, labels: list[str]) -> None:
    assert [label for _, label in share_axis(top, "error").ticks][: len(labels)] == labels


def test_times_are_those_of_the_day_or_days() -> None:
    assert [label for _, label in time_axis(0, DAY_MS // 4).ticks][:2] == ["00:00", "02:00"]
    assert [label for _, label in time_axis(0, 2 * DAY_MS).ticks][:2] == ["01-01 00:00", "01-01 12:00"]
    assert [label for _, label in time_axis(0, 10 * DAY_MS).ticks][:2] == ["1970-01-01", "1970-01-03"]
    assert len(time_axis(7, 7).ticks) == 1
    assert len(time_axis(0, 36_500 * DAY_MS).ticks) <= 7


@given(st.floats(1e-150, 1e150), st.floats(1e-150, 1e150), st.integers(2, 12))
def test_ticks_are_few_and_lie_on_the_axis(one: float, other: float, count_max: int) -> None:
    low, high = sorted((one, other))
    for ticks in (
        powers(low, high, 2, count_max),
        duration_ticks(low, high, count_max),
        round_ticks(low, high, count_max),
    ):
        assert len(ticks) <= count_max
        assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in ticks)


@given(st.floats(1e-6, 1e9))
def test_shares_of_any_height_have_few_ticks(top: float) -> None:
    assert 2 <= len(share_axis(top, "error").ticks) <= 6


def test_a_sketch_has_the_band_the_sizes_that_were_run_and_what_stands_out() -> None:
    picture = sketch(prediction(), [alert()], lambda _id, n: 1000.0 / n)
    for name, count in (("band", 1), ("line", 1), ("truth", 1), ("observed", 7), ("anomaly", 1)):
        assert picture.count(f'class="{name}"') == count, name
    assert 'class="anomaly"' not in sketch(prediction(), [], None)
    assert "<poly" not in sketch(prediction(curve=()), [], None)


def test_a_hostile_name_stays_text() -> None:
    picture = sketch(prediction(HOSTILE, curve=(curve_point(8.0, 100.0, low_s=100.0, high_s=100.0),)), [], None)
    assert "<script" not in picture
    parsed(picture)


@given(st.lists(NUMBERS, max_size=8), st.lists(NUMBERS, max_size=8), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5))
def test_any_numbers_give_a_picture_that_a_browser_reads(
    edges: list[float], shares: list[float], line: list[tuple[float, float]]
) -> None:
    area = steps(bars(edges, shares, str))
    picture = sparkline("x", (120, 28), area=area, lines=[("line", line)], dots=[("run", spot) for spot in line])
    assert not re.search(r"nan|inf", picture)
    assert all(0 <= float(number) <= 120 for number in re.findall(r'c[xy]="([^"]*)"', picture))
    parsed(picture)
