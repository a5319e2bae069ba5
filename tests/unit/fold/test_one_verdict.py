"""One verdict a size: everybody who says whether a size is reliable says the same, also beyond an odd size."""

import re
import sqlite3
import subprocess
from collections.abc import Callable
from datetime import UTC
from functools import cache
from html import unescape
from pathlib import Path

import msgspec
import pytest

from agent.app.compose import encode
from agent.reports import energy, waste
from agent.reports.waste import WasteBounds
from agent.reports.week import WeekRuns, week_named
from processors.contracts.events import PredictionRequested
from processors.contracts.outputs import Answer, JobPrediction, Prediction
from processors.contracts.service import RecentRun
from sinks.prometheus.registry import Metrics
from sinks.table import Predictions, TableWriter, rows, write_lines
from sinks.web.formatting import explained
from sinks.web.server import create_app
from tests.kit.get import get, get_json
from tests.kit.service import FixedService
from tests.kit.stories import APPLICATION, Story
from tests.kit.tools import tool
from tests.kit.week_runs import settled

SIZES = (2, 4, 8, 12, 16, 32, 64)
ODD = 8
BETWEEN = (7.5, 10, 24, 48, 100)  # no run and no published point has these sizes
FARTHER = (128, 256)
VERDICTS = {n: n <= 64 for n in (*SIZES, *FARTHER)}
ID = f"exa/{APPLICATION}//nodes"
SLURM = Path(__file__).resolve().parents[3] / "deploy" / "slurm"
METRICS = Metrics(formats=(), reasons=(), processors=())
WEEK = week_named("2026-W47", UTC)


@pytest.fixture(scope="module")
def story() -> Story:
    """An application of which one size became slow for good, while the others stayed as they were."""
    made = Story(noise=0.02).repeated(run_time_s, SIZES, 8)
    return made.repeated(lambda n: run_time_s(n) * (2.0 if n == ODD else 1.0), SIZES, 8)


def run_time_s(n: float) -> float:
    return 40.0 + 10_000.0 / n


@pytest.fixture(scope="module")
def answer(story: Story) -> Answer:
    return msgspec.convert(story.answer(*SIZES, *FARTHER, *BETWEEN), Answer)


@pytest.fixture(scope="module")
def prediction(story: Story, answer: Answer) -> Prediction:
    """The published prediction that the answer is taken from."""
    return msgspec.convert(story.centre.topic("predictions")[ID], Prediction)


@pytest.fixture(scope="module")
def jobs(story: Story, answer: Answer) -> list[JobPrediction]:
    """Predictions of jobs that have just started, one a size."""
    for n in (*SIZES, *FARTHER, *BETWEEN):
        story.centre.starts(f"job-{n:g}", APPLICATION, float(n))
    story.centre.at_ms(story.centre.now_ms + 30_000)
    return [msgspec.convert(job, JobPrediction) for job in story.centre.topic("job_predictions").values()]


@pytest.fixture
def answered(answer: Answer) -> dict[float, bool]:
    """Whether each size is reliable according to the answer, by size."""
    return {point.n: point.reliable for point in answer.points}


def test_the_answer_calls_all_sizes_that_were_run_reliable(answered: dict[float, bool]) -> None:
    assert {n: answered[n] for n in VERDICTS} == VERDICTS
    assert {n: answered[n] for n in BETWEEN} == {7.5: True, 10: True, 24: True, 48: True, 100: False}


def test_the_topic_carries_the_verdicts_and_reasons_of_the_answer(prediction: Prediction, answer: Answer) -> None:
    requested = {point.n: point.reliability for point in answer.points}
    published = {point.n: point.reliability for point in prediction.curve}
    assert {n: published[n] for n in VERDICTS} == {n: requested[n] for n in VERDICTS}
    assert published[FARTHER[0]].reasons
    assert prediction.reliable_n is not None
    assert (prediction.reliable_n.min, prediction.reliable_n.max) == (2.0, 96.0)


def test_predictions_of_running_jobs_have_the_same_verdicts(
    jobs: list[JobPrediction], answered: dict[float, bool]
) -> None:
    assert {job.n: job.reliability.verdict == "reliable" for job in jobs} == answered


class AnsweringService(FixedService):
    """Answers with what the models answered."""

    points: Answer

    def answer(self, request: PredictionRequested) -> Answer:
        points = tuple(point for point in self.points.points if point.n in request.n)
        return msgspec.structs.replace(self.points, points=points)


def run(n: float, prediction: Prediction) -> RecentRun:
    return RecentRun(run_id=f"exa/{n}@0", system="exa", job_id=f"ended-{n}", application_id=ID, n=n, start_ms=0,
                     end_ms=60_000, run_time_s=run_time_s(n), state="COMPLETED", time_limit_s=86_400.0)  # fmt: skip


@pytest.fixture(scope="module")
def read(prediction: Prediction, answer: Answer, jobs: list[JobPrediction]) -> Callable[[str], str]:
    """Return the text of a page by its address."""
    service = AnsweringService([prediction], jobs, runs=[run(n, prediction) for n in VERDICTS])
    service.points = answer
    app = create_app(service, METRICS)

    @cache
    def text(path: str) -> str:
        response = get(app, path)
        assert response.status_code == 200, response.text
        return response.text

    return text


