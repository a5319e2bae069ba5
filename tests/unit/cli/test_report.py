"""`scalewatch report`: what a person types, sees, and finds in the file; and who is named in it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.app.compose import hashed
from agent.cli import main

WILMA, JOE = (hashed(name, b"") for name in ("wilma", "joe"))
SIZES = (4, 8, 16, 32, 64, 128)


def job(number: int, n: int, time_s: float, **changes: object) -> str:
    start = f"2026-11-{16 + number // 24:02d}T{number % 24:02d}:00:00Z"
    return json.dumps({
        "type": "job.completed", "system": "exa", "job_id": str(number), "application": "lammps", "n": n, "unit": "nodes",
        "start": start, "run_time_s": time_s, "state": "COMPLETED", "user": "wilma", "time_limit_s": 2400.0,
    } | changes)  # fmt: skip


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A week of runs that get slower beyond 64 nodes, of which joe's never use more."""
    lines = []
    for number in range(96):
        n = SIZES[number % 6]
        time_s = (16_000 / n + 100 + 3 * n) * (1 + 0.01 * (number * 7 % 5 - 2))
        joe = n <= 16
        lines.append(
            job(number, n, time_s, user="joe" if joe else "wilma", time_limit_s=86_400.0 if n == 32 else 3000.0)
        )
    lines.append(job(97, 8, 300.0, state="FAILED", user="joe"))
    path = tmp_path_factory.mktemp("week") / "jobs.jsonl"
    path.write_text("\n".join(lines))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments], env={"COLUMNS": "120"})


def test_all_users_are_listed_with_what_they_lost_and_by_no_name(jobs: str) -> None:
    shown = run("--replay", jobs, "--week", "2026-W47")
    assert shown.exit_code == 0, shown.output
    assert shown.output.index(WILMA) < shown.output.index(JOE)
    assert "wilma" not in shown.output
    assert "lammps gets slower beyond 64 nodes. Request 64 nodes instead of 128" in shown.output
    assert "Time limits far too long: 16 runs" in shown.output


@pytest.mark.parametrize("name", ["joe", JOE])
def test_one_user_is_found_by_name_and_by_pseudonym(name: str, jobs: str) -> None:
    shown = run("--replay", jobs, "--week", "2026-W47", "--user", name)
    assert shown.exit_code == 0, shown.output
    assert JOE in shown.output
    assert WILMA not in shown.output
    assert "gets slower" not in shown.output
    assert "Failed runs: 1 run, 0.667 node-hours lost" in shown.output


def test_the_salt_of_the_configuration_names_the_user(jobs: str, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    (tmp_path / "salt").write_text("sea")
    config.write_text("privacy: {salt: {file: salt}}\n")
    shown = run("--replay", jobs, "--week", "2026-W47", "--user", "joe", "-c", str(config))
    assert hashed("joe", b"sea") in shown.output
    assert run("--replay", jobs, "--week", "2026-W47", "--user", JOE, "-c", str(config)).exit_code == 1


def test_where_users_are_dropped_there_is_no_report_of_one_and_one_of_all(jobs: str, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("privacy: {users: drop}\n")
    refused = run("--replay", jobs, "--week", "2026-W47", "--user", "joe", "-c", str(config))
    assert refused.exit_code == 2
    assert "privacy.users is drop" in refused.output
    assert "runs without a user" in run("--replay", jobs, "--week", "2026-W47", "-c", str(config)).output


def test_a_page_and_json_hold_the_same_week(jobs: str, tmp_path: Path) -> None:
    out = tmp_path / "week.html"
    shown = run("--replay", jobs, "--week", "2026-W47", "--out", str(out), "--json")
    found = json.loads(shown.stdout)
    assert (found["schema"], found["week"], found["runs"]) == ("scalewatch.week/1", "2026-W47", 97)
    assert WILMA in out.read_text()
    assert "wilma" not in out.read_text()


def test_a_week_without_runs_fails_and_names_the_week_that_has_some(jobs: str) -> None:
    shown = run("--replay", jobs, "--week", "2026-W40")
    assert shown.exit_code == 1
    assert "No run ended in 2026-W40. The newest run ended in 2026-W47; select that week with --week." in shown.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jobs.txt"], "Give both --replay and FILES"),
        (["--replay"], "Give both --replay and FILES"),
        ([], "Give the configuration of the agent with --config"),
        (["--replay", "jobs.txt", "--week", "47"], "There is no week '47'"),
    ],
)
def test_wrong_usage_is_named(arguments: list[str], message: str) -> None:
    shown = run(*arguments)
    assert shown.exit_code == 2
    assert message in shown.output


