"""Parser of equations: a tokeniser, and a recursive descent over sums, products and values."""

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

LENGTH_MAX = 4000  # characters
NODES_MAX = 200
DEPTH_MAX = 40  # deepest nesting of parentheses and named parts
FUNCTIONS = ("max", "min", "max_over", "min_over")
HOSTS = "hosts"
DEDICATED = "T(n)"
RESERVED = (*FUNCTIONS, HOSTS, "n")


class TextPlace(NamedTuple):
    """A position in the text: line and column, both from 1."""

    line: int
    column: int


class EquationError(ValueError):
    """An error in an equation or in its values, with its position in the text.

    >>> str(EquationError(TextPlace(2, 7), "a name is missing."))
    'line 2, column 7: a name is missing.'
    """

    def __init__(self, place: TextPlace, message: str) -> None:
        super().__init__(f"line {place.line}, column {place.column}: {message}")
        self.place = place
        self.message = message


@dataclass(frozen=True, slots=True)
class Number:
    """A number in an equation."""

    value: float
    place: TextPlace


@dataclass(frozen=True, slots=True)
class Name:
    """A name in an equation: a parameter, a measured resource, a part with a name of its own, `hosts`, `n`, or T(n)."""

    text: str
    place: TextPlace


Sign = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Chain:
    """A sum or a product: its parts from left to right, each with its sign (+ and -, or * and /); the first sign is + or *."""

    parts: "tuple[tuple[Sign, Expression], ...]"
    place: TextPlace


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of FUNCTIONS; `max_over` and `min_over` have one argument, without `hosts`."""

    function: str
    arguments: "tuple[Expression, ...]"
    place: TextPlace


Expression = Number | Name | Chain | Call


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation: its named parts in order, the expression of the result, and the names that need a value."""

    definitions: dict[str, Expression]
    result: Expression
    names: frozenset[str]