def test_the_page_of_the_application_shows_the_same_verdicts(
    read: Callable[[str], str], answer: Answer, answered: dict[float, bool]
) -> None:
    row = re.compile(r'data-x="([\d.]+)">[\d.]+</th>.*?<td data-verdict="(\w+)">', re.DOTALL)
    table = {float(n): verdict == "reliable" for n, verdict in row.findall(read(f"/applications/{ID}"))}
    assert {n: table[n] for n in VERDICTS} == VERDICTS
    for n, reliable in answered.items():
        asked = read(f"/applications/{ID}?n={n:g}")
        box = unescape(asked[asked.index('id="ask"') : asked.index("</section>", asked.index('id="ask"'))])
        warnings = {explained(point.reliability.verdict) for point in answer.points if not point.reliable}
        assert any(warning in box for warning in warnings) is not reliable, n


def test_pages_of_jobs_warn_of_the_same_sizes(read: Callable[[str], str], answered: dict[float, bool]) -> None:
    running = {n: "Use the prediction with care" not in read(f"/jobs/exa/job-{n:g}") for n in answered}
    assert running == answered
    ended = {n: "but this prediction is uncertain" not in read(f"/jobs/exa/ended-{n}") for n in VERDICTS}
    assert ended == VERDICTS


def test_the_weekly_report_judges_the_runs_of_the_same_sizes(prediction: Prediction) -> None:
    def judged(n: float) -> bool:
        runs = WeekRuns(WEEK)
        runs.write([encode(prediction), settled("1", n, run_time_s(n), application_id=ID)])
        return waste.report(WEEK, runs, WasteBounds(), "1.0").totals[0].not_judged_share == 0.0

    assert {n: judged(n) for n in SIZES} == {n: VERDICTS[n] for n in SIZES}


def test_the_energy_report_estimates_the_runs_of_the_same_sizes(prediction: Prediction) -> None:
    def powered(n: float, energy_j: float) -> dict[str, float]:
        return {"energy_j": energy_j, "energy_low_j": 0.9 * energy_j, "energy_high_j": 1.1 * energy_j,
                "power_w": 300.0 * n, "power_low_w": 270.0 * n, "power_high_w": 330.0 * n}  # fmt: skip

    curve = tuple(
        msgspec.structs.replace(point, **powered(point.n, 300.0 * point.n * point.run_time_s))
        for point in prediction.curve
    )
    known = encode(msgspec.structs.replace(prediction, curve=curve))

    def estimated(n: float) -> bool:
        runs = WeekRuns(WEEK, partly=True)
        runs.write([known, settled("1", n, run_time_s(n), application_id=ID, exclusive=True)])
        return energy.report(WEEK, UTC, runs, None, "1.0").total.estimated_s > 0.0

    assert {n: estimated(n) for n in VERDICTS} == VERDICTS


def test_sqlite_and_the_client_give_the_same_verdicts(
    prediction: Prediction, answered: dict[float, bool], tmp_path: Path
) -> None:
    path = tmp_path / "predictions.sqlite"
    writer = TableWriter(path)
    writer.change({ID: list(rows(ID, prediction))}, whole=True)
    writer.close()
    connection = sqlite3.connect(path)
    stored = {
        n: (bool(reliable), verdict)
        for n, reliable, verdict in connection.execute("select n, reliable, verdict from predictions")
    }
    connection.close()
    assert {n: stored[n][0] for n in VERDICTS} == VERDICTS
    assert all(reliable is (verdict == "reliable") for reliable, verdict in stored.values())
    client = {n: row for n in answered if (row := Predictions(path).at(n, "exa", APPLICATION)) is not None}
    assert {n: row.reliable for n, row in client.items()} == answered
    assert all(row.reliable is (row.verdict == "reliable") for row in client.values())


def test_the_table_for_scripts_gives_the_same_verdicts(prediction: Prediction) -> None:
    app = create_app(FixedService([prediction]), METRICS)
    response = get(app, f"/api/v1/curves?system=exa&application={APPLICATION}")
    table = {row["n"]: row["reliable"] for row in map(msgspec.json.decode, response.text.splitlines())}
    assert {n: table[n] for n in VERDICTS} == VERDICTS
    message = get_json(app, f"/api/v1/applications/{ID}")
    points = {point["n"]: point["reliability"]["verdict"] == "reliable" for point in message["curve"]}
    assert {n: points[n] for n in VERDICTS} == VERDICTS


def test_the_plugin_of_slurm_gives_the_same_verdicts(
    prediction: Prediction, answered: dict[float, bool], tmp_path: Path
) -> None:
    table, script = tmp_path / "predictions.jsonl", tmp_path / "verdicts.lua"
    write_lines(table, rows(ID, prediction))
    sizes = ", ".join(f"{n:g}" for n in answered)
    script.write_text(f"""
package.path = "{SLURM}/?.lua"
local scalewatch = require("scalewatch")
scalewatch.path = "{table}"
for _, n in ipairs({{ {sizes} }}) do
    local found = scalewatch.predicted({{ name = "{APPLICATION}", nodes = n }})
    io.write(string.format("%g %s\\n", n, tostring(found.reliable)))
end
""")
    lua = tool("lua5.4", "lua5.3", "lua", "rpmlua")
    printed = subprocess.run([lua, str(script)], capture_output=True, text=True, timeout=30, check=True).stdout
    plugin = {float(n): reliable == "true" for n, reliable in map(str.split, printed.splitlines())}
    assert plugin == answered
