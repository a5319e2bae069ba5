"""Calls that would make a replay differ, hide a failure, or run what somebody else wrote."""

import ast
from collections.abc import Iterator

import pytest

from tests.kit.cases import each
from tests.kit.sources import PRODUCT, Module, dotted, imported_names, lines, module, modules

# dotted name, or the start of one -> why not; a name stands for everything below it
BANNED: dict[str, str] = {
    "time": "time is an argument; only agent/clock.py asks for it",
    "datetime.datetime.now": "time is an argument; only agent/clock.py asks for it",
    "datetime.datetime.utcnow": "time is an argument; only agent/clock.py asks for it",
    "datetime.datetime.today": "time is an argument; only agent/clock.py asks for it",
    "datetime.date.today": "time is an argument; only agent/clock.py asks for it",
    "random": "chance comes from a numpy Generator with a seed",
    "numpy.random": "chance comes from a numpy Generator with a seed",
    "uuid": "ids follow from what they name, so that a replay gives the same",
    "pickle": "state is plain data with a version",
    "marshal": "state is plain data with a version",
    "shelve": "state is plain data with a version",
    "joblib": "state is plain data with a version",
    "print": "the command line writes with click, the roles log",
    "eval": "nothing runs text",
    "exec": "nothing runs text",
    "compile": "nothing runs text",
    "__import__": "imports are written at the top",
    "yaml.load": "safe_load, or a loader that makes plain data",
    "os.system": "nothing runs a shell",
}

# of the above, what is harmless; a seed is handed to these
HARMLESS = frozenset({"numpy.random.Generator", "numpy.random.SeedSequence", "numpy.random.BitGenerator"})
SEEDED = frozenset({"numpy.random.default_rng", "numpy.random.SeedSequence", "numpy.random.PCG64", "random.Random"})

# file -> what it alone may use
ALLOWED: dict[str, frozenset[str]] = {"agent/clock.py": frozenset({"time"})}

# processors are pure: none of these may even be imported
IMPURE = frozenset(
    [
        "asyncio",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "queue",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "uuid",
        "structlog",
    ]
)

BUILTINS = frozenset({"print", "eval", "exec", "compile", "__import__", "input", "breakpoint"})


def used(node: ast.AST, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yield line and full dotted name of every imported or built-in name that is used, aliases resolved."""
    if written := dotted(node):
        head, dot, rest = written.partition(".")
        if head in names or written in BUILTINS:
            yield getattr(node, "lineno", 0), names.get(head, head) + dot + rest
        return
    for child in ast.iter_child_nodes(node):
        if not (child is getattr(node, "func", None) and seeded(node, names)):
            yield from used(child, names)


def seeded(call: ast.AST, names: dict[str, str]) -> bool:
    """Whether this is a call that makes a generator from a given seed."""
    if not isinstance(call, ast.Call) or not call.args or ast.unparse(call.args[0]) == "None":
        return False
    head, dot, rest = (dotted(call.func) or "").partition(".")
    return names.get(head, head) + dot + rest in SEEDED


def banned(of: Module) -> Iterator[str]:
    for line, name in used(of.tree, imported_names(of.tree)):
        rule = next((rule for rule in BANNED if name == rule or name.startswith(f"{rule}.")), None)
        if rule and name not in HARMLESS and rule not in ALLOWED.get(of.path, ()):
            yield f"{of.path}:{line}: {name}: {BANNED[rule]}"


def asserts(of: Module) -> Iterator[str]:
    for node in ast.walk(of.tree):
        if isinstance(node, ast.Assert):
            yield f"{of.path}:{node.lineno}: assert: raise an error that says what is wrong, -O removes this one"


def impure(of: Module) -> Iterator[str]:
    for name in sorted({name.split(".")[0] for name in imported_names(of.tree).values()} & IMPURE):
        yield f"{of.path}: {name}: processors are pure, no I/O, clock, thread or log"


def test_nothing_asks_the_clock_rolls_dice_or_runs_text() -> None:
    assert lines(banned, *PRODUCT) == ""


def test_the_product_raises_errors_and_asserts_nothing() -> None:
    assert lines(asserts, *PRODUCT) == ""


def test_processors_are_pure() -> None:
    assert lines(impure, "processors") == ""


def test_every_exception_is_still_needed() -> None:
    unused = [
        (path, rule)
        for path, rules in ALLOWED.items()
        for rule in rules
        if not any(name.startswith(rule) for each in modules(*PRODUCT) if each.path == path for name in _names(each))
    ]
    assert unused == []


def _names(of: Module) -> list[str]:
    return [name for _, name in used(of.tree, imported_names(of.tree))]


@each(
    "text",
    [
        "import time\nnow = time.time()",
        "import time as clock\nfield(default_factory=clock.monotonic)",
        "from time import sleep\nsleep(1)",
        "from datetime import UTC, datetime\ndatetime.now(UTC)",
        "import datetime as dt\ndt.date.today()",
        "import random\nrandom.random()",
        "import random\nrandom.Random()",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.default_rng(None)",
        "from numpy.random import default_rng\ndefault_rng()",
        "import pickle\npickle.loads(b'')",
        "print('here')",
        "list(map(print, [1]))",
        "eval('1')",
    ],
)
def test_a_banned_use_is_found(text: str) -> None:
    assert len(list(banned(module("sinks/new.py", text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import re\nre.compile('a')",
        "import numpy as np\ndef draw(seed: int) -> np.random.Generator:\n    return np.random.default_rng(seed)",
        "from datetime import datetime\ndatetime.fromisoformat('2026-11-20')",
        "time = event.time\ntime.hour",
        "record.print()",
    ],
)
def test_a_harmless_use_is_none(text: str) -> None:
    assert list(banned(module("sinks/new.py", text))) == []


def test_only_the_clock_may_ask_the_clock() -> None:
    text = "import time\ntime.time()"
    assert list(banned(module("agent/clock.py", text))) == []
    assert list(banned(module("agent/log/clock.py", text))) != []


def test_an_assert_and_an_impure_processor_are_found() -> None:
    assert len(list(asserts(module("sinks/new.py", "assert True")))) == 1
    assert len(list(impure(module("processors/new.py", "from time import time\nimport os.path")))) == 2
