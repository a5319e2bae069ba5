"""The site of the documentation: links between pages of the whole repository, its check, and the picture of the concepts."""

from pathlib import Path

import msgspec
import pytest

from deploy.site import reference, sources
from deploy.site.check import problems
from deploy.site.picture import MESSAGE, PICTURE, drawn
from processors.contracts.outputs import Prediction


def test_a_link_to_a_page_of_another_folder_leads_to_its_place_in_the_site() -> None:
    text = "See [alerts](../deploy/RUNBOOK.md#strangerun) and `[no](../deploy/RUNBOOK.md)`."
    assert sources.rewritten(text, "docs/concepts.md", "concepts.md").startswith(
        "See [alerts](run/runbook.md#strangerun)"
    )
    assert "(../run/ways.md)" in sources.rewritten(
        "[w](../../deploy/README.md)", "docs/events/jobs.md", "events/jobs.md"
    )


def test_a_file_that_is_no_page_comes_along_and_a_folder_becomes_a_list() -> None:
    text = "[agent.yaml](agent.yaml) and [samples](samples)"
    assert sources.rewritten(text, "deploy/README.md", "run/ways.md") == (
        "[agent.yaml](../files/deploy/agent.yaml) and [samples](../files/deploy/samples/index.md)"
    )
    assert sources.attached({"deploy/README.md": text}) == ["deploy/agent.yaml", "deploy/samples"]


def test_what_stands_in_a_block_of_code_is_left_alone() -> None:
    text = "```text\n[a](agent.yaml)\n```\n"
    assert sources.rewritten(text, "deploy/README.md", "run/ways.md") == text


def test_every_page_of_the_repository_that_the_site_shows_is_there() -> None:
    assert [path for path in sources.pages() if not (sources.ROOT / path).is_file()] == []


def test_the_reference_is_that_of_the_code() -> None:
    made = reference.made()
    assert "`scalewatch_events_total`" in made["reference/metrics.md"]
    assert (
        "| `scalewatch.predictions` | [scalewatch.prediction/1](messages.md#scalewatchprediction1)"
        in made["reference/topics.md"]
    )
    assert "## scalewatch backtest" in made["reference/commands.md"]
    assert "reference/schemas/scalewatch.alert-v1.json" in made


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="b.html">', "a.html: no file at b.html"),
        ('<a href="#x">', "a.html: no place at #x"),
        ('<a href="../a.html">', "a.html: no file at ../a.html"),
        ('<img src="https://example.org/x.png">', "a.html: fetches https://example.org/x.png"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "a.html: fetches https://example.org/x.css"),
    ],
)
def test_a_link_that_leads_nowhere_and_what_is_fetched_are_found(page: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(page)
    assert problems(tmp_path) == [problem]


def test_links_that_lead_somewhere_are_no_problem(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="x"><a href="#x"><a href="sub/b.html#y"><a href="https://example.org">')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<p id="y"><a href="../a.html">')
    assert problems(tmp_path) == []


def test_the_picture_of_the_concepts_is_drawn_from_the_message_beside_it() -> None:
    prediction = msgspec.json.decode(MESSAGE.read_bytes(), type=Prediction)
    assert drawn(prediction) == PICTURE.read_text()
    for word in ("knee", "useful", "band", "coverage", "verdict", "horizon", "reliable", "size"):
        assert word in PICTURE.read_text()
