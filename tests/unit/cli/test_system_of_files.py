"""Tables of `sacct` without the column Cluster: every command gives their jobs the system that a running agent would."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.app import compose
from agent.app.files import Remarks
from agent.cli import main
from agent.cli.backfill import backfill
from agent.config.load import load
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.errors import ConfigError
from processors.contracts.events import decode_record
from processors.contracts.log import Batch
from processors.contracts.names import parse_rfc3339

FIRST = datetime(2026, 11, 16, tzinfo=UTC)  # a Monday
ONE = "systems: {exa: {}}\n"
TWO = "systems: {exa: {}, giga: {}}\n"
SLURM = (
    TWO + "sources: [{topics: [slurm], format: slurm, system: giga}, {topics: [hosts], format: ldms, system: exa}]\n"
)
NAMED = "sources: [{topics: [slurm], format: slurm}, {topics: [hosts], format: ldms, system: exa}]\n"
UNNAMED = "sources: [{topics: [slurm], format: slurm}]\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return written(tmp_path / "jobs.txt", table())


def table(*, cluster: str | None = None) -> str:
    head, last = ("JobID|JobName|User|State|Start|Elapsed|NNodes", "")
    if cluster is not None:
        head, last = f"{head}|Cluster", f"|{cluster}"
    lines = [head]
    for number in range(24):
        nodes, start = 2 << number % 3, FIRST + timedelta(minutes=10 * number)
        lines.append(
            f"{900 + number}|lmp|mary|COMPLETED|{start.isoformat()[:19]}|{timedelta(seconds=4000 // nodes)}|{nodes}{last}"
        )
    return "\n".join(lines) + "\n"


COMMANDS = {
    "replay": ("replay", "{jobs}", "--out", "{out}", "--quiet"),
    "backtest": ("backtest", "{jobs}", "--out", "{out}", "--quiet"),
    "alerts": ("alerts", "--replay", "{jobs}", "--quiet"),
    "predict": ("predict", "{jobs}", "lmp", "--n", "8"),
    "identify": ("identify", "{jobs}"),
    "report": ("report", "--replay", "{jobs}", "--week", "2026-W47", "--quiet"),
    "energy": ("report", "--energy", "--replay", "{jobs}", "--week", "2026-W47", "--quiet"),
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest, jobs: Path, tmp_path: Path) -> list[str]:
    return [part.format(jobs=jobs, out=tmp_path / "out") for part in COMMANDS[request.param]]


def test_where_the_system_is_not_clear_the_command_asks_for_it_and_takes_the_answer(
    command: list[str], jobs: Path, tmp_path: Path
) -> None:
    config = written(tmp_path / "agent.yaml", TWO)
    ambiguous = run(*command, "-c", config)
    assert (ambiguous.exit_code, ambiguous.stdout) == (2, "")
    assert ambiguous.stderr.splitlines() == [
        f"scalewatch: {jobs}:2 names no system, and there are several (exa, giga): choose one with --system."
    ]
    assert run(*command, "-c", config, "--system", "giga").exit_code == 0
    wrong = run(*command, "-c", config, "--system", "tera")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "The configuration does not list the system 'tera'; it lists exa, giga." in wrong.stderr


def test_where_every_job_is_of_another_system_the_command_fails_with_the_remedy(
    command: list[str], jobs: Path, tmp_path: Path
) -> None:
    jobs.write_text(table(cluster="tera"))
    shown = run(*command, "-c", written(tmp_path / "agent.yaml", ONE))
    assert shown.exit_code == 1
    assert (
        "scalewatch: 24 of 24 events are left out, because the configuration does not list the system tera;"
        in shown.stderr
    )
    assert "No alert would have fired." not in shown.stdout


@pytest.mark.parametrize(
    ("config", "system"),
    [(None, "local"), ("", "local"), (ONE, "exa"), (SLURM, "giga"), (NAMED, "exa"), (ONE + UNNAMED, "exa")],
)
def test_the_default_is_the_only_system_that_the_configuration_names(
    config: str | None, system: str, jobs: Path, tmp_path: Path
) -> None:
    options: list[str | Path] = [] if config is None else ["-c", written(tmp_path / "agent.yaml", config)]
    shown = run("predict", jobs, "lmp", "--n", "8", *options)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert f"lmp on {system}:" in shown.stdout


def test_the_cluster_that_a_table_names_comes_before_the_option(jobs: Path) -> None:
    jobs.write_text(table(cluster="exa"))
    assert run("replay", jobs, "--system", "giga", "--out", jobs.parent / "out", "--quiet").exit_code == 0
    assert "exa/lmp" in (jobs.parent / "out" / "runs.jsonl").read_text()


def test_some_jobs_of_another_system_are_counted_and_cost_no_success(jobs: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.txt", table(cluster="tera"))
    config = written(tmp_path / "agent.yaml", ONE)
    shown = run("alerts", "--replay", jobs, other, "--quiet", "-c", config)
    assert (shown.exit_code, shown.stdout) == (0, "No alert would have fired.\n")
    assert "24 of 48 events are left out" in shown.stderr


def test_a_refused_table_is_explained(jobs: Path) -> None:
    jobs.write_text(jobs.read_text().replace("COMPLETED", "FINISHED"))
    shown = run("alerts", "--replay", jobs, "--quiet")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert f"scalewatch: {jobs}:2: The state 'FINISHED' is not a final state of Slurm." in shown.stderr


@pytest.mark.parametrize("name", ["", "a b", "x" * 65])
def test_a_name_that_no_system_can_have_is_refused(name: str, jobs: Path) -> None:
    shown = run("identify", jobs, "--system", name)
    assert shown.exit_code == 2
    assert "a system has 1 to 64 printable ASCII characters without spaces." in shown.stderr


def test_the_next_command_that_identify_names_has_the_system_in_it(jobs: Path) -> None:
    assert "--system giga" in run("identify", jobs, "--system", "giga").stdout


def test_a_report_of_topics_takes_no_system(tmp_path: Path) -> None:
    shown = run("report", "-c", written(tmp_path / "agent.yaml", ONE), "--system", "exa")
    assert shown.exit_code == 2
    assert "--system works with FILES only" in shown.stderr


def backfilled(config: Path, jobs: Path, system: str | None = None) -> set[str]:
    settings, log = load(config), MemoryLog(MemoryBroker())
    backfill(
        settings, log, [str(jobs)], compose.file_options(settings, "UTC", system, unnamed=None), now_ms=parse_rfc3339("2026-12-01T00:00:00Z"),
        on_progress=lambda _: None, remarks=Remarks(settings),
    )  # fmt: skip
    systems: set[str] = set()

    def take(batch: Batch) -> None:
        systems.update(decode_record(value).event.system for value in batch.values if value)

    log.read(settings.topics.journal, 0, take)
    return systems


def test_a_backfill_gives_jobs_the_system_of_the_slurm_source(jobs: Path, tmp_path: Path) -> None:
    assert backfilled(written(tmp_path / "agent.yaml", SLURM), jobs) == {"giga"}


@pytest.mark.parametrize("text", [UNNAMED, "jobs: {settle_max_s: 60}\n"])
def test_a_backfill_invents_no_system(text: str, jobs: Path, tmp_path: Path) -> None:
    config = written(tmp_path / "agent.yaml", text)
    with pytest.raises(ConfigError, match=r"jobs.txt:2 names no system, and neither does the configuration"):
        backfilled(config, jobs)
    assert backfilled(config, jobs, "exa") == {"exa"}
