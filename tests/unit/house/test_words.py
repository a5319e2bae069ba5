"""Names say what a variable holds: the share of generic names is capped, and no two classes share a name."""

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.kit.sources import PRODUCT, Module, module, modules

# names that say what happened to a variable, or nothing; fine for a loop of two lines, no help anywhere else
GENERIC: Final = frozenset(
    [
        "found",
        "known",
        "each",
        "given",
        "own",
        "one",
        "at",
        "said",
        "taken",
        "told",
        "made",
        "done",
        "what",
        "it",
        "those",
        "these",
        "such",
        "other",
        "others",
        "wanted",
        "asked",
        "named",
        "kept",
        "seen",
        "got",
        "thing",
        "things",
        "stuff",
        "tmp",
        "here",
        "there",
        "so",
    ]
)
SHARE_MAX: Final = 0.01
SAME_NAME_MAX: Final = 0  # classes whose name another class has, too
SHORT_LOOP: Final = 2


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield each name that a module binds: variables, arguments, functions, classes, but not those of a short loop."""
    short = set(_names_of_short_loops(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in short:
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def _names_of_short_loops(tree: ast.AST) -> Iterator[ast.Name]:
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension) or (
            isinstance(node, ast.For) and (node.end_lineno or 0) - node.lineno <= SHORT_LOOP
        ):
            yield from (name for name in ast.walk(node.target) if isinstance(name, ast.Name))


def share_of_generic_names(of: tuple[Module, ...]) -> float:
    """Return the share of generic names among all names that the modules bind."""
    counts = Counter(name in GENERIC for each in of for name in bound_names(each.tree))
    return counts[True] / max(counts.total(), 1)


def shared_class_names(of: tuple[Module, ...]) -> list[str]:
    """Return the names that several public classes have, ascending."""
    names = Counter(
        node.name
        for each in of
        for node in each.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, count in names.items() if count > 1)


def test_few_names_are_generic() -> None:
    assert share_of_generic_names(modules(*PRODUCT)) <= SHARE_MAX


def test_no_two_classes_share_a_name() -> None:
    assert len(shared_class_names(modules(*PRODUCT))) <= SAME_NAME_MAX


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("found = 1\nhosts = 2\n", 0.5),
        ("for each in hosts:\n    print(each)\n", 0.0),
        ("for each in hosts:\n    a = each\n    b = each\n    c = each\n", 0.25),
        ("def known(given): ...\n", 1.0),
    ],
)
def test_generic_names_are_counted(text: str, share: float) -> None:
    assert share_of_generic_names((module("sinks/new.py", text),)) == share


def test_classes_that_share_a_name_are_found() -> None:
    band = "class Band: ...\n"
    assert shared_class_names((module("sinks/a.py", band), module("sinks/b.py", band))) == ["Band"]
