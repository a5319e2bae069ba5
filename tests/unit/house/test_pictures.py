"""The pictures in the documents show the pages as they are."""

from pathlib import Path

import pytest

from tests.kit.sources import ROOT
from tests.pictures.stamp import NAME, changed, stamp

PICTURES = ROOT / "deploy" / "pictures"


@pytest.mark.slow  # quick, but asked before a change is taken and not at each edit of a page
def test_the_pictures_are_no_older_than_the_pages() -> None:
    newer = changed(ROOT, (PICTURES / NAME).read_text())
    assert not newer, (
        f"deploy/pictures is older than {', '.join(newer)}: run `make pictures` and commit what it writes."
    )


def page(root: Path, name: str, text: str) -> None:
    path = root / "sinks" / "web" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_only_what_changes_a_page_makes_its_picture_old(tmp_path: Path) -> None:
    page(tmp_path, "templates/host.html", "<h1>{{ host }}</h1>\n")
    page(tmp_path, "views/hosts.py", '"""Hosts."""\nLIMIT = 5\n')
    made = stamp(tmp_path)
    page(tmp_path, "templates/host.html", "<h1>{{ host }}</h1>  {# its name #}\n\n")
    page(tmp_path, "views/hosts.py", '"""Hosts, as lists show them."""\nLIMIT = 5  # rows\n')
    assert changed(tmp_path, made) == []
    page(tmp_path, "views/hosts.py", '"""Hosts."""\nLIMIT = 6\n')
    page(tmp_path, "static/page.css", "h1 { color: red }\n")
    assert changed(tmp_path, made) == ["sinks/web/static/page.css", "sinks/web/views/hosts.py"]
