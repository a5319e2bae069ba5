"""Runs that settled of late, as the page of an application shows them: against their bands, and how right it was over time."""

from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Final, Literal

import msgspec
from markupsafe import Markup

from processors.contracts.load import LoadHistogram, UnderLoad
from processors.contracts.names import rfc3339
from processors.contracts.outputs import (
    Alert,
    CurvePoint,
    PowerQuality,
    Prediction,
    ProfileModel,
    RecentRun,
    UsefulSizes,
)
from sinks.web import charts, words
from sinks.web.access import Reader
from sinks.web.charts import (
    Bars,
    Drawing,
    Ends,
    Mark,
    Marker,
    Plot,
    PlotAxis,
    Scale,
    Series,
    Spot,
    curve_svg,
    drawable,
    histogram_svg,
    intervals,
    powers,
    series_plot,
)
from sinks.web.charts import told as told_apart
from sinks.web.links import Truth
from sinks.web.views import overview
from sinks.web.words import duration, moment, share, size

# What the page of an application shows of power and energy: pictures, the sentence about energy, and what explains it.


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
    """Return what to show of power; None where it was never measured."""
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
    """Return what counters say of each target."""
    return [
        ExplainedView(
            TARGETS.get(model.target, model.target),
            msgspec.structs.replace(model, explained=model.explained[:COUNTERS_SHOWN]),
            len(model.explained),
        )
        for model in models
    ]


def relied_on(entry: Prediction) -> list[CurvePoint]:
    """Return the points of a curve that can be relied on: among the sizes that were run, or told to be reliable."""
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
        PlotAxis("log", told_apart(powers(min(sizes), max(sizes), 2, 12), size) if sizes else ()),
        PlotAxis("log", told_apart(scale.ticks(min(values), max(values), 8), scale.words) if values else ()),
    )


# What the pages show of run times under load: words, and the histogram as a finished picture.


class LoadView(msgspec.Struct, frozen=True):
    """A run time under load as it is shown; `picture` is None where too little is known to draw."""

    told: UnderLoad
    plot: Plot | None
    bounds: Sequence[tuple[float, float, float]]
    markers: Sequence[tuple[float, str]]
    intervals: Sequence[tuple[str, str, float]]
    windows: str


def load_view(name: str, told: UnderLoad | None, plain_s: float | None = None) -> LoadView | None:
    """Return what to show of an application or a job, None where nothing was told; `plain_s` is what its curve says."""
    if told is None:
        return None
    histogram = told.histogram
    shown = intervals(*_of(histogram)) if histogram else []
    return LoadView(
        told,
        _load_plot(name, told, histogram, plain_s) if histogram else None,
        shown,
        [(marker.value, marker.note) for marker in _markers(told, plain_s)],
        [(duration(low), duration(high), mass) for low, high, mass in shown],
        _windows(told),
    )


def _of(histogram: LoadHistogram) -> tuple[Sequence[float], Sequence[float]]:
    """Return edges and shares; a certain value, which has two edges alike, has one of each."""
    edges, shares = histogram.edges_s, histogram.probabilities
    return (edges[:1], (1.0,)) if edges and edges[0] == edges[-1] else (edges, shares)


def _markers(told: UnderLoad, plain_s: float | None) -> list[Marker]:
    markers = [] if told.q50_s is None else [Marker(told.q50_s, "line", f"median {duration(told.q50_s)}")]
    if plain_s is not None:
        markers.append(Marker(plain_s, "forecast", f"its curve says {duration(plain_s)}"))
    return markers


def _load_plot(name: str, told: UnderLoad, histogram: LoadHistogram, plain_s: float | None) -> Plot:
    edges, shares = _of(histogram)
    bars = Bars(
        title=f"Run time of {name} under the load of {told.hosts}",
        description="Probabilities of run times; the table has every value.",
        edges=edges,
        shares=shares,
        label=duration,
        markers=_markers(told, plain_s),
    )
    top = max(shares, default=1.0)
    return Plot(
        bars.title,
        Markup(histogram_svg(bars)),  # noqa: S704 -- histograms.py escapes
        PlotAxis("linear", told_apart(sorted(edges), duration)),
        PlotAxis("linear", told_apart([0.0, top / 2, top], share)),
        ratio=0.42,
    )


def _windows(told: UnderLoad) -> str:
    parts = [f"{told.looked_at} windows looked at"]
    parts += [
        f"{count} {what}"
        for count, what in ((told.missing, "missing"), (told.stale, "stale"), (told.thin, "thin"))
        if count
    ]
    return ", ".join(parts)


RUNS_SHOWN: Final = 120
ROLLING: Final = 20  # runs, over which error and coverage are told
ROLLING_MIN: Final = 5
COMPLETED: Final = "COMPLETED"


class RunRow(msgspec.Struct, frozen=True):
    """A run in the table: `job` is "" where the reader may not know whose it is, `kind` how its dot looks, "" without one."""

    run: RecentRun
    job: str
    kind: str
    ended: str
    predicted: str
    verdict: str
    words: str


class History(msgspec.Struct, frozen=True):
    """How right predictions were: two charts, and a row for each run, oldest first."""

    error: Plot
    coverage: Plot
    rows: Sequence["Scored"]


class Scored(msgspec.Struct, frozen=True):
    """A run that had been predicted: its relative error, whether it fell inside, and both over the newest runs until then."""

    time_ms: int
    ended: str
    error: float
    inside: bool
    rolling_error: float | None
    rolling_inside: float | None


