"""What the pages show of run times under load: words, and the histogram as a finished picture."""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from agent.contracts.under_load import LoadHistogram, UnderLoad
from agent.http.histograms import Bars, Marker, histogram_svg, intervals
from agent.http.plots import Axis, Plot
from agent.http.plots import told as told_apart
from agent.words import duration, share


class LoadView(msgspec.Struct, frozen=True):
    """A run time under load as it is shown; `picture` is None where too little is known to draw."""

    told: UnderLoad
    plot: Plot | None
    bounds: Sequence[tuple[float, float, float]]
    markers: Sequence[tuple[float, str]]
    intervals: Sequence[tuple[str, str, float]]
    windows: str


def load_view(name: str, told: UnderLoad | None, plain_s: float | None = None) -> LoadView | None:
    """Return what to show of an application or a job, None where nothing was told; `plain_s` is what its curve says.

    >>> load_view("lammps", UnderLoad(as_of="", hosts="partition standard", hosts_count=8, n=8.0, looked_at=8)).windows
    '8 windows looked at'
    """
    if told is None:
        return None
    histogram = told.histogram
    shown = intervals(*_of(histogram)) if histogram else []
    return LoadView(
        told,
        _plot(name, told, histogram, plain_s) if histogram else None,
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


def _plot(name: str, told: UnderLoad, histogram: LoadHistogram, plain_s: float | None) -> Plot:
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
        Axis("linear", told_apart(sorted(edges), duration)),
        Axis("linear", told_apart([0.0, top / 2, top], share)),
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
