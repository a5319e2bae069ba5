"""How much of a property is tried: a part by `make test`, all by `make test-all`, which sets SCALEWATCH_THOROUGH=1."""

import os

import pytest
from _pytest.mark.structures import ParameterSet

THOROUGH = os.environ.get("SCALEWATCH_THOROUGH") == "1"


def examples(count: int) -> int:
    """Return how many examples hypothesis tries of a property that deserves `count`."""
    return count if THOROUGH else max(count // 3, 20)


def seeds(few: int, count: int) -> list[int | ParameterSet]:
    """Return `count` seeds, of which all but the first `few` wait for `make test-all`."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(few, count))]
