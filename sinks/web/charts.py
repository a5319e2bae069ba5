"""Logarithmic axes: where a value lies, and which values get a tick."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, exp, floor, log
from typing import Final, Literal

import msgspec
from markupsafe import Markup

from processors.contracts.names import rfc3339
from processors.contracts.outputs import CurvePoint
from sinks.web.words import duration, moment, share, size

# Histograms as SVG text: what a host measured, or how long a run takes under the load of its hosts.


WIDTH: Final = 640
HEIGHT: Final = 240
SMALL_WIDTH: Final = 120
SMALL_HEIGHT: Final = 28
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 12.0, 34.0
_POINT_SHARE: Final = 0.06  # of the width: the bar of samples that are all alike
_GAP: Final = 1.0
_WORTH: Final = 1e15  # larger numbers have no place on a linear axis of floats that a browser reads


class Marker(msgspec.Struct, frozen=True):
    """A value to be shown as a line across, and what it is: a class of the style sheet and words for people."""

    value: float
    kind: str
    note: str


class Bars(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be drawn: `edges` has one more element than `shares`, or one each where all samples are alike.

    `label` writes a value on the axis. `title` names the picture for those who do not see it.
    """

    title: str
    description: str
    edges: Sequence[float]
    shares: Sequence[float]
    label: Callable[[float], str]
    markers: Sequence[Marker] = ()


def histogram_svg(bars: Bars) -> str:
    """Return a picture with axes; without anything to draw, an empty picture with its title."""
    place = _Place.of(bars, (_LEFT, WIDTH - _RIGHT), (HEIGHT - _BOTTOM, _TOP))
    body = [] if place is None else [*_grid(bars, place), *_columns(bars, place), *_lines(bars, place)]
    return _histogram_svg(bars, WIDTH, HEIGHT, "curve", body)


def small_histogram_svg(bars: Bars) -> str:
    """Return a small picture without axes, for a row of a table."""
    place = _Place.of(bars, (1.0, SMALL_WIDTH - 1.0), (SMALL_HEIGHT - 1.0, 1.0))
    body = [] if place is None else [*_base(place), *_columns(bars, place)]
    return _histogram_svg(bars, SMALL_WIDTH, SMALL_HEIGHT, "curve bars", body)


def intervals(edges: Sequence[float], shares: Sequence[float]) -> list[tuple[float, float, float]]:
    """Return low, high and share of each interval; samples that are all alike have one interval without width."""
    if not edges or not shares:
        return []
    if len(edges) <= len(shares):
        return [(edges[0], edges[0], 1.0)]
    return [(low, high, mass) for (low, high), mass in zip(pairwise(edges), shares, strict=False)]


class _Place(msgspec.Struct, frozen=True):
    """From values and shares to pixels."""

    low: float
    high: float
    top: float
    x: tuple[float, float]
    y: tuple[float, float]

    @classmethod
    def of(cls, bars: Bars, x: tuple[float, float], y: tuple[float, float]) -> "_Place | None":
        found = intervals(bars.edges, bars.shares)
        shown = [*bars.edges, *(marker.value for marker in bars.markers)]
        drawable = all(abs(value) < _WORTH for value in shown) and all(0 <= mass <= 1 for *_, mass in found)
        if not found or not drawable:
            return None
        low, high = min(shown), max(shown)
        air = (high - low) * 0.04 or abs(low) * 0.05 or 0.5
        return cls(low - air, high + air, max(mass for *_, mass in found) or 1.0, x, y)

    def across(self, value: float) -> float:
        return self.x[0] + (value - self.low) / (self.high - self.low) * (self.x[1] - self.x[0])

    def up(self, mass: float) -> float:
        return self.y[0] + mass / self.top * (self.y[1] - self.y[0])


def _histogram_svg(bars: Bars, width: int, height: int, classes: str, body: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{classes}" role="img" viewBox="0 0 {width} {height}">'
        f"<title>{escape(bars.title)}</title><desc>{escape(bars.description)}</desc>"
    )
    return head + "".join(body) + "</svg>"


