"""What went wrong since the process began, in sentences: a fault must not look like silence."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from agent.metrics.registry import Metrics
from agent.words import counted

FAULT: Final = "processor"  # the reason of dead letters whose event made a processor fail


class Trouble(NamedTuple):
    """A sentence, and whether it tells of a fault in the agent rather than in what it was sent.

    >>> Trouble("All is lost.", grave=True).grave
    True
    """

    sentence: str
    grave: bool


Troubles = Callable[[], Sequence[Trouble]]


def troubles(metrics: Metrics) -> list[Trouble]:
    """Return one sentence for each kind of trouble, faults first; none while all is well.

    >>> metrics = Metrics(formats=(), reasons=("not-json", "processor"), processors=("run_time",))
    >>> metrics.add("scalewatch_dead_letters_total", 2, reason="not-json")
    >>> [trouble.sentence for trouble in troubles(metrics)]
    ['2 messages could not be used since the start: not-json 2.']
    """
    letters = metrics.above_zero("scalewatch_dead_letters_total")
    faults = metrics.above_zero("scalewatch_processor_faults_total")
    if FAULT in letters:
        faults["events that became dead letters"] = letters.pop(FAULT)
    runs, bounds = (metrics.above_zero(f"scalewatch_{name}_total") for name in ("runs_refused", "bounds_hit"))
    found = (
        (faults, f"A processor failed {_count(faults, 'time')}", True),
        (letters, f"{_count(letters, 'message')} could not be used", False),
        (runs, f"{_count(runs, 'report')} of runs changed no model", False),
        (bounds, f"A bound was reached {_count(bounds, 'time')}", False),
    )
    return [Trouble(f"{what} since the start: {_listed(counts)}.", grave) for counts, what, grave in found if counts]


def _count(counts: Mapping[str, float], thing: str) -> str:
    return counted(round(sum(counts.values())), thing)


def _listed(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {count:.0f}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
