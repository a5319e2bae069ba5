"""Host lists as schedulers write them: names, ranges in brackets, several brackets in a name, zero padding."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, product
from math import prod
from typing import Final

from agent.contracts.errors import InvalidInputError

HOSTS_COUNT_MAX: Final = 10_000_000
NO_HOSTS: Final = ("", "None assigned", "None", "(null)", "Unknown")

_NAME = re.compile(r"(?:[^,\[\]\s]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")

_Range = tuple[int, int, int]  # first, last, digits
_Part = str | list[_Range]


def count(text: str) -> int:
    """Return the number of hosts of a list such as ``nid[001042-001045,7],login1``; a host named twice counts twice.

    Raises InvalidInputError (reason ``hosts``) where the text is no host list, or names more than HOSTS_COUNT_MAX.

    >>> count("nid[001042-001045,7]"), count("rack[0-1]node[00-15]"), count("None assigned")
    (5, 32, 0)
    """
    total = 0
    for parts in _names(text):
        total += prod(_size(part) for part in parts)
        if total > HOSTS_COUNT_MAX:
            raise _invalid(f"The host list names more than {HOSTS_COUNT_MAX} hosts.")
    return total


def expand(text: str, limit: int) -> tuple[str, ...]:
    """Return the names of a host list; InvalidInputError (reason ``hosts``) as `count`, and above `limit`.

    >>> expand("nid[001042-001044,7],login1", limit=10)
    ('nid001042', 'nid001043', 'nid001044', 'nid7', 'login1')
    >>> expand("rack[1-2]node[01-02]", limit=10)
    ('rack1node01', 'rack1node02', 'rack2node01', 'rack2node02')
    """
    if count(text) > limit:
        raise _invalid(f"The host list names more than {limit} hosts.")
    return tuple("".join(chosen) for parts in _names(text) for chosen in product(*(_texts(part) for part in parts)))


def spread(texts: Sequence[str], limit: int) -> tuple[int, tuple[str, ...]]:
    """Return how many hosts some lists name, and at most `limit` of them, spread evenly in their order.

    Errors as `count`. Only the names that are returned are made.

    >>> spread(["nid[0001-4000]", "login1"], limit=4)
    (4001, ('nid0001', 'nid1001', 'nid2001', 'nid3001'))
    """
    names = [name for text in texts for name in _told(text)]
    ends = list(accumulate(1 if isinstance(name, str) else prod(_size(part) for part in name) for name in names))
    total = ends[-1] if ends else 0
    found = []
    for index in (i * total // min(limit, total) for i in range(min(limit, total))):
        which = bisect_right(ends, index)
        name = names[which]
        found.append(name if isinstance(name, str) else _at(name, index - (ends[which - 1] if which else 0)))
    return total, tuple(found)


def _told(text: str) -> Iterable[str | list[_Part]]:
    """Return the names of a list, whole where it has no brackets: then it may be long, and nothing is to be worked out."""
    if "[" in text or "]" in text or text.strip() in NO_HOSTS:
        return _names(text)
    names = text.split(",")
    if not all(names) or len(text.split()) != 1 or text != text.strip():
        raise _unreadable()
    return names


def _at(parts: list[_Part], index: int) -> str:
    """Return a name of those that the parts make, in the order in which they are written out."""
    chosen = []
    for part in reversed(parts):
        index, own = divmod(index, _size(part))
        chosen.append(part if isinstance(part, str) else _number(part, own))
    return "".join(reversed(chosen))


def _number(ranges: list[_Range], index: int) -> str:
    for first, last, digits in ranges:
        if index <= last - first:
            return f"{first + index:0{digits}d}"
        index -= last - first + 1
    raise IndexError(index)


def _names(text: str) -> Iterator[list[_Part]]:
    if text.strip() in NO_HOSTS:
        return
    names = _NAME.findall(text)
    if ",".join(names) != text:
        raise _unreadable()
    for name in names:
        yield [plain or _ranges(inside) for inside, plain in _PART.findall(name)]


def _ranges(inside: str) -> list[_Range]:
    found = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first:
            raise _invalid("The host list has brackets that hold no range.")
        found.append((first, last, len(match[1])))
    return found


def _size(part: _Part) -> int:
    return 1 if isinstance(part, str) else sum(last - first + 1 for first, last, _ in part)


def _texts(part: _Part) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [f"{number:0{digits}d}" for first, last, digits in part for number in range(first, last + 1)]


def _unreadable() -> InvalidInputError:
    return _invalid("The host list has unbalanced brackets, empty names or blanks.")


def _invalid(detail: str) -> InvalidInputError:
    return InvalidInputError("hosts", detail)
