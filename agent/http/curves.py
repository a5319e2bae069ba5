"""Scaling curves as SVG text: log-log axes, the band, sizes that were run, anomalies, and the truth where it is known."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, Literal

import msgspec

from agent.contracts.outputs import CurvePoint
from agent.http.axes import Axis, axis, drawable, duration_ticks, powers
from agent.words import duration, size

Spot = tuple[float, float]  # size, run time in seconds
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
    kind: Literal["observed", "anomaly"]
    note: str = ""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be drawn. `title` names the picture for those who do not see it, `description` says what it shows.

    >>> Drawing(title="lammps", description="", unit="nodes", points=()).truth
    ()
    """

    title: str
    description: str
    unit: str
    points: Sequence[CurvePoint]
    marks: Sequence[Mark] = ()
    truth: Sequence[Spot] = ()


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
    body = [] if x is None or y is None else [*_grid(x, y, drawing.unit), *_content(drawing, x, y)]
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


def _spots(drawing: Drawing) -> list[CurvePoint]:
    return [point for point in drawing.points if _drawable(point.n, point.low_s, point.run_time_s, point.high_s)]


def _sizes(drawing: Drawing) -> Iterable[float]:
    yield from (point.n for point in _spots(drawing))
    yield from (mark.n for mark in drawing.marks)


def _times(drawing: Drawing) -> Iterable[float]:
    for point in _spots(drawing):
        yield from (point.low_s, point.high_s)
    yield from (mark.run_time_s for mark in drawing.marks)
    yield from (run_time_s for _, run_time_s in drawing.truth)


def _grid(x: Axis, y: Axis, unit: str) -> list[str]:
    parts = []
    for n in powers(x.low, x.high, 2, 10):
        at = f"{x.place(n):.1f}"
        parts.append(f'<line class="grid" x1="{at}" y1="{y.stop:.1f}" x2="{at}" y2="{y.start:.1f}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{y.start + 18:.1f}" text-anchor="middle">{size(n)}</text>')
    for run_time_s in duration_ticks(y.low, y.high, 8):
        at = f"{y.place(run_time_s):.1f}"
        parts.append(f'<line class="grid" x1="{x.start:.1f}" y1="{at}" x2="{x.stop:.1f}" y2="{at}"/>')
        label = f'<text class="tick" x="{x.start - 8:.1f}" y="{at}" dy="0.35em" text-anchor="end">'
        parts.append(f"{label}{duration(run_time_s)}</text>")
    middle = f'x="{(x.start + x.stop) / 2:.1f}" y="{HEIGHT - 8}"'
    parts.append(f'<text class="axis" {middle} text-anchor="middle">{escape(unit)}</text>')
    return parts


def _content(drawing: Drawing, x: Axis, y: Axis, radius: float = 4.0) -> list[str]:
    points = _spots(drawing)
    upper = [(point.n, point.high_s) for point in points]
    lower = [(point.n, point.low_s) for point in reversed(points)]
    truth = [(n, run_time_s) for n, run_time_s in drawing.truth if _drawable(n, run_time_s)]
    parts = []
    if points:
        parts.append(f'<polygon class="band" points="{_path([*upper, *lower], x, y)}"/>')
        parts.append(f'<polyline class="line" points="{_path([(p.n, p.run_time_s) for p in points], x, y)}"/>')
    if truth:
        parts.append(f'<polyline class="truth" points="{_path(truth, x, y)}"/>')
    observed = [Mark(point.n, point.run_time_s, "observed") for point in points if point.source == "observed"]
    parts += [_circle(mark, x, y, radius) for mark in (*observed, *drawing.marks)]
    return parts


def _path(spots: Iterable[Spot], x: Axis, y: Axis) -> str:
    return " ".join(f"{x.place(n):.1f},{y.place(run_time_s):.1f}" for n, run_time_s in spots)


def _circle(mark: Mark, x: Axis, y: Axis, radius: float) -> str:
    if not _drawable(mark.n, mark.run_time_s):
        return ""
    told = mark.note or f"{size(mark.n)}: {duration(mark.run_time_s)}"
    place = f'cx="{x.place(mark.n):.1f}" cy="{y.place(mark.run_time_s):.1f}"'
    reach = radius * (1.5 if mark.kind == "anomaly" else 1.0)
    return f'<circle class="{mark.kind}" {place} r="{reach:.1f}"><title>{escape(told)}</title></circle>'
