"""What the page of an application shows of power and energy: pictures, the sentence about energy, and what explains it."""

from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from agent import words
from agent.contracts.outputs import CurvePoint, Prediction
from agent.contracts.quality import PowerQuality, ProfileModel
from agent.http.axes import drawable, powers
from agent.http.curves import Drawing, Ends, Scale, curve_svg
from agent.http.plots import Axis, Plot
from agent.http.plots import told as told_apart
from agent.words import size

NOTHING: Final = (0.0, 0.0, 0.0)  # has no place on a logarithmic axis
COUNTERS_SHOWN: Final = 8  # of one target


class PowerView(msgspec.Struct, frozen=True):
    """Power and energy of an application: two charts, the points that have them, and words."""

    power: Plot
    energy: Plot
    points: Sequence[CurvePoint]
    advice: str
    quality: PowerQuality | None


class ExplainedView(msgspec.Struct, frozen=True):
    """What counters say of one target, with at most COUNTERS_SHOWN of them."""

    name: str
    model: ProfileModel
    counters: int


def power_view(entry: Prediction) -> PowerView | None:
    """Return what to show of power; None where it was never measured.

    >>> from types import SimpleNamespace
    >>> power_view(SimpleNamespace(curve=())) is None
    True
    """
    points = [point for point in entry.curve if point.power_w is not None]
    if not points:
        return None
    return PowerView(
        _plot(entry, "Power", POWER),
        _plot(entry, "Energy of a run", ENERGY),
        points,
        words.energy_advice(relied_on(entry), entry.useful_n, entry.unit),
        entry.power,
    )


def explained_views(models: Sequence[ProfileModel]) -> list[ExplainedView]:
    """Return what counters say of each target.

    >>> explained_views([ProfileModel(target="system_power_w", model="linear", runs=40, scored=30)])[0].name
    'system power per host'
    """
    return [
        ExplainedView(
            TARGETS.get(model.target, model.target),
            msgspec.structs.replace(model, explained=model.explained[:COUNTERS_SHOWN]),
            len(model.explained),
        )
        for model in models
    ]


def relied_on(entry: Prediction) -> list[CurvePoint]:
    """Return the points of a curve that can be relied on: among the sizes that were run, or told to be reliable.

    >>> from types import SimpleNamespace
    >>> relied_on(SimpleNamespace(curve=(), reliable_n=None))
    []
    """
    reliable = entry.reliable_n
    return [
        point
        for point in entry.curve
        if point.source in words.INSIDE or (reliable is not None and reliable.min <= point.n <= reliable.max)
    ]


TARGETS: Final = {
    "run_time_s": "run time",
    "system_power_w": "system power per host",
    "cpu_power_w": "processor power per host",
    "memory_power_w": "memory power per host",
    "gpu_power_w": "GPU power per host",
}


def _powers(point: CurvePoint) -> Ends:
    return _known(point.power_w, point.power_low_w, point.power_high_w)


def _energies(point: CurvePoint) -> Ends:
    return _known(point.energy_j, point.energy_low_j, point.energy_high_j)


def _known(middle: float | None, low: float | None, high: float | None) -> Ends:
    return NOTHING if middle is None or low is None or high is None else (middle, low, high)


def _ticks(low: float, high: float, count_max: int) -> list[float]:
    """Return round values in a range: powers of ten, those of two where these are too few."""
    tens = powers(low, high, 10, count_max)
    return tens if len(tens) > 2 else powers(low, high, 2, count_max)


POWER: Final = Scale(_powers, words.power, _ticks)
ENERGY: Final = Scale(_energies, words.energy, _ticks)


def _plot(entry: Prediction, what: str, scale: Scale) -> Plot:
    drawing = Drawing(
        title=f"{what} of {entry.application} against {entry.unit}",
        description=f"{what} with its 90 % band, on logarithmic axes; the table has every value.",
        unit=entry.unit,
        points=entry.curve,
        scale=scale,
    )
    ends = [scale.of(point) for point in entry.curve]
    values = [value for told in ends for value in told if drawable(value)]
    sizes = [point.n for point, told in zip(entry.curve, ends, strict=True) if all(map(drawable, (point.n, *told)))]
    return Plot(
        drawing.title,
        Markup(curve_svg(drawing)),  # noqa: S704 -- curves.py escapes
        Axis("log", told_apart(powers(min(sizes), max(sizes), 2, 12), size) if sizes else ()),
        Axis("log", told_apart(scale.ticks(min(values), max(values), 8), scale.words) if values else ()),
    )
