"""The lists of files in the pages about extending: each file is there, or its folder where it is to be written."""

import re
from pathlib import Path
from typing import get_args

import pytest

from agent.config.tree import SourceFormat
from agent.decode.formats import FORMATS
from tests.harden import corpus
from tests.kit.docs import DOCS

ROOT = DOCS.parent
PAGES = sorted(path for path in (DOCS / "extend").glob("*.md") if path.name != "index.md")
ROW = re.compile(r"^\| ((?:`[^`]+`(?:, )?)+) \|", re.MULTILINE)


def listed(page: str) -> list[str]:
    """Return the paths in the first column of a page's table."""
    return [path for row in ROW.findall(page) for path in re.findall(r"`([^`]+)`", row)]


def place(path: str) -> Path:
    """Return what has to exist: the file, or the folder of one that has a name of its own."""
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if re.search(r"NAME|ROOM", part)), len(parts))
    return ROOT.joinpath(*parts[:first])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_files_that_a_page_lists_are_there(path: Path) -> None:
    found = listed(path.read_text())
    assert len(found) >= 8
    assert [each for each in found if not place(each).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_tests_that_a_page_wants_run_are_there(path: Path) -> None:
    named = re.findall(
        r"(?<= )tests/[\w/.]+", "\n".join(re.findall(r"```console\n(.*?)```", path.read_text(), re.DOTALL))
    )
    assert named
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_a_format_that_is_in_one_of_the_lists_is_in_all() -> None:
    files = {name for name, form in FORMATS.items() if form.open_text and form.samples is None and form.is_text is None}
    folders = {name for name, form in FORMATS.items() if form.folder is not None}
    assert {*get_args(SourceFormat)} == {"auto", *FORMATS} - files - folders
    assert corpus.corpus().keys() == {"auto", *FORMATS} - folders
