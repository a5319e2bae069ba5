"""Parser of equations: Python's parser reads the text, and only a few kinds of nodes are accepted. No text is executed."""

import ast
import difflib
import keyword
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn

LENGTH_MAX = 4000  # characters
NODES_MAX = 200
DEPTH_MAX = 40  # parentheses and named parts within each other
FUNCTIONS = ("max", "min", "max_over", "min_over")
HOSTS = "hosts"
DEDICATED = "T(n)"
RESERVED = (*FUNCTIONS, HOSTS, "n")


class TextPlace(NamedTuple):
    """A position in the text: line and column, both from 1."""

    line: int
    column: int


class EquationError(ValueError):
    """An error in an equation or in its values: the position and one sentence.

    >>> str(EquationError(TextPlace(2, 7), "a name is missing."))
    'line 2, column 7: a name is missing.'
    """

    def __init__(self, place: TextPlace, message: str) -> None:
        super().__init__(f"line {place.line}, column {place.column}: {message}")
        self.place = place
        self.message = message


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float
    place: TextPlace


@dataclass(frozen=True, slots=True)
class Name:
    """A parameter, a measured resource, a named part, `hosts`, `n`, or T(n)."""

    text: str
    place: TextPlace


Sign = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts joined by + and -, or by * and /, from left to right; the first part has + or *."""

    parts: "tuple[tuple[Sign, Expression], ...]"
    place: TextPlace


@dataclass(frozen=True, slots=True)
class Call:
    """A function call; functions over hosts have one argument."""

    function: str
    arguments: "tuple[Expression, ...]"
    place: TextPlace


Expression = Number | Name | Chain | Call


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation: its named parts in order, the result, and the names that need a value."""

    definitions: dict[str, Expression]
    result: Expression
    names: frozenset[str]


_SIGNS: dict[type[ast.operator], Sign] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_Kinds = tuple[type[ast.operator], type[ast.operator]]
_SUM: _Kinds = (ast.Add, ast.Sub)
_PRODUCT: _Kinds = (ast.Mult, ast.Div)
_COMMENT = re.compile(r"#[^\n]*")
_MARK = re.compile(r"\*\*|[\n;()]|[^A-Za-z0-9_ \t\r+\-*/,.=]")  # what divides an equation, and what is no part of one
_NAMED = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_KEYWORD = re.compile(rf"\b(?:{'|'.join(keyword.kwlist)})\b")
_LEADING_ZEROS = re.compile(r"(?<![\w.])0+(?=\d)")
_WANTS_MORE = frozenset("+-*/(,=")
_MOVED = 256  # how far a letter is moved out of what an equation can have
_MISSING = "a number, a name or a parenthesis is missing."
_TOO_DEEP = f"parts are nested more than {DEPTH_MAX} deep."


def parse(equation: str, names: Collection[str] = ()) -> Equation:
    r"""Return the model of an equation; `names` are the parameters and resources that it may use.

    A text of lines (or parts divided by ``;``), each ``name = ...``; the last one, with or without a name, is the run
    time in seconds. There are + - * /, parentheses, ``max(a, b)``, ``min(a, b)``, ``max_over(hosts, ...)`` and
    ``min_over(hosts, ...)``: the largest and the smallest over the hosts of the job. ``hosts`` is their number, ``n`` the
    size of the job, ``T(n)`` what its run time would be with the machine to itself. Within parentheses, and after a sign
    that wants more, a new line ends nothing; ``#`` starts a comment. Raises EquationError with the place.

    >>> sorted(parse("work = flop / speed\nwork + T(n)", names=("flop", "speed")).names)
    ['T(n)', 'flop', 'speed']
    >>> parse("2 * (flop + 1", names=("flop",))
    Traceback (most recent call last):
    processors.models.structure.parse.EquationError: line 1, column 14: a closing parenthesis is missing.
    """
    if len(equation) > LENGTH_MAX:
        raise EquationError(TextPlace(1, 1), f"the equation is longer than {LENGTH_MAX} characters.")
    text = _COMMENT.sub(lambda comment: " " * len(comment[0]), equation)
    parts = list(_parts(text))
    if not parts:
        raise EquationError(_place(text, len(text)), _MISSING)
    reader = _Reader(frozenset(names))
    for start, end in parts:
        expression = reader.read(_Part(text, start, end), last=end == parts[-1][1])
    return Equation(reader.definitions, expression, frozenset(reader.used))


