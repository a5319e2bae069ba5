"""The report of a backtest in a real browser: one file that draws its charts without asking anybody for anything."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from agent.app import compose
from agent.cli.backtest import backtest, candidates, read
from agent.config.tree import Config
from agent.reports.backtest.page import page
from tests.kit.browser import visit

pytestmark = pytest.mark.tools
JOB = (
    '{{"type": "job.completed", "system": "exa", "job_id": "{0}", "application": "lammps", "n": {1}, "unit": "nodes",'
    ' "start": "2026-11-{2:02}T{3:02}:00:00Z", "run_time_s": {4}, "state": "COMPLETED", "user": "u", "time_limit_s": 3000}}'
)


def test_the_report_draws_its_charts_from_what_is_in_it(chromium: Browser, tmp_path: Path) -> None:
    jobs = [JOB.format(i, 2 ** (i % 5), 1 + i // 24, i % 24, 100 + 1600 / 2 ** (i % 5) + i % 7) for i in range(90)]
    (tmp_path / "jobs.jsonl").write_text("\n".join(jobs))
    past = read(Config(), [str(tmp_path / "jobs.jsonl")], compose.file_options(Config(), "UTC"))
    with visit(chromium) as reader:
        reader.set_content(page(backtest(past, candidates(Config(), ()))))
        for name in ("errors", "coverage", "reliability", "horizons", "coverage-inside", "curve-1"):
            expect(reader.locator(f"#{name} canvas")).to_be_visible()
        reader.locator("#curve-1 .plot").focus()
        reader.keyboard.press("Home")
        expect(reader.locator("#curve-1 .readout")).to_contain_text("nodes 1, run time 28 min")
