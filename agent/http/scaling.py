"""The chart of an application: its curve with the band, every run that settled of late, and the sizes worth asking for."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from agent.contracts.outputs import Alert, Prediction, UsefulSizes
from agent.http import axes, plots, view
from agent.http.curves import Mark
from agent.http.lookup import Truth
from agent.http.settled import RunRow
from agent.words import duration, size

_KINDS: Final[dict[str, Literal["run", "outside"]]] = {"run": "run", "outside": "outside"}


class Upright(msgspec.Struct, frozen=True):
    """A size that is marked in the chart, and what it is.

    >>> Upright(64.0, "knee").label
    'knee'
    """

    n: float
    label: str


def scaling_plot(
    entry: Prediction, alerts: Sequence[Alert], truth: Truth | None, runs: Sequence[RunRow] = ()
) -> plots.Plot:
    """Return the chart of an application; the text in its picture is escaped where the picture is made.

    >>> from types import SimpleNamespace
    >>> useful = UsefulSizes()
    >>> entry = SimpleNamespace(application="qcd", system="exa", input="", unit="nodes", curve=(), useful_n=useful)
    >>> scaling_plot(entry, [], None).x.scale
    'log'
    """
    dots = [Mark(row.run.n, row.run.run_time_s, _KINDS[row.kind], row.words) for row in runs if row.kind and row.run.n]
    marked = uprights(entry.useful_n)
    sizes = [point.n for point in entry.curve] + [dot.n for dot in dots] + [mark.n for mark in marked]
    times = [value for point in entry.curve for value in (point.low_s, point.run_time_s, point.high_s)]
    times += [dot.run_time_s for dot in dots]
    sizes, times = ([value for value in values if axes.drawable(value)] for values in (sizes, times))
    return plots.Plot(
        f"Run time of {entry.application} against {entry.unit}",
        view.picture(entry, alerts, truth, small=False, runs=dots, uprights=[(mark.n, mark.label) for mark in marked]),
        plots.Axis("log", plots.told(axes.powers(min(sizes), max(sizes), 2, 12), size) if sizes else ()),
        plots.Axis("log", plots.told(axes.duration_ticks(min(times), max(times), 8), duration) if times else ()),
        ratio=0.6,
    )


def uprights(useful: UsefulSizes) -> list[Upright]:
    """Return the sizes that are marked: the knee and the largest useful one; one line where they are the same.

    >>> [(mark.n, mark.label) for mark in uprights(UsefulSizes(max=192.0, knee=96.0))]
    [(96.0, 'knee 96'), (192.0, 'useful up to 192')]
    """
    if useful.knee is not None and useful.knee == useful.max:
        return [Upright(useful.knee, f"knee, useful up to {size(useful.knee)}")]
    marks = [(useful.knee, "knee"), (useful.max, "useful up to")]
    return [Upright(n, f"{what} {size(n)}") for n, what in marks if n is not None]
