"""Histograms as SVG text: what a host measured, or how long a run takes under the load of its hosts."""

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import Final

import msgspec

from agent.words import share

WIDTH: Final = 640
HEIGHT: Final = 240
SMALL_WIDTH: Final = 120
SMALL_HEIGHT: Final = 28
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 12.0, 34.0
_POINT_SHARE: Final = 0.06  # of the width: the bar of samples that are all alike
_GAP: Final = 1.0
_WORTH: Final = 1e15  # larger numbers have no place on a linear axis of floats that a browser reads


class Marker(msgspec.Struct, frozen=True):
    """A value to be shown as a line across, and what it is: a class of the style sheet and words for people.

    >>> Marker(0.8, "mean", "mean 0.8").kind
    'mean'
    """

    value: float
    kind: str
    note: str


class Bars(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be drawn: `edges` has one more element than `shares`, or one each where all samples are alike.

    `label` writes a value on the axis. `title` names the picture for those who do not see it.

    >>> Bars(title="load", description="", edges=(0.0, 1.0), shares=(1.0,), label=str).markers
    ()
    """

    title: str
    description: str
    edges: Sequence[float]
    shares: Sequence[float]
    label: Callable[[float], str]
    markers: Sequence[Marker] = ()


def histogram_svg(bars: Bars) -> str:
    """Return a picture with axes; without anything to draw, an empty picture with its title.

    >>> picture = histogram_svg(Bars(title="<b>", description="", edges=(0, 1, 2), shares=(0.5, 0.5), label=str))
    >>> picture.count("<rect"), "&lt;b&gt;" in picture, "<b>" in picture
    (2, True, False)
    """
    place = _Place.of(bars, (_LEFT, WIDTH - _RIGHT), (HEIGHT - _BOTTOM, _TOP))
    body = [] if place is None else [*_grid(bars, place), *_columns(bars, place), *_lines(bars, place)]
    return _svg(bars, WIDTH, HEIGHT, "curve", body)


def small_histogram_svg(bars: Bars) -> str:
    """Return a small picture without axes, for a row of a table.

    >>> "<text" in small_histogram_svg(Bars(title="load", description="", edges=(1.0,), shares=(1.0,), label=str))
    False
    """
    place = _Place.of(bars, (1.0, SMALL_WIDTH - 1.0), (SMALL_HEIGHT - 1.0, 1.0))
    body = [] if place is None else [*_base(place), *_columns(bars, place)]
    return _svg(bars, SMALL_WIDTH, SMALL_HEIGHT, "curve bars", body)


def intervals(edges: Sequence[float], shares: Sequence[float]) -> list[tuple[float, float, float]]:
    """Return low, high and share of each interval; samples that are all alike have one interval without width.

    >>> intervals((0.0, 1.0, 2.0), (0.25, 0.75)), intervals((3.0,), (1.0,)), intervals((), ())
    ([(0.0, 1.0, 0.25), (1.0, 2.0, 0.75)], [(3.0, 3.0, 1.0)], [])
    """
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


def _svg(bars: Bars, width: int, height: int, classes: str, body: Sequence[str]) -> str:
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
