"""What a benchmark yields: rows with a figure, its goal and a line that says what it means; a table, and JSON."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One figure. `goal` is the least (`larger_is_better`) or the most that it should be; None: there is no goal."""

    name: str
    value: float
    unit: str
    meaning: str
    goal: float | None = None
    larger_is_better: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """Return whether the goal is reached; None where there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.larger_is_better else self.value <= self.goal


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the values that is not below so large a share of them.

    >>> quantile([4.0, 1.0, 3.0, 2.0], 0.5), quantile([4.0, 1.0, 3.0, 2.0], 0.99)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def median_rate(count: int, seconds: Sequence[float]) -> float:
    """Return how many per second, by the median of several times.

    >>> median_rate(10, [1.0, 2.0, 5.0])
    5.0
    """
    return count / statistics.median(seconds)


def table(
    rows: Sequence[Row], before: dict[str, float] | None = None, title: str = "Scalewatch: speed of the hot paths"
) -> Table:
    """Return the rows as a table; `before` are the figures of another run by name, which stand beside these."""
    shown = Table(title=title, title_justify="left")
    for head in ("what", *(("before",) if before is not None else ()), "figure", "goal", "", "what it means"):
        shown.add_column(head, justify="right" if head in {"before", "figure", "goal"} else "left")
    for row in rows:
        sign = "≥" if row.larger_is_better else "≤"
        goal = "" if row.goal is None else f"{sign} {_figure(row.goal)}"
        verdict = {None: "", True: "yes", False: "[bold red]no[/]"}[row.reached]
        former = () if before is None else (_figure(before[row.name]) if row.name in before else "",)
        shown.add_row(row.name, *former, f"{_figure(row.value)} {row.unit}", goal, verdict, row.meaning)
    return shown


def write(path: Path, machine: dict[str, Any], rows: Sequence[Row]) -> None:
    """Write everything, details too, as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "results": [asdict(row) for row in rows]}, indent=1) + "\n")


def figures(folder: Path, commit: str) -> dict[str, float]:
    """Return the figures that were measured of a commit by name, the newest of each; ValueError where there are none.

    Compare them where a fixed piece of work took about as long, which each file says (`slowness_ms`).
    """
    found: dict[str, float] = {}
    for path in sorted(folder.glob("*.json")):
        written = json.loads(path.read_text())
        if written["machine"]["commit"].startswith(commit):
            found |= {row["name"]: row["value"] for row in written["results"]}
    if not found:
        raise ValueError(f"No results of commit {commit} are in {folder}.")
    return found


def console() -> Console:
    """Return where the table goes; a pipe gets wide lines."""
    found = Console()
    return found if found.is_terminal else Console(width=170)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
