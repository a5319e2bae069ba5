"""Worlds: centres in which some sizes of measured curves ran, and what each is asked about the others.

`first4` knows the four smallest sizes of each curve, `minus1` and `minus2` all but the largest one and two, `loo1`, `loo2`,
.. all but one inner size. In `siblings0` to `siblings2` one curve in three is cut to four sizes, and the others ran whole
before: other inputs and systems of an application may be known further out. Names and splits are those of the bench that
scores the command from outside, so that both can be compared.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from hashlib import sha256
from typing import Final, NamedTuple

from tests.quality.curves import REPEATS_MAX, SIZES_MIN, Measured

RELATED: Final = "siblings"  # how the names of worlds begin in which related curves are known further out
INNER: Final = "loo"
TURNS: Final = 3
FIRST: Final = 4  # sizes
SEED_LATER, SEED_EARLIER = 7, 8


class Run(NamedTuple):
    """One run of a curve."""

    curve: Measured
    n: int
    run_time_s: float


class Request(NamedTuple):
    """One size of a curve that did not run; `known_n` is the largest that did."""

    world: str
    curve: Measured
    n: int
    known_n: int

    @property
    def horizon(self) -> str:
        """How far it is from what is known."""
        if self.world.startswith(INNER):
            return "inside"
        factor = self.n / self.known_n
        return "<=2x" if factor <= 2.0001 else "2-4x" if factor <= 4.0001 else ">4x"


@dataclass(frozen=True)
class World:
    """Runs in the order of their start, `earlier` ones before all others, and what is asked after them."""

    name: str
    earlier: list[Run] = field(default_factory=list)
    later: list[Run] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)


def worlds(curves: Sequence[Measured], patterns: Sequence[str] = ("*",)) -> dict[str, World]:
    """Return the worlds whose names match a pattern, such as `loo*`, in a fixed order."""
    found: dict[str, World] = {}
    several = sorted((curve for curve in curves if len(curve.runs) >= SIZES_MIN), key=_identity)
    turns = _turns(several)
    for curve in several:
        for name, known in _splits(curve, turns.get(_identity(curve))):
            if any(fnmatch(name, pattern) for pattern in patterns):
                _put(found.setdefault(name, World(name)), curve, known)
    for world in found.values():
        random.Random(SEED_LATER).shuffle(world.later)  # noqa: S311  the same order every time, no secret
        random.Random(SEED_EARLIER).shuffle(world.earlier)  # noqa: S311
    return {name: found[name] for name in sorted(found, key=_rank)}


def _put(world: World, curve: Measured, known: Sequence[int]) -> None:
    missing = [n for n in curve.sizes if n not in known]
    ran = world.later if missing else world.earlier
    ran += [Run(curve, n, time) for n in known for time in curve.runs[n][:REPEATS_MAX]]
    world.requests.extend(Request(world.name, curve, n, max(known)) for n in missing)


def _splits(curve: Measured, turn: int | None) -> Iterator[tuple[str, list[int]]]:
    sizes = curve.sizes
    yield "first4", sizes[:FIRST]
    for left_out in (1, 2):
        if len(sizes) >= SIZES_MIN + left_out:
            yield f"minus{left_out}", sizes[:-left_out]
    for i in range(1, len(sizes) - 1):
        yield f"{INNER}{i}", [*sizes[:i], *sizes[i + 1 :]]
    for number in range(TURNS):
        yield f"{RELATED}{number}", sizes[:FIRST] if number == turn else sizes


def _turns(curves: Sequence[Measured]) -> dict[tuple[str, ...], int]:
    """Return in which world a curve is cut: those of one application and unit take turns, in an order that is a hash's.

    A curve without any other is cut nowhere.
    """
    families: dict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for identity in sorted(map(_identity, curves), key=lambda parts: sha256("|".join(parts).encode()).digest()):
        families[identity[0], identity[3]].append(identity)
    return {identity: i % TURNS for family in families.values() if len(family) > 1 for i, identity in enumerate(family)}


def _identity(curve: Measured) -> tuple[str, str, str, str]:
    return curve.application, curve.input, curve.system, curve.unit


def _rank(name: str) -> tuple[int, int]:
    stem = name.rstrip("0123456789")
    return ("first", "minus", INNER, RELATED).index(stem), int(name.removeprefix(stem))
