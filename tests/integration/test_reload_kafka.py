"""Reloads of a running agent on a real broker: nothing is lost or doubled, and a bad file changes nothing."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics, ended_runs
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOON_S = 120.0  # nothing takes so long where it works
REFUSED = "configuration rejected, the previous configuration stays in use"
RELOADED = "configuration reloaded, the roles restart"


def completed(job_id: str, n: float, run_time_s: float) -> bytes:
    end_ms = time.time_ns() // 1_000_000
    times = {"start": rfc3339(end_ms - round(run_time_s * 1000)), "end": rfc3339(end_ms), "run_time_s": run_time_s}
    run = {"job_id": job_id, "application": "wrf", "n": n, "unit": "nodes", **times}
    return json.dumps({"type": "job.completed", "system": "centre", **run}).encode()


def learned(agent: AgentProcess, count: int) -> None:
    def observations() -> int:
        answer = agent.get("learner", "/api/v1/predictions?application=wrf&n=2")
        found: int = answer.json()["observations"] if answer is not None and answer.status_code == 200 else 0
        return found

    until(lambda: observations() >= count, SOON_S, lambda: f"{observations()} of {count}\n{agent.output()}")
    assert observations() == count


def edit(path: Path, **sections: Any) -> None:
    settings = yaml.safe_load(path.read_text())
    for name, part in sections.items():
        settings[name] = {**settings.get(name, {}), **part}
    path.write_text(yaml.safe_dump(settings))


def reload(agent: AgentProcess, event: str, count: int = 1) -> None:
    agent.send(signal.SIGHUP)
    until(lambda: len(agent.lines(event)) == count, SOON_S, agent.output)


def begun_anew(agent: AgentProcess, before: dict[str, int]) -> None:
    until(lambda: len(agent.role_pids().items() - before.items()) == len(before), SOON_S, agent.output)
    agent.wait_ready()


@pytest.fixture
def config(kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path) -> Path:
    sources = [{"topics": [fresh("jobs")], "format": "native"}]
    return write_config(tmp_path, kafka.bootstrap, fresh("reload"), sources, jobs={"settle_max_s": 2.0})


def test_a_reload_takes_over_what_it_can_and_a_bad_file_changes_nothing(config: Path) -> None:
    good = config.read_text()
    with AgentProcess(config) as agent, AgentTopics(agent.config) as topics:
        source = agent.config.sources[0].topics[0]
        topics.create(source)
        agent.wait_ready()
        topics.write(source, [completed(f"a{n:g}", n, 800.0 / n) for n in (1.0, 2.0, 4.0, 8.0)])
        learned(agent, 4)

        before, parent = agent.role_pids(), agent.pid
        edit(config, metrics={"applications_max": 7}, topics={"journal": "elsewhere"})
        reload(agent, RELOADED)
        begun_anew(agent, before)
        assert agent.pid == parent
        assert [line["change"].split(":")[0] for line in agent.lines("key applied")] == ["metrics.applications_max"]
        (waits,) = agent.lines("key waits for a restart of the agent")
        assert waits["change"].startswith("topics.journal: ")
        assert {line["role"] for line in agent.lines("role stopped")} == {"learner", "collector"}
        topics.write(source, [completed("b", 2.0, 410.0)])
        learned(agent, 5)
        assert agent.metric("learner", "scalewatch_restores_total") == 1
        for role in before:
            assert agent.metric(role, "scalewatch_role_restarts_total", role=role) == 0
            assert agent.metric(role, "scalewatch_config_keys_waiting") == 1

        edit(config, http={"prot": 1})
        before = agent.role_pids()
        reload(agent, REFUSED)
        assert "did you mean port?" in agent.lines(REFUSED)[0]["problems"][0]
        for role in before:
            until(lambda role=role: agent.metric(role, "scalewatch_config_problems") == 1, SOON_S, agent.output)  # type: ignore[misc] # bound to each role
        page = agent.get("learner", "/agent")
        assert page is not None
        assert "Configuration refused" in page.text
        assert agent.role_pids() == before

        agent.signal_role("learner", signal.SIGKILL)  # the file on disk is bad: it gets the configuration in use
        until(lambda: agent.role_pids().get("learner") not in (None, before["learner"]), SOON_S, agent.output)
        agent.wait_ready()
        topics.write(source, [completed("c", 4.0, 205.0)])
        learned(agent, 6)

        config.write_text(good)
        before = agent.role_pids()
        reload(agent, RELOADED, 2)
        begun_anew(agent, before)
        learned(agent, 6)
        assert agent.metric("learner", "scalewatch_config_problems") == 0
        assert agent.stop() == 0


def waits_for_a_reload(pid: int) -> bool:
    """Return whether SIGHUP waits in a process until somebody listens: that is so from the first line of `run`."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (blocked,) = (int(line.split()[1], 16) for line in status if line.startswith("SigBlk:"))
    return bool(blocked & 1 << (signal.SIGHUP - 1))


