"""What `scalewatch explain` tells: the events that moved a model, in order of time, and the facts behind its predictions."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from agent.cli.explain import told
from processors.contracts.outputs import Quality, Reliability
from processors.contracts.service import LevelChange, ModelFit, Story, StrangeSize
from sinks.prometheus.registry import Metrics
from sinks.web.formatting import explained
from sinks.web.server import Server, create_app
from tests.kit.messages import prediction
from tests.kit.readers import TOKENS, limited_app
from tests.kit.service import FixedService

FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Job:
    """A completed run for the file of jobs."""

    number: int
    n: int
    run_time_s: float
    input: str = "rhodo"


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments], catch_exceptions=False, env={"COLUMNS": "120"})


def usual_s(number: int, n: int) -> float:
    return (1000.0 / n + 20.0) * (1.0 + 0.01 * (number % 3 - 1))


@pytest.fixture
def jobs_file(tmp_path: Path) -> Callable[[list[Job]], str]:
    def written(jobs: list[Job]) -> str:
        lines, start = [], FIRST_DAY
        for job in jobs:
            end = start + timedelta(seconds=job.run_time_s)
            lines.append(
                json.dumps(
                    {
                        "type": "job.completed", "system": "exa", "job_id": str(job.number), "application": "lammps",
                        "input": job.input, "n": job.n, "unit": "nodes", "start": start.isoformat(),
                        "end": end.isoformat(), "run_time_s": job.run_time_s, "state": "COMPLETED", "exit_code": 0,
                    }
                )
            )  # fmt: skip
            start = end + timedelta(seconds=30)
        path = tmp_path / "jobs.jsonl"
        path.write_text("\n".join(lines))
        return str(path)

    return written


def test_a_shift_is_told_before_the_fit_that_follows_it(jobs_file: Callable[[list[Job]], str]) -> None:
    jobs = [Job(i, n := SIZES[i % 5], usual_s(i, n) * (1.4 if i >= 80 else 1.0)) for i in range(140)]
    shown = explain(jobs_file(jobs), "lammps")
    assert shown.exit_code == 0
    head, _, *lines = shown.output.splitlines()
    assert head.startswith("lammps rhodo on exa, in nodes; state of 2026-01-01 ")
    events = [line for line in lines if line.startswith("2026-01-01 ")]
    assert events == sorted(events)
    assert events[0].endswith("Runs of all sizes became slower: they take 1.4 times as long as before.")
    assert events[1].endswith("The newest run ended. 140 runs were learned, at 1 to 16 nodes.")
    assert "The curve was fitted to " in events[2]
    assert re.match(r" {18}1( to \d+)? nodes?: (reliable|uncertain)\. [A-Z]", lines[lines.index(events[2]) + 1])
    assert any(line.startswith("Accuracy: median error ") for line in lines)


def test_a_size_that_turns_slow_is_told_with_its_factor(jobs_file: Callable[[list[Job]], str]) -> None:
    jobs = [Job(i, n := SIZES[i % 5], usual_s(i, n) * (1.5 if n == 8 and i >= 100 else 1.0)) for i in range(200)]
    text = explain(jobs_file(jobs), "lammps").output
    assert "Runs at 8 nodes alone became slower: they take 1.5 times as long as before." in text
    assert "Odd size: 8 nodes is slower than the curve of the other sizes. The curve does not follow it." in text


def test_a_single_slow_run_is_counted_as_odd(jobs_file: Callable[[list[Job]], str]) -> None:
    jobs = [Job(i, n := SIZES[i % 5], usual_s(i, n) * (2.0 if i == 55 else 1.0)) for i in range(60)]
    text = explain(jobs_file(jobs), "lammps").output
    assert "Odd runs: of the newest 60 runs, 1 unusually slow. Odd runs hardly count." in text
    assert "became slower" not in text


def test_each_input_has_its_own_story_unless_one_is_named(jobs_file: Callable[[list[Job]], str]) -> None:
    jobs = [Job(i, n := SIZES[i % 5], usual_s(i, n), ("rhodo", "water")[i % 2]) for i in range(60)]
    path = jobs_file(jobs)
    both, water = explain(path, "lammps", "--json"), explain(path, "lammps", "--input", "water", "--json")
    assert [story["application_id"] for story in json.loads(both.output)] == [
        "exa/lammps/rhodo/nodes",
        "exa/lammps/water/nodes",
    ]
    (story,) = json.loads(water.output)
    assert (story["runs"], story["sizes"], story["related_curves"]) == (30, list(SIZES), 1)
    assert "Related curves: 1 curve of other inputs or systems" in explain(path, "lammps", "--input", "water").output


def test_an_unknown_application_is_named_with_the_known_ones(jobs_file: Callable[[list[Job]], str]) -> None:
    shown = explain(jobs_file([Job(i, 2, 100.0) for i in range(5)]), "gromacs")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "Nothing is known of 'gromacs'" in shown.stderr
    assert "known: lammps" in shown.stderr


@pytest.mark.parametrize("arguments", [[], ["lammps"], ["a", "b", "c"], ["a", "b", "--url", "http://127.0.0.1:1"]])
def test_a_question_without_its_parts_exits_with_2(arguments: list[str]) -> None:
    shown = explain(*arguments)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "Give FILE and APPLICATION, or APPLICATION and --url." in shown.stderr


STORY = Story(
    application_id="archer2/lammps/rhodo/nodes",
    time_ms=1_767_230_000_000,
    runs=41,
    sizes=(1.0, 2.0, 4.0),
    newest_run_ms=1_767_228_000_000,
    newest_runs=41,
    slow_runs=2,
    fast_runs=1,
    loaded_runs=3,
    level_changes=(LevelChange(1_767_220_000_000, 0.8, 4.0),),
    strange_sizes=(StrangeSize(4.0),),
    fit=ModelFit(
        time_ms=1_767_229_000_000,
        runs=40,
        model="combination",
        weights={"amdahl": 0.7, "usl": 0.2, "downey": 0.06, "flat": 0.04},
        verdicts=(
            (1.0, Reliability("reliable")),
            (2.0, Reliability("reliable")),
            (4.0, Reliability("uncertain", advice=("Run 4 nodes again.",))),
        ),
        whole=Reliability("linear"),
    ),
    fit_due_ms=1_767_230_400_000,
    related_curves=2,
    inputs=5,
    quality=Quality(30, 0.04, 0.9, 0.0),
)


def test_every_part_of_a_story_is_told_in_plain_words() -> None:
    assert told(STORY) == [
        "lammps rhodo on archer2, in nodes; state of 2026-01-01 01:13",
        "",
        "2025-12-31 22:26  Runs at 4 nodes alone became faster: they take 0.8 times as long as before.",
        "                  Since then, earlier runs count less, and as if this had always been so.",
        "2026-01-01 00:40  The newest run ended. 41 runs were learned, at 1 to 4 nodes.",
        "2026-01-01 00:56  The curve was fitted to 40 runs (model combination: amdahl 70 %, usl 20 %, downey 6.0 %).",
        f"                  1 to 2 nodes: reliable. {explained('reliable')}",
        "                  4 nodes: uncertain. Run 4 nodes again.",
        "",
        "Odd size: 4 nodes does not fit the curve of the other sizes. The curve does not follow it.",
        "Odd runs: of the newest 41 runs, 2 unusually slow and 1 unusually fast. Odd runs hardly count.",
        "Loaded hosts: they explain a part of the run time of 3 runs.",
        "Related curves: 2 curves of other inputs or systems helped to choose the laws.",
        "Inputs: the sizes and run times of 5 inputs predict inputs that were never run.",
        "Accuracy: median error 4.0 % over 30 predictions, 90 % of the runs inside the 90 % band.",
        "Next fit: due at 2026-01-01 01:20, because of newer runs.",
    ]


def test_a_running_agent_tells_the_same_story() -> None:
    service = FixedService([prediction()])
    service.held_stories[STORY.application_id] = STORY
    with Server(create_app(service, Metrics(formats=(), reasons=(), processors=())), "127.0.0.1", 0) as server:
        shown = explain("lammps", "--url", server.url)
        as_json = explain("lammps", "--system", "archer2", "--url", server.url, "--json")
        refused = explain("nothing", "--url", server.url)
    assert shown.output.splitlines() == told(STORY)
    assert json.loads(as_json.output)[0]["level_changes"] == [{"time_ms": 1_767_220_000_000, "factor": 0.8, "n": 4.0}]
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "refused: There is no model of 'nothing'. Known: archer2/lammps/rhodo/nodes." in refused.stderr


def test_a_user_who_is_no_operator_reads_the_story_with_a_token(tmp_path: Path) -> None:
    service = FixedService([prediction()])
    service.held_stories[STORY.application_id] = STORY
    token = tmp_path / "token"
    token.write_text(TOKENS["ann"][0])
    with Server(limited_app(service), "127.0.0.1", 0) as server:
        refused = explain("lammps", "--url", server.url)
        shown = explain("lammps", "--url", server.url, "--token-file", str(token))
    assert "refused: Authentication required" in refused.stderr
    assert shown.output.splitlines() == told(STORY)
