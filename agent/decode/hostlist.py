"""Host lists as schedulers write them: how many hosts they name, without expanding them."""

import re
from typing import Final

from agent.decode.reasons import invalid, shown

HOSTS_COUNT_MAX: Final = 10_000_000
NO_HOSTS: Final = ("", "None assigned", "None", "(null)", "Unknown")

_TOKEN = re.compile(r"\[([0-9,-]+)\]|(,)|[^\[\],\s]+")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def count_hosts(text: str) -> int:
    """Return the number of hosts of a host list such as ``nid[001042-001045,7],login1``.

    Several brackets in one name multiply. A host named twice counts twice. Raises InvalidInputError (``hosts``) where
    the text is no host list, or names more than HOSTS_COUNT_MAX.

    >>> count_hosts("nid[001042-001045,7]"), count_hosts("rack[0-1]node[00-15]"), count_hosts("None assigned")
    (5, 32, 0)
    """
    if text.strip() in NO_HOSTS:
        return 0
    total, product, position = 0, 0, 0  # product: hosts of the name that is being read, 0 before it begins
    for token in _TOKEN.finditer(text):
        if token.start() != position:
            break
        position = token.end()
        if token[2]:
            total, product = total + _named(product, text), 0
        elif token[1]:
            product = _bounded((product or 1) * _count_ranges(token[1], text), text)
        else:
            product = product or 1
    if position != len(text):
        raise invalid("hosts", f"{shown(text)} is no host list.")
    return _bounded(total + _named(product, text), text)


def _count_ranges(ranges: str, text: str) -> int:
    count = 0
    for item in ranges.split(","):
        bounds = _RANGE.fullmatch(item)
        if bounds is None:
            raise invalid("hosts", f"{shown(text)} is no host list.")
        size = int(bounds[2] or bounds[1]) - int(bounds[1]) + 1
        count += _named(max(size, 0), text)
    return count


def _named(count: int, text: str) -> int:
    if count == 0:
        raise invalid("hosts", f"{shown(text)} is no host list: a name or a range in it is empty.")
    return count


def _bounded(count: int, text: str) -> int:
    if count > HOSTS_COUNT_MAX:
        raise invalid("hosts", f"{shown(text)} names more than {HOSTS_COUNT_MAX} hosts.")
    return count
