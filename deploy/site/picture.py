"""The picture of the concepts: one prediction of the demo, drawn with the names of its parts.

`python -m deploy.site.picture` lets the demo run for some hours, keeps the prediction of one application in docs/concepts.json
and draws docs/concepts.svg from it; with `--draw` it only draws.
"""

import sys
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from math import log
from typing import Final

import msgspec

from agent.app.demo import Demo
from agent.clock import SystemClock
from deploy.site.sources import DOCS, ROOT
from processors.contracts.names import HORIZONS, horizon_of
from processors.contracts.outputs import CurvePoint, Prediction

MESSAGE: Final = ROOT / DOCS / "concepts.json"
PICTURE: Final = ROOT / DOCS / "concepts.svg"
APPLICATION: Final = "galaxy-merger"
SEED, HOURS = 1, 4

_WIDTH, _HEIGHT = 860.0, 520.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 840.0, 96.0, 410.0
_SHADES: Final = dict(zip(HORIZONS, ("#e3f2f0", "#eef3f2", "#f6f6f4", "#ffffff"), strict=True))
_HORIZON_NAMES: Final = dict(zip(HORIZONS, ("inside", "up to twice", "up to 4 times", "beyond"), strict=True))
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#243038}.q{fill:#5d6b73}.b{font-weight:600}"
    ".axis{stroke:#90a4ae}.mark{stroke:#bf5b17;stroke-width:1.5;stroke-dasharray:5 4}.m{fill:#8f4310}"
)


