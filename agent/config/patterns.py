"""Checks of regular expressions in the configuration. They must be fast on every text, because users choose the names of jobs."""

import re
import string
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, Final

from agent.clock import cpu_s

PARSER: Final = import_module("re._parser")  # since 3.11 the parser of Python has no public name
LENGTHS: Final = (*range(8, 40), 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
ATTACKS_MAX: Final = 96  # for one expression
CHARACTERS_MAX: Final = 24
SLOWEST_S: Final = 0.2  # for 1,024 characters; the limit grows with the square of the length
SLACK_S: Final = 0.002
REMEMBERED: Final = 10_000
FAILING: Final = "\0"  # the end of a text that nearly matches, so that the search tries every way to match it
BY_CATEGORY: Final = {"DIGIT": "0", "SPACE": " ", "WORD": "a", "NOT_DIGIT": "a", "NOT_SPACE": "a", "NOT_WORD": "-"}
REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")

Node = tuple[Any, Any]


@lru_cache(maxsize=REMEMBERED)
def slow_text(pattern: str) -> str | None:
    """Return the beginning of a text on which an expression is slow; None if it is fast on all tried texts.

    Each text repeats a match of one repeat in the expression, or one of its characters. The texts grow, and the first slow one
    ends the trial: an expression whose time doubles with each character costs some milliseconds here.
    """
    search: Callable[[str], object] = re.compile(pattern).search
    for before, repeated in islice(_attacks(PARSER.parse(pattern)), ATTACKS_MAX):
        for length in LENGTHS:
            text: str = before + (repeated * length)[:length] + FAILING
            if _is_slow(search, text):
                return text[:10]
    return None


def pattern_fault(pattern: str) -> str | None:
    """Return the problem of an expression and a better way to write it; None if the expression is fine."""
    try:
        text = slow_text(pattern)
    except re.error as error:
        return f"{pattern!r} is not a regular expression: {error}."
    if text is None:
        return None
    return (
        f"{pattern!r} takes too long on texts such as {text!r}...: write it without a repeat inside a repeat and with fewer "
        "unbounded repeats that match the same characters, such as ^a+$ in place of ^(a+)+$."
    )


def _is_slow(search: Callable[[str], object], text: str) -> bool:
    allowed_s = SLACK_S + SLOWEST_S * (len(text) / LENGTHS[-1]) ** 2
    return all(_cpu_s(search, text) > allowed_s for _ in range(2))  # a garbage collection may have slowed the first try


def _cpu_s(search: Callable[[str], object], text: str) -> float:
    begin_s = cpu_s()
    search(text)
    return cpu_s() - begin_s


def _attacks(nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    """Yield for each repeat a text that leads to it, and the text to repeat."""
    characters = list(dict.fromkeys(_characters(nodes)))[:CHARACTERS_MAX]
    for before, body in _repeats(nodes, ""):
        for repeated in dict.fromkeys((*_texts(body), *characters)):
            if repeated:
                yield before, repeated


def _repeats(nodes: Sequence[Node], before: str) -> Iterator[tuple[str, Sequence[Node]]]:
    """Yield a text that matches all nodes before a repeat, and the body of that repeat; the outermost repeat comes first."""
    for node in nodes:
        for body in _bodies(node):
            if str(node[0]) in REPEATS:
                yield before, body
            yield from _repeats(body, before)
        before += next(_texts([node]), "")


def _texts(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield texts that nodes match, one for each branch. A repeat has its least count there, but at least one."""
    for choice in range(max((len(_bodies(node)) for node in _every(nodes)), default=0) or 1):
        yield "".join(_text(node, choice) for node in nodes)


def _text(node: Node, choice: int) -> str:
    name, bodies = str(node[0]), _bodies(node)
    if bodies and name not in {"ASSERT", "ASSERT_NOT"}:
        once = "".join(_text(part, choice) for part in bodies[min(choice, len(bodies) - 1)])
        return (once * max(1, min(node[1][0], LENGTHS[-1])))[: LENGTHS[-1]] if name in REPEATS else once
    return next(_characters([node]), "")


def _every(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for body in _bodies(node):
            yield from _every(body)


def _bodies(node: Node) -> list[Sequence[Node]]:
    """Return the lists of nodes within a node."""
    name, value = str(node[0]), node[1]
    if name == "BRANCH":
        return list(value[1])
    if name in REPEATS or name in {"SUBPATTERN", "ASSERT", "ASSERT_NOT"}:
        return [value[-1]]
    if name == "GROUPREF_EXISTS":
        return [body for body in value[1:] if body is not None]
    return [value] if name == "ATOMIC_GROUP" else []


def _characters(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield characters that the nodes match: both ends of a range, and one character of a class."""
    for node in _every(nodes):
        name, value = str(node[0]), node[1]
        if name == "LITERAL":
            yield chr(value)
        elif name == "RANGE":
            yield from map(chr, value)
        elif name == "CATEGORY":
            yield BY_CATEGORY.get(str(value).removeprefix("CATEGORY_"), "a")
        elif name == "ANY":
            yield "a"
        elif name == "NOT_LITERAL" or (name == "IN" and str(value[0][0]) == "NEGATE"):
            excluded = {chr(value)} if name == "NOT_LITERAL" else set(_characters(value[1:]))
            yield next(character for character in "a0 -_" + string.printable if character not in excluded)
        elif name == "IN":
            yield from _characters(value)