def _columns(bars: Bars, place: _Place) -> list[str]:
    parts = []
    for low, high, mass in intervals(bars.edges, bars.shares):
        start, stop = place.across(low) + _GAP / 2, place.across(high) - _GAP / 2
        if stop <= start:
            half = (place.x[1] - place.x[0]) * _POINT_SHARE / 2
            start, stop = start - half, start + half
        told = f"{bars.label(low)} to {bars.label(high)}: {share(mass)}"
        box = f'x="{start:.1f}" y="{place.up(mass):.1f}" width="{stop - start:.1f}" height="{place.y[0] - place.up(mass):.1f}"'
        parts.append(f'<rect class="bar" {box}><title>{escape(told)}</title></rect>')
    return parts


def _lines(bars: Bars, place: _Place) -> list[str]:
    parts = []
    for marker in bars.markers:
        at = f"{place.across(marker.value):.1f}"
        ends = f'x1="{at}" y1="{place.y[1]:.1f}" x2="{at}" y2="{place.y[0]:.1f}"'
        parts.append(f'<line class="{escape(marker.kind)}" {ends}><title>{escape(marker.note)}</title></line>')
    return parts


def _base(place: _Place) -> list[str]:
    y = f"{place.y[0]:.1f}"
    return [f'<line class="grid" x1="{place.x[0]:.1f}" y1="{y}" x2="{place.x[1]:.1f}" y2="{y}"/>']


def _grid(bars: Bars, place: _Place) -> list[str]:
    parts = _base(place)
    for mass in (place.top / 2, place.top):
        at = f"{place.up(mass):.1f}"
        parts.append(f'<line class="grid" x1="{place.x[0]:.1f}" y1="{at}" x2="{place.x[1]:.1f}" y2="{at}"/>')
        text = f'<text class="tick" x="{place.x[0] - 8:.1f}" y="{at}" dy="0.35em" text-anchor="end">'
        parts.append(f"{text}{share(mass)}</text>")
    for edge in dict.fromkeys(bars.edges):
        text = f'<text class="tick" x="{place.across(edge):.1f}" y="{place.y[0] + 20:.1f}" text-anchor="middle">'
        parts.append(f"{text}{escape(bars.label(edge))}</text>")
    return parts


# What a chart of a page needs besides its table: its name, its axes with their ticks, and the picture seen without script.


Tick = tuple[float, str]


class PlotAxis(msgspec.Struct, frozen=True):
    """An axis: logarithmic or linear, and its ticks, each with its words."""

    scale: Literal["log", "linear"]
    ticks: Sequence[Tick] = ()


class Plot(msgspec.Struct, frozen=True):
    """A chart. `picture` is shown where no script draws; `ratio` is height to width."""

    label: str
    picture: Markup
    x: PlotAxis
    y: PlotAxis
    ratio: float = 0.56


def told(values: Sequence[float], words: Callable[[float], str]) -> tuple[Tick, ...]:
    """Return ticks with their words, of those whose words are the same the first."""
    found: dict[str, float] = {}
    for value in values:
        found.setdefault(words(value), value)
    return tuple((value, text) for text, value in found.items())


# Values over time as SVG text and as the axes of a chart: dots, a line that rolls over the newest, and what is aimed at.


TICKS: Final = 5
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