class Scale:
    """Where values lie: logarithmic, from one end to the other."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self._low, self._span, self._start, self._length = log(low), log(high) - log(low), start, stop - start

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return round(self._start + (log(value) - self._low) / self._span * self._length, 1)


def drawn(prediction: Prediction) -> str:
    """Return the picture of a prediction as SVG."""
    curve = prediction.curve
    x = Scale(curve[0].n, curve[-1].n, _LEFT, _RIGHT)
    y = Scale(min(point.low_s for point in curve) / 1.15, max(point.high_s for point in curve) * 1.1, _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img">',
        f"<title>The prediction of {escape(prediction.application)}, and what its parts are called</title>",
        f'<style>{_STYLE}</style><rect width="{_WIDTH:g}" height="{_HEIGHT:g}" rx="8" fill="#ffffff"/>',
        *_horizons(prediction, x),
        *_axes(prediction, x, y),
        *_band(curve, x, y),
        *_marks(prediction, x),
        *_observed(prediction, x, y),
        *_verdict(prediction, x),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _horizons(prediction: Prediction, x: Scale) -> Iterable[str]:
    """Shade the sizes by how far they lie from those that were run."""
    first, last = min(prediction.sizes), max(prediction.sizes)
    reach = prediction.curve[-1].n
    ends = [end for end in (first, last, 2 * last, 4 * last, reach) if end <= reach]
    for start, stop in pairwise(ends):
        if stop <= start:
            continue
        horizon = horizon_of((start * stop) ** 0.5, first, last)
        yield (
            f'<rect x="{x(start):g}" y="{_TOP:g}" width="{x(stop) - x(start):g}" height="{_BOTTOM - _TOP:g}" '
            f'fill="{_SHADES[horizon]}"/>'
        )
        yield _text((x(start) + x(stop)) / 2, _TOP - 10, f"horizon: {_HORIZON_NAMES[horizon]}", "q", "middle")


def _axes(prediction: Prediction, x: Scale, y: Scale) -> Iterable[str]:
    yield f'<path d="M{_LEFT:g} {_TOP:g}V{_BOTTOM:g}H{_RIGHT:g}" fill="none" class="axis"/>'
    reach, n = prediction.curve[-1].n, prediction.curve[0].n
    while n <= reach:
        yield _text(x(n), _BOTTOM + 18, f"{n:g}", anchor="middle")
        n *= 2
    low_s, high_s = min(point.low_s for point in prediction.curve), max(point.high_s for point in prediction.curve)
    for minutes in (1, 2, 5, 10, 20, 30, 50, 100):
        if low_s <= minutes * 60 <= high_s:
            yield _text(_LEFT - 8, y(minutes * 60.0) + 4, f"{minutes} min", anchor="end")
    yield _text(_LEFT, _TOP - 34, "run time", "b")
    yield _text(_RIGHT, _BOTTOM + 38, f"size, in {prediction.unit}", "b", "end")


def _band(curve: Sequence[CurvePoint], x: Scale, y: Scale) -> Iterable[str]:
    there = [f"{x(point.n):g},{y(point.high_s):g}" for point in curve]
    back = [f"{x(point.n):g},{y(point.low_s):g}" for point in reversed(curve)]
    line = " ".join(f"{x(point.n):g},{y(point.run_time_s):g}" for point in curve)
    yield f'<polygon points="{" ".join(there + back)}" fill="#00796b" fill-opacity=".22"/>'
    yield f'<polyline points="{line}" fill="none" stroke="#00796b" stroke-width="2.5"/>'
    widest = curve[-2]
    yield _text(x(widest.n), y(widest.high_s) - 12, f"band: aims at {widest.coverage:.0%} of runs", "b", "middle")
    judged = next((point for point in curve[2:] if point.coverage_measured is not None), None)
    if judged is not None:
        text = f"coverage: {judged.coverage_measured:.0%}, measured on {judged.coverage_runs} runs"
        yield _text(_LEFT + 12, _BOTTOM - 40, text, "b")


def _marks(prediction: Prediction, x: Scale) -> Iterable[str]:
    """Draw the sizes that advice names."""
    useful = prediction.useful_n
    for name, n, height in (("knee", useful.knee, 8.0), ("useful up to", useful.max, 26.0)):
        if n is not None:
            yield f'<path d="M{x(n):g} {_TOP:g}V{_BOTTOM:g}" class="mark"/>'
            yield _text(x(n) + 5, _TOP + 12 + height, f"{name} {n:g}", "b m")


def _observed(prediction: Prediction, x: Scale, y: Scale) -> Iterable[str]:
    for point in prediction.curve:
        if point.n in prediction.sizes:
            yield f'<circle cx="{x(point.n):g}" cy="{y(point.run_time_s):g}" r="5" fill="#004d40"/>'
    first = next(point for point in prediction.curve if point.n in prediction.sizes[1:])
    yield _text(x(first.n) + 10, y(first.run_time_s) - 8, "a size that was run", "b")


def _verdict(prediction: Prediction, x: Scale) -> Iterable[str]:
    reliable = prediction.reliable_n
    height = _BOTTOM + 56
    if reliable is not None:
        yield f'<path d="M{x(reliable.min):g} {height:g}H{x(reliable.max):g}" stroke="#00796b" stroke-width="6"/>'
        yield _text(x(reliable.max) + 8, height + 5, f"reliable from {reliable.min:g} to {reliable.max:g}", "b")
    verdict = prediction.reliability
    next_n = "" if verdict.next_n is None else f"; next to run: {verdict.next_n:g}"
    yield _text(_LEFT, height + 30, f"verdict of the whole curve: {verdict.verdict.replace('_', ' ')}{next_n}", "b m")


def predicted() -> Prediction:
    """Return what the demo predicts of its application after some hours."""
    demo = Demo(seed=SEED, speed=1.0, clock=SystemClock())
    try:
        for hour in range(1, HOURS + 1):
            demo.advance(hour * 3600.0)
        return next(found for found in demo.service.predictions() if found.application == APPLICATION)
    finally:
        demo.close()


if __name__ == "__main__":
    if "--draw" not in sys.argv:
        MESSAGE.write_bytes(msgspec.json.format(msgspec.json.encode(predicted()), indent=1) + b"\n")
    PICTURE.write_text(drawn(msgspec.json.decode(MESSAGE.read_bytes(), type=Prediction)))
