"""What the pages show of run times under load: words, and the histogram as a finished picture."""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from agent.contracts.under_load import LoadHistogram, UnderLoad
from agent.http.histograms import Bars, Marker, histogram_svg, intervals
from agent.words import duration


class LoadView(msgspec.Struct, frozen=True):
    """A run time under load as it is shown; `picture` is None where too little is known to draw."""

    told: UnderLoad
    picture: Markup | None
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
        _picture(name, told, histogram, plain_s) if histogram else None,
        [(duration(low), duration(high), mass) for low, high, mass in shown],
        _windows(told),
    )


def _of(histogram: LoadHistogram) -> tuple[Sequence[float], Sequence[float]]:
    """Return edges and shares; a certain value, which has two edges alike, has one of each."""
    edges, shares = histogram.edges_s, histogram.probabilities
    return (edges[:1], (1.0,)) if edges and edges[0] == edges[-1] else (edges, shares)


def _picture(name: str, told: UnderLoad, histogram: LoadHistogram, plain_s: float | None) -> Markup:
    edges, shares = _of(histogram)
    markers = [] if told.q50_s is None else [Marker(told.q50_s, "line", f"median {duration(told.q50_s)}")]
    if plain_s is not None:
        markers.append(Marker(plain_s, "forecast", f"its curve says {duration(plain_s)}"))
    bars = Bars(
        title=f"Run time of {name} under the load of {told.hosts}",
        description="Probabilities of run times; the table has every value.",
        edges=edges,
        shares=shares,
        label=duration,
        markers=markers,
    )
    return Markup(histogram_svg(bars))  # noqa: S704 -- histograms.py escapes


def _windows(told: UnderLoad) -> str:
    parts = [f"{told.looked_at} windows looked at"]
    parts += [
        f"{count} {what}"
        for count, what in ((told.missing, "missing"), (told.stale, "stale"), (told.thin, "thin"))
        if count
    ]
    return ", ".join(parts)