def run_rows(runs: Sequence[RecentRun], asks: Reader) -> list[RunRow]:
    """Return the newest runs as they are shown."""
    return [_row(run, known=asks.sees(run.user)) for run in runs[:RUNS_SHOWN]]


def _row(run: RecentRun, *, known: bool) -> RunRow:
    holds = run.told is None or run.told.holds(run.run_time_s)
    kind = "" if run.state != COMPLETED or run.n is None else "run" if holds else "outside"
    predicted = "-" if run.told is None else f"{duration(run.told.low_s)} to {duration(run.told.high_s)}"
    verdict = _verdict(run)
    words = f"{f'job {run.job_id}' if known else 'a run'}: {duration(run.run_time_s)}"
    words += f"{f' at {size(run.n)}' if run.n is not None else ''}, {verdict}"
    words += f" {predicted}" if run.told is not None and run.state == COMPLETED else ""
    return RunRow(run, run.job_id if known else "", kind, moment(rfc3339(run.end_ms)), predicted, verdict, words)


def _verdict(run: RecentRun) -> str:
    if run.state != COMPLETED:
        return run.state.lower().replace("_", " ")
    if run.told is None:
        return "not predicted"
    if run.told.holds(run.run_time_s):
        return "inside"
    return "longer than" if run.run_time_s > run.told.high_s else "shorter than"


def history(name: str, runs: Sequence[RecentRun]) -> History | None:
    """Return how right the predictions of runs were, None where no run had been predicted."""
    rows = scored(runs)
    if not rows:
        return None
    error = Series(
        label=f"Error of the predictions of {name}, run by run",
        spots=[Spot(row.time_ms, row.error, row.rolling_error) for row in rows],
        words=_shares,
        top=0.1,
    )
    coverage = Series(
        label=f"Share of the runs of {name} inside their band, over the newest {ROLLING}",
        spots=[Spot(row.time_ms, None, row.rolling_inside) for row in rows],
        words=_shares,
        top=1.0,
        aim=0.9,
    )
    return History(series_plot(error), series_plot(coverage), rows)


def _shares(value: float) -> str:
    return "0 %" if value == 0 else share(value)


def scored(runs: Sequence[RecentRun]) -> list[Scored]:
    """Return the runs that completed and had been predicted, oldest first, with what rolls over the newest of them.

    An error is exp(|ln(observed / predicted)|) - 1: of twice as long and half as long alike it is 100 %.
    """
    told = [run for run in runs if run.told and run.state == COMPLETED and min(run.run_time_s, run.told.run_time_s) > 0]
    found: list[Scored] = []
    logs: list[float] = []
    inside: list[bool] = []
    for run in sorted(told, key=lambda run: (run.end_ms, run.run_id)):
        if run.told is None:
            continue
        logs.append(abs(log(run.run_time_s / run.told.run_time_s)))
        inside.append(run.told.holds(run.run_time_s))
        enough = len(logs) >= ROLLING_MIN
        newest = inside[-ROLLING:]
        found.append(
            Scored(
                run.end_ms,
                moment(rfc3339(run.end_ms)),
                exp(min(logs[-1], 5.0)) - 1,
                inside[-1],
                exp(min(median(logs[-ROLLING:]), 5.0)) - 1 if enough else None,
                sum(newest) / len(newest) if enough else None,
            )
        )
    return found


# The chart of an application: its curve with the band, every run that settled of late, and the sizes worth asking for.


_KINDS: Final[dict[str, Literal["run", "outside"]]] = {"run": "run", "outside": "outside"}


class Upright(msgspec.Struct, frozen=True):
    """A size that is marked in the chart, and what it is."""

    n: float
    label: str


def scaling_plot(
    entry: Prediction, alerts: Sequence[Alert], truth: Truth | None, runs: Sequence[RunRow] = ()
) -> charts.Plot:
    """Return the chart of an application; the text in its picture is escaped where the picture is made."""
    dots = [Mark(row.run.n, row.run.run_time_s, _KINDS[row.kind], row.words) for row in runs if row.kind and row.run.n]
    marked = uprights(entry.useful_n)
    sizes = [point.n for point in entry.curve] + [dot.n for dot in dots] + [mark.n for mark in marked]
    times = [value for point in entry.curve for value in (point.low_s, point.run_time_s, point.high_s)]
    times += [dot.run_time_s for dot in dots]
    sizes, times = ([value for value in values if charts.drawable(value)] for values in (sizes, times))
    return charts.Plot(
        f"Run time of {entry.application} against {entry.unit}",
        overview.picture(
            entry, alerts, truth, small=False, runs=dots, uprights=[(mark.n, mark.label) for mark in marked]
        ),
        charts.PlotAxis("log", charts.told(charts.powers(min(sizes), max(sizes), 2, 12), size) if sizes else ()),
        charts.PlotAxis(
            "log", charts.told(charts.duration_ticks(min(times), max(times), 8), duration) if times else ()
        ),
        ratio=0.6,
    )


def uprights(useful: UsefulSizes) -> list[Upright]:
    """Return the sizes that are marked: the knee and the largest useful one; one line where they are the same."""
    if useful.knee is not None and useful.knee == useful.max:
        return [Upright(useful.knee, f"knee, useful up to {size(useful.knee)}")]
    marks = [(useful.knee, "knee"), (useful.max, "useful up to")]
    return [Upright(n, f"{what} {size(n)}") for n, what in marks if n is not None]
