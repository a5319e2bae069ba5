"""Small changes of a module, each of which a test should notice: one comparison, number, sign, condition or statement."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final = {
    "Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "==", "In": "not in", "NotIn": "in",
    "Is": "is not", "IsNot": "is",
}  # fmt: skip
OPERATORS: Final = {"Add": "-", "Sub": "+", "Mult": "/", "Div": "*", "FloorDiv": "*", "Pow": "*"}
OPPOSITES: Final = {
    "min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum", "floor": "ceil",
    "ceil": "floor", "bisect_left": "bisect_right", "bisect_right": "bisect_left", "log": "sqrt", "log2": "sqrt",
}  # fmt: skip
PERTURB: Final = "from tests.mutation.perturb import perturbed as _perturbed; "


@dataclass(frozen=True, order=True)
class Mutant:
    """One change: the bytes from `start` to `end` of a module become `text`."""

    path: str
    line: int
    start: int
    end: int
    kind: str
    before: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.kind}: {self.before}  ->  {self.text}"


def mutants(path: str, source: str) -> list[Mutant]:
    """Return every change that can be made in a module, in the order of its text."""
    offsets = [0]
    for line in source.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))

    def made(node: ast.expr | ast.stmt, kind: str, text: str) -> Mutant:
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return Mutant(path, node.lineno, start, end, kind, _short(ast.unparse(node)), text)

    return sorted(
        {made(*change) for node in _nodes(ast.parse(source)) for change in (*_in_values(node), *_in_steps(node))}
    )


def applied(source: str, mutant: Mutant) -> str:
    """Return a module with one change made; every line stays where it was before the change."""
    text = source.encode()
    changed = (text[: mutant.start] + mutant.text.encode() + text[mutant.end :]).decode()
    return with_import(changed) if "_perturbed(" in mutant.text else changed


def with_import(source: str) -> str:
    """Return a module that knows `_perturbed`: in the line of its first import that is no statement for the compiler."""
    body = ast.parse(source).body
    at = next(i for i, node in enumerate(body) if not _first(node))
    lines = source.splitlines(keepends=True)
    lines[body[at].lineno - 1] = PERTURB + lines[body[at].lineno - 1]
    return "".join(lines)


def _first(node: ast.stmt) -> bool:
    """Return whether a statement has to stand before all others, or cannot have one before it in its line."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return not isinstance(node, ast.Import | ast.Assign | ast.AnnAssign)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs: no annotations, decorators, arguments of a class, texts or what is raised."""
    yield node
    left_out: list[ast.AST | None] = []
    match node:
        case ast.FunctionDef():
            left_out = [*node.decorator_list, node.returns]
        case ast.ClassDef():
            left_out = [*node.decorator_list, *node.bases, *node.keywords]
        case ast.AnnAssign() | ast.arg():
            left_out = [node.annotation]
        case ast.JoinedStr() | ast.Raise() | ast.Import() | ast.ImportFrom():
            return
    for child in ast.iter_child_nodes(node):
        if not any(child is each for each in left_out):
            yield from _nodes(child)


def _in_values(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield what can be changed in a value."""
    match node:
        case ast.Compare(ops=[operator]):
            yield node, "comparison", _compared(node, COMPARISONS[type(operator).__name__])
        case ast.Constant(value=bool(value)):
            yield node, "constant", str(not value)
        case ast.Constant(value=int(value)):
            yield node, "constant", str(value + 1)
        case ast.Constant(value=float(value)):
            yield node, "constant", repr(value * 1.25 or 0.25)
        case ast.BinOp(op=operator) if type(operator).__name__ in OPERATORS and not isinstance(
            node.left, ast.JoinedStr
        ):
            sign = OPERATORS[type(operator).__name__]
            yield node, "operator", f"({_source(node.left)} {sign} {_source(node.right)})"
        case ast.BoolOp(op=operator):
            word = " or " if isinstance(operator, ast.And) else " and "
            yield node, "and/or", f"({word.join(_source(value) for value in node.values)})"
        case ast.Call(func=ast.Name(id=name)) if name in OPPOSITES:
            yield node.func, "function", OPPOSITES[name]
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in OPPOSITES:
            yield node.func, "function", f"{_source(owner)}.{OPPOSITES[name]}"


def _in_steps(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield what can be changed in the way that is taken."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield test, "condition", f"(not {_source(test)})"
        case ast.comprehension(ifs=[test]):
            yield test, "condition", f"(not {_source(test)})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, "result", f"_perturbed({ast.unparse(value)})"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue():
            yield node, "statement", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "statement", "pass"


def _compared(node: ast.Compare, operator: str) -> str:
    return f"({_source(node.left)} {operator} {_source(node.comparators[0])})"


def _source(node: ast.expr) -> str:
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript)
    return ast.unparse(node) if simple else f"({ast.unparse(node)})"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:97]}..."
