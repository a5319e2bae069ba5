"""Commands that learn from files: what a person types, what is shown, and the exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from agent.cli import main
from sinks.prometheus.registry import Metrics
from sinks.web.server import Server, create_app
from tests.kit.messages import prediction
from tests.kit.readers import TOKENS, limited_app
from tests.kit.service import FixedService


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False, env={"COLUMNS": "120"})


def completed(job: int, n: int, input_: str) -> str:
    end = f"2026-11-20T{10 + job // 60:02d}:{job % 60:02d}:00Z"
    return json.dumps(
        {
            "type": "job.completed",
            "system": "archer2",
            "job_id": str(job),
            "application": "lammps",
            "input": input_,
            "n": n,
            "unit": "nodes",
            "start": "2026-11-20T09:00:00Z",
            "end": end,
            "run_time_s": 3200 / n + 100,
            "state": "COMPLETED",
        }
    )


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    lines = [completed(i, 2 ** (i % 6), "rhodo") for i in range(24)]
    lines += [completed(30 + i, 2 ** (i % 3), "water") for i in range(6)]
    path = tmp_path / "jobs.jsonl"
    path.write_text("\n".join(lines))
    return str(path)


def test_a_prediction_is_a_table_with_the_sizes_that_were_asked_for(jobs: str) -> None:
    shown = run("predict", jobs, "lammps", "--input", "rhodo", "--n", "16,64")
    assert shown.exit_code == 0
    assert "lammps rhodo on archer2" in shown.output
    rows = [line.split() for line in shown.output.splitlines() if line.endswith("ed")]
    assert [(row[0], row[-1]) for row in rows] == [("16", "observed"), ("64", "extrapolated")]
    assert float(rows[0][1]) == pytest.approx(300, rel=0.01)


def test_the_laws_behind_a_prediction_are_shown_on_request_with_what_each_has_missed(jobs: str) -> None:
    plain, shown = (
        run("predict", jobs, "lammps", "--input", "rhodo", "--n", "64", *more) for more in ([], ["--members"])
    )
    assert shown.output.startswith(plain.output.rstrip("\n"))
    head, *members = shown.output.removeprefix(plain.output).strip().splitlines()
    assert head.split()[:2] == ["law", "weight"]
    assert "error" in head
    named = {line.split()[0]: line for line in members}
    assert {"usl", "kazmina", "barnes_quadratic", "amdahl_log", "sup5", "downey", "adept", "prediction"} <= set(named)
    assert "Kazmina and Antonov" in named["kazmina"]
    assert "Bounds by ADEPT: a run at size 1 takes" in shown.output
    assert "ADEPT's metric R of each step" in shown.output


def test_without_an_input_there_is_a_table_for_each(jobs: str) -> None:
    shown = run("predict", jobs, "lammps", "--n", "4")
    assert shown.exit_code == 0
    assert "lammps rhodo on" in shown.output
    assert "lammps water on" in shown.output


def test_an_application_that_did_not_run_is_reported_as_unknown(jobs: str) -> None:
    shown = run("predict", jobs, "gromacs")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "Nothing is known of 'gromacs'" in shown.stderr
    assert "known: lammps" in shown.stderr


def test_requests_are_answered_line_by_line(jobs: str, tmp_path: Path) -> None:
    requests, out = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
    requested = [{"id": "a", "application": "lammps", "system": "archer2", "input": "rhodo", "n": 16}]
    requested.append({"id": "b", "application": "gromacs", "system": "archer2", "n": [1, 2]})
    requests.write_text("\n".join(map(json.dumps, requested)))
    shown = run("predict", "--events", jobs, "--requests", str(requests), "--out", str(out))
    assert (shown.exit_code, shown.output) == (0, "")
    first, second = map(json.loads, out.read_text().splitlines())
    assert (first["id"], first["known"], first["run_time_s"]) == ("a", True, pytest.approx(300, rel=0.01))
    assert (second["id"], second["known"], second["points"]) == ("b", False, [])


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ([], "Give FILE and APPLICATION"),
        (["lammps"], "Give FILE and APPLICATION"),
        (["x", "lammps", "--n", "many"], "sizes are numbers"),
        (["x", "lammps", "--n", "-1"], "sizes are positive"),
        (["--requests", "r.jsonl"], "--requests needs --events FILE"),
        (["missing.txt", "lammps"], "The file missing.txt cannot be read: No such file or directory."),
        (["lammps", "--url", "ftp://x"], "'ftp://x' is not an HTTP address."),
    ],
)
def test_a_question_that_cannot_be_understood_exits_with_2(arguments: list[str], output: str) -> None:
    shown = run("predict", *arguments)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert output in shown.stderr


def test_an_agent_that_is_not_there_is_named() -> None:
    shown = run("predict", "lammps", "--n", "4", "--url", "http://127.0.0.1:1")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "The agent at http://127.0.0.1:1 gave no answer" in shown.stderr


def test_a_running_agent_answers_with_the_sizes_of_its_curve() -> None:
    service = FixedService([prediction()])
    with Server(create_app(service, Metrics(formats=(), reasons=(), processors=())), "127.0.0.1", 0) as server:
        shown = run("predict", "lammps", "--url", server.url)
        refused = run("predict", "nothing", "--url", server.url)
        elsewhere = run("predict", "lammps", "--url", f"{server.url}/static")
    assert shown.exit_code == 0
    assert "lammps rhodo on archer2" in shown.output
    assert len([line for line in shown.output.splitlines() if " to " in line]) == len(prediction().curve)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "refused: There is no model of 'nothing'. Known: archer2/lammps/rhodo/nodes." in refused.stderr
    assert f"The agent at {server.url}/static refused: Not Found" in elsewhere.stderr


def test_an_agent_that_asks_who_is_there_is_reported_with_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKENS['ann'][0]}\n")
    with Server(limited_app(FixedService([prediction()])), "127.0.0.1", 0) as server:
        refused = run("predict", "lammps", "--url", server.url)
        from_file = run("predict", "lammps", "--url", server.url, "--token-file", str(file))
        monkeypatch.setenv("SCALEWATCH_TOKEN", TOKENS["ann"][0])
        from_environment = run("predict", "lammps", "--url", server.url)
        monkeypatch.setenv("SCALEWATCH_TOKEN", "another-token-0123456789")
        unknown = run("predict", "lammps", "--url", server.url)
    assert "refused: Authentication required" in refused.stderr
    assert (from_file.exit_code, from_environment.exit_code, unknown.exit_code) == (0, 0, 1)
    assert "refused: Unknown token." in unknown.stderr
    assert "another-token" not in unknown.output


def test_a_token_goes_to_the_agent_alone(tmp_path: Path) -> None:
    requested: list[Headers] = []

    async def elsewhere(scope: Scope, receive: Receive, send: Send) -> None:
        requested.append(Headers(scope=scope))
        await Response(status_code=404)(scope, receive, send)

    (tmp_path / "token").write_text(TOKENS["ann"][0])
    with Server(elsewhere, "127.0.0.1", 0) as other:

        async def moved(scope: Scope, receive: Receive, send: Send) -> None:
            await RedirectResponse(other.url)(scope, receive, send)

        with Server(moved, "127.0.0.1", 0) as server:
            run("predict", "lammps", "--url", server.url, "--token-file", str(tmp_path / "token"))
    assert ["authorization" in headers for headers in requested] == [False]


@pytest.mark.parametrize("content", [b"two\nlines of a token", b"\xff\xfe", None])
def test_a_token_that_cannot_be_sent_is_named_and_not_shown(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    shown = run("predict", "lammps", "--url", "http://127.0.0.1:1", "--token-file", str(tmp_path / "token"))
    assert shown.exit_code == 2
    assert "oken" in shown.stderr
    assert "lines of" not in shown.stderr


def test_help_shows_one_way_to_ask_on_each_line() -> None:
    lines = run("predict", "--help").output.splitlines()
    assert "  scalewatch predict jobs.txt lammps --n 64,128" in lines


def test_a_replay_leaves_a_file_for_each_topic_and_a_summary(jobs: str, tmp_path: Path) -> None:
    out = tmp_path / "results"
    shown = run("replay", jobs, "--out", str(out))
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr == f"30 events, 0 refused, 2 applications with a prediction; see {out}/summary.json\n"
    assert json.loads((out / "summary.json").read_text())["events"] == 30
    assert len((out / "runs.jsonl").read_text().splitlines()) == 30


@pytest.mark.parametrize("content", [b"", b"\x00" * 300, bytes(range(256)), b"\x1f\x8b not gzip", b"kafka:\n  x: 1\n"])
def test_a_file_without_any_event_fails_and_states_why(content: bytes, tmp_path: Path) -> None:
    path, out = tmp_path / "jobs.txt", tmp_path / "results"
    path.write_bytes(content)
    shown = run("replay", str(path), "--out", str(out))
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert f"0 events, 1 refused ({out}/deadletters.jsonl says why), 0 applications" in shown.stderr
    assert json.loads((out / "deadletters.jsonl").read_text())["value"]["detail"].endswith(".")