_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+ | \#[^\n]*)
    | (?P<number>(?:[0-9]+\.?[0-9]* | \.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>\*\* | [-+*/(),=;\n])
    | (?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)
_STUCK = re.compile(r"[A-Za-z0-9_.]")  # characters that must not follow a number
_WANTS_MORE = frozenset("+-*/(,=")
_NO_POWER = "there is no power; write x * x."
_UNKNOWN = {"**": _NO_POWER, "^": _NO_POWER, ".": "'.' stands within numbers only."}
_MISSING = "a number, a name or a parenthesis is missing."
_NOT_CLOSED = "a closing parenthesis is missing."
_NO_NUMBER = "this is no number; write * between a number and a name."
_TOO_DEEP = f"parts are nested more than {DEPTH_MAX} deep."


class _Token(NamedTuple):
    """A token. Its kind is `number`, `name`, `end` (of a part) or, for a sign, the sign itself."""

    kind: str
    text: str
    place: TextPlace


def parse(equation: str, names: Collection[str] = ()) -> Equation:
    r"""Parse the text of an equation, which may use the parameters and resources in `names`. Raise EquationError for a wrong text.

    The text has lines (or parts separated by ``;``) of the form ``name = ...``. The last line, with or without a name, is the run
    time in seconds. Allowed are + - * /, parentheses, ``max(a, b)`` and ``min(a, b)``, and the largest and smallest value over the
    hosts of the job, ``max_over(hosts, ...)`` and ``min_over(hosts, ...)``. ``hosts`` is the number of hosts, ``n`` the size of the
    job, ``T(n)`` its run time without load. A line continues within parentheses and after a sign that needs a value; ``#`` starts
    a comment.

    >>> sorted(parse("work = flop / speed\nwork + T(n)", names=("flop", "speed")).names)
    ['T(n)', 'flop', 'speed']
    >>> parse("2 * (flop + 1", names=("flop",))
    Traceback (most recent call last):
    processors.models.structure.parse.EquationError: line 1, column 14: a closing parenthesis is missing.
    """
    if len(equation) > LENGTH_MAX:
        raise EquationError(TextPlace(1, 1), f"the equation is longer than {LENGTH_MAX} characters.")
    parts = list(_parts(equation))
    if not parts:
        raise EquationError(_place(equation, len(equation)), _MISSING)
    reader = _Reader(frozenset(names))
    for tokens in parts:
        expression = reader.read(tokens, last=tokens is parts[-1])
    return Equation(reader.definitions, expression, frozenset(reader.used))


def _place(text: str, at: int) -> TextPlace:
    return TextPlace(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _parts(text: str) -> Iterator[list[_Token]]:
    """Yield the tokens of each part of the text, ending with an `end` token; empty parts are skipped."""
    tokens: list[_Token] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        kind, word, place = match.lastgroup, match.group(), _place(text, match.start())
        if kind == "unknown" or word == "**":
            raise EquationError(place, _UNKNOWN.get(word, f"{word!r} means nothing here."))
        if kind == "number" and _STUCK.match(text, match.end()):
            raise EquationError(place, _NO_NUMBER)
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0:
            raise EquationError(place, "this parenthesis closes nothing.")
        if kind == "blank" or (word == "\n" and (depth or (tokens and tokens[-1].kind in _WANTS_MORE))):
            continue
        if word not in ("\n", ";"):
            tokens.append(_Token(word if kind == "sign" else str(kind), word, place))
            continue
        if depth:
            raise EquationError(place, _NOT_CLOSED)
        if tokens:
            yield [*tokens, _Token("end", "", place)]
        tokens = []
    if depth:
        raise EquationError(_place(text, len(text)), _NOT_CLOSED)
    if tokens:
        yield [*tokens, _Token("end", "", _place(text, len(text)))]


class _Reader:
    """Reads the parts of an equation; `used` are the names that need a value."""

    def __init__(self, given: frozenset[str]) -> None:
        self.definitions: dict[str, Expression] = {}
        self.used: set[str] = set()
        self._given = given
        self._depths: dict[str, int] = {}
        self._nodes = self._deepest = self._position = 0
        self._tokens: list[_Token] = []

    def read(self, tokens: list[_Token], *, last: bool) -> Expression:
        """Read one part of an equation. Only the last part may lack a name."""
        named = tokens[0] if tokens[0].kind == "name" and tokens[1].kind == "=" else None
        self._tokens, self._position, self._deepest = tokens, 2 if named else 0, 0
        for token in tokens[self._position :]:
            if token.kind == "=":
                raise EquationError(token.place, "a name stands left of =, and nothing else.")
        if named and named.text in self.definitions:
            raise EquationError(named.place, f"{named.text} is defined twice.")
        if named and (named.text in RESERVED or named.text in self._given):
            raise EquationError(named.place, f"{named.text} has a meaning already; choose another name.")
        expression = self._sum(0)
        self._take("end")
        if named:
            self.definitions[named.text] = expression
            self._depths[named.text] = self._deepest + 1
        elif not last:
            message = "this line has no name, so it has to be the last; write `name = ...`."
            raise EquationError(tokens[0].place, message)
        return expression

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self, kind: str = "") -> _Token:
        """Return the next token and advance. Raise EquationError if `kind` is given and the token is of another kind."""
        token = self._next
        if kind and token.kind != kind:
            comma = "a comma stands between the values of a function, and nowhere else."
            sign = "a sign such as + or * is missing between two values."
            raise EquationError(token.place, comma if token.kind == "," else sign)
        self._position += 1
        return token

    def _sum(self, depth: int) -> Expression:
        return self._chain(depth, ("+", "-"), self._product)

    def _product(self, depth: int) -> Expression:
        return self._chain(depth, ("*", "/"), self._value)

    def _chain(self, depth: int, signs: tuple[Sign, Sign], read: Callable[[int], Expression]) -> Expression:
        place = self._next.place
        parts: list[tuple[Sign, Expression]] = [(signs[0], read(depth))]
        while self._next.kind in signs:
            parts.append((cast("Sign", self._take().kind), read(depth)))
        return Chain(tuple(parts), place) if len(parts) > 1 else parts[0][1]

    def _value(self, depth: int) -> Expression:
        token = self._take()
        self._deepen(token, depth)
        if token.kind in ("+", "-"):
            inner = self._value(depth + 1)
            return inner if token.kind == "+" else Chain((("*", Number(-1.0, token.place)), ("*", inner)), token.place)
        if token.kind == "(":
            inner = self._sum(depth + 1)
            self._take(")")
            return inner
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise EquationError(token.place, f"the equation has more than {NODES_MAX} numbers and names.")
        if token.kind == "number":
            if not math.isfinite(value := float(token.text)):
                raise EquationError(token.place, f"{token.text} is too large a number.")
            return Number(value, token.place)
        if token.kind != "name":
            raise EquationError(token.place, _MISSING)
        return self._call(token, depth) if self._next.kind == "(" else self._name(token, depth)

    def _name(self, token: _Token, depth: int) -> Name:
        name = token.text
        if name in FUNCTIONS:
            raise EquationError(token.place, f"{name} is a function; write {name}(...).")
        if name in self.definitions:
            self._deepen(token, depth + self._depths[name])
        elif name in (HOSTS, "n") or name in self._given:
            self.used.add(name)
        elif name == "T":
            raise EquationError(token.place, "T alone has no value here; write T(n).")
        else:
            known = sorted({*self._given, *self.definitions, HOSTS, "n"})
            raise EquationError(token.place, f"{name} has no value here; {_hint(name, known, ', '.join(known))}")
        return Name(name, token.place)

    def _call(self, function: _Token, depth: int) -> Expression:
        name, first = function.text, self._tokens[self._position + 1]
        after_first = self._tokens[min(self._position + 2, len(self._tokens) - 1)]
        if name == "T":
            if first.text != "n" or after_first.kind != ")":
                raise EquationError(first.place, "T is known for the size of the job only; write T(n).")
            self._position += 3
            self.used.add(DEDICATED)
            return Name(DEDICATED, function.place)
        if name not in FUNCTIONS:
            hint = _hint(name, FUNCTIONS, f"{', '.join(FUNCTIONS)} and T(n)")
            raise EquationError(function.place, f"{name} is no function; {hint}")
        if first.kind == ")":
            raise EquationError(first.place, _MISSING)
        over = name.endswith("_over")
        if over:
            if first.text != HOSTS or after_first.kind not in (",", ")"):
                message = f"{name} is over the hosts of the job; write {name}(hosts, ...)."
                raise EquationError(first.place, message)
            if after_first.kind == ")":
                raise EquationError(after_first.place, f"what {name} looks at is missing; write {name}(hosts, ...).")
            self._position += 2
            self.used.add(HOSTS)
        arguments: list[Expression] = []
        while not arguments or self._next.kind == ",":
            self._position += 1
            arguments.append(self._sum(depth + 1))
        self._take(")")
        if over and len(arguments) > 1:
            raise EquationError(arguments[1].place, f"{name} looks at one value; write {name}(hosts, ...).")
        if not over and len(arguments) == 1:
            raise EquationError(function.place, f"{name} compares two or more values.")
        return Call(name, tuple(arguments), function.place)

    def _deepen(self, token: _Token, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > DEPTH_MAX:
            raise EquationError(token.place, _TOO_DEEP)


def _hint(name: str, known: Collection[str], listed: str) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {listed}."
