"""`scalewatch status`, `alerts`, `job`, `hosts` and `app`: a running agent asked from a terminal."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from sinks.prometheus.registry import Metrics
from sinks.web.server import Server, create_app
from tests.kit.messages import alert, host_view, job, prediction, resource_view
from tests.kit.readers import TOKENS, limited_app
from tests.kit.readers import run as ended_run
from tests.kit.service import FixedService


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    service = FixedService(
        [prediction()],
        [job("812", probability_exceeds_limit=0.9), job("813", probability_exceeds_limit=0.01)],
        [alert(), alert("over", status="resolved", annotations={"summary": "This is over."})],
        hosts=[host_view("nid1", resources=(resource_view("load1"),))],
        runs=[ended_run("7", "ann")],
    )
    with Server(create_app(service, Metrics(formats=(), reasons=(), processors=())), "127.0.0.1", 0) as server:
        yield server.url


def ask(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "160", "SCALEWATCH_URL": url})


def test_status_begins_with_what_needs_its_reader_and_lists_alerts_and_late_jobs(url: str) -> None:
    shown = ask(url, "status").output
    assert shown.startswith("1 application needs you.\n1 job will probably hit the limit.\n")
    assert "2 running jobs, 1 applications, 1 with a reliable prediction, 1 hosts" in shown
    assert "lammps is 50 % slower at 16 nodes" in shown
    assert "812" in shown
    assert "813" not in shown


def test_open_alerts_are_listed_and_resolved_ones_are_not(url: str) -> None:
    shown = ask(url, "alerts").output
    assert "lammps is 50 % slower at 16 nodes" in shown
    assert "This is over." not in shown


def test_a_job_is_found_by_its_id_while_it_runs_and_after_its_end(url: str) -> None:
    assert "predicted end" in ask(url, "job", "812").output
    ended = ask(url, "job", "7").output
    assert "RUN TIME" in ended
    unknown = ask(url, "job", "99")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "The agent knows no job '99'." in unknown.stderr


def test_hosts_and_an_application_have_tables(url: str) -> None:
    assert "nid1" in ask(url, "hosts").output
    assert "No such host sends telemetry." in ask(url, "hosts", "nid9").output
    shown = ask(url, "app", "lammps").output
    assert shown.startswith("lammps rhodo on archer2: reliable, ")
    assert "90 % BAND" in shown
    assert "no model of 'nothing'" in ask(url, "app", "nothing").stderr


def test_a_reader_who_is_no_operator_asks_with_a_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKENS["ann"][0])
    with Server(limited_app(FixedService([prediction()])), "127.0.0.1", 0) as server:
        refused = ask(server.url, "app", "lammps")
        shown = ask(server.url, "app", "lammps", "--token-file", str(token))
    assert "Authentication required" in refused.stderr
    assert "90 % BAND" in shown.output


def test_a_name_is_neither_markup_nor_control_of_the_terminal() -> None:
    service = FixedService([prediction("[red]a[/oops]\x1b[2J")])
    with Server(create_app(service, Metrics(formats=(), reasons=(), processors=())), "127.0.0.1", 0) as server:
        shown = ask(server.url, "app", "[red]a[/oops]\x1b[2J")
    assert shown.output.startswith("[red]a[/oops]?[2J rhodo on archer2: reliable")


def test_programs_get_the_answers_of_the_interface_as_json(url: str) -> None:
    (shown,) = json.loads(ask(url, "hosts", "--json").output)["rows"]
    assert shown["host"] == "nid1"
    assert json.loads(ask(url, "alerts", "--json").output)["total"] == 1


def test_files_need_replay_and_replay_needs_files_and_a_wrong_word_is_corrected(url: str) -> None:
    assert "Give --replay and FILES, or neither" in ask(url, "alerts", "events.jsonl").stderr
    assert "did you mean status?" in ask(url, "statsu").stderr