class Spot(msgspec.Struct, frozen=True):
    """One moment: `value` is a dot, `rolling` a place of the line, None where there is none."""

    time_ms: int
    value: float | None
    rolling: float | None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn: spots in the order of time; `top` is the least end of the axis upwards, `aim` a line across."""

    label: str
    spots: Sequence[Spot]
    words: Callable[[float], str]
    top: float = 0.0
    aim: float | None = None


def series_plot(series: Series) -> Plot:
    """Return the chart of a series, with the picture that is seen without script."""
    values = [value for spot in series.spots for value in (spot.value, spot.rolling) if value is not None]
    high = max([*values, series.top, series.aim or 0.0]) or 1.0
    ups = told(_round_values(high), series.words)
    times = told(_times([spot.time_ms for spot in series.spots]), _clock([spot.time_ms for spot in series.spots]))
    picture = Markup(_svg(series, high, ups, times))  # noqa: S704 -- the text in it is escaped
    return Plot(series.label, picture, PlotAxis("linear", times), PlotAxis("linear", ups), ratio=0.42)


def _round_values(high: float) -> list[float]:
    """Return round values from 0 to the top, at most six."""
    magnitude = 10.0 ** len(str(int(high))) / 1e6
    while True:
        for step in (factor * magnitude for factor in _STEPS):
            if high / step <= TICKS:
                return [step * number for number in range(int(high / step + 1e-9) + 1)]
        magnitude *= 10


def _times(times_ms: Sequence[int]) -> list[float]:
    if not times_ms:
        return []
    first, last = times_ms[0], times_ms[-1]
    return (
        [first + (last - first) * number / (TICKS - 1) for number in range(TICKS)] if last > first else [float(first)]
    )


def _clock(times_ms: Sequence[int]) -> Callable[[float], str]:
    """Return how moments are written: the time of a day, or days where there are several."""
    days = bool(times_ms) and times_ms[-1] - times_ms[0] > 172_800_000
    return lambda value: moment(rfc3339(round(value)))[5:10] if days else moment(rfc3339(round(value)))[-5:]


def _svg(series: Series, high: float, ups: Sequence[tuple[float, str]], times: Sequence[tuple[float, str]]) -> str:
    moments = [spot.time_ms for spot in series.spots]
    first, length = (moments[0], (moments[-1] - moments[0]) or 1) if moments else (0, 1)

    def across(time_ms: float) -> float:
        return _LEFT + (time_ms - first) / length * (WIDTH - _LEFT - _RIGHT - 8)

    def up(value: float) -> float:
        return HEIGHT - _BOTTOM - value / high * (HEIGHT - _BOTTOM - _TOP)

    parts = [
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{up(value):.1f}" dy="0.35em" text-anchor="end">{escape(text)}</text>'
        for value, text in ups
    ]
    parts += [
        f'<text class="tick" x="{across(value):.1f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(text)}</text>'
        for value, text in times
    ]
    if series.aim is not None:
        at = f"{up(series.aim):.1f}"
        parts.append(f'<line class="truth" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
    rolling = [(across(spot.time_ms), up(spot.rolling)) for spot in series.spots if spot.rolling is not None]
    parts += [
        f'<line class="line" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
        for (x1, y1), (x2, y2) in pairwise(rolling)
    ]
    parts += [
        f'<circle class="run" cx="{across(spot.time_ms):.1f}" cy="{up(spot.value):.1f}" r="3"/>'
        for spot in series.spots
        if spot.value is not None
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="curve" role="img" viewBox="0 0 {WIDTH} {HEIGHT}">'
    return f"{head}<title>{escape(series.label)}</title>{''.join(parts)}</svg>"


_NICE_SECONDS: Final = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
    3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 432_000, 864_000,
)  # fmt: skip
_MARGIN: Final = 0.04  # of the axis, on both ends
_NARROWEST: Final = log(1.5)


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from pixel `start` to pixel `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return self.start + share * (self.stop - self.start)


def axis(values: Iterable[float], start: float, stop: float) -> Axis | None:
    """Return an axis that holds all positive finite values with a little air, None where there are none."""
    logs = [log(value) for value in values if drawable(value)]
    if not logs:
        return None
    low, high = min(logs), max(logs)
    air = max((high - low) * _MARGIN, (_NARROWEST - (high - low)) / 2)
    return Axis(exp(low - air), exp(high + air), start, stop)


def drawable(value: float) -> bool:
    """Return whether a value has a place on a logarithmic axis."""
    return 1e-150 < value < 1e150  # beyond, the ends of an axis would leave the range of floats


def powers(low: float, high: float, base: int, count_max: int) -> list[float]:
    """Return powers of a base in a range, evenly left out until there are at most `count_max`."""
    first, last = ceil(log(low, base) - 1e-9), floor(log(high, base) + 1e-9)
    step = max(1, ceil((last - first + 1) / count_max))
    return [float(base) ** exponent for exponent in range(first, last + 1, step)]


def duration_ticks(low: float, high: float, count_max: int) -> list[float]:
    """Return durations people count in, inside a range of seconds; powers of ten where that range is very wide."""
    nice = [float(seconds) for seconds in _NICE_SECONDS if low <= seconds <= high]
    if len(nice) < 2 or low < 0.5 or high > 2e6:
        return powers(low, high, 10, count_max)
    return _thinned(nice, count_max)


def _thinned(ticks: Sequence[float], count_max: int) -> list[float]:
    return list(ticks[:: max(1, ceil(len(ticks) / count_max))])


# Scaling curves as SVG text: log-log axes, the band, sizes that were run, anomalies, and the truth where it is known.


_ABOVE: Final = ("run", "observed", "outside", "anomaly")  # what stands out is drawn last
_REACH: Final = {"anomaly": 1.5, "run": 0.7, "outside": 0.8}
CurveSpot = tuple[float, float]  # size, run time in seconds
Ends = tuple[float, float, float]  # what is told at a size, and the ends of its band
CURVE_HEIGHT: Final = 380
SMALL_CURVE_WIDTH: Final = 320
SMALL_CURVE_HEIGHT: Final = 90
_CURVE_LEFT, _CURVE_RIGHT, _CURVE_TOP, _CURVE_BOTTOM = 84.0, 14.0, 12.0, 50.0


class Mark(msgspec.Struct, frozen=True):
    """A point beside the curve: what was run, or what stands out; `note` is what a reader is told of it."""

    n: float
    run_time_s: float
    kind: Literal["observed", "anomaly", "run", "outside"]
    note: str = ""


def run_times(point: CurvePoint) -> Ends:
    """Return the run time of a point with its band, in seconds."""
    return point.run_time_s, point.low_s, point.high_s


class Scale(msgspec.Struct, frozen=True):
    """What the axis upwards shows: of a point, in which words, and which of its values get a tick."""

    of: Callable[[CurvePoint], Ends]
    words: Callable[[float], str]
    ticks: Callable[[float, float, int], list[float]]


RUN_TIME: Final = Scale(run_times, duration, duration_ticks)


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be drawn. `title` names the picture for those who do not see it, `description` says what it shows.

    `scale` is what the points are drawn by; marks and truth are in its unit.
    """

    title: str
    description: str
    unit: str
    points: Sequence[CurvePoint]
    marks: Sequence[Mark] = ()
    truth: Sequence[CurveSpot] = ()
    scale: Scale = RUN_TIME
    uprights: Sequence[tuple[float, str]] = ()  # sizes that are marked by a line across, and what they are


