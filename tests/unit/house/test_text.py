"""What is written here speaks of the product alone, and holds on any machine."""

import re
from collections.abc import Iterator

import pytest

from tests.kit.cases import each
from tests.kit.sources import ROOT, files

# what must not be written -> why; [] in a word keeps this file from finding itself
UNWANTED: dict[str, str] = {
    r"(?<![\w.$}~-])/(?:wor[k]|roo[t]|tm[p])/[\w.]": "a path of one machine",
    r"(?i)\b(?:pypi\.or[g]|pythonhosted\.or[g]|maven\.apache\.or[g]|repo1\.maven\.or[g]|registry\.npmjs\.or[g])": "a registry",
    r"(?i)\b(?:(?:deb|security|snapshot|ftp)\.debian\.or[g]|archive\.ubuntu\.co[m]|proxy\.golang\.or[g]|crates\.i[o])": "a mirror",
    r"(?i)\b(?:issues?|fix(?:e[sd])?|close[sd]?|resolve[sd]?|pull request|PR|bug) #\d": "the number of an issue",
    r"\(#\d+\)": "the number of an issue",
    r"(?i)\b(?:github|gitlab)\.com/[\w./-]+/(?:issues|pull|merge_requests)/\d": "the number of an issue",
    r"\b(?:TOD[O]|FIXM[E])\b": "unfinished work: finish it or leave it out",
}


def unwanted(path: str, text: str) -> Iterator[str]:
    for pattern, reason in UNWANTED.items():
        for found in re.finditer(pattern, text):
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()}: {reason}"


def text_of(path: str) -> str:
    """Return the text of a file, nothing where it is not text."""
    try:
        return (ROOT / path).read_text()
    except UnicodeDecodeError:
        return ""


def test_no_file_names_a_machine_a_registry_an_issue_or_unfinished_work() -> None:
    assert "\n".join(problem for path in files() for problem in unwanted(path, text_of(path))) == ""


def test_no_file_is_a_leftover_of_an_editor_or_a_merge() -> None:
    leftovers = re.compile(r"(\.orig|\.rej|\.swp|\.bak|~|\.DS_Store)$")
    assert [path for path in files() if leftovers.search(path)] == []
    assert [path for path in files() if re.search(r"^(<{7}|>{7}) ", text_of(path), re.MULTILINE)] == []


@each(
    "text",
    [
        "see /wor" + "k/main/x",
        'open("/tm' + 'p/x.json")',
        "index = https://pypi.or" + "g/simple",
        "deb http://deb.debian.or" + "g/debian",
        "# fixes #" + "12",
        "done (#" + "7)",
        "https://github.com/a/b/issues/" + "12",
        "# TOD" + "O later",
    ],
)
def test_unwanted_text_is_found(text: str) -> None:
    assert len(list(unwanted("a.md", text))) == 1


@pytest.mark.parametrize(
    "text", ["colour: #123", "run#7", "/opt/lammps/lmp", "homework/tmp", "${HOME}/work/x", "/proc"]
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert list(unwanted("a.md", text)) == []
