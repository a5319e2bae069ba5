"""The small faults of the mutation run: which are made, and that each is one."""

import ast
from itertools import islice

import numpy as np
import pytest
from msgspec import Struct

from tests.kit.cases import each
from tests.kit.sources import ROOT
from tests.mutation.__main__ import choose, modules
from tests.mutation.mutants import applied, mutants
from tests.mutation.perturb import perturbed

SOURCE = '''"""A module with 1 number in its text."""
from __future__ import annotations

import math

LIMIT: float = 2.0


def bounded(values: list[float], low: float = 0.5) -> float:
    total = 0.0
    for value in values:
        if value < low and total != LIMIT:
            raise ValueError(f"{value + 1} is too low")
        total += min(value, 3)
    return math.floor(total) * 2
'''


class Point(Struct):
    name: str
    n: float


@each(
    ("kind", "text", "line"),
    [
        ("constant", "2.5", 6),
        ("constant", "0.625", 9),
        ("comparison", "(value <= low)", 12),
        ("comparison", "(total == LIMIT)", 12),
        ("and/or", "((value < low) or (total != LIMIT))", 12),
        ("condition", "(not (value < low and total != LIMIT))", 12),
        ("statement", "pass", 13),
        ("function", "max", 14),
        ("constant", "4", 14),
        ("statement", "pass", 14),
        ("function", "math.ceil", 15),
        ("operator", "(math.floor(total) / 2)", 15),
        ("result", "_perturbed(math.floor(total) * 2)", 15),
    ],
)
def test_a_change_of_each_kind_is_made_where_it_states(kind: str, text: str, line: int) -> None:
    (mutant,) = [each for each in mutants("m.py", SOURCE) if (each.kind, each.text, each.line) == (kind, text, line)]
    changed = applied(SOURCE, mutant).splitlines()
    assert len(changed) == len(SOURCE.splitlines())
    assert [i + 1 for i, each in enumerate(SOURCE.splitlines()) if each != changed[i]][-1] == line
    assert text in changed[line - 1]


def test_texts_annotations_and_what_is_raised_stay() -> None:
    assert not [each for each in mutants("m.py", SOURCE) if each.line in {1, 2, 4, 8, 13} and each.kind != "statement"]


def test_every_change_of_a_module_of_the_run_time_path_is_another_module() -> None:
    sources = sorted(((ROOT / path).read_text() for path in modules()), key=len)
    source = next(each for each in sources if len(mutants("m.py", each)) > 20)
    tree = ast.dump(ast.parse(source))
    for mutant in mutants("m.py", source):
        assert ast.dump(ast.parse(applied(source, mutant))) != tree, mutant


def test_a_seed_makes_the_same_choice_each_time() -> None:
    paths = sorted(modules(), key=lambda path: (ROOT / path).stat().st_size)
    assert len(paths) > 20
    few = list(islice((path for path in paths if len(mutants(path, (ROOT / path).read_text())) > 4), 2))
    assert choose(few, 1, 8) == choose(few, 1, 8) != choose(few, 2, 8)
    assert {each.path for each in choose(few, 1, 8, (few[0],))} == {few[0]}


def test_a_result_is_wrong_and_of_its_type() -> None:
    assert perturbed([True, True]) == [False, True]
    assert perturbed(3) == 4
    assert perturbed(2.0) == pytest.approx(2.2)
    assert perturbed(0.0) > 0
    assert perturbed(("x", 1.0)) == ("xx", 1.0)
    assert perturbed([None, None]) == [None]
    assert perturbed({"a": 1}) == {"a": 2}
    assert perturbed(Point("x", 1.0)) == Point("xx", 1.0)
    assert perturbed(np.array([0.0, 10.0])).tolist() == pytest.approx([0.1, 11.0])
    assert perturbed(object()) is None
