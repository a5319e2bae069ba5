"""Operations on a real broker: a rebuild under new rules, history into the running system, dead letters sent again.

One agent lives through all of it: it learns under two job names, is stopped, gets a rule and a second system, is rebuilt
and goes on.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from agent.cli import main
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

END_MS = 1_795_168_800_000
SOON_S = 120.0  # nothing takes so long where it works
RUN_TIMES_S = {1.0: 800.0, 2.0: 420.0, 4.0: 230.0, 8.0: 130.0}
RULE = {"match": {"job_name": "^gmx_"}, "application": "gromacs"}


@dataclass(frozen=True)
class Life:
    """The agent in its second life, its source, and what the rebuild in between said."""

    agent: AgentProcess
    topics: AgentTopics
    source: str
    rebuilt: str
    predicted_before: set[str]


@pytest.fixture(scope="module")
def life(kafka: KafkaBroker, _numbers: Iterator[int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    source = f"rebuild-{next(_numbers)}"
    parts: dict[str, Any] = {"jobs": {"settle_max_s": 2.0}, "systems": {"centre": {"partition": 0}}}
    sources = [{"topics": [source], "format": "native"}]
    path = write_config(tmp_path_factory.mktemp("rebuild"), kafka.bootstrap, f"{source}-own", sources, **parts)
    agent = AgentProcess(path)
    with AgentTopics(agent.config) as topics:
        topics.create(source)
        with agent:
            agent.wait_ready()
            topics.write(source, runs("gmx_a") + runs("gmx_b"))
            topics.write(source, runs("amber", system="annex"))  # not listed
            until(lambda: len({run["run_id"] for run in topics.messages("runs")}) == 8, SOON_S, agent.output)
            until(lambda: applications(agent) == {"gmx_a", "gmx_b"}, SOON_S, agent.output)
            assert agent.stop() == 0
        before = set(topics.newest("predictions"))
        settings = yaml.safe_load(path.read_text())
        settings["identify"] = {"rules": [RULE]}
        settings["systems"]["annex"] = {"partition": 0}
        path.write_text(yaml.safe_dump(settings))
        rebuilt = command(path, "rebuild")
        with agent:
            agent.wait_ready()
            yield Life(agent, topics, source, rebuilt, before)


def event(name: str, number: int, n: float, run_time_s: float, system: str = "centre") -> dict[str, Any]:
    end_ms = END_MS + number * 60_000
    job = {"type": "job.completed", "system": system, "job_id": f"{name}-{number}", "job_name": name}
    start = rfc3339(end_ms - round(run_time_s * 1000))
    return {**job, "n": n, "unit": "nodes", "start": start, "end": rfc3339(end_ms), "run_time_s": run_time_s}


def runs(name: str, system: str = "centre", first: int = 0) -> list[bytes]:
    sizes = enumerate(RUN_TIMES_S.items(), first)
    return [json.dumps(event(name, number, n, run_time_s, system)).encode() for number, (n, run_time_s) in sizes]


def command(path: Path, *arguments: str) -> str:
    """Run a command as a user does, and return what it printed."""
    done = CliRunner().invoke(main, [*arguments, "-c", str(path)])
    assert done.exit_code == 0, done.output
    return done.stdout


def applications(agent: AgentProcess) -> set[str]:
    return {row["application"] for row in agent.rows("/api/v1/applications")}


def observations(agent: AgentProcess, application: str) -> int:
    answer = agent.get("learner", f"/api/v1/predictions?application={application}&n=2")
    found: int = answer.json()["observations"] if answer is not None and answer.status_code == 200 else 0
    return found


def stay(look: Callable[[], object], ticks: int, life: Life) -> None:
    """Check that something stays as it is while more of the journal is folded."""
    before = look()
    folded = life.agent.metric("learner", "scalewatch_events_total", outcome="processed")
    until(
        lambda: life.agent.metric("learner", "scalewatch_events_total", outcome="processed") >= folded + ticks,
        SOON_S,
        life.agent.output,
    )
    assert look() == before


def test_a_rebuild_learns_the_settled_runs_anew_under_the_rules_of_today(life: Life) -> None:
    assert life.rebuilt.startswith("shard 0: 8 runs, 0 unsettled jobs, 1 application")
    assert {key.split("/")[1] for key in life.predicted_before} == {"gmx_a", "gmx_b"}
    assert applications(life.agent) == {"gromacs"}
    assert observations(life.agent, "gromacs") == 8
    newest = life.topics.newest("predictions")
    assert {newest[key] for key in life.predicted_before} == {None}


def test_after_a_rebuild_the_agent_learns_on(life: Life) -> None:
    one_more = event("gmx_c", 9, 2.0, 430.0)
    life.topics.write(life.source, [json.dumps(one_more).encode()])
    until(lambda: observations(life.agent, "gromacs") == 9, SOON_S, life.agent.output)
    life.topics.write(life.source, runs("gmx_a"))  # sent again: they were learned before the rebuild
    stay(lambda: observations(life.agent, "gromacs"), 7, life)


def test_dead_letters_are_learned_once_however_often_they_are_sent_again(life: Life) -> None:
    assert "annex" in command(life.agent.path, "deadletter", "list", "--reason", "unknown-system")
    for _ in range(2):
        output = command(life.agent.path, "deadletter", "replay", "--reason", "unknown-system")
        assert "4 messages" in output
        until(lambda: observations(life.agent, "amber") == 4, SOON_S, life.agent.output)
    stay(lambda: observations(life.agent, "amber"), 7, life)


def test_history_goes_into_the_running_system_once_and_old_runs_raise_no_alert(life: Life, tmp_path: Path) -> None:
    past, slow = tmp_path / "past.jsonl", tmp_path / "slow.jsonl"
    past.write_bytes(b"\n".join([*runs("wrf", first=0), *runs("wrf", first=10), *runs("wrf", first=20), b"no json"]))
    slow.write_text(json.dumps(event("wrf", 30, 4.0, 3 * RUN_TIMES_S[4.0])))
    for _ in range(2):
        output = command(life.agent.path, "backfill", str(past))
        assert output.startswith("12 runs written")
        assert "1 not-json" in output
        until(lambda: observations(life.agent, "wrf") == 12, SOON_S, life.agent.output)
    stay(lambda: observations(life.agent, "wrf"), 15, life)
    command(life.agent.path, "backfill", str(slow))  # far outside the band that is published by now
    until(lambda: observations(life.agent, "wrf") == 13, SOON_S, life.agent.output)
    stay(lambda: life.agent.rows("/api/v1/alerts"), 3, life)
    assert life.agent.rows("/api/v1/alerts") == []
