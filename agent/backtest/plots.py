"""Pictures of a report as SVG text: errors and coverage over time, coverage by horizon, reliability, curves."""

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta
from html import escape
from typing import Final

import msgspec

from agent.backtest.report import Application, Drawn, Frequency, Period, Row
from processors.contracts.names import parse_rfc3339, rfc3339
from sinks.web.charts import Drawing, Mark, axis, curve_svg, drawable
from sinks.web.words import counted, duration, power, share, size

# Scales of pictures: where a value lies, and which values get a tick.


Spot = tuple[float, float]
_TICKS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_TICKS_MAX: Final = 7
_DATES: Final = 5
_TIDY_MS: Final = tuple(
    minutes * 60_000 for minutes in (5, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080, 20_160, 43_200, 86_400, 129_600, 259_200, 525_600)
)  # fmt: skip


class Scale(msgspec.Struct, frozen=True):
    """A scale from `low` at pixel `start` to `high` at pixel `stop`."""

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.start + (at - low) / (high - low) * (self.stop - self.start)


def percent_ticks(low: float, high: float) -> list[float]:
    """Return shares that people count in, inside a range; evenly fewer where they are many."""
    if high > _TICKS[-1] * 10 or low < _TICKS[0] / 10:
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        tens = [10.0**exponent for exponent in range(first, last + 1)]
        return tens[:: max(1, math.ceil(len(tens) / _TICKS_MAX))]
    found = [tick for tick in _TICKS if low <= tick <= high]
    return found[:: max(1, math.ceil(len(found) / _TICKS_MAX))]


def percent(tick: float) -> str:
    """Return the label of a tick: per cent, a multiple from 10 on."""
    return f"{tick:g}x" if tick >= 10 else f"{100 * tick:g} %"


def dated(low_ms: float, high_ms: float, *, clock: bool) -> list[tuple[float, str]]:
    """Return some times inside a range with their dates, or times of the day."""
    step = next((tidy for tidy in _TIDY_MS if (high_ms - low_ms) / tidy <= _DATES), _TIDY_MS[-1])
    step *= math.ceil((high_ms - low_ms) / (step * (_DATES + 1)))
    ticks = range(math.ceil(low_ms / step) * step, math.floor(high_ms) + 1, step)
    cut = slice(11, 16) if clock else slice(10)
    return [(float(tick), rfc3339(tick)[cut]) for tick in ticks]


WIDTH: Final = 640
HEIGHT: Final = 300
SQUARE: Final = 380
TARGET: Final = 0.9
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 32.0, 14.0, 34.0
_DAY_MS: Final = timedelta(days=1) // timedelta(milliseconds=1)


class Line(msgspec.Struct, frozen=True):
    """A line of a picture: its class, its spots, and a gap where a spot is None."""

    kind: str
    spots: Sequence[Spot | None]


def errors_over_time(periods: Sequence[Period]) -> str:
    """Return the median errors of what was said and of the baselines, on a logarithmic scale."""
    lines = [
        Line("other", _over(periods, [period.requested_median_error for period in periods])),
        Line("truth", _over(periods, [period.last_two_median_error for period in periods])),
        Line("line", _over(periods, [period.row.figures.median_error for period in periods])),
    ]
    shown = axis((spot[1] for line in lines for spot in line.spots if spot), HEIGHT - _BOTTOM, _TOP)
    if shown is None:
        return picture("Median error over time", "Nothing was said of any run.", [])
    x, y = _time_scale(periods), Scale(shown.low, shown.high, shown.start, shown.stop, logarithmic=True)
    body = [*grid_y(y, [(tick, percent(tick)) for tick in percent_ticks(y.low, y.high)]), *_grid_time(x)]
    return picture(
        "Median error over time",
        "Median relative error of completed runs by the time of their start; less is better.",
        [*body, *(part for line in lines for part in _drawn(line, x, y))],
    )


def coverage_over_time(periods: Sequence[Period]) -> str:
    """Return the share of runs inside their bands with its interval, and the share of runs of which something was said."""
    if not periods:
        return picture("Coverage over time", "There is no run.", [])
    x, y = _time_scale(periods), _shares()
    figures = [period.row.figures for period in periods]
    upper = _over(periods, [found.coverage_high for found in figures])
    lower = _over(periods, [found.coverage_low for found in figures])
    body = [*grid_y(y, _SHARE_TICKS), *_grid_time(x), *_target(y)]
    body += [_area(pair, x, y) for pair in _stretches(upper, lower)]
    body += _drawn(Line("other", _over(periods, [period.row.answered for period in periods])), x, y)
    body += _drawn(Line("line", _over(periods, [found.coverage_90 for found in figures])), x, y)
    told = (
        "Share of completed runs inside the 90 % band said at their start, with its 95 % interval, and share answered."
    )
    return picture("Coverage over time", told, body)


