"""How large the input of a job is: numbers under the names that the configuration gives to input sizes."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from agent.contracts.events import Attribute, Evidence

Sizes = tuple[tuple[str, float], ...]
_NUMBER = r"([0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)"


def sizes_of_input(
    names: Sequence[str], sources: Sequence[Evidence], groups: Mapping[str, str], input_text: str
) -> Sizes:
    """Return the input sizes that are known of a job, in the order of the names; a size is a number above 0.

    A job's attribute counts first, at the first source that has it; then a named group of the rule that matched; then
    `name=number` in the name of the input.

    >>> told = Evidence(attributes={"atoms": 32000})
    >>> sizes_of_input(("atoms", "steps"), [told], {}, "box=2,steps=1e4")
    (('atoms', 32000.0), ('steps', 10000.0))
    """
    told = ((name, _first_size(_told(name, sources, groups, input_text))) for name in names)
    return tuple((name, size) for name, size in told if size is not None)


def _told(
    name: str, sources: Sequence[Evidence], groups: Mapping[str, str], input_text: str
) -> Iterator[Attribute | None]:
    yield from (evidence.attributes.get(name) for evidence in sources)
    yield groups.get(name)
    found = re.search(rf"(?<![^,;\s]){re.escape(name)}={_NUMBER}(?![^,;\s])", input_text)
    yield found[1] if found else None


def _first_size(told: Iterator[Attribute | None]) -> float | None:
    return next((size for value in told if (size := _size(value)) is not None), None)


def _size(value: Attribute | None) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        size = float(value)
    except (ValueError, OverflowError):
        return None
    return size if 0.0 < size < math.inf else None
