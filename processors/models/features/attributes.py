"""Attributes of a job as numbers: a number is itself, a word is one of several choices."""

import math
from collections.abc import Mapping

from processors.models.training.table import CHOICE


def encoded(attributes: Mapping[str, object]) -> dict[str, float]:
    """Return the attributes as values of a run: numbers as they are, also those in text; a word as `name=word` with 1.

    Runs without a choice count as 0 there. Lists, nested attributes and what is not finite are left out.

    >>> encoded({"atoms": 32000, "solver": "sweep", "steps": "100", "restart": True, "notes": None})
    {'atoms': 32000.0, 'solver=sweep': 1.0, 'steps': 100.0, 'restart': 1.0}
    """
    found: dict[str, float] = {}
    for name, value in attributes.items():
        if isinstance(value, int | float):
            found[name] = float(value)
        elif isinstance(value, str) and value:
            number = _number(value)
            if number is None:
                found[f"{name}{CHOICE}{value}"] = 1.0
            else:
                found[name] = number
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
