"""From stored states of run-time models that older agents wrote to the present version, a version at a time."""

from typing import Any, Final


def with_distances(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state of version 1 as one of version 2, whose scores tell how far from the curve a run was.

    Scores from before get the distance 1: they say of the band neither that it is too narrow nor too wide.

    >>> with_distances({"scores": [[0, 0.01, True], [0, 0.3, False, 2.5]]})["scores"]
    [[0, 0.01, True, 1.0], [0, 0.3, False, 2.5]]
    """
    return state | {"scores": [[*score, 1.0][:4] for score in state.get("scores", [])]}


def with_strangeness(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state of version 2 as one of version 3, whose unmerged runs tell whether they were strange.

    >>> with_strangeness({"runs": [["a/1@0", 4.0, 60.0, 60000]]})["runs"]
    [['a/1@0', 4.0, 60.0, 60000, 0]]
    """
    return state | {"runs": [[*run, 0][:5] for run in state.get("runs", [])]}


UPGRADES: Final = {1: with_distances, 2: with_strangeness}
