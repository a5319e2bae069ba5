"""A new version in the place of the old one on a real broker, and back to the old one.

The old one is built from the history of this clone: the version before this one, and the last one whose states have other
numbers. It learns; the new one joins it and the old one leaves; then the old one has it all again. A version that cannot go on
with what the other one stored has to say so, and to name what helps.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.app.supervisor import BAD_CONFIG
from processors.contracts.names import rfc3339
from processors.contracts.outputs import SCHEMAS
from processors.hosts.lines import LINE_KINDS
from processors.pipeline.host_state import ARRAYS, COLUMNS
from tests.kit import predecessor
from tests.kit.agent_process import ROOT, AgentProcess, until, write_config
from tests.kit.agent_topics import MARKER, AgentTopics
from tests.kit.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.thorough]

SYSTEM = "centre"
HOSTS = ("nid1", "nid2")
SOON_S = 120.0  # nothing takes so long where it works
RUN_TIMES_S = {1.0: 800.0, 2.0: 420.0, 4.0: 230.0, 8.0: 130.0}
MINUTES_EACH = 3  # of what hosts measure, in each part of the play
SETTINGS: dict[str, dict[str, Any]] = {
    "kafka": {"session_timeout_s": 6.0},
    "jobs": {"settle_max_s": 2.0},
    "learner": {"host_checkpoint_interval_s": 1.0},
    "alerts": {"strange_run": {"observations_min": 4}},
}
OLDER: dict[str, Callable[[], Iterator[str]]] = {
    "the-version-before": predecessor.before,
    "one-with-other-numbers": predecessor.with_other_numbers,
}
ROWS = {kind.name for kind in COLUMNS} | {*ARRAYS, *LINE_KINDS}  # of hosts: those of an older form begin anew
Numbers = dict[str, int]  # the version of each kind of state that is stored


@dataclass
class Version:
    """One version with a configuration of its own: the same topics, other ports."""

    agent: AgentProcess
    code: Path
    refusals: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)

    def goes_on(self) -> None:
        """Wait until it has taken over; where it refuses what is stored take its sentence, do what that says, and start it again."""
        restores = "scalewatch_restores_total"  # it may be ready before: for what others leave to it
        until(
            lambda: self.agent.metric("learner", restores) or self.agent.ended() is not None, SOON_S, self.agent.output
        )
        if self.agent.ended() is None:
            return
        assert self.agent.ended() == BAD_CONFIG, self.agent.output()
        self.refusals.append(next(line for line in self.agent.output().splitlines() if "scalewatch rebuild" in line))
        self.rebuilt.append(self.command("rebuild"))
        self.agent.start().wait_ready()

    def command(self, *arguments: str) -> str:
        """Run a command of this version as a user does, and return what it printed."""
        whole = [sys.executable, "-m", "agent.cli", *arguments, "-c", str(self.agent.path)]
        done = subprocess.run(whole, cwd=self.code, check=False, capture_output=True, text=True, timeout=SOON_S)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Play:
    """Both versions on one set of topics, and what was sent so far."""

    def __init__(self, kafka: KafkaBroker, name: str, code: Path, folder: Path) -> None:
        self.raw = f"{name}-raw"
        self.old, self.new = (self._version(kafka, name, code_, folder) for code_ in (code, ROOT))
        self.topics = AgentTopics(self.new.agent.config)
        self.topics.create(self.raw)
        self.now_ms = time.time_ns() // 1_000_000 // 60_000 * 60_000
        self.runs: Counter[str] = Counter()
        self.parts = 0

    def _version(self, kafka: KafkaBroker, name: str, code: Path, folder: Path) -> Version:
        own = folder / ("new" if code == ROOT else "old")
        own.mkdir()
        path = write_config(
            own, kafka.bootstrap, name, [{"topics": [self.raw], "format": "native"}], "auto", **SETTINGS
        )
        return Version(AgentProcess(path, code=code), code)

    def send(self, application: str, *events: dict[str, Any]) -> None:
        """Write a run at every size, a question, minutes of hosts, and other events."""
        part = self.parts
        self.parts += 1
        ran = [
            completed(application, f"{application}-{part}-{n:g}", n, s * (1 + 0.01 * part))
            for n, s in RUN_TIMES_S.items()
        ]
        request = {
            "type": "prediction.requested",
            "request_id": f"r{part}",
            "application": application,
            "unit": "nodes",
        }
        sent = [*ran, request | {"n": [4]}, *self._load(part), *events]
        self.topics.write(self.raw, [json.dumps({"system": SYSTEM} | event).encode() for event in sent])
        self.runs.update(event["application"] for event in sent if event["type"] == "job.completed")

    def _load(self, part: int) -> Iterator[dict[str, Any]]:
        begin_ms = self.now_ms - (24 - part * MINUTES_EACH) * 60_000
        for second in range(0, MINUTES_EACH * 60, 15):
            for host in HOSTS:
                at = {"host": host, "resource": "cpu_available", "time": rfc3339(begin_ms + second * 1000)}
                yield {"type": "load", "value": 0.5 + second / 1000} | at

    def learned(self, version: Version) -> None:
        """Wait until a version has learned all that was sent, and stored it.

        No application has more than eight runs: each one more is then published at once.
        """
        seen = lambda: f"{self.observations(version)} of {dict(self.runs)}\n{version.agent.output()}"  # noqa: E731
        until(lambda: self.observations(version) == self.runs, SOON_S, seen)
        until(lambda: len(self.by("run_id", "runs")) == self.runs.total(), SOON_S, seen)
        until(lambda: len(self.by("request_id", "answers")) == self.parts, SOON_S, seen)
        until(self.topics.saved, SOON_S, seen)

    def observations(self, version: Version) -> Counter[str]:
        """Return how many runs each application's model rests on, as a version's page tells."""
        return Counter({row["application"]: row["observations"] for row in version.agent.rows("/api/v1/applications")})

    def by(self, name: str, kind: str) -> dict[str, list[dict[str, Any]]]:
        """Return the messages of a topic by one of their fields."""
        found: dict[str, list[dict[str, Any]]] = {}
        for message in self.topics.messages(kind):
            found.setdefault(message[name], []).append(message)
        return found

    def numbers(self) -> Numbers:
        """Return the version of each kind of state in the state topic."""
        newest = dict(self.topics.read(self.topics.config.topics.state))
        return {
            key.partition("/")[0]: msgspec.json.decode(value)["version"]
            for key, value in newest.items()
            if value is not None and key != MARKER
        }


@dataclass
class Played:
    """What was there in the end, and in between."""

    play: Play
    stored: dict[str, Numbers] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)


def completed(
    application: str, job_id: str, n: float, run_time_s: float, start_ms: int | None = None
) -> dict[str, Any]:
    """Return a run that has just ended."""
    start_ms = time.time_ns() // 1_000_000 - round(run_time_s * 1000) if start_ms is None else start_ms
    ended = {"n": n, "unit": "nodes", "start": rfc3339(start_ms), "end": rfc3339(start_ms + round(run_time_s * 1000))}
    return {"type": "job.completed", "job_id": job_id, "application": application, "run_time_s": run_time_s} | ended


def started(application: str, job_id: str, n: float, start_ms: int) -> dict[str, Any]:
    """Return a job that runs on the hosts that measure something."""
    size = {"n": n, "unit": "nodes", "hosts": ["nid[1-2]"], "start": rfc3339(start_ms)}
    return {"type": "job.started", "job_id": job_id, "application": application} | size


def looked_at(version: Version) -> dict[str, Any]:
    """Return what a version's page and metrics tell."""
    paths = {
        "applications": "/api/v1/applications",
        "alerts": "/api/v1/alerts",
        "hosts": "/api/v1/hosts",
        "jobs": "/api/v1/jobs",
    }
    rows: dict[str, Any] = {name: version.agent.rows(path) for name, path in paths.items()}
    return rows | {"unreadable": version.agent.metric("learner", "scalewatch_outputs_unreadable_total")}