def curve_svg(drawing: Drawing) -> str:
    """Return a picture of the curve with axes; without anything to draw, an empty picture with its title."""
    x = axis(_sizes(drawing), _CURVE_LEFT, WIDTH - _CURVE_RIGHT)
    y = axis(_curve_times(drawing), CURVE_HEIGHT - _CURVE_BOTTOM, _CURVE_TOP)
    body = [] if x is None or y is None else [*_curve_grid(x, y, drawing), *_content(drawing, x, y)]
    return _curve_svg(drawing, WIDTH, CURVE_HEIGHT, "curve", body)


def small_curve_svg(drawing: Drawing) -> str:
    """Return a small picture of the curve without axes, for a row of a table."""
    x, y = (
        axis(_sizes(drawing), 2.0, SMALL_CURVE_WIDTH - 2.0),
        axis(_curve_times(drawing), SMALL_CURVE_HEIGHT - 2.0, 2.0),
    )
    body = [] if x is None or y is None else _content(drawing, x, y, radius=2.5)
    return _curve_svg(drawing, SMALL_CURVE_WIDTH, SMALL_CURVE_HEIGHT, "curve small", body)


def _curve_svg(drawing: Drawing, width: int, height: int, classes: str, body: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{classes}" role="img" viewBox="0 0 {width} {height}">'
        f"<title>{escape(drawing.title)}</title><desc>{escape(drawing.description)}</desc>"
    )
    return head + "".join(body) + "</svg>"


def _drawable(n: float, *times: float) -> bool:
    return all(drawable(value) for value in (n, *times))


def _spots(drawing: Drawing) -> list[tuple[CurvePoint, Ends]]:
    told = [(point, drawing.scale.of(point)) for point in drawing.points]
    return [(point, ends) for point, ends in told if _drawable(point.n, *ends)]