def _place(text: str, at: int) -> TextPlace:
    return TextPlace(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part that is not empty."""
    start, depth = 0, 0
    for mark in _MARK.finditer(text):
        at, sign = mark.start(), mark.group()
        if sign == "(":
            depth += 1
            if depth > DEPTH_MAX:
                raise EquationError(_place(text, at), _TOO_DEEP)
        elif sign == ")":
            depth -= 1
            if depth < 0:
                raise EquationError(_place(text, at), "this parenthesis closes nothing.")
        elif sign == "\n" and (depth or text[start:at].rstrip()[-1:] in _WANTS_MORE):
            continue  # also at the very beginning, where the text is empty
        elif sign in ("\n", ";") and not depth:
            yield from _filled(text, start, at)
            start = mark.end()
        else:
            raise EquationError(_place(text, at), _unknown(sign))
    if depth:
        raise EquationError(_place(text, len(text)), "a closing parenthesis is missing.")
    yield from _filled(text, start, len(text))


def _filled(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    part = text[start:end]
    if part.strip():
        yield start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _unknown(sign: str) -> str:
    if sign in ("^", "**"):
        return "there is no power; write x * x."
    return "a closing parenthesis is missing." if sign == ";" else f"{sign!r} means nothing here."


class _Part:
    """One part of an equation: its name, the syntax tree of its expression, and the positions of the tree's nodes."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.place, self.end = _place(text, start), _place(text, end)
        named = _NAMED.match(text, start, end)
        self.name = named[1] if named else None
        start = named.end() if named else start
        if (second := text.find("=", start, end)) >= 0:
            raise EquationError(_place(text, second), "a name stands left of =, and nothing else.")
        own = _LEADING_ZEROS.sub(lambda zeros: " " * len(zeros[0]), text[start:end])
        # a name may be a word that Python keeps for itself (lambda, in): it loses that meaning with its first letter
        own = _KEYWORD.sub(lambda word: chr(ord(word[0][0]) + _MOVED) + word[0][1:], own)
        at = _place(text, start)
        lines = "\n" * at.line
        # in parentheses new lines and what they begin with mean nothing; the first one is a line of its own
        self._source = f"({lines}{' ' * (at.column - 1)}{own}\n)"
        self._lines = self._source.split("\n")

    def tree(self) -> ast.expr:
        """Return the syntax tree of the expression; EquationError if Python's parser rejects it."""
        try:
            return ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            place = TextPlace((error.lineno or 1) - 1, error.offset or 1)
            raise EquationError(min(place, self.end), _misread(error.msg)) from None
        except (RecursionError, MemoryError):
            raise EquationError(self.place, _TOO_DEEP) from None

    def at(self, line: int, offset: int) -> TextPlace:
        """Return the position of a byte offset in a line of Python's parser."""
        place = TextPlace(line - 1, len(self._lines[line - 1].encode()[:offset].decode()) + 1)
        return max(place, self.place)  # the parentheses around all are not the user's

    def of(self, node: ast.expr) -> TextPlace:
        return self.at(node.lineno, node.col_offset)

    def text(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._source, node) or ""


def _misread(message: str) -> str:
    if "literal" in message:
        return "this is no number; write * between a number and a name."
    return "a sign such as + or * is missing between two values." if "comma" in message else _MISSING


class _Reader:
    """Accepts the nodes that an equation may have, and counts them. `used` are the names that need a value."""

    def __init__(self, given: frozenset[str]) -> None:
        self.definitions: dict[str, Expression] = {}
        self.used: set[str] = set()
        self._given = given
        self._depths: dict[str, int] = {}
        self._nodes = self._deepest = 0

    def read(self, part: _Part, *, last: bool) -> Expression:
        """Read one part; only the last part may have no name."""
        self._part = part
        if part.name is not None:
            self._check_new(part.name)
        self._deepest = 0
        expression = self._expression(part.tree(), 0)
        if part.name is not None:
            self.definitions[part.name] = expression
            self._depths[part.name] = self._deepest + 1
        elif not last:
            message = "this line has no name, so it has to be the last; write `name = ...`."
            raise EquationError(part.place, message)
        return expression

    def _check_new(self, name: str) -> None:
        if name in self.definitions:
            raise EquationError(self._part.place, f"{name} is defined twice.")
        if name in RESERVED or name in self._given:
            raise EquationError(self._part.place, f"{name} has a meaning already; choose another name.")

    def _expression(self, node: ast.expr, depth: int) -> Expression:
        self._deepen(node, depth)
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self._chain(node, _SUM, depth)
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return self._chain(node, _PRODUCT, depth)
        return self._single(node, depth)

    def _single(self, node: ast.expr, depth: int) -> Expression:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._fail(node, f"the equation has more than {NODES_MAX} numbers and names.")
        match node:
            case ast.Constant():
                return self._number(node)
            case ast.Name():
                return self._name(node, depth)
            case ast.Call(func=ast.Name() as function):
                return self._call(node, _plain(function), depth)
            case ast.UnaryOp():
                inner, place = self._expression(node.operand, depth + 1), self._part.of(node)
                negative = isinstance(node.op, ast.USub)
                return Chain((("*", Number(-1.0, place)), ("*", inner)), place) if negative else inner
            case _:
                raise EquationError(self._part.of(node), _refusal(node))

    def _chain(self, node: ast.BinOp, kinds: _Kinds, depth: int) -> Expression:
        """Read a chain of operators of one precedence; a parenthesis in it is one level deeper."""
        signed: list[tuple[Sign, ast.expr]] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp) and isinstance(first.op, kinds):
            signed.append((_SIGNS[type(first.op)], first.right))
            first = first.left
        signed.append((_SIGNS[kinds[0]], first))
        parts = tuple((sign, self._expression(part, depth + _enclosed(part, kinds))) for sign, part in reversed(signed))
        return Chain(parts, self._part.of(node))

    def _number(self, node: ast.Constant) -> Number:
        text = self._part.text(node)
        if not _NUMBER.fullmatch(text):
            self._fail(node, "this is no number; write * between a number and a name.")
        value = float(text)
        if not math.isfinite(value):
            self._fail(node, f"{text} is too large a number.")
        return Number(value, self._part.of(node))

    def _name(self, node: ast.Name, depth: int) -> Name:
        name = _plain(node)
        if name in FUNCTIONS:
            self._fail(node, f"{name} is a function; write {name}(...).")
        if name in self.definitions:
            self._deepen(node, depth + self._depths[name])
        elif name in (HOSTS, "n") or name in self._given:
            self.used.add(name)
        else:
            self._fail(node, self._no_name(name))
        return Name(name, self._part.of(node))

    def _call(self, node: ast.Call, name: str, depth: int) -> Expression:
        place = self._part.of(node)
        closing = self._part.at(node.end_lineno or 1, (node.end_col_offset or 1) - 1)
        if name == "T":
            if len(node.args) != 1 or not (isinstance(node.args[0], ast.Name) and node.args[0].id == "n"):
                message = "T is known for the size of the job only; write T(n)."
                raise EquationError(self._part.of(node.args[0]) if node.args else closing, message)
            self.used.add(DEDICATED)
            return Name(DEDICATED, place)
        if name not in FUNCTIONS:
            close = difflib.get_close_matches(name, FUNCTIONS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(FUNCTIONS)} and T(n)."
            self._fail(node, f"{name} is no function; {hint}")
        if not node.args:
            raise EquationError(closing, _MISSING)
        over = name.endswith("_over")
        arguments = self._over_hosts(node, name, closing) if over else node.args
        found = tuple(self._expression(argument, depth + 1) for argument in arguments)
        if not over and len(found) == 1:
            self._fail(node, f"{name} compares two or more values.")
        return Call(name, found, place)

    def _over_hosts(self, node: ast.Call, name: str, closing: TextPlace) -> list[ast.expr]:
        """Return the argument of a function over hosts."""
        hosts, *values = node.args
        if not (isinstance(hosts, ast.Name) and hosts.id == HOSTS):
            self._fail(hosts, f"{name} is over the hosts of the job; write {name}(hosts, ...).")
        if not values:
            raise EquationError(closing, f"what {name} looks at is missing; write {name}(hosts, ...).")
        if len(values) > 1:
            self._fail(values[1], f"{name} looks at one value; write {name}(hosts, ...).")
        self.used.add(HOSTS)
        return values

    def _no_name(self, name: str) -> str:
        known = sorted({*self._given, *self.definitions, HOSTS, "n"})
        if name == "T":
            return "T alone has no value here; write T(n)."
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
        return f"{name} has no value here; {hint}"

    def _deepen(self, node: ast.expr, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > DEPTH_MAX:
            self._fail(node, _TOO_DEEP)

    def _fail(self, node: ast.expr, message: str) -> NoReturn:
        raise EquationError(self._part.of(node), message)


def _plain(node: ast.Name) -> str:
    """Return a name as the user wrote it."""
    first = ord(node.id[0])
    return node.id if first < _MOVED else chr(first - _MOVED) + node.id[1:]


def _enclosed(node: ast.expr, kinds: _Kinds) -> bool:
    """Return whether a part of a chain needs parentheses."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, (*kinds, *_SUM))


def _refusal(node: ast.expr) -> str:
    """Return the error message for a node that equations may not have."""
    if isinstance(node, ast.Attribute):
        return "'.' stands within numbers only."
    if isinstance(node, ast.Call):
        return "a sign such as + or * is missing between two values."
    return (
        "a comma stands between the values of a function, and nowhere else."
        if isinstance(node, ast.Tuple) and node.elts
        else _MISSING
    )
