"""From text to words, each with its place."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from processors.models.structure.syntax import LENGTH_MAX, EquationError, Place

_WORD = re.compile(
    r"(?P<space>[ \t\r]+|#[^\n]*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<end>[\n;])|(?P<sign>\*\*|[-+*/(),=])"
)
_WANTS_MORE = frozenset("+-*/(,=")


class Token(NamedTuple):
    """A word: kind (number, name, sign, end), text and place."""

    kind: str
    text: str
    place: Place


def tokens(text: str) -> list[Token]:
    r"""Return the words of an equation; the last is an end. EquationError at what is no word.

    Within parentheses, and after a sign that wants more, a new line ends nothing. `#` starts a comment.

    >>> [token.text for token in tokens("2 * (x +\n1)")]
    ['2', '*', '(', 'x', '+', '1', ')', '']
    """
    if len(text) > LENGTH_MAX:
        raise EquationError(Place(1, 1), f"the equation is longer than {LENGTH_MAX} characters.")
    found: list[Token] = []
    depth = 0
    for token in _words(text):
        depth = max(depth + (token.text == "(") - (token.text == ")"), 0)
        if token.text == "\n" and (depth or not found or found[-1].text in _WANTS_MORE):
            continue
        found.append(token)
    return [*found, Token("end", "", _place(text, len(text)))]


def _words(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None or match.group() == "**" or _runs_on(text, match):
            raise EquationError(_place(text, at), _unknown(text[at : at + 2]))
        if match.lastgroup != "space":
            yield Token(str(match.lastgroup), match.group(), _place(text, at))
        at = match.end()


def _runs_on(text: str, match: re.Match[str]) -> bool:
    following = text[match.end() : match.end() + 1]
    return match.lastgroup == "number" and (following.isalpha() or following in ("_", "."))


def _unknown(text: str) -> str:
    if text.startswith(("^", "**")):
        return "there is no power; write x * x."
    if text[0].isdigit():
        return "this is no number; write * between a number and a name."
    return f"{text[0]!r} means nothing here."


def _place(text: str, at: int) -> Place:
    return Place(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
