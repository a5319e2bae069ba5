"""From words to a model, by a parser that knows this notation and nothing else: no text is ever run."""

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn

# What an equation is made of, once it is read.


LENGTH_MAX = 4000  # characters
NODES_MAX = 200
DEPTH_MAX = 40  # parentheses and named parts within each other
FUNCTIONS = ("max", "min", "max_over", "min_over")
HOSTS = "hosts"
DEDICATED = "T(n)"
RESERVED = (*FUNCTIONS, HOSTS, "n")


class Place(NamedTuple):
    """Where in the text: line and column, both from 1."""

    line: int
    column: int


class EquationError(ValueError):
    """What is wrong with an equation, or with the values that it is given: the place and one sentence.

    >>> str(EquationError(Place(2, 7), "a name is missing."))
    'line 2, column 7: a name is missing.'
    """

    def __init__(self, place: Place, sentence: str) -> None:
        super().__init__(f"line {place.line}, column {place.column}: {sentence}")
        self.place = place
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float
    place: Place


@dataclass(frozen=True, slots=True)
class Name:
    """A parameter, a measured resource, a named part, `hosts`, `n`, or T(n)."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts joined by + and -, or by * and /, from left to right; the first has + or *."""

    parts: "tuple[tuple[Literal['+', '-', '*', '/'], Expression], ...]"
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one or more parts; those over hosts have one."""

    function: str
    arguments: "tuple[Expression, ...]"
    place: Place


Expression = Number | Name | Chain | Call


@dataclass(frozen=True, slots=True)
class Model:
    """An equation: its named parts in the order in which they stand, the result, and the names that need a value."""

    definitions: dict[str, Expression]
    result: Expression
    names: frozenset[str]


# From text to words, each with its place.


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


def parse(equation: str, names: Collection[str] = ()) -> Model:
    r"""Return the model of an equation; `names` are the parameters and resources that it may use.

    A text of lines (or parts divided by ``;``), each ``name = ...``; the last one, with or without a name, is the run
    time in seconds. There are + - * /, parentheses, ``max(a, b)``, ``min(a, b)``, ``max_over(hosts, ...)`` and
    ``min_over(hosts, ...)``: the largest and the smallest over the hosts of the job. ``hosts`` is their number, ``n`` the
    size of the job, ``T(n)`` what its run time would be with the machine to itself. Raises EquationError with the place.

    >>> sorted(parse("work = flop / speed\nwork + T(n)", names=("flop", "speed")).names)
    ['T(n)', 'flop', 'speed']
    >>> parse("2 * (flop + 1", names=("flop",))
    Traceback (most recent call last):
    processors.models.structure.parse.EquationError: line 1, column 14: a closing parenthesis is missing.
    """
    return _Parser(tokens(equation), names).model()


class _Parser:
    """Reads words from left to right; one method per level of the notation."""

    def __init__(self, words: list[Token], names: Collection[str]) -> None:
        self._words = words
        self._next = 0
        self._given = frozenset(names)
        self._definitions: dict[str, Expression] = {}
        self._depths: dict[str, int] = {}
        self._used: set[str] = set()
        self._nodes = 0
        self._depth = self._deepest = 0
        self._last = Place(1, 1)

    def model(self) -> Model:
        result: Expression | None = None
        while self._peek().text or result is None:
            if self._peek().text in ("\n", ";"):
                self._take()
                continue
            if result is not None:
                self._fail("this line has no name, so it has to be the last; write `name = ...`.", self._last)
            self._last = self._peek().place
            result = self._statement()
        return Model(self._definitions, result, frozenset(self._used))

    def _statement(self) -> Expression | None:
        """Read one line; return it where it can only be the result, or where nothing follows."""
        named = self._words[self._next + 1].text == "=" if self._peek().kind == "name" else False
        name = self._take() if named else None
        if name is not None:
            self._check_new(name)
            self._take()
        self._depth = self._deepest = 0
        expression = self._sum()
        if self._peek().kind != "end":
            self._fail(self._unexpected())
        if name is None:
            return expression
        self._definitions[name.text] = expression
        self._depths[name.text] = self._deepest + 1
        rest = {token.text for token in self._words[self._next :]}
        return expression if rest <= {"\n", ";", ""} else None

    def _check_new(self, name: Token) -> None:
        if name.text in self._definitions:
            self._fail(f"{name.text} is defined twice.", name.place)
        if name.text in RESERVED or name.text in self._given:
            self._fail(f"{name.text} has a meaning already; choose another name.", name.place)

    def _sum(self) -> Expression:
        return self._chain("+", "-")

    def _chain(self, plus: Literal["+", "*"], minus: Literal["-", "/"]) -> Expression:
        below = self._product if plus == "+" else self._factor
        place = self._peek().place
        first = below()
        parts: list[tuple[Literal["+", "-", "*", "/"], Expression]] = [(plus, first)]
        while self._peek().text in (plus, minus):
            sign: Literal["+", "-", "*", "/"] = plus if self._take().text == plus else minus
            parts.append((sign, below()))
        return first if len(parts) == 1 else Chain(tuple(parts), place)

    def _product(self) -> Expression:
        return self._chain("*", "/")

    def _factor(self) -> Expression:
        token = self._take()
        self._count(token)
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name":
            return self._named(token)
        if token.text in ("-", "+"):
            inner = self._nested(self._factor)
            return Chain((("*", Number(-1.0, token.place)), ("*", inner)), token.place) if token.text == "-" else inner
        if token.text == "(":
            inner = self._nested(self._sum)
            self._expect(")", "a closing parenthesis is missing.")
            return inner
        raise EquationError(token.place, "a number, a name or a parenthesis is missing.")

    def _number(self, token: Token) -> Number:
        value = float(token.text)
        if not math.isfinite(value):
            self._fail(f"{token.text} is too large a number.", token.place)
        return Number(value, token.place)

    def _named(self, token: Token) -> Expression:
        if self._peek().text == "(":
            return self._call(token)
        if token.text in FUNCTIONS:
            self._fail(f"{token.text} is a function; write {token.text}(...).", token.place)
        if token.text in self._definitions:
            self._deepen(self._depths[token.text], token.place)
        elif token.text in (HOSTS, "n") or token.text in self._given:
            self._used.add(token.text)
        else:
            self._fail(self._no_name(token.text), token.place)
        return Name(token.text, token.place)

    def _call(self, token: Token) -> Expression:
        self._take()
        if token.text == "T":
            self._expect("n", "T is known for the size of the job only; write T(n).")
            self._expect(")", "a closing parenthesis is missing.")
            self._used.add(DEDICATED)
            return Name(DEDICATED, token.place)
        if token.text not in FUNCTIONS:
            close = difflib.get_close_matches(token.text, FUNCTIONS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(FUNCTIONS)} and T(n)."
            self._fail(f"{token.text} is no function; {hint}", token.place)
        over = token.text.endswith("_over")
        if over:
            self._expect(HOSTS, f"{token.text} is over the hosts of the job; write {token.text}(hosts, ...).")
            self._expect(",", f"what {token.text} looks at is missing; write {token.text}(hosts, ...).")
            self._used.add(HOSTS)
        arguments = [self._nested(self._sum)]
        while not over and self._peek().text == ",":
            self._take()
            arguments.append(self._nested(self._sum))
        self._expect(")", "a closing parenthesis is missing.")
        if not over and len(arguments) == 1:
            self._fail(f"{token.text} compares two or more values.", token.place)
        return Call(token.text, tuple(arguments), token.place)

    def _no_name(self, name: str) -> str:
        known = sorted({*self._given, *self._definitions, HOSTS, "n"})
        if name == "T":
            return "T alone has no value here; write T(n)."
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
        return f"{name} has no value here; {hint}"

    def _nested(self, read: Callable[[], Expression]) -> Expression:
        self._deepen(1, self._peek().place)
        self._depth += 1
        inner = read()
        self._depth -= 1
        return inner

    def _deepen(self, by: int, place: Place) -> None:
        self._deepest = max(self._deepest, self._depth + by)
        if self._deepest > DEPTH_MAX:
            self._fail(f"parts are nested more than {DEPTH_MAX} deep.", place)

    def _count(self, token: Token) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._fail(f"the equation has more than {NODES_MAX} numbers and names.", token.place)

    def _peek(self) -> Token:
        return self._words[min(self._next, len(self._words) - 1)]

    def _take(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, text: str, sentence: str) -> None:
        if self._peek().text != text:
            self._fail(sentence)
        self._take()

    def _unexpected(self) -> str:
        token = self._peek()
        if token.text == ")":
            return "this parenthesis closes nothing."
        if token.text == "=":
            return "a name stands left of =, and nothing else."
        return (
            "a sign such as + or * is missing before this." if token.kind != "sign" else "this stands here by mistake."
        )

    def _fail(self, sentence: str, place: Place | None = None) -> NoReturn:
        raise EquationError(place or self._peek().place, sentence)