def coverage_by_horizon(rows: Sequence[Row]) -> str:
    """Return coverage with its interval by how far the size lay beyond what was known."""
    y, body = _shares(), []
    if rows:
        body = [*grid_y(y, _SHARE_TICKS), *_target(y)]
    step = (WIDTH - _LEFT - _RIGHT) / max(len(rows), 1)
    for place, row in enumerate(rows):
        at, found = _LEFT + (place + 0.5) * step, row.figures
        label = f"{horizon_words(row.name)} ({row.runs})"
        body.append(f'<text class="tick" x="{at:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(label)}</text>')
        if found.coverage_90 is not None and found.coverage_low is not None and found.coverage_high is not None:
            ends = (y.place(found.coverage_low), y.place(found.coverage_high))
            note = f"{horizon_words(row.name)}: {share(found.coverage_90)} of {counted(found.scored, 'run')}"
            body += _with_bar(at, y.place(found.coverage_90), ends, "observed", note)
    return picture("Coverage by horizon", "Share of runs inside the 90 % band, with its 95 % interval.", body)


def reliability(quantiles: Sequence[Frequency], limit: Sequence[Frequency]) -> str:
    """Return how often what was predicted with a probability came true; on the diagonal both are equal."""
    bottom, top = SQUARE - 50.0, _TOP
    x, y = Scale(-0.04, 1.04, _LEFT, SQUARE - _RIGHT), Scale(-0.04, 1.04, bottom, top)
    body = grid_y(y, _SHARE_TICKS, SQUARE)
    for value, label in _SHARE_TICKS:
        at = f"{x.place(value):.1f}"
        body.append(f'<line class="grid" x1="{at}" y1="{top}" x2="{at}" y2="{bottom}"/>')
        body.append(f'<text class="tick" x="{at}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    ends = f'x1="{x.place(0):.1f}" y1="{y.place(0):.1f}" x2="{x.place(1):.1f}" y2="{y.place(1):.1f}"'
    body.append(f'<line class="target" {ends}/>')
    middle = f'x="{(_LEFT + SQUARE - _RIGHT) / 2}" y="{SQUARE - 8}"'
    body.append(f'<text class="axis" {middle} text-anchor="middle">predicted probability</text>')
    for kind, told in (("limit", limit), ("observed", quantiles)):
        for found in told:
            note = f"{share(found.predicted)} predicted, {share(found.observed)} of {counted(found.runs, 'run')}"
            edges = (y.place(found.low), y.place(found.high))
            body += _with_bar(x.place(found.predicted), y.place(found.observed), edges, kind, note)
    told_as = "Observed frequency against predicted probability, with 95 % intervals."
    return picture("Reliability diagram", told_as, body if quantiles or limit else [], SQUARE, SQUARE)


def curve(application: Application) -> str:
    """Return the curve that was published last, its band, and a sample of the runs."""
    runs = [
        Mark(run.n, run.run_time_s, "observed", f"{size(run.n)}: {duration(run.run_time_s)}")
        for run in application.observed
    ]
    return curve_svg(
        Drawing(
            title=f"{application.row.name}: run time against {application.unit}",
            description="The curve and band that were published last, and a sample of the runs, on logarithmic axes.",
            unit=application.unit,
            points=application.curve,
            marks=runs,
        )
    )


def horizon_words(name: str) -> str:
    """Return a horizon as it is written for people."""
    return name.replace("_", " ")


_SHARE_TICKS: Final = tuple((tick / 4, f"{25 * tick} %") for tick in range(5))


def _shares() -> Scale:
    return Scale(-0.02, 1.02, HEIGHT - _BOTTOM, _TOP)


def _time_scale(periods: Sequence[Period]) -> Scale:
    first, last = parse_rfc3339(periods[0].start), parse_rfc3339(periods[-1].end)
    return Scale(first, max(last, first + 1), _LEFT, WIDTH - _RIGHT)


def _over(periods: Sequence[Period], values: Sequence[float | None]) -> list[Spot | None]:
    """Return a spot in the middle of each period, None where there is no value, and in a gap between periods."""
    spots: list[Spot | None] = []
    end = None
    for period, value in zip(periods, values, strict=True):
        if end is not None and period.start != end:
            spots.append(None)
        end = period.end
        middle = (parse_rfc3339(period.start) + parse_rfc3339(period.end)) / 2
        spots.append(None if value is None else (middle, max(value, 1e-3)))
    return spots


def _drawn(line: Line, x: Scale, y: Scale) -> list[str]:
    parts = []
    for spots in _runs(line.spots):
        if len(spots) > 1:
            parts.append(f'<polyline class="{line.kind}" points="{_path(spots, x, y)}"/>')
        else:
            at = f'cx="{x.place(spots[0][0]):.1f}" cy="{y.place(spots[0][1]):.1f}"'
            parts.append(f'<circle class="{line.kind} alone" {at} r="2"/>')
    return parts


def _runs(spots: Iterable[Spot | None]) -> list[list[Spot]]:
    found: list[list[Spot]] = [[]]
    for spot in spots:
        if spot is None:
            found.append([])
        else:
            found[-1].append(spot)
    return [run for run in found if run]


def _stretches(upper: Sequence[Spot | None], lower: Sequence[Spot | None]) -> list[tuple[list[Spot], list[Spot]]]:
    return list(zip(_runs(upper), _runs(lower), strict=True))


def _area(edges: tuple[list[Spot], list[Spot]], x: Scale, y: Scale) -> str:
    upper, lower = edges
    return f'<polygon class="band" points="{_path([*upper, *reversed(lower)], x, y)}"/>'


def _path(spots: Iterable[Spot], x: Scale, y: Scale) -> str:
    return " ".join(f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in spots)


def _target(y: Scale) -> list[str]:
    at = f"{y.place(TARGET):.1f}"
    return [f'<line class="target" x1="{_LEFT}" y1="{at}" x2="{WIDTH - _RIGHT}" y2="{at}"/>']


def _with_bar(x: float, y: float, ends: tuple[float, float], kind: str, note: str) -> list[str]:
    bar = f'<line class="{kind} bar" x1="{x:.1f}" y1="{ends[0]:.1f}" x2="{x:.1f}" y2="{ends[1]:.1f}"/>'
    return [
        bar,
        f'<circle class="{kind} whole" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{escape(note)}</title></circle>',
    ]


def grid_y(y: Scale, ticks: Iterable[tuple[float, str]], width: int = WIDTH) -> list[str]:
    """Return lines across a picture with their labels."""
    parts = []
    for value, label in ticks:
        at = f"{y.place(value):.1f}"
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{at}" x2="{width - _RIGHT}" y2="{at}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{at}" dy="0.35em" text-anchor="end">{label}</text>')
    return parts


def _grid_time(x: Scale) -> list[str]:
    parts = []
    for time_ms, label in dated(x.low, x.high, clock=x.high - x.low < 3 * _DAY_MS):
        at = f"{x.place(time_ms):.1f}"
        parts.append(f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{HEIGHT - 12}" text-anchor="middle">{label}</text>')
    return parts


def picture(title: str, told: str, body: Sequence[str], width: int = WIDTH, height: int = HEIGHT) -> str:
    """Return a picture as SVG; it says so where there is nothing to draw."""
    head = f'<svg class="curve plot{" square" if width == height else ""}" role="img" viewBox="0 0 {width} {height}"><title>{title}</title><desc>{told}</desc>'
    empty = f'<text class="axis" x="{width / 2}" y="{height / 2}" text-anchor="middle">nothing to show</text>'
    return head + ("".join(body) or empty) + "</svg>"


# The picture of predicted against measured power.


TICKS: Final = (1.0, 2.0, 5.0)
TICKS_MAX: Final = 6
_POWER_LEFT, _POWER_RIGHT, _POWER_TOP, _POWER_BOTTOM = 64.0, 32.0, 14.0, 50.0


def power_said(sample: Sequence[Drawn]) -> str:
    """Return measured power against that which was said at the start, with bands; on the diagonal both are equal."""
    told = "Measured mean power of all hosts of a run against that which was said at its start, with 90 % bands."
    drawn = [run for run in sample if all(map(drawable, (run.said_w, run.low_w, run.high_w, run.measured_w)))]
    shown = axis((watts for run in drawn for watts in (run.said_w, run.measured_w)), 0.0, 1.0)
    if shown is None:
        return picture("Power", told, [], SQUARE, SQUARE)
    x = Scale(shown.low, shown.high, _POWER_LEFT, SQUARE - _POWER_RIGHT, logarithmic=True)
    y = Scale(shown.low, shown.high, SQUARE - _POWER_BOTTOM, _POWER_TOP, logarithmic=True)
    ticks = [(tick, power(tick)) for tick in watt_ticks(shown.low, shown.high)]
    body = [*grid_y(y, ticks, SQUARE), *_across(x, ticks), _diagonal(x, y)]
    body += [part for run in drawn for part in _spot(run, x, y)]
    return picture("Power", told, body, SQUARE, SQUARE)


def watt_ticks(low: float, high: float) -> list[float]:
    """Return round numbers of a range, at most TICKS_MAX."""
    found = [step * 10.0**decade for decade in range(-3, 13) for step in TICKS if low <= step * 10.0**decade <= high]
    return found[:: -(-len(found) // TICKS_MAX) or 1]


def _across(x: Scale, ticks: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    for value, label in ticks:
        at = f"{x.place(value):.1f}"
        parts.append(f'<line class="grid" x1="{at}" y1="{_POWER_TOP}" x2="{at}" y2="{SQUARE - _POWER_BOTTOM}"/>')
        parts.append(
            f'<text class="tick" x="{at}" y="{SQUARE - _POWER_BOTTOM + 18}" text-anchor="middle">{label}</text>'
        )
    middle = f'x="{(_POWER_LEFT + SQUARE - _POWER_RIGHT) / 2}" y="{SQUARE - 8}"'
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
