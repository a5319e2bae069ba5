"""Host lists as Slurm writes them: names, ranges in brackets, several brackets, zero padding."""

import re
from collections.abc import Iterator

from agent.contracts.errors import InvalidInputError

_NAME = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PARTS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str, limit: int) -> tuple[str, ...]:
    """Return the host names of a list, at most `limit`.

    Raises InvalidInputError (reason ``hosts``) where the text is no host list or names more hosts.

    >>> expand("nid[001042-001044,7],login1", limit=10)
    ('nid001042', 'nid001043', 'nid001044', 'nid7', 'login1')
    >>> expand("rack[1-2]node[01-02]", limit=10)
    ('rack1node01', 'rack1node02', 'rack2node01', 'rack2node02')
    """
    hosts: list[str] = []
    for name in _names(text):
        for host in _expanded(name):
            if len(hosts) >= limit:
                raise InvalidInputError("hosts", f"The host list names more than {limit} hosts.")
            hosts.append(host)
    return tuple(hosts)


def _names(text: str) -> list[str]:
    names = _NAME.findall(text)
    if ",".join(names) != text:
        raise InvalidInputError("hosts", "The host list has unbalanced brackets or empty names.")
    return names


def _expanded(name: str) -> Iterator[str]:
    parts = _PARTS.split(name)
    if len(parts) == 1:
        yield name
        return
    head, ranges, rest = parts[0], parts[1], name[len(parts[0]) + len(parts[1]) + 2 :]
    for number in _numbers(ranges):
        for tail in _expanded(rest) if rest else ("",):
            yield f"{head}{number}{tail}"


def _numbers(ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise InvalidInputError("hosts", "The host list has brackets that hold no range.")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise InvalidInputError("hosts", "The host list has a range that runs backwards.")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"
