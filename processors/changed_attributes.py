"""Attributes of an application's runs (build, version, ...) that changed: which values are new, and since which run."""

from collections.abc import Mapping
from typing import Final

import msgspec

from agent.contracts.events import Attribute

ATTRIBUTES_MAX: Final = 8
VALUES_MAX: Final = 16  # what has more values is a measure of the problem, not a build
VALUE_LENGTH: Final = 64
EARLIER_RUNS: Final = 3  # a drift may be dated a few runs late


class AttributeChange(msgspec.Struct, frozen=True):
    """An attribute with a value never seen before; `before` is what it was, None where nothing is known."""

    name: str
    before: str | None
    after: str


class KnownValues(msgspec.Struct, frozen=True):
    """The values of one attribute, each with the index of its first run, and the newest. None left: it has too many."""

    first: dict[str, int]
    newest: str


KnownAttributes = dict[str, KnownValues]


def remembered(known: KnownAttributes, attributes: Mapping[str, Attribute], index: int) -> KnownAttributes:
    """Return what is known after the run number `index`.

    >>> remembered({}, {"build": 7}, 0)
    {'build': KnownValues(first={'7': 0}, newest='7')}
    """
    after = dict(known)
    for name, value in _texts(attributes).items():
        held = known.get(name)
        if held is None and len(after) < ATTRIBUTES_MAX:
            after[name] = KnownValues({value: index}, value)
        elif held is not None and held.first:
            first = {value: index} | held.first  # the first run with a value stays the first
            after[name] = KnownValues(first if len(first) <= VALUES_MAX else {}, value)
    return after


def changes(known: KnownAttributes, attributes: Mapping[str, Attribute]) -> tuple[AttributeChange, ...]:
    """Return the attributes of a run that have a value never seen before.

    >>> changes(remembered({}, {"build": "a"}, 0), {"build": "b"})
    (AttributeChange(name='build', before='a', after='b'),)
    """
    texts = {name: value for name, value in _texts(attributes).items() if name in known}
    return tuple(
        AttributeChange(name, known[name].newest, value)
        for name, value in texts.items()
        if known[name].first and value not in known[name].first
    )


def change_at(known: KnownAttributes, attributes: Mapping[str, Attribute], index: int) -> AttributeChange | None:
    """Return an attribute whose present value was first seen about the run number `index`, None where none was.

    >>> known = remembered(remembered({}, {"build": "a"}, 0), {"build": "b"}, 40)
    >>> change_at(known, {"build": "b"}, 41).before, change_at(known, {"build": "b"}, 60)
    ('a', None)
    """
    for name, value in _texts(attributes).items():
        first = known[name].first if name in known else {}
        older = [each for each in first if first[each] < first.get(value, -1)]
        if older and first[value] >= index - EARLIER_RUNS:
            return AttributeChange(name, max(older, key=lambda each: first[each]), value)
    return None


def _texts(attributes: Mapping[str, Attribute]) -> dict[str, str]:
    return {name[:VALUE_LENGTH]: str(attributes[name])[:VALUE_LENGTH] for name in sorted(attributes)}
