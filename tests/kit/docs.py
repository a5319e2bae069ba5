"""Pages of the documentation as tests read them: their blocks of code, with language and title, in order."""

import re
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of a page: its language, its title or nothing, its text, and where the text lies in the page."""

    language: str
    title: str
    text: str
    span: tuple[int, int]


def blocks(page: str) -> list[Block]:
    """Return the blocks of the text of a page."""
    return [Block(found[1], found[2] or "", found[3], found.span(3)) for found in _BLOCK.finditer(page)]


class Step(NamedTuple):
    """A command of a page, and the lines that the page shows below it; `...` in them stands for anything."""

    command: str
    output: tuple[str, ...]


def steps(block: Block) -> list[Step]:
    """Return the commands of a console block that have a prompt, each with its output."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found:
            found[-1][1].append(line)
    return [Step(command, tuple(output)) for command, output in found]


def missing(step: Step, printed: str) -> list[str]:
    """Return the lines of a step's output that a command did not print."""
    patterns = {line: ".*".join(re.escape(part) for part in line.split("...")) for line in step.output}
    return [line for line, pattern in patterns.items() if not re.search(f"^{pattern}$", printed, re.MULTILINE)]
