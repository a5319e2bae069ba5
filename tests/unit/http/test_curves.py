from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.outputs import CurvePoint
from sinks.web.charts import (
    CURVE_HEIGHT,
    WIDTH,
    Drawing,
    Mark,
    axis,
    curve_svg,
    duration_ticks,
    powers,
    small_curve_svg,
)
from tests.kit.messages import curve, curve_point

SVG = "{http://www.w3.org/2000/svg}"


def drawing(points: tuple[CurvePoint, ...], **values: object) -> Drawing:
    return Drawing(title="lammps", description="Two words.", unit="nodes", points=points, **values)  # type: ignore[arg-type]  # a test names fields of the struct


def texts(svg: str, tag: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(SVG + tag)]  # noqa: S314 -- our own text


def of_class(svg: str, name: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(svg).iter() if element.get("class") == name]  # noqa: S314 -- our own


def test_an_ideal_curve_is_a_straight_line_on_the_two_logarithmic_axes() -> None:
    svg = curve_svg(drawing(tuple(curve_point(2.0**k, 1024.0 / 2**k) for k in range(7))))
    spots = [tuple(map(float, spot.split(","))) for spot in of_class(svg, "line")[0].attrib["points"].split()]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(spots)]
    assert slopes == pytest.approx([slopes[0]] * 6, rel=0.01)
    assert slopes[0] > 0  # pixels grow downwards: the run time falls


def test_sizes_and_durations_people_count_in_are_on_the_axes() -> None:
    labels = texts(curve_svg(drawing(curve())), "text")
    assert labels[:9] == ["1", "2", "4", "8", "16", "32", "64", "128", "256"]
    assert labels[9:] == ["20 s", "30 s", "1 min", "2 min", "5 min", "10 min", "20 min", "nodes"]


def test_the_band_goes_up_along_one_end_and_back_along_the_other() -> None:
    svg = curve_svg(drawing(curve()))
    assert len(of_class(svg, "band")[0].attrib["points"].split()) == 2 * len(curve())


def test_sizes_that_were_run_are_marked_and_only_they() -> None:
    assert len(of_class(curve_svg(drawing(curve())), "observed")) == 7


def test_an_anomaly_stands_out_and_says_what_it_is() -> None:
    mark = Mark(16.0, 150.0, "anomaly", "50 % too slow")
    svg = curve_svg(drawing(curve(), marks=(mark,)))
    circle = of_class(svg, "anomaly")[0]
    assert circle.findtext(SVG + "title") == "50 % too slow"
    assert float(circle.attrib["r"]) > float(of_class(svg, "observed")[0].attrib["r"])


def test_the_truth_is_a_line_of_its_own() -> None:
    svg = curve_svg(drawing(curve(), truth=((1.0, 900.0), (256.0, 20.0))))
    assert len(of_class(svg, "truth")[0].attrib["points"].split()) == 2


def test_who_cannot_see_the_picture_is_told_what_it_is() -> None:
    for svg in (curve_svg(drawing(curve())), small_curve_svg(drawing(curve()))):
        root = ET.fromstring(svg)  # noqa: S314 -- our own text
        assert root.get("role") == "img"
        assert (root.findtext(SVG + "title"), root.findtext(SVG + "desc")) == ("lammps", "Two words.")


def test_a_hostile_name_stays_text() -> None:
    hostile = '"><script>&'
    svg = curve_svg(Drawing(title=hostile, description=hostile, unit=hostile, points=curve(),
                            marks=(Mark(2.0, 3.0, "anomaly", hostile),)))  # fmt: skip
    assert texts(svg, "title")[0] == texts(svg, "desc")[0] == texts(svg, "text")[-1] == hostile
    assert "<script" not in svg


def test_a_curve_of_no_point_is_an_empty_picture_with_its_title() -> None:
    assert texts(curve_svg(drawing(())), "title") == ["lammps"]


def test_a_single_point_lies_in_the_middle() -> None:
    point = curve_point(8.0, 100.0, low_s=100.0, high_s=100.0)
    circle = of_class(curve_svg(drawing((point,))), "observed")[0]
    assert 84 < float(circle.attrib["cx"]) < WIDTH
    assert 0 < float(circle.attrib["cy"]) < CURVE_HEIGHT


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=6), st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_any_numbers_give_a_picture_whose_points_lie_inside_it(
    rows: list[tuple[float, float, float, float]], truth: list[tuple[float, float]]
) -> None:
    points = tuple(curve_point(1.0, t, efficiency=1.0, low_s=low, high_s=high) for _, t, low, high in rows if t > 0)
    marks = tuple(Mark(n, t, "anomaly") for n, t, _, _ in rows)
    svg = curve_svg(drawing(points, marks=marks, truth=tuple(truth)))
    for circle in ET.fromstring(svg).iter(SVG + "circle"):  # noqa: S314 -- our own text
        assert 0 <= float(circle.attrib["cx"]) <= WIDTH
        assert 0 <= float(circle.attrib["cy"]) <= CURVE_HEIGHT
    assert "nan" not in svg
    assert "inf" not in svg


@given(st.floats(1e-155, 1e155), st.floats(1e-155, 1e155), st.integers(2, 12))
def test_ticks_are_few_and_lie_on_the_axis(one: float, other: float, count_max: int) -> None:
    low, high = sorted((one, other))
    for ticks in (powers(low, high, 2, count_max), duration_ticks(low, high, count_max)):
        assert len(ticks) <= count_max
        assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in ticks)


@given(st.lists(st.floats(1e-149, 1e149), min_size=1))
def test_an_axis_keeps_the_order_of_values_and_holds_them_all(values: list[float]) -> None:
    made = axis(values, 0.0, 100.0)
    assert made is not None
    places = [made.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 100