def _sizes(drawing: Drawing) -> Iterable[float]:
    yield from (point.n for point, _ in _spots(drawing))
    yield from (mark.n for mark in drawing.marks)
    yield from (n for n, _ in drawing.uprights)


def _curve_times(drawing: Drawing) -> Iterable[float]:
    for _, (_, low, high) in _spots(drawing):
        yield from (low, high)
    yield from (mark.run_time_s for mark in drawing.marks)
    yield from (run_time_s for _, run_time_s in drawing.truth)


def _curve_grid(x: Axis, y: Axis, drawing: Drawing) -> list[str]:
    parts = []
    for n in powers(x.low, x.high, 2, 10):
        at = f"{x.place(n):.1f}"
        parts.append(f'<line class="grid" x1="{at}" y1="{y.stop:.1f}" x2="{at}" y2="{y.start:.1f}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{y.start + 18:.1f}" text-anchor="middle">{size(n)}</text>')
    for value in drawing.scale.ticks(y.low, y.high, 8):
        at = f"{y.place(value):.1f}"
        parts.append(f'<line class="grid" x1="{x.start:.1f}" y1="{at}" x2="{x.stop:.1f}" y2="{at}"/>')
        label = f'<text class="tick" x="{x.start - 8:.1f}" y="{at}" dy="0.35em" text-anchor="end">'
        parts.append(f"{label}{escape(drawing.scale.words(value))}</text>")
    for place, (n, told) in enumerate((n, told) for n, told in drawing.uprights if drawable(n)):
        at = f"{x.place(n):.1f}"
        parts.append(f'<line class="upright" x1="{at}" y1="{y.stop:.1f}" x2="{at}" y2="{y.start:.1f}"/>')
        words = f'x="{x.place(n) - 5:.1f}" y="{y.stop + 14 + 16 * place:.1f}" text-anchor="end"'
        parts.append(f'<text class="tick" {words}>{escape(told)}</text>')
    middle = f'x="{(x.start + x.stop) / 2:.1f}" y="{CURVE_HEIGHT - 8}"'
    parts.append(f'<text class="axis" {middle} text-anchor="middle">{escape(drawing.unit)}</text>')
    return parts


def _content(drawing: Drawing, x: Axis, y: Axis, radius: float = 4.0) -> list[str]:
    points = _spots(drawing)
    upper = [(point.n, high) for point, (_, _, high) in points]
    lower = [(point.n, low) for point, (_, low, _) in reversed(points)]
    truth = [(n, run_time_s) for n, run_time_s in drawing.truth if _drawable(n, run_time_s)]
    parts = []
    if points:
        parts.append(f'<polygon class="band" points="{_path([*upper, *lower], x, y)}"/>')
        parts.append(
            f'<polyline class="line" points="{_path([(p.n, middle) for p, (middle, _, _) in points], x, y)}"/>'
        )
    if truth:
        parts.append(f'<polyline class="truth" points="{_path(truth, x, y)}"/>')
    observed = [Mark(point.n, middle, "observed") for point, (middle, _, _) in points if point.source == "observed"]
    marks = sorted((*observed, *drawing.marks), key=lambda mark: _ABOVE.index(mark.kind))
    parts += [_circle(mark, x, y, radius, drawing.scale.words) for mark in marks]
    return parts


def _path(spots: Iterable[CurveSpot], x: Axis, y: Axis) -> str:
    return " ".join(f"{x.place(n):.1f},{y.place(run_time_s):.1f}" for n, run_time_s in spots)


def _circle(mark: Mark, x: Axis, y: Axis, radius: float, words: Callable[[float], str]) -> str:
    if not _drawable(mark.n, mark.run_time_s):
        return ""
    told = mark.note or f"{size(mark.n)}: {words(mark.run_time_s)}"
    place = f'cx="{x.place(mark.n):.1f}" cy="{y.place(mark.run_time_s):.1f}"'
    reach = radius * _REACH.get(mark.kind, 1.0)
    return f'<circle class="{mark.kind}" {place} r="{reach:.1f}"><title>{escape(told)}</title></circle>'