def test_energy_is_reported_in_place_of_waste_and_names_nobody(jobs: str, tmp_path: Path) -> None:
    out = tmp_path / "energy.html"
    shown = run("--replay", jobs, "--week", "2026-W47", "--energy", "--out", str(out))
    assert shown.exit_code == 0, shown.output
    assert "The energy of 97 runs is unknown." in shown.output
    assert "wilma" not in shown.output + out.read_text()
    assert WILMA in shown.output
    assert "By account" in out.read_text()


def test_energy_as_json_has_carbon_by_the_factor_of_the_configuration(jobs: str, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("energy: {carbon_g_per_kwh: 300}\n")
    found = json.loads(run("--replay", jobs, "--week", "2026-W47", "--energy", "--json", "-c", str(config)).stdout)
    assert (found["schema"], found["total"]["runs"], found["total"]["carbon_g"]) == ("scalewatch.energy/1", 97, 0.0)


def test_a_week_without_runs_has_no_energy_and_fails(jobs: str) -> None:
    shown = run("--replay", jobs, "--week", "2026-W40", "--energy")
    assert shown.exit_code == 1
    assert "No run ended in 2026-W40." in shown.output


def test_a_series_with_a_wrong_line_is_refused_with_its_place(jobs: str, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("reference: {carbon: carbon.csv}\n")
    (tmp_path / "carbon.csv").write_text("time,g_per_kwh\n2026-11-16T00:00:00Z,310\n2026-11-16T01:00:00,much\n")
    refused = run("--replay", jobs, "--week", "2026-W47", "--energy", "-c", str(config))
    assert refused.exit_code == 2
    assert "carbon.csv:3" in refused.output
    assert "is not a time with a zone" in refused.output
    assert "is not a number from 0 to 10000" in refused.output


def test_a_factor_beside_a_series_is_refused(jobs: str, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("reference: {carbon: carbon.csv}\nenergy: {carbon_g_per_kwh: 300}\n")
    (tmp_path / "carbon.csv").write_text("time,g_per_kwh\n2026-11-16T00:00:00Z,310\n")
    refused = run("--replay", jobs, "--week", "2026-W47", "--energy", "-c", str(config))
    assert refused.exit_code == 2
    assert "has no effect with reference.carbon" in refused.output


def test_a_session_at_its_limit_loses_nothing_and_a_solver_at_its_limit_does(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|JobName|User|State|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|Partition\n"
        "1|sys/dashboard/sys/jupyter|u1|TIMEOUT|2026-03-02T10:00:00|2026-03-02T18:00:00|28800|480|1|4|gpu\n"
        "2|interactive|u2|TIMEOUT|2026-03-02T10:00:00|2026-03-02T14:00:00|14400|240|1|4|gpu\n"
        "3|solver|u3|TIMEOUT|2026-03-02T10:00:00|2026-03-02T14:00:00|14400|240|4|64|batch\n"
    )
    found = json.loads(run("--replay", str(path), "--week", "2026-W10", "--json", "--quiet").stdout)
    (total,) = found["totals"]
    assert (total["lost"]["value"], total["not_judged"]) == (16.0, 0.0)
    assert total["sessions"] == {"runs": 2, "used": 12.0, "share": 12 / 28}
