"""Documentation that runs: examples in docstrings, commands and links in pages."""

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deploy.site.reference import FOLDER, PAGES
from deploy.site.sources import DOCS
from tests.kit.cases import each
from tests.kit.sources import PRODUCT, ROOT, Module, dotted, files, lines, module, modules

# where an example of a line or two teaches; elsewhere it shows nothing that a test does not show better
EXAMPLES_IN = ("processors/models", "agent/decode", "processors/contracts")

CONSOLE = re.compile(r"^ *```console\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
MAKE_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def public(of: Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Yield the public functions and classes at the top of a module."""
    for node in of.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def needs_example(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether it does something: data, protocols and errors are told by their docstring alone."""
    if isinstance(node, ast.FunctionDef):
        return True
    bases = {
        (dotted(base.value if isinstance(base, ast.Subscript) else base) or "").split(".")[-1] for base in node.bases
    }
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]
    return "Protocol" not in bases and any(not method.decorator_list for method in methods)


def undocumented(of: Module) -> Iterator[str]:
    """Yield what has no docstring but needs one: modules and public classes. Names and types may say all of a function."""
    if not ast.get_docstring(of.tree):
        yield f"{of.path}: the module says not what it is for"
    for node in public(of):
        if isinstance(node, ast.ClassDef) and not ast.get_docstring(node):
            yield f"{of.path}: {node.name} has no docstring"


def without_example(of: Module) -> bool:
    """Whether a module of a room where examples teach has public functions and no example at all."""
    return of.path.startswith(EXAMPLES_IN) and ">>> " not in of.text and any(map(needs_example, public(of)))


def stray_example(of: Module) -> set[str]:
    return set() if of.path.startswith(EXAMPLES_IN) or ">>> " not in of.text else {of.path}


def commands(text: str) -> list[str]:
    """Return the commands of the console blocks of a page: the lines with a prompt, or all where none has one."""
    found: list[str] = []
    for block in CONSOLE.findall(text):
        prompted = re.findall(r"^\s*\$ (.+)$", block, re.MULTILINE)
        found += prompted or [line.strip() for line in block.splitlines() if line.strip()]
    return found


def pages() -> list[str]:
    return [path for path in files() if path.endswith(".md") and not path.startswith("tests/cases/")]


def is_made(path: Path) -> bool:
    """Whether a page links to one that is made from the code when the site is built."""
    made = path.resolve().parent == (ROOT / DOCS / FOLDER)
    return made and path.name in PAGES


def test_everything_public_states_what_it_is() -> None:
    assert lines(undocumented, *PRODUCT) == ""


def test_each_module_has_an_example_where_examples_teach() -> None:
    assert [each.name for each in modules(*PRODUCT) if without_example(each)] == []


def test_there_are_no_examples_where_they_show_nothing() -> None:
    assert {path for each in modules(*PRODUCT) for path in stray_example(each)} == set()


@pytest.mark.parametrize("name", [each.name for each in modules(*PRODUCT) if ">>> " in each.text])
def test_the_examples_of_a_module_run(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0


@each("page", pages())
def test_make_targets_and_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    targets = set(MAKE_TARGET.findall((ROOT / "Makefile").read_text()))
    named = [word for command in commands(text) for word in re.findall(r"(?:^|&& )make ([a-z-]+)", command)]
    assert [target for target in named if target not in targets] == []
    folder = (ROOT / page).parent
    assert [link for link in LINK.findall(text) if not (folder / link).exists() and not is_made(folder / link)] == []


@each("page", pages())
def test_commands_of_scalewatch_that_a_page_names_exist(page: str) -> None:
    named = [
        name for command in commands((ROOT / page).read_text()) for name in re.findall(r"scalewatch ([a-z]+)", command)
    ]
    if named:
        from agent.cli import main

        assert [name for name in named if main.get_command(click.Context(main), name) is None] == []


def test_the_rules_find_what_they_forbid() -> None:
    bare = module("processors/models/bare.py", "class Bare: ...\ndef act() -> None:\n    pass\n")
    assert len(list(undocumented(bare))) == 2
    assert without_example(bare)
    assert stray_example(module("sinks/shown.py", '"""Act.\n\n>>> 1\n1\n"""')) == {"sinks/shown.py"}
    fields = module(
        "processors/models/data.py",
        'class Data(Struct):\n    """Data."""\n    @property\n    def id(self) -> str: ...\n',
    )
    assert not without_example(fields)
    assert commands("```console\n$ make demo\nout\n$ cd x && make test\n```\n$ no") == [
        "make demo",
        "cd x && make test",
    ]
