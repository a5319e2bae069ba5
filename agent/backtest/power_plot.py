"""The picture of predicted against measured power."""

from collections.abc import Sequence
from html import escape
from typing import Final

from agent.backtest.plots import SQUARE, grid_y, picture
from agent.backtest.report import Drawn
from agent.backtest.scales import Scale
from agent.http.axes import axis, drawable
from agent.words import power

TICKS: Final = (1.0, 2.0, 5.0)
TICKS_MAX: Final = 6
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 32.0, 14.0, 50.0


def power_said(sample: Sequence[Drawn]) -> str:
    """Return measured power against that which was said at the start, with bands; on the diagonal both are equal.

    >>> power_said([Drawn(400.0, 380.0, 420.0, 410.0)]).count("<circle"), power_said([]).count("<circle")
    (1, 0)
    """
    told = "Measured mean power of all hosts of a run against that which was said at its start, with 90 % bands."
    drawn = [run for run in sample if all(map(drawable, (run.said_w, run.low_w, run.high_w, run.measured_w)))]
    shown = axis((watts for run in drawn for watts in (run.said_w, run.measured_w)), 0.0, 1.0)
    if shown is None:
        return picture("Power", told, [], SQUARE, SQUARE)
    x = Scale(shown.low, shown.high, _LEFT, SQUARE - _RIGHT, logarithmic=True)
    y = Scale(shown.low, shown.high, SQUARE - _BOTTOM, _TOP, logarithmic=True)
    ticks = [(tick, power(tick)) for tick in watt_ticks(shown.low, shown.high)]
    body = [*grid_y(y, ticks, SQUARE), *_across(x, ticks), _diagonal(x, y)]
    body += [part for run in drawn for part in _spot(run, x, y)]
    return picture("Power", told, body, SQUARE, SQUARE)


def watt_ticks(low: float, high: float) -> list[float]:
    """Return round numbers of a range, at most TICKS_MAX.

    >>> watt_ticks(300.0, 15_000.0)
    [500.0, 1000.0, 2000.0, 5000.0, 10000.0]
    """
    found = [step * 10.0**decade for decade in range(-3, 13) for step in TICKS if low <= step * 10.0**decade <= high]
    return found[:: -(-len(found) // TICKS_MAX) or 1]


def _across(x: Scale, ticks: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    for value, label in ticks:
        at = f"{x.place(value):.1f}"
        parts.append(f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{SQUARE - _BOTTOM}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{SQUARE - _BOTTOM + 18}" text-anchor="middle">{label}</text>')
    middle = f'x="{(_LEFT + SQUARE - _RIGHT) / 2}" y="{SQUARE - 8}"'
    return [*parts, f'<text class="axis" {middle} text-anchor="middle">said at the start</text>']


def _diagonal(x: Scale, y: Scale) -> str:
    ends = f'x1="{x.place(x.low):.1f}" y1="{y.place(y.low):.1f}" x2="{x.place(x.high):.1f}" y2="{y.place(y.high):.1f}"'
    return f'<line class="target" {ends}/>'


def _spot(run: Drawn, x: Scale, y: Scale) -> list[str]:
    """Return the spot of a run; its band lies across, and reaches the diagonal where it holds what was measured."""
    at, low, high = (x.place(min(max(watts, x.low), x.high)) for watts in (run.said_w, run.low_w, run.high_w))
    up = f"{y.place(run.measured_w):.1f}"
    note = escape(f"{power(run.said_w)} said, {power(run.measured_w)} measured")
    return [
        f'<line class="observed bar thin" x1="{low:.1f}" y1="{up}" x2="{high:.1f}" y2="{up}"/>',
        f'<circle class="observed whole" cx="{at:.1f}" cy="{up}" r="2.6"><title>{note}</title></circle>',
    ]
