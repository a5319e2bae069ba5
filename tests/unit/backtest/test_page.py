"""The page of a backtest: complete, well-formed, and without a word from outside."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from agent.app import compose
from agent.cli.backtest import backtest, candidates, read
from agent.config.tree import Config
from agent.describe.describe import schema
from agent.reports.backtest.page import page
from agent.reports.backtest.report import Report

VOID = {"meta", "link", "br", "line", "input"}
EVIL = '<script>alert("x")</script>&"\''


class Checked(HTMLParser):
    """Notes tags that do not match, and everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.charts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.charts += [value or "" for name, value in attrs if name == "data-label" and tag == "figure"]
        if tag not in VOID:
            self.open.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in {"src", "href", "xlink:href", "action"}]
        self.wrong += [name for name, _ in attrs if name.startswith("on")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def checked(text: str) -> Checked:
    found = Checked()
    found.feed(text)
    found.close()
    return found


def job(number: int, **changes: Any) -> str:
    n = 2 ** (number % 5)
    fields = {
        "type": "job.completed", "system": "exa", "job_id": str(number), "application": EVIL, "input": "<i>",
        "n": n, "unit": "nodes", "start": f"2026-11-{1 + number // 24:02d}T{number % 24:02d}:00:00Z",
        "run_time_s": (100 + 1600 / n) * (1 + number % 7 / 50), "state": ("COMPLETED", "FAILED")[number % 6 == 5],
        "user": "mary", "time_limit_s": 3000.0,
    } | changes  # fmt: skip
    return json.dumps(fields)


def report(folder: Path, *lines: str, sets: tuple[dict[str, str], ...] = ()) -> Report:
    path = folder / "<b>jobs.jsonl"
    path.write_text("\n".join(lines))
    past = read(Config(), [str(path)], compose.file_options(Config(), "UTC"))
    return backtest(past, candidates(Config(), sets), files=[str(path)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Report:
    lines = [job(number) for number in range(90)]
    lines += [job(number, run_time_s=9000.0) for number in (90, 95)]
    return report(tmp_path_factory.mktemp("history"), *lines, sets=({"alerts.strange_run.factor_min": "20"},))


def test_every_tag_is_closed_and_nothing_is_fetched(whole: Report) -> None:
    text = page(whole)
    found = checked(text)
    assert (found.open, found.wrong) == ([], [])
    assert found.fetched == ["data:,"]
    assert found.tags.count("script") == 2, "uPlot, and what draws charts with it"
    assert "default-src 'none'" in text
    assert re.findall(r"url\(|@import|^import ", text, re.MULTILINE) == []
    assert set(re.findall(r"https?://[^\"'<\s]+", text)) <= {"https://github.com/leeoniya/uPlot"}  # of its author
    assert "Permission is hereby granted" in text, "the licence goes with the copy"


def test_every_chart_and_table_is_there(whole: Report) -> None:
    text = page(whole)
    charts = checked(text).charts
    assert [label.partition(":")[0] for label in charts] == [
        "Median error over time",
        "Share inside the 90 % band over time",
        "Reliability diagram",
        "Share inside the 90 % band by distance",
        *(f"Nominal and observed coverage, {name}" for name in ("inside", "up to 2x", "no curve")),
        f"{EVIL} <i>",
    ]
    assert len(re.findall('<details class="behind">', text)) == len(charts), "the table behind each"
    for texts in (
        "Reliability diagram",
        "requested time",
        "last two jobs",
        "StrangeRun",
        "factor_min=20",
        "FAILED",
    ):
        assert texts in text
    for role in ("line", "low", "truth", "other", "dot", "from"):
        assert f" data-{role}=" in text, role
    assert "NaN" not in text
    assert ">nan" not in text


def test_nominal_and_held_coverage_stand_in_a_diagram_and_its_table_by_distance(whole: Report) -> None:
    text, (variant, _) = page(whole), whole.variants
    assert [each.name for each in variant.coverages] == [row.name for row in variant.by_horizon]
    for each, row in zip(variant.coverages, variant.by_horizon, strict=True):
        assert [round(level.predicted, 9) for level in each.levels] == [tenth / 10 for tenth in range(1, 10)]
        held = [level.observed for level in each.levels]
        assert held == sorted(held), "a wider band holds as much"
        assert held[-1] == row.figures.coverage_90, "that of 90 % is the band that was published"
        drawn = text.partition(f'id="coverage-{each.name}"')[2].partition("</figure>")[0]
        assert " data-diagonal>" in text.partition(f'id="coverage-{each.name}"')[2].partition("\n")[0]
        rows = re.findall(r'data-x="([^"]+)".*?data-line="([^"]+)".*?data-low="([^"]+)" data-high="([^"]+)"', drawn)
        assert [tuple(map(float, found)) for found in rows] == [
            (level.predicted, level.observed, level.low, level.high) for level in each.levels
        ]


def test_names_from_records_are_text(whole: Report) -> None:
    text = page(whole)
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    assert "<b>jobs" not in text


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (job(1),),
        (job(1, state="CANCELLED"),),
        tuple(job(number, user=None, time_limit_s=None) for number in range(30)),
        tuple(job(number, application=None) for number in range(30)),
    ],
    ids=["nothing", "one run", "none completed", "no users", "no names"],
)
def test_a_poor_history_is_a_page_as_well(tmp_path: Path, lines: tuple[str, ...]) -> None:
    found = checked(page(report(tmp_path, *lines)))
    assert (found.open, found.wrong) == ([], [])


def test_the_page_states_why_nothing_was_reported(tmp_path: Path) -> None:
    assert "scalewatch identify" in page(report(tmp_path, *(job(number, n=4, unit="nodes") for number in range(1))))
    assert "No completed run was found" in page(report(tmp_path))


def test_the_file_is_read_back_as_it_was_and_fits_its_schema(whole: Report) -> None:
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Report) == whole
    jsonschema.validate(json.loads(msgspec.json.encode(whole)), schema("scalewatch.backtest/1"))
    assert len(msgspec.json.encode(whole)) < 200_000
