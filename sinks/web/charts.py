"""Charts: the axes that uPlot needs in addition to the table that it draws, and small pictures without axes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from html import escape
from itertools import pairwise
from math import ceil, floor, log, log10
from typing import Final, Literal, NamedTuple

import msgspec
from markupsafe import Markup

from processors.contracts.hosts import ResourceLine
from processors.contracts.names import rfc3339
from processors.contracts.outputs import CurvePoint
from sinks.web.formatting import duration, size

Tick = tuple[float, str]
Formatter = Callable[[float], str]
Spot = tuple[float, float]
Pixels = tuple[int, int]  # width and height of a picture

TICKS_MAX: Final = 8
TICKS_MIN: Final = 3
TICKS_UP: Final = 5.5  # number of ticks of a level axis, because its chart is not high
_STEPS: Final = (1.0, 2.0, 5.0)
_DAY_MS: Final = 86_400_000
_NICE_SECONDS: Final = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
    3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 432_000, 864_000,
)  # fmt: skip
_NICE_MS: Final = tuple(
    minutes * 60_000 for minutes in (1, 5, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080, 20_160, 43_200, 86_400, 129_600, 259_200, 525_600)
)  # fmt: skip


class Axis(msgspec.Struct, frozen=True):
    """A logarithmic or linear axis: ticks with labels, and a title with the unit. Without `ends` it spans the values of the chart."""

    scale: Literal["log", "linear"]
    ticks: Sequence[Tick] = ()
    title: str = ""
    ends: tuple[float, float] | None = None


class Chart(msgspec.Struct, frozen=True):
    """A chart that a script draws from the table in the same HTML figure: label, axes, and height as a share of the width.

    `diagonal` draws the line where x equals y.
    """

    label: str
    x: Axis
    y: Axis
    ratio: float = 0.56
    diagonal: bool = False


class Bar(msgspec.Struct, frozen=True):
    """One bin of a histogram: its lower and upper edge, its share, and both edges as text."""

    low: float
    high: float
    share: float
    start: str
    stop: str


def bars(edges: Sequence[float], shares: Sequence[float], formatter: Formatter) -> list[Bar]:
    """Return the bins of a histogram; if all samples are equal, one bin without width."""
    if not edges or not shares:
        return []
    if len(edges) <= len(shares):
        return [Bar(edges[0], edges[0], 1.0, formatter(edges[0]), formatter(edges[0]))]
    return [
        Bar(low, high, mass, formatter(low), formatter(high))
        for (low, high), mass in zip(pairwise(edges), shares, strict=False)
    ]


def histogram_chart(label: str, shown: Sequence[Bar], formatter: Formatter, ratio: float, across: str) -> Chart:
    """Return the chart of the bins `shown`: values on the x-axis with the title `across`, shares on the y-axis."""
    top = max((bar.share for bar in shown), default=1.0)
    edges = sorted({end for bar in shown for end in (bar.low, bar.high)})
    places = even_ticks(edges[0], edges[-1]) if len(edges) > 1 else edges
    return Chart(label, linear_axis(places, formatter, across), share_axis(top, "share"), ratio)


def log_axis(
    values: Iterable[float], ticks: Callable[[float, float], list[float]], formatter: Formatter, title: str
) -> Axis:
    """Return a logarithmic axis for `values`, ignoring zeros and extreme values."""
    shown = [value for value in values if drawable(value)]
    return Axis("log", labelled(ticks(min(shown), max(shown)), formatter) if shown else (), title)


def linear_axis(ticks: Iterable[float], formatter: Formatter, title: str) -> Axis:
    return Axis("linear", labelled(ticks, formatter), title)


def size_axis(sizes: Iterable[float], unit: str) -> Axis:
    return log_axis(sizes, partial(powers, base=2, count_max=12), size, unit)


def run_time_axis(run_times_s: Iterable[float], title: str = "run time") -> Axis:
    return log_axis(run_times_s, duration_ticks, duration, title)


def curve_chart(
    label: str, curve: Iterable[CurvePoint], unit: str, spots: Iterable[Spot], sizes: Iterable[float] = ()
) -> Chart:
    """Return the chart of a curve with its band; its axes also reach `spots`, pairs of a size and a run time, and `sizes`."""
    ends = [*spots, *((point.n, end_s) for point in curve for end_s in (point.low_s, point.high_s))]
    return Chart(label, size_axis([*sizes, *(n for n, _ in ends)], unit), run_time_axis(end_s for _, end_s in ends))


def share_axis(top: float, title: str) -> Axis:
    """Return a linear axis of shares from 0 to at most `top`, in per cent."""
    step = _even_step(top)
    return linear_axis(
        (step * count for count in range(int(top / step + 1e-9) + 1)), lambda share: f"{100 * share:.3g} %", title
    )


def time_axis(low_ms: float, high_ms: float, title: str = "time (UTC)") -> Axis:
    """Return a linear time axis in UTC. Ticks show the time, in ranges of 1 to 3 days also the day, and in longer ranges only the day."""
    step = next((nice for nice in _NICE_MS if (high_ms - low_ms) / nice <= 5), _NICE_MS[-1])
    step *= max(1, ceil((high_ms - low_ms) / (step * 6)))
    ticks = range(ceil(low_ms / step) * step, floor(high_ms) + 1, step) or [round(low_ms)]
    days = (high_ms - low_ms) / _DAY_MS
    cut = slice(11, 16) if days <= 1 else slice(5, 16) if days < 3 else slice(10)
    return linear_axis(ticks, lambda value: rfc3339(round(value))[cut].replace("T", " "), title)


def level_axis(top: float, factor: float, title: str) -> Axis:
    """Return a linear axis from 0 to `top`. Ticks are 1, 2 or 5 times a power of ten apart, in units of `factor`."""
    shown = top / factor
    step = _even_step(shown, TICKS_UP) if 0 < shown < float("inf") else 1.0
    ticks = [(count * step * factor, f"{count * step:.6g}") for count in range(floor(shown / step + 1e-9) + 1)]
    return Axis("linear", ticks, title)


def labelled(values: Iterable[float], formatter: Formatter) -> tuple[Tick, ...]:
    """Return ticks with their labels; of several ticks with the same label, only the first is kept."""
    by_text: dict[str, float] = {}
    for value in values:
        by_text.setdefault(formatter(value), value)
    return tuple((value, text) for text, value in by_text.items())


def drawable(value: float) -> bool:
    return 1e-150 < value < 1e150  # beyond these limits, the ends of an axis would leave the range of floats


def powers(low: float, high: float, base: int, count_max: int) -> list[float]:
    """Return powers of `base` in a range, with exponents at a constant distance so that there are at most `count_max`."""
    first, last = ceil(log(low, base) - 1e-9), floor(log(high, base) + 1e-9)
    step = max(1, ceil((last - first + 1) / count_max))
    return [float(base) ** exponent for exponent in range(first, last + 1, step)]


def round_ticks(low: float, high: float, count_max: int = TICKS_MAX) -> list[float]:
    """Return ticks in a range: 1, 2 and 5 times powers of ten; if these are too many, only powers of ten; if too few, multiples of a step."""
    decades = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in _STEPS if low <= step * 10.0**decade <= high]
    if len(ticks) < TICKS_MIN and high < low * 10:
        return even_ticks(low, high)[:count_max] or ticks
    return ticks if len(ticks) <= count_max else powers(low, high, 10, count_max)


def even_ticks(low: float, high: float, steps: Sequence[float] = ()) -> list[float]:
    """Return at most six multiples of a step in a range. The step is the first of `steps` that is large enough, else 1, 2 or 5 times 10^k."""
    width = high - low
    if not 0 < width < float("inf"):
        return [low]
    step = next((step for step in steps if width / step <= 5), 0) or _even_step(width)
    return [count * step for count in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _even_step(width: float, count_max: float = 5.0) -> float:
    """Return the smallest of 1, 2 and 5 times powers of ten that fits at most `count_max` times into `width`."""
    power = 10.0 ** floor(log10(width / count_max))
    return next((factor * power for factor in _STEPS if width / (factor * power) <= count_max), 10.0 * power)


def duration_ticks(low: float, high: float, count_max: int = TICKS_MAX) -> list[float]:
    """Return ticks in a range of seconds: common durations (minutes, hours), or `round_ticks` if the range is very wide or narrow."""
    nice = [float(seconds) for seconds in _NICE_SECONDS if low <= seconds <= high]
    if low < 0.5 or high > 2e6 or (len(nice) < 2 and high < 60):
        return round_ticks(low, high, count_max)
    if len(nice) < TICKS_MIN:
        return even_ticks(low, high, _NICE_SECONDS)[:count_max]
    return nice[:: ceil(len(nice) / count_max)]


class BandPoint(NamedTuple):
    """Lower bound, mean and upper bound of a resource from `start_ms` to `stop_ms`."""

    start_ms: float
    stop_ms: float
    low: float
    mean: float
    high: float


def band_points(line: ResourceLine, resource: str, step: int = 1, first: int = 0) -> Iterator[BandPoint]:
    """Yield points that each summarise `step` successive points of a resource; with `first`, the first one summarises `first` points.

    A line without the resource yields no points.
    """
    band = line.resources.get(resource)
    if band is None:
        return
    starts = [0, *range(first or step, len(band.mean), step), len(band.mean)]
    for start, stop in pairwise(starts):
        lows, means, highs = (
            [value for value in column[start:stop] if value is not None] for column in (band.low, band.mean, band.high)
        )
        if lows and means and highs:
            start_ms, stop_ms = (line.start_ms + place * line.step_s * 1000 for place in (start, stop))
            yield BandPoint(start_ms, stop_ms, min(lows), sum(means) / len(means), max(highs))


def band_sparkline(  # noqa: PLR0917  a picture has many limits
    title: str, size: Pixels, points: Sequence[BandPoint], ends: tuple[float, float], bottom: float, top: float
) -> Markup:
    """Return a small picture of the band from low to high, with a line of means; it shows the times `ends` and values `bottom` to `top`."""
    times = [min(max((point.start_ms + point.stop_ms) / 2, ends[0]), ends[1]) for point in points]
    lows = list(zip(times, (point.low for point in points), strict=True))
    means = list(zip(times, (point.mean for point in points), strict=True))
    highs = list(zip(times, (point.high for point in points), strict=True))
    frame = ((ends[0], bottom), (ends[1], top))
    return sparkline(title, size, [*highs, *reversed(lows)], lines=[("line", means)], frame=frame)


def sparkline(
    title: str,
    size: Pixels,
    area: Sequence[Spot] = (),
    *,
    lines: Sequence[tuple[str, Sequence[Spot]]] = (),
    dots: Sequence[tuple[str, Spot]] = (),
    frame: Sequence[Spot] = (),
) -> Markup:
    """Return a small picture without axes as SVG: an area, lines and dots, each with a class of the style sheet.

    The picture spans all its values and the points in `frame`; a common `frame` gives several pictures the same scale. If there
    is nothing to draw, the picture has only a title.
    """
    width, height = size
    shown = [area, *(spots for _, spots in lines), [spot for _, spot in dots]]
    spots = [*frame, *(spot for part in shown for spot in part)]
    place = _placing(spots, width, height) if all(abs(value) < 1e15 for spot in spots for value in spot) else None
    parts = []
    if place is not None:
        path = partial(_path, place=place)
        parts += [f'<polygon class="band" points="{path(area)}"/>'] if area else []
        parts += [f'<polyline class="{kind}" points="{path(line)}"/>' for kind, line in lines if line]
        parts += ['<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="2.5"/>'.format(kind, *place(spot)) for kind, spot in dots]  # fmt: skip
    head = f'<svg class="sparkline" role="img" viewBox="0 0 {width} {height}"><title>{escape(title)}</title>'
    return Markup(f"{head}{''.join(parts)}</svg>")  # noqa: S704 -- the title is escaped, the rest are numbers


def steps(histogram: Sequence[Bar]) -> list[Spot]:
    """Return the outline of a histogram. A bin without width gets some width to be visible."""
    width = max((bar.high - bar.low for bar in histogram), default=0.0) or 1.0
    ends = [
        (bar.low, bar.high) if bar.high > bar.low else (bar.low - width / 20, bar.low + width / 20) for bar in histogram
    ]
    outline = [spot for (low, high), bar in zip(ends, histogram, strict=True) for spot in ((low, bar.share), (high, bar.share))]  # fmt: skip
    return [(outline[0][0], 0.0), *outline, (outline[-1][0], 0.0)] if outline else []


def _placing(spots: Sequence[Spot], width: int, height: int) -> Callable[[Spot], Spot] | None:
    if not spots:
        return None
    (left, right), (bottom, top) = ((min(values), max(values)) for values in zip(*spots, strict=True))

    def place(spot: Spot) -> Spot:
        across = (spot[0] - left) / (right - left) if right > left else 0.5
        up = (spot[1] - bottom) / (top - bottom) if top > bottom else 0.5
        return 3 + across * (width - 6), height - 3 - up * (height - 6)

    return place


def _path(spots: Iterable[Spot], place: Callable[[Spot], Spot]) -> str:
    return " ".join("{:.1f},{:.1f}".format(*place(spot)) for spot in spots)