def test_a_reload_in_the_first_second_of_a_start_ends_nothing(config: Path) -> None:
    with AgentProcess(config) as agent, AgentTopics(agent.config) as topics:
        topics.create(agent.config.sources[0].topics[0])
        until(lambda: waits_for_a_reload(agent.pid), SOON_S, agent.output)
        edit(config, metrics={"applications_max": 7})
        for _ in range(20):
            agent.send(signal.SIGHUP)
        until(
            lambda: agent.lines(RELOADED) or agent.lines("configuration unchanged") or agent.ended() is not None,
            SOON_S,
            agent.output,
        )
        until(lambda: len(agent.role_pids()) == 2, SOON_S, agent.output)
        for pid in agent.role_pids().values():  # whoever signals a whole group of processes meets the roles, too
            until(lambda pid=pid: waits_for_a_reload(pid), SOON_S, agent.output)  # type: ignore[misc] # bound to each role
            os.kill(pid, signal.SIGHUP)
        agent.wait_ready()
        assert agent.lines("role ended") == []
        assert agent.stop() == 0


def test_under_load_reloads_lose_and_double_nothing(config: Path) -> None:
    with AgentProcess(config) as agent, AgentTopics(agent.config) as topics, AgentTopics(agent.config) as producers:
        source = agent.config.sources[0].topics[0]
        topics.create(source)
        agent.wait_ready()
        sent: list[str] = []
        enough = threading.Event()

        def produce() -> None:
            while not enough.is_set():
                jobs = [f"{len(sent) + number}" for number in range(20)]
                sizes = [2.0 ** (number % 4) for number in range(20)]
                producers.write(source, [completed(job, n, 800.0 / n) for job, n in zip(jobs, sizes, strict=True)])
                sent.extend(jobs)

        producer = threading.Thread(target=produce)
        producer.start()
        try:
            for count, bound in enumerate((11, 12, 13), start=1):
                before, known = agent.role_pids(), len(sent)
                until(lambda known=known: len(sent) > known, SOON_S, agent.output)  # type: ignore[misc] # bound to each count
                edit(config, metrics={"applications_max": bound})
                reload(agent, RELOADED, count)
                begun_anew(agent, before)
        finally:
            enough.set()
            producer.join()
        learned(agent, len(sent))
        assert {run_id.partition("/")[2].partition("@")[0] for run_id in ended_runs(topics.journal())} == set(sent)
        assert agent.stop() == 0


def test_what_a_role_refuses_is_undone_for_both(config: Path) -> None:
    with AgentProcess(config) as agent, AgentTopics(agent.config) as topics:
        topics.create(agent.config.sources[0].topics[0])
        agent.wait_ready()
        ports = free_ports(2)
        with socket.create_server(("127.0.0.1", ports.start)):
            edit(config, http={"port": ports.start})
            reload(agent, REFUSED)
            agent.wait_ready()
        assert agent.metric("collector", "scalewatch_config_problems") == 1


def test_a_role_alone_reloads_a_watched_file_with_its_process_id(config: Path) -> None:
    with AgentProcess(config, "collector", watch=True) as agent, AgentTopics(agent.config) as topics:
        topics.create(agent.config.sources[0].topics[0])
        agent.wait_ready()
        pid = agent.pid
        for count, bound in enumerate((30, 40), start=1):
            edit(config, collector={"deadletter_bytes_per_s_max": bound})
            until(lambda count=count: len(agent.lines("role starts")) == count + 1, SOON_S, agent.output)  # type: ignore[misc] # bound to each count
            agent.wait_ready()
        reload(agent, "configuration unchanged", len(agent.lines("configuration unchanged")) + 1)
        config.write_text("sources: [")
        until(lambda: agent.metric("collector", "scalewatch_config_problems") == 1, SOON_S, agent.output)
        assert agent.ready("collector")
        assert agent.pid == pid
        assert agent.stop() == 0
