"""Logs as other centres have them: each is read, or one sentence says what to do."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main

HEADER = ["JobID", "JobName", "User", "WCKey", "State", "Start", "Elapsed", "NNodes", "AllocTRES", "NodeList"]
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def table(delimiter: str = "|", *, name: str = "lmp{number}", wc_key: str = "*", rows: int = 60) -> str:
    lines = [HEADER]
    for number in range(rows):
        nodes = 2 << number % 3
        start, elapsed = FIRST + timedelta(minutes=10 * number), timedelta(seconds=4000 // nodes)
        cells = (
            str(900 + number), name.format(number=number, code=f"{number % 4 + 1:x}c4ca4238a0b"), f"user{number % 3}",
            wc_key.format(number=number % 5), "COMPLETED", start.isoformat()[:19], f"{elapsed}".rjust(8, "0"), str(nodes),
            f"cpu={nodes * 64},node={nodes}", f"r1n[{nodes},{nodes + 1}]",
        )  # fmt: skip
        lines.append([*cells])
    return "".join(delimiter.join(line) + "\n" for line in lines)


def workload(*comments: str) -> str:
    rows = [
        f"{number} {number * 600} 60 {4000 // (2 << number % 3)} {2 << number % 3} -1 -1 4 7200 -1 1 3 1 1 1 -1 -1 -1\n"
        for number in range(1, 40)
    ]
    return "".join(f"; {comment}\n" for comment in comments) + "".join(rows)


@pytest.mark.parametrize("comments", [(), ("Computer: SP2",), ("UnixStartTime: 0",)])
def test_a_workload_log_without_a_date_is_given_one_which_is_reported_once(
    tmp_path: Path, comments: tuple[str, ...]
) -> None:
    log = tmp_path / "log.swf"
    log.write_text(workload(*comments))
    for command in (
        ("identify", log),
        ("replay", log, "--out", tmp_path / "results", "--quiet"),
        ("backtest", log, "--out", tmp_path / "results", "--quiet"),
        ("predict", log, "app1", "--n", "8"),
    ):
        shown = run(*command)
        assert shown.exit_code == 0, command
        assert shown.stderr.count("is taken to be 2000-01-01T00:00:00Z.") == 1, command
    first = json.loads((tmp_path / "results/report.json").read_text())["history"]["first"]
    assert first == "2000-01-01T00:11:00Z"
    assert json.loads((tmp_path / "results/summary.json").read_text())["remarks"]


def test_nothing_is_remarked_of_a_dated_log(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text(workload("UnixStartTime: 843480031"))
    assert run("identify", log).stderr == ""


@pytest.mark.parametrize("delimiter", ["|", ";", "\t", ","])
def test_a_table_may_have_any_delimiter_though_commas_part_lists_of_hosts_and_resources(
    tmp_path: Path, delimiter: str
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(table(delimiter))
    shown = run("identify", jobs)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("60 jobs, 60 identified, 1 application.")


@pytest.mark.parametrize("delimiter", ["|", ";", "\t", ","])
def test_a_table_without_a_header_is_refused_with_what_to_do(tmp_path: Path, delimiter: str) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(table(delimiter).partition("\n")[2])
    shown = run("identify", jobs)
    assert shown.exit_code == 1
    assert "print it without --noheader, or put one before it, such as JobID|State|Start|End|NNodes." in shown.stderr


def test_a_table_for_the_screen_is_refused_with_what_to_do(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("JobID           JobName      State \n------------ ---------- ---------- \n812  lmp  COMPLETED\n")
    assert "cut to the width of a screen; print it with --parsable2." in run("identify", jobs).stderr


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_may_be_utf_16_with_or_without_a_mark(tmp_path: Path, encoding: str, compressed: bool) -> None:  # noqa: FBT001
    jobs = tmp_path / "jobs.txt"
    text = table().encode(encoding)
    jobs.write_bytes(gzip.compress(text) if compressed else text)
    shown = run("identify", jobs)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("60 jobs, 60 identified")


@pytest.mark.parametrize(
    "command", [("identify",), ("replay", "--quiet", "--out", "{out}"), ("alerts", "--quiet", "--replay")]
)
def test_names_in_latin_1_cost_no_row_of_a_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_bytes(table().replace("user1", "ren\u00e9").encode("latin-1"))
    shown = run(*(part.format(out=tmp_path / "out") for part in command), jobs)
    assert shown.stderr == ""
    if command == ("identify",):
        assert shown.stdout.startswith("60 jobs, 60 identified")


@pytest.mark.parametrize(
    "command",
    [
        ("identify",), ("replay", "--quiet", "--out", "{out}"), ("backtest", "--quiet", "--out", "{out}"),
        ("alerts", "--quiet", "--replay"),
    ],
)  # fmt: skip
def test_what_could_be_read_of_a_truncated_file_is_used_and_the_exit_code_is_1(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    jobs = tmp_path / "jobs.gz"
    packed = gzip.compress(table(rows=300).encode())
    jobs.write_bytes(packed[: len(packed) // 2])
    shown = run(*(part.format(out=tmp_path / "out") for part in command), jobs)
    assert shown.exit_code == 1
    assert shown.stderr.splitlines()[-1].endswith(
        "The compressed file ends too early, as after a copy that broke off; copy it again."
    )
    assert shown.stderr.count("scalewatch:") == 1


def test_an_answer_from_a_truncated_file_comes_with_the_remark(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.gz"
    packed = gzip.compress(table(rows=300).encode())
    jobs.write_bytes(packed[: len(packed) * 2 // 3])
    shown = run("predict", jobs, "lmp#", "--n", "4")
    assert shown.exit_code == 1
    assert "observed" in shown.stdout
    assert "ends too early" in shown.stderr
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    questions.write_text('{"id": "1", "application": "lmp#", "n": 4}\n')
    assert run("predict", "--events", jobs, "--requests", questions, "--out", answers).exit_code == 1
    assert len(answers.read_text().splitlines()) == 1


def configured(shown: Result, tmp_path: Path) -> Path:
    """Return the configuration that a command has advised."""
    config = tmp_path / "agent.yaml"
    config.write_text(shown.stdout[shown.stdout.index("identify:\n") :])
    return config


@pytest.mark.parametrize(
    ("name", "wc_key", "applications"),
    [("{code}", "*", 4), ("allocation", "*", 3), ("{code}{number}", "*", 3), ("bash", "code{number}", 5)],
    ids=["a code for each name", "one name for all", "a name of its own for each job", "a workload key"],
)
def test_where_names_are_pseudonyms_the_advice_is_a_configuration_that_works(
    tmp_path: Path, name: str, wc_key: str, applications: int
) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(table(name=name, wc_key=wc_key))
    shown = run("identify", jobs)
    assert shown.exit_code == 0
    assert "The names of 60 of 60 jobs do not identify a program" in shown.stdout
    again = run("identify", jobs, "-c", configured(shown, tmp_path))
    assert again.stdout.startswith(f"60 jobs, 60 identified, {applications} applications.")
    assert "Next: scalewatch predict" in again.stdout


def test_the_last_line_is_a_command_that_works(tmp_path: Path) -> None:
    jobs = tmp_path / "my jobs.txt"
    jobs.write_text(table())
    last = run("identify", jobs).stdout.splitlines()[-1]
    assert last == f"Next: scalewatch predict '{jobs}' 'lmp#' --n 8,16"
    assert run("predict", jobs, "lmp#", "--n", "8,16").exit_code == 0
    assert "--out results" in run("identify", jobs, jobs).stdout.splitlines()[-1]


@pytest.mark.parametrize("command", [("replay", "--scores", "{out}.jsonl"), ("backtest",)])
def test_a_folder_of_the_wrong_kind_leaves_nothing_behind(tmp_path: Path, command: tuple[str, ...]) -> None:
    folder, out = tmp_path / "wrong", tmp_path / "out"
    folder.mkdir()
    (folder / "jobs.txt").write_text(table())
    shown = run(*(part.format(out=out) for part in command), folder, "--out", out)
    assert shown.exit_code == 2
    assert "List files of other formats one by one." in shown.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wrong"]