@pytest.fixture(scope="module", params=OLDER)
def played(
    kafka: KafkaBroker,
    _numbers: Iterator[int],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("upgrade")
    try:
        code = predecessor.installed(OLDER[request.param](), folder)
    except predecessor.NoHistoryError as error:
        pytest.fail(str(error))
    play = Play(kafka, f"upgrade-{next(_numbers)}", code, folder)
    with play.topics, play.old.agent:
        try:
            yield whole(play)
        finally:
            play.new.agent.__exit__()


def whole(play: Play) -> Played:
    """Play it: the old version learns, the new one joins it and stays alone, and the old one has it all again."""
    old, new, found = play.old, play.new, Played(play)

    def look(name: str, version: Version) -> None:
        play.learned(version)
        found.seen[name], found.stored[name] = looked_at(version), play.numbers()

    start_ms = play.now_ms - 300_000
    old.agent.wait_ready()
    play.send("namd")
    play.send("lammps")
    play.send("amber", started("amber", "runs", 4.0, start_ms), {"type": "nothing"})
    look("old", old)
    new.agent.start()
    play.send("namd")
    assert old.agent.stop() == 0
    new.goes_on()
    play.send("lammps", completed("amber", "runs", 4.0, 230.0, start_ms))
    play.send("gromacs")
    look("new", new)
    assert new.agent.stop() == 0
    play.send("gromacs")
    old.agent.start()
    old.goes_on()
    look("back", old)
    return found


def differing(before: Numbers, after: Numbers) -> set[str]:
    """Return the kinds by key that two versions store under different numbers."""
    return {kind for kind in before.keys() & after.keys() if before[kind] != after[kind]} - ROWS


def test_every_version_learns_every_run_once(played: Played) -> None:
    learned = {
        name: {row["application"]: row["observations"] for row in seen["applications"]}
        for name, seen in played.seen.items()
    }
    assert learned == {
        "old": {"namd": 4, "lammps": 4, "amber": 4},
        "new": {"namd": 8, "lammps": 8, "amber": 5, "gromacs": 4},
        "back": {"namd": 8, "lammps": 8, "amber": 5, "gromacs": 8},
    }


def test_a_version_goes_on_where_the_numbers_of_states_are_its_own(played: Played) -> None:
    old, new, stored = played.play.old, played.play.new, played.stored
    assert bool(new.refusals) == bool(differing(stored["old"], stored["new"]))
    if stored["new"] == stored["back"]:
        assert not old.refusals
    elif differing(stored["new"], stored["back"]):
        assert old.refusals


def test_a_refusal_names_the_state_and_what_helps(played: Played) -> None:
    for version in (played.play.old, played.play.new):
        assert len(version.refusals) == len(version.rebuilt) <= 1
        for refusal, rebuilt in zip(version.refusals, version.rebuilt, strict=True):
            assert refusal.startswith("scalewatch: The stored state ")
            assert "run `scalewatch rebuild`" in refusal
            assert "4 applications" in rebuilt or "3 applications" in rebuilt


def test_each_version_shows_what_the_other_published(played: Played) -> None:
    kinds = ("predictions", "job_predictions", "answers", "alerts", "runs", "deadletters")
    schemas = {message["schema"] for kind in kinds for message in played.play.topics.messages(kind)}
    same = schemas <= set(SCHEMAS)
    assert not same or {seen["unreadable"] for seen in played.seen.values()} == {0}
    assert [{row["host"] for row in seen["hosts"]} for seen in played.seen.values()] == [set(HOSTS)] * 3


def test_a_job_that_runs_through_the_upgrade_ends_in_the_new_version(played: Played) -> None:
    assert [[row["job_id"] for row in seen["jobs"]] for seen in played.seen.values()] == [["runs"], [], []]
    assert played.play.topics.newest("job_predictions")[f"{SYSTEM}/runs"] is None


def test_every_question_has_an_answer_and_no_answer_is_wrong(played: Played) -> None:
    answers = [
        answer for each in played.play.by("request_id", "answers").values() for answer in each if answer["known"]
    ]
    assert len({answer["request_id"] for answer in answers}) >= 4
    run_times_s = [answer["points"][0]["run_time_s"] for answer in answers]
    assert run_times_s == pytest.approx([RUN_TIMES_S[4.0]] * len(answers), rel=0.1)
