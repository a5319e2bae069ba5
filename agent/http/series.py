"""Values over time as SVG text and as the axes of a chart: dots, a line that rolls over the newest, and what is aimed at."""

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import Final

import msgspec
from markupsafe import Markup

from agent.contracts.moments import rfc3339
from agent.http.plots import Axis, Plot, told
from agent.words import moment

WIDTH: Final = 640
HEIGHT: Final = 240
TICKS: Final = 5
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 12.0, 34.0
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


class Spot(msgspec.Struct, frozen=True):
    """One moment: `value` is a dot, `rolling` a place of the line, None where there is none.

    >>> Spot(0, 0.1, None).value
    0.1
    """

    time_ms: int
    value: float | None
    rolling: float | None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn: spots in the order of time; `top` is the least end of the axis upwards, `aim` a line across.

    >>> Series(label="error", spots=(), words=str).aim is None
    True
    """

    label: str
    spots: Sequence[Spot]
    words: Callable[[float], str]
    top: float = 0.0
    aim: float | None = None


def series_plot(series: Series) -> Plot:
    """Return the chart of a series, with the picture that is seen without script.

    >>> plot = series_plot(Series(label="<b>", spots=(Spot(0, 0.1, None), Spot(60_000, 0.2, 0.15)), words=str))
    >>> plot.picture.count("<circle"), "&lt;b&gt;" in plot.picture
    (2, True)
    """
    values = [value for spot in series.spots for value in (spot.value, spot.rolling) if value is not None]
    high = max([*values, series.top, series.aim or 0.0]) or 1.0
    ups = told(_round_values(high), series.words)
    times = told(_times([spot.time_ms for spot in series.spots]), _clock([spot.time_ms for spot in series.spots]))
    picture = Markup(_svg(series, high, ups, times))  # noqa: S704 -- the text in it is escaped
    return Plot(series.label, picture, Axis("linear", times), Axis("linear", ups), ratio=0.42)


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
