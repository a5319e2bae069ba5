"""Budgets of the product: its size by room, what one job completion passes, settings, metrics and commands.

`SCALEWATCH_UPDATE_BUDGET=1 pytest tests/unit/house/test_budget.py` lowers the budgets to what is there. It raises none: a commit that has
to raise one edits `tests/budget.json` and gives the reason in its message.
"""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.cli import COMMANDS
from agent.config.reference import keys
from sinks.prometheus.table import METRICS
from tests.kit.sources import PRODUCT, ROOT, Module, module, modules

BUDGET = ROOT / "tests" / "budget.json"
START = datetime(2026, 1, 1, tzinfo=UTC)


def code_lines(of: Module) -> int:
    """Count the lines without blanks, comments, docstrings and imports."""
    skipped: set[int] = set()
    for node in ast.walk(of.tree):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]  # both have lines
    lines = enumerate(of.text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in skipped for number, line in lines
    )


def room_of(path: str) -> str:
    """Return the folder of the second level, or the module that stands beside such folders."""
    return "/".join(path.split("/")[:2])


def sizes(of: tuple[Module, ...]) -> dict[str, Any]:
    """Return the number of modules, all lines, and the code lines by room."""
    by_room: Counter[str] = Counter()
    for each in of:
        by_room[room_of(each.path)] += code_lines(each)
    return {
        "modules": len(of),
        "lines": sum(len(each.text.splitlines()) for each in of),
        "code_lines": by_room.total(),
        "code_lines_by_room": dict(sorted((room, lines) for room, lines in by_room.items() if lines)),
    }


def journey(events: list[dict[str, Any]], folder: Path) -> tuple[int, int]:
    """Return how many modules a replay of some events runs, and how often one module calls another."""
    folder.mkdir()
    file = folder / "events.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    command = [sys.executable, "-m", "tests.kit.travelled", str(file), str(folder)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    passed, hand_overs = map(int, printed.split())
    return passed, hand_overs


def moment(seconds: float) -> str:
    return (START + timedelta(seconds=round(seconds))).isoformat()


def completions() -> list[dict[str, Any]]:
    """Return thirty runs of one application at five sizes, and a quiet hour behind them."""
    events: list[dict[str, Any]] = []
    passed_s = 0.0
    for number in range(30):
        n = (1, 2, 4, 8, 16)[number % 5]
        run_time_s = (1000 / n + 20) * (1 + 0.01 * (number % 3 - 1))
        events.append(
            {
                "type": "job.completed", "system": "exa", "job_id": str(number), "application": "lammps", "n": n, "unit": "nodes",
                "hosts": [f"h{host}" for host in range(min(n, 4))], "start": moment(passed_s), "end": moment(passed_s + run_time_s),
                "run_time_s": run_time_s, "state": "COMPLETED", "exit_code": 0,
            }
        )  # fmt: skip
        passed_s += run_time_s + 30
    return [*events, quiet_host(passed_s + 3600)]


def quiet_host(seconds: float) -> dict[str, Any]:
    return {"type": "host.state", "system": "exa", "host": "h0", "state": "up", "time": moment(seconds)}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("journeys")
    nothing, _ = journey([quiet_host(0)], folder / "nothing")
    passed, hand_overs = journey(completions(), folder / "completions")
    return {
        **sizes(modules(*PRODUCT)),
        "modules_a_completion_adds": passed - nothing,
        "hand_overs_of_completions": hand_overs,
        "configuration_keys": len(keys()),
        "metrics": len(METRICS),
        "commands": len(COMMANDS),
    }


def overspent(used: dict[str, Any], budget: dict[str, Any]) -> list[str]:
    """Return a line for each figure above its budget, and for each figure without one."""
    over = []
    for name, figure in used.items():
        if isinstance(figure, dict):
            over += [f"{name}, {line}" for line in overspent(figure, budget.get(name, {}))]
        elif figure > budget.get(name, -1):
            over.append(f"{name}: {figure} of {budget.get(name, 'no budget')}")
    return over


def lowered(used: dict[str, Any], budget: dict[str, Any]) -> dict[str, Any]:
    """Return the budget with each figure lowered to what is used; a figure without a budget gets one."""
    return {
        name: lowered(figure, budget.get(name, {}))
        if isinstance(figure, dict)
        else min(figure, budget.get(name, figure))
        for name, figure in used.items()
    }


def test_the_product_keeps_within_its_budgets(measured: dict[str, Any]) -> None:
    budget = json.loads(BUDGET.read_text())
    if os.environ.get("SCALEWATCH_UPDATE_BUDGET") == "1":
        budget = {**budget, **lowered(measured, budget)}
        BUDGET.write_text(json.dumps(budget, indent=1) + "\n")
    assert overspent(measured, budget) == []


def test_the_tests_take_at_most_eighteen_minutes() -> None:
    """The figure is measured on two cores that do nothing else, with warm caches; `.ci/run` reports its own time beside it."""
    assert 0 < json.loads(BUDGET.read_text())["seconds_of_make_test"] <= 18 * 60


def test_a_figure_above_its_budget_is_named() -> None:
    used = {"modules": 3, "rooms": {"a": 5, "b": 2}}
    assert overspent(used, {"modules": 3, "rooms": {"a": 4}}) == ["rooms, a: 5 of 4", "rooms, b: 2 of no budget"]
    assert lowered(used, {"modules": 9, "rooms": {"a": 4}}) == {"modules": 3, "rooms": {"a": 4, "b": 2}}


def test_comments_docstrings_blanks_and_imports_are_no_code() -> None:
    text = '"""A module."""\n\nimport os\nfrom a import (\n    b,\n)\n\n# why\nX = 1\n\n\ndef f() -> None:\n    """Do."""\n    return\n'
    assert code_lines(module("sinks/new.py", text)) == 3
