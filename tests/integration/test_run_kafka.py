"""`scalewatch run` on a real broker, as its users see it: events in, topics, HTTP and metrics out, through every restart."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from agent.config.load import load
from agent.log.kafka.client import ClientName
from processors.contracts.names import rfc3339
from tests.kit.agent_process import AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import limit_messages

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SYSTEM = "centre"
SOON_S = 120.0  # nothing takes so long where it works
SETTINGS: dict[str, dict[str, Any]] = {
    "jobs": {"settle_max_s": 2.0},
    "alerts": {"strange_run": {"observations_min": 4}},
}
RUN_TIMES_S = {1.0: 800.0, 2.0: 420.0, 4.0: 230.0, 8.0: 130.0}


@pytest.fixture(scope="module")
def source(_numbers: Iterator[int]) -> str:
    return f"run-jobs-{next(_numbers)}"


@pytest.fixture(scope="module")
def agent(kafka: KafkaBroker, source: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """Both roles under their parent, for all tests of this module that do not need their own."""
    folder = tmp_path_factory.mktemp("run")
    sources = [{"topics": [source], "format": "native", "system": SYSTEM}]
    with AgentProcess(write_config(folder, kafka.bootstrap, f"{source}-own", sources, **SETTINGS)) as running:
        with AgentTopics(running.config) as topics:
            topics.create(source)
        running.wait_ready()
        yield running


@pytest.fixture(scope="module")
def topics(agent: AgentProcess) -> Iterator[AgentTopics]:
    with AgentTopics(agent.config) as connected:
        yield connected


def event(kind: str, job_id: str, **facts: Any) -> bytes:
    return json.dumps({"type": kind, "system": SYSTEM, "job_id": job_id, **facts}).encode()


def completed(application: str, job_id: str, n: float, run_time_s: float, **facts: Any) -> bytes:
    """Return a run that has just ended."""
    end_ms = time.time_ns() // 1_000_000
    start = rfc3339(end_ms - round(run_time_s * 1000))
    ended = {"n": n, "unit": "nodes", "start": start, "end": rfc3339(end_ms), "run_time_s": run_time_s}
    return event("job.completed", job_id, application=application, **ended, **facts)


def runs(application: str, rounds: int = 2, prefix: str = "run") -> list[bytes]:
    """Return runs of an application at every size, each a little different."""
    return [
        completed(application, f"{application}-{prefix}-{number}-{n:g}", n, run_time_s * (1 + 0.01 * number))
        for number in range(rounds)
        for n, run_time_s in RUN_TIMES_S.items()
    ]


def observations(agent: AgentProcess, application: str) -> int:
    """Return how many runs the model of an application rests on; 0 until it is published."""
    answer = agent.get("learner", f"/api/v1/predictions?application={application}&n=2")
    found: int = answer.json()["observations"] if answer is not None and answer.status_code == 200 else 0
    return found


def learned(agent: AgentProcess, application: str, count: int) -> None:
    reported = lambda: f"{observations(agent, application)} of {count} runs of {application}\n{agent.output()}"  # noqa: E731
    until(lambda: observations(agent, application) >= count, SOON_S, reported)


def test_runs_become_a_prediction_on_its_topic_and_over_http(
    agent: AgentProcess, topics: AgentTopics, source: str
) -> None:
    topics.write(source, runs("lammps"))
    learned(agent, "lammps", 8)

    def published() -> dict[str, Any] | None:  # what is read over HTTP may be on its way to the topic
        reported = [one for one in topics.messages("predictions") if one["application"] == "lammps"]
        return reported[-1] if reported and reported[-1]["observations"] == 8 else None

    assert until(published, SOON_S, agent.output)["sizes"] == [1.0, 2.0, 4.0, 8.0]
    requested = agent.get("learner", "/api/v1/predictions?application=lammps&n=2")
    assert requested is not None
    assert requested.status_code == 200
    assert requested.json()["points"][0]["run_time_s"] == pytest.approx(RUN_TIMES_S[2.0], rel=0.1)


def test_a_settled_run_is_kept_and_a_request_is_answered_on_their_topics(
    agent: AgentProcess, topics: AgentTopics, source: str
) -> None:
    topics.write(source, runs("namd"))
    learned(agent, "namd", 8)
    requested = {"type": "prediction.requested", "system": SYSTEM, "request_id": "r9", "application": "namd"}
    topics.write(source, [json.dumps({**requested, "unit": "nodes", "n": [4, 16]}).encode()])

    def answered() -> list[dict[str, Any]]:
        return [one for one in topics.messages("answers") if one["request_id"] == "r9"]

    assert [point["n"] for point in until(answered, SOON_S, "an answer")[0]["points"]] == [4.0, 16.0]

    def settled() -> bool:
        reported = {one["run_id"] for one in topics.messages("runs")}
        return len([run_id for run_id in reported if run_id.startswith(f"{SYSTEM}/namd-")]) == 8

    until(settled, SOON_S, "eight settled runs")


def test_a_running_job_is_forecast_until_it_ends(agent: AgentProcess, topics: AgentTopics, source: str) -> None:
    topics.write(source, runs("gromacs"))
    learned(agent, "gromacs", 8)
    begun = {"application": "gromacs", "n": 4, "unit": "nodes", "start": rfc3339(time.time_ns() // 1_000_000 - 5000)}
    topics.write(source, [event("job.started", "77", time_limit_s=600, **begun)])
    (job,) = until(lambda: agent.rows("/api/v1/jobs?job_id=77"), SOON_S, "a forecast of job 77")
    assert job["run_time_s"] == pytest.approx(RUN_TIMES_S[4.0], rel=0.2)
    topics.write(source, [event("job.completed", "77", end=rfc3339(time.time_ns() // 1_000_000), **begun)])
    until(lambda: not agent.rows("/api/v1/jobs?job_id=77"), SOON_S, "no forecast of job 77")

    def values() -> list[bytes | None]:
        return [value for key, value in topics.read(agent.config.topics.job_predictions) if key == f"{SYSTEM}/77"]

    until(lambda: values()[-1:] == [None], SOON_S, "a tombstone of job 77")
    assert values()[0] is not None


def test_a_run_far_from_its_prediction_raises_an_alert(agent: AgentProcess, topics: AgentTopics, source: str) -> None:
    topics.write(source, runs("vasp", rounds=3))
    learned(agent, "vasp", 12)
    topics.write(source, runs("vasp", rounds=4, prefix="scored"))  # without scored runs nothing is strange
    learned(agent, "vasp", 28)
    topics.write(source, [completed("vasp", "slow", 4.0, 3 * RUN_TIMES_S[4.0])])

    def alerts() -> list[dict[str, Any]]:
        return [one for one in agent.rows("/api/v1/alerts") if one["labels"].get("application") == "vasp"]

    (alert,) = until(alerts, SOON_S, "an alert on vasp")
    assert alert["evidence"]["observed"] == pytest.approx(3 * RUN_TIMES_S[4.0])
    until(
        lambda: alert["fingerprint"] in {one["fingerprint"] for one in topics.messages("alerts")},
        SOON_S,
        "the alert on its topic",
    )


def test_what_nobody_can_use_is_a_dead_letter_and_stops_nothing(
    agent: AgentProcess, topics: AgentTopics, source: str, kafka: KafkaBroker
) -> None:
    long_name = event("job.completed", "9", application="x" * 2_000_000)
    poison = {"not-json": b"no json", "empty": None, "text": long_name}
    hosts = ["\N{SNOWMAN}\N{WHITE SMILING FACE}" * 131_000]  # no record can hold so many, so they are dropped
    wide = [completed("wide", f"wide-{n:g}", n, 60.0, hosts=hosts) for n in (2.0, 4.0)]
    limit_messages(kafka.bootstrap, source, 4 << 20)  # as centres do whose Slurm sends batch scripts
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, max_request_size=4 << 20)
    for value in [*poison.values(), *wide]:
        producer.send(source, value, b"key")
    producer.close(SOON_S)  # sends what is left

    def dead_letters() -> dict[str, dict[str, Any]] | None:
        found = {one["reason"]: one for one in topics.messages("deadletters") if one["topic"] == source}
        return found if set(poison) <= set(found) else None

    found = until(dead_letters, SOON_S, agent.output)
    assert found["text"]["truncated"] and found["text"]["value_bytes"] > 2_000_000  # noqa: PT018 - one fact
    topics.write(source, runs("after-poison"))
    learned(agent, "wide", 2)
    learned(agent, "after-poison", 8)
    assert agent.lines("role ended") == []
    for reason in poison:
        assert agent.metric("collector", "scalewatch_dead_letters_total", reason=reason) == 1


def test_both_roles_report_prometheus_what_they_did(agent: AgentProcess, topics: AgentTopics, source: str) -> None:
    def processed() -> float:
        return agent.metric("collector", "scalewatch_events_total", format="native", outcome="processed")

    before = until(processed, SOON_S, agent.output)  # of the tests above, or of nobody but these runs
    topics.write(source, runs("cp2k"))
    learned(agent, "cp2k", 8)
    until(lambda: processed() >= before + 8, SOON_S, lambda: f"{processed()} events after {before}")
    assert processed() == before + 8
    until(
        lambda: agent.metric("learner", "scalewatch_predicted_run_time_seconds", application="cp2k", level="0.5"),
        SOON_S,
        "series of cp2k",
    )
    until(lambda: agent.metric("learner", "scalewatch_checkpoints_total", outcome="confirmed"), SOON_S, "checkpoints")
    assert agent.metric("learner", "scalewatch_ready", role="learner") == 1
    assert agent.metric("collector", "scalewatch_ready", role="collector") == 1


@pytest.mark.parametrize("role", ["learner", "collector"])
def test_a_role_that_is_killed_is_started_again_and_reports_it(
    agent: AgentProcess, topics: AgentTopics, source: str, role: str
) -> None:
    topics.write(source, runs(f"before-{role}"))
    learned(agent, f"before-{role}", 8)
    killed = agent.signal_role(role, signal.SIGKILL)
    until(lambda: agent.role_pids().get(role, killed) != killed, SOON_S, agent.output)
    topics.write(source, runs(f"after-{role}"))
    learned(agent, f"after-{role}", 8)
    learned(agent, f"before-{role}", 8)
    agent.wait_ready()
    state = until(lambda: agent.ready(role), SOON_S, agent.output)
    ended = [line for line in agent.lines("role ended") if line["child"] == role]
    assert [line["starts_again_in_s"] > 0 for line in ended if line["exit_code"] == -9] == [True]
    again = [line for line in agent.lines("role restarted") if line["child"] == role]
    assert [line["restarts"] for line in again] == list(range(1, len(ended) + 1))
    assert state["roles"][0]["restarts"] == len(ended)
    assert agent.metric(role, "scalewatch_role_restarts_total", role=role) == len(ended)


def test_roles_leave_when_their_parent_is_killed_and_make_room_for_the_next(agent: AgentProcess) -> None:
    orphans = agent.role_pids()
    agent.kill()
    until(
        lambda: agent.get("learner", "/healthz") is None and agent.get("collector", "/healthz") is None,
        SOON_S,
        agent.output,
    )
    until(lambda: not any(alive(pid) for pid in orphans.values()), SOON_S, agent.output)
    assert {line["role"] for line in agent.lines("role stopped")} == set(orphans)
    agent.start()
    agent.wait_ready()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # nothing is left of the command of a zombie
    except OSError:
        return False


def test_sigterm_saves_everything_and_a_restart_goes_on_where_it_was(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: ClientName
) -> None:
    source = fresh("jobs")
    rare = {"checkpoint_interval_s": 3600.0}  # only the one at the end
    path = write_config(
        tmp_path,
        kafka.bootstrap,
        fresh("stop"),
        [{"topics": [source], "format": "native"}],
        client,
        **SETTINGS,
        learner=rare,
    )
    with AgentProcess(path) as agent, AgentTopics(agent.config) as topics:
        topics.create(source)
        agent.wait_ready()
        topics.write(source, runs("wrf"))
        learned(agent, "wrf", 8)
        assert topics.read(agent.config.topics.state) == []
        assert agent.stop() == 0
        keys = [key for key, _ in topics.read(agent.config.topics.state)]
        assert keys[-1] == "__marker__"
        assert {line["role"] for line in agent.lines("role stopped")} == {"learner", "collector"}
        agent.start()
        agent.wait_ready()
        learned(agent, "wrf", 8)
        topics.write(source, [completed("wrf", "one-more", 2.0, 430.0)])
        learned(agent, "wrf", 9)
        assert observations(agent, "wrf") == 9
        assert agent.metric("learner", "scalewatch_restores_total") == 1


def test_without_a_broker_it_reports_it_and_recovers_when_the_broker_comes(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: ClientName
) -> None:
    source = fresh("jobs")
    path = write_config(tmp_path, kafka.bootstrap, fresh("late"), [{"topics": [source], "format": "native"}], client)
    with AgentTopics(load(str(path))) as topics:
        topics.create(source)
    kafka.stop()
    try:
        with AgentProcess(path) as agent:
            for role in ("learner", "collector"):

                def reason(role: str = role) -> str:
                    answer = agent.get(role, "/readyz")
                    reasons = answer.json()["reasons"] if answer is not None and answer.status_code == 503 else [""]
                    return reasons[0] if "could be reached" in reasons[0] else ""

                output = until(reason, SOON_S, agent.output)
                assert kafka.bootstrap in output
            kafka.start()
            agent.wait_ready()
            with AgentTopics(agent.config) as topics:
                topics.write(source, runs("late"))
            learned(agent, "late", 8)
            assert agent.lines("role ended") == []
    finally:
        if not kafka.running():
            kafka.start()


def test_an_outage_of_the_broker_is_a_line_when_it_begins_and_one_when_it_ends(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    path = write_config(tmp_path, kafka.bootstrap, fresh("out"), [{"topics": [fresh("jobs")], "format": "native"}])
    with AgentProcess(path) as agent:
        agent.wait_ready()
        before = len(agent.log.read_text().splitlines())
        kafka.kill()
        try:
            for role in ("learner", "collector"):
                until(lambda role=role: has_line(agent, "broker unavailable", role), SOON_S, agent.output)  # type: ignore[misc]
                until(lambda role=role: waits(agent, role), SOON_S, agent.output)  # type: ignore[misc]
        finally:
            kafka.start()
        agent.wait_ready()
        for role in ("learner", "collector"):
            until(lambda role=role: has_line(agent, "broker available again", role), SOON_S, agent.output)  # type: ignore[misc]
        lines = [json.loads(line) for line in agent.log.read_text().splitlines()[before:]]
        for role in ("learner", "collector"):
            events = [line["event"] for line in lines if line.get("role") == role and "still" not in line["event"]]
            assert events == ["broker unavailable", "broker available again"], lines
        assert [line for line in lines if line.get("role") not in {"learner", "collector"}] == []


def has_line(agent: AgentProcess, event: str, role: str) -> bool:
    return any(line["role"] == role for line in agent.lines(event))


def waits(agent: AgentProcess, role: str) -> bool:
    """Return whether a role has begun anew and found no broker."""
    answer = agent.get(role, "/readyz")
    return answer is not None and "could be reached" in answer.text
