"""Scaling curves as SVG text: log-log axes, the band, sizes that were run, anomalies, and the truth where it is known."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final, Literal

import msgspec

from agent.contracts.outputs import CurvePoint
from agent.http.axes import Axis, axis, drawable, duration_ticks, powers
from agent.words import duration, size

_ABOVE: Final = ("run", "observed", "outside", "anomaly")  # what stands out is drawn last
_REACH: Final = {"anomaly": 1.5, "run": 0.7, "outside": 0.8}
Spot = tuple[float, float]  # size, run time in seconds
Ends = tuple[float, float, float]  # what is told at a size, and the ends of its band
WIDTH: Final = 640
HEIGHT: Final = 380
SMALL_WIDTH: Final = 320
SMALL_HEIGHT: Final = 90
_LEFT, _RIGHT, _TOP, _BOTTOM = 84.0, 14.0, 12.0, 50.0


class Mark(msgspec.Struct, frozen=True):
    """A point beside the curve: what was run, or what stands out; `note` is what a reader is told of it.

    >>> Mark(16.0, 108.0, "anomaly", "50 % too slow").kind
    'anomaly'
    """

    n: float
    run_time_s: float
    kind: Literal["observed", "anomaly", "run", "outside"]
    note: str = ""


def run_times(point: CurvePoint) -> Ends:
    """Return the run time of a point with its band, in seconds.

    >>> from types import SimpleNamespace
    >>> run_times(SimpleNamespace(run_time_s=100.0, low_s=90.0, high_s=110.0))
    (100.0, 90.0, 110.0)
    """
    return point.run_time_s, point.low_s, point.high_s


class Scale(msgspec.Struct, frozen=True):
    """What the axis upwards shows: of a point, in which words, and which of its values get a tick.

    >>> RUN_TIME.words(90.0), RUN_TIME.ticks(45.0, 400.0, 4)
    ('1 min 30 s', [60.0, 120.0, 300.0])
    """

    of: Callable[[CurvePoint], Ends]
    words: Callable[[float], str]
    ticks: Callable[[float, float, int], list[float]]


RUN_TIME: Final = Scale(run_times, duration, duration_ticks)


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be drawn. `title` names the picture for those who do not see it, `description` says what it shows.

    `scale` is what the points are drawn by; marks and truth are in its unit.

    >>> Drawing(title="lammps", description="", unit="nodes", points=()).truth
    ()
    """

    title: str
    description: str
    unit: str
    points: Sequence[CurvePoint]
    marks: Sequence[Mark] = ()
    truth: Sequence[Spot] = ()
    scale: Scale = RUN_TIME
    uprights: Sequence[tuple[float, str]] = ()  # sizes that are marked by a line across, and what they are


def curve_svg(drawing: Drawing) -> str:
    """Return a picture of the curve with axes; without anything to draw, an empty picture with its title.

    >>> point = CurvePoint(n=8.0, run_time_s=130.0, low_s=120.0, high_s=140.0, coverage=0.9, coverage_measured=None,
    ...                    speedup=7.5, efficiency=0.94, extrapolation=1.0, source="observed")
    >>> picture = curve_svg(Drawing(title="<b>", description="One size.", unit="nodes", points=(point,)))
    >>> picture.startswith("<svg"), "&lt;b&gt;" in picture, "<b>" in picture
    (True, True, False)
    """
    x = axis(_sizes(drawing), _LEFT, WIDTH - _RIGHT)
    y = axis(_times(drawing), HEIGHT - _BOTTOM, _TOP)
    body = [] if x is None or y is None else [*_grid(x, y, drawing), *_content(drawing, x, y)]
    return _svg(drawing, WIDTH, HEIGHT, "curve", body)


def small_curve_svg(drawing: Drawing) -> str:
    """Return a small picture of the curve without axes, for a row of a table.

    >>> "<line" in small_curve_svg(Drawing(title="lammps", description="", unit="nodes", points=()))
    False
    """
    x, y = axis(_sizes(drawing), 2.0, SMALL_WIDTH - 2.0), axis(_times(drawing), SMALL_HEIGHT - 2.0, 2.0)
    body = [] if x is None or y is None else _content(drawing, x, y, radius=2.5)
    return _svg(drawing, SMALL_WIDTH, SMALL_HEIGHT, "curve small", body)


def _svg(drawing: Drawing, width: int, height: int, classes: str, body: Sequence[str]) -> str:
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


def _times(drawing: Drawing) -> Iterable[float]:
    for _, (_, low, high) in _spots(drawing):
        yield from (low, high)
    yield from (mark.run_time_s for mark in drawing.marks)
    yield from (run_time_s for _, run_time_s in drawing.truth)


def _grid(x: Axis, y: Axis, drawing: Drawing) -> list[str]:
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
    middle = f'x="{(x.start + x.stop) / 2:.1f}" y="{HEIGHT - 8}"'
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


def _path(spots: Iterable[Spot], x: Axis, y: Axis) -> str:
    return " ".join(f"{x.place(n):.1f},{y.place(run_time_s):.1f}" for n, run_time_s in spots)


def _circle(mark: Mark, x: Axis, y: Axis, radius: float, words: Callable[[float], str]) -> str:
    if not _drawable(mark.n, mark.run_time_s):
        return ""
    told = mark.note or f"{size(mark.n)}: {words(mark.run_time_s)}"
    place = f'cx="{x.place(mark.n):.1f}" cy="{y.place(mark.run_time_s):.1f}"'
    reach = radius * _REACH.get(mark.kind, 1.0)
    return f'<circle class="{mark.kind}" {place} r="{reach:.1f}"><title>{escape(told)}</title></circle>'
