"""What a chart of a page needs besides its table: its name, its axes with their ticks, and the picture seen without script."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from markupsafe import Markup

Tick = tuple[float, str]


class Axis(msgspec.Struct, frozen=True):
    """An axis: logarithmic or linear, and its ticks, each with its words.

    >>> Axis("log", ((1.0, "1"), (2.0, "2"))).ticks[0]
    (1.0, '1')
    """

    scale: Literal["log", "linear"]
    ticks: Sequence[Tick] = ()


class Plot(msgspec.Struct, frozen=True):
    """A chart. `picture` is shown where no script draws; `ratio` is height to width.

    >>> Plot("Run time", Markup("<svg></svg>"), Axis("log"), Axis("log")).ratio
    0.56
    """

    label: str
    picture: Markup
    x: Axis
    y: Axis
    ratio: float = 0.56


def told(values: Sequence[float], words: Callable[[float], str]) -> tuple[Tick, ...]:
    """Return ticks with their words, of those whose words are the same the first.

    >>> told([1.0, 2.0, 2.01], lambda value: f"{value:.0f} s")
    ((1.0, '1 s'), (2.0, '2 s'))
    """
    found: dict[str, float] = {}
    for value in values:
        found.setdefault(words(value), value)
    return tuple((value, text) for text, value in found.items())
