"""Tables of the screen: how many rows there is room for, which columns a width allows, and rows of blocks."""

from collections.abc import Sequence
from math import log
from typing import Final, Literal, NamedTuple

from rich.table import Table
from rich.text import Text

BLOCKS: Final = "▁▂▃▄▅▆▇█"
APPLICATIONS_SHOWN: Final = 16
JOBS_SHOWN: Final = 8
ALERTS_SHOWN: Final = 6
HOSTS_SHOWN: Final = 6
LOADED_SHOWN: Final = 3


class Room(NamedTuple):
    """How many rows of each table a terminal of `height` lines shows, so that none pushes another out.

    >>> Room.of(24)
    Room(applications=8, alerts=2, jobs=4, hosts=0, loaded=0)
    >>> Room.of(200)
    Room(applications=16, alerts=6, jobs=8, hosts=6, loaded=3)
    """

    applications: int
    alerts: int
    jobs: int
    hosts: int
    loaded: int

    @classmethod
    def of(cls, height: int) -> "Room":
        """Return the shares of what headline, titles and heads leave; an alert may need two lines."""
        hosts, loaded = (0, 0) if height < 36 else (min(height // 12, HOSTS_SHOWN), min(height // 18, LOADED_SHOWN))
        rest = max(height - 8 - (hosts + loaded + 4 if hosts else 0), 8)
        alerts, jobs = min(rest // 8, ALERTS_SHOWN), min(rest // 4, JOBS_SHOWN)
        return cls(min(rest - 2 * alerts - jobs, APPLICATIONS_SHOWN), alerts, jobs, hosts, loaded)


class Column(NamedTuple):
    """A column of a table, left out where the terminal is narrower than `from_width`.

    >>> Column("runs").justify
    'left'
    """

    name: str
    justify: Literal["left", "right"] = "left"
    from_width: int = 0


def sparkline(values: Sequence[float]) -> str:
    """Return positive values as a row of blocks whose heights are their logarithms.

    >>> sparkline([800.0, 400.0, 200.0, 100.0]), sparkline([5.0, 5.0]), sparkline([])
    ('█▆▃▁', '▄▄', '')
    """
    logs = [log(value) for value in values if 0 < value < 1e300]
    if not logs:
        return ""
    low, high = min(logs), max(logs)
    if high - low < 1e-9:
        return BLOCKS[3] * len(logs)
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in logs)


def heights(shares: Sequence[float]) -> str:
    """Return the shares of a histogram as a row of blocks, the largest of them the highest.

    >>> heights([0.1, 0.4, 0.0, 0.2]), heights([])
    ('▃█▁▅', '')
    """
    top = max(shares, default=0.0)
    return "".join(BLOCKS[round(value / top * (len(BLOCKS) - 1))] for value in shares) if top > 0 else ""


def table(
    columns: Sequence[Column],
    rows_of_cells: Sequence[Sequence[Text]],
    width: int,
    title: str,
    hidden: frozenset[str] = frozenset(),
) -> Table:
    """Return a table without the columns that are hidden or for which the terminal is too narrow.

    >>> len(table([Column("a"), Column("b", from_width=99)], [[Text("1"), Text("2")]], 80, "Two").columns)
    1
    """
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    kept = [index for index, column in enumerate(columns) if column.from_width <= width and column.name not in hidden]
    for index in kept:
        made.add_column(columns[index].name, justify=columns[index].justify, no_wrap=columns[index].name != "what")
    for cells in rows_of_cells:
        made.add_row(*(cells[index] for index in kept))
    return made
