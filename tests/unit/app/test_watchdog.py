"""A role whose loop stands still is ended, and its log says what it was reading."""

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from agent.app import supervisor
from agent.app.supervisor import READING_MAX_S, WAITING_MAX_S, Child, Fuse, Watch
from agent.collector.recorder import RECORDER_FD, Attempt, Recorder
from tests.kit.clock import FakeClock

SLICE = Attempt("raw", 3, 100, 599, 7)
RECORD = Attempt("raw", 3, 117, 117, 7)


class Process:
    """A process as its parent sees it."""

    pid = 4711

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def kill(self) -> None:
        self.code = -signal.SIGKILL

    def send_signal(self, number: int) -> None:
        self.code = 0

    def wait(self, timeout_s: float | None = None) -> int | None:
        return self.code


class Lines:
    """A log that a test reads."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **values: self.lines.append({"event": event, "level": level, **values})

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


class Role:
    """A role below its parent: `beats` says whether its loop goes on."""

    def __init__(self) -> None:
        self.recorder = Recorder.made("collector")
        self.inside = Recorder(self.recorder.descriptor)  # as the role itself has it
        self.beats, self.processes = True, list[Process]()
        self.log, self.clock, self._stop = Lines(), FakeClock(), threading.Event()
        self.child = Child("collector", self._start, self.recorder, 0.0)

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the parent, and for the role while it lives."""
        for _ in range(round(seconds / supervisor.LOOK_S)):
            if self.beats and self.processes[-1].code is None:
                self.inside.beat()
            self.clock.advance(supervisor.LOOK_S)
            supervisor._look(self.child, self.clock.monotonic_s(), self.log)

    def stand_still(self, records: Attempt | None) -> None:
        """Read these records for ever, or wait for ever."""
        self.inside.begin(records) if records else self.inside.beat()
        self.beats = False

    def _start(self, role: str, restarts: int, away_since_s: float | None) -> Any:
        self.beats, self.inside = True, Recorder(self.recorder.descriptor)
        self.processes.append(Process())
        return self.processes[-1]


def test_a_role_that_stands_still_with_a_record_is_killed_after_a_minute_and_the_record_is_named() -> None:
    role = Role()
    role.pass_time(10.0)
    role.stand_still(SLICE)
    role.pass_time(READING_MAX_S - 1)
    assert role.log.lines == []
    role.pass_time(3.0)
    (line,) = role.log.of("role hangs and is killed")
    assert (line["level"], line["reading"]) == ("error", "raw/3/100 to 599 for 60 s")
    assert [line["reading"] for line in role.log.of("role ended")] == ["raw/3/100 to 599"]
    assert len(role.processes) == 2
    assert role.recorder.attempts() == [Attempt("raw", 3, 100, 599, 7, ends=1)]
    role.pass_time(2 * WAITING_MAX_S)
    assert len(role.processes) == 2, "the next one works"


def test_a_role_that_waits_for_a_broker_has_five_minutes() -> None:
    role = Role()
    role.stand_still(None)
    role.pass_time(WAITING_MAX_S - 1)
    assert role.log.lines == []
    role.pass_time(3.0)
    assert [line["reading"] for line in role.log.of("role hangs and is killed")] == ["no record for 300 s"]
    assert role.recorder.attempts() == []


def test_a_role_that_still_loads_is_left_alone() -> None:
    role = Role()
    role.beats = False
    role.pass_time(2 * WAITING_MAX_S)
    assert role.log.lines == []


def test_a_role_that_beats_is_left_alone_however_long_it_reads() -> None:
    role = Role()
    role.inside.begin(SLICE)
    role.pass_time(2 * WAITING_MAX_S)
    assert role.log.lines == []


def test_a_thread_beside_the_loop_does_not_beat_for_it() -> None:
    recorder = Recorder()
    thread = threading.Thread(target=recorder.beat)
    thread.start()
    thread.join()
    assert recorder.beats() == 0
    recorder.beat()
    assert recorder.beats() == 1


def test_a_machine_that_slept_takes_no_role_for_one_that_stands_still() -> None:
    recorder, watch = Recorder(), None
    watch = Watch(recorder, 0.0)
    recorder.begin(SLICE)
    assert not watch.too_long(0.2)
    assert not watch.too_long(7 * 86_400.0)
    assert watch.still_s == 1.0


@pytest.mark.parametrize(
    ("code", "still_s", "alone"),
    [
        (-signal.SIGSEGV, 0.0, 2),
        (1, 0.0, 2),
        (-signal.SIGKILL, 0.0, 1),
        (-signal.SIGTERM, 0.0, 1),
        (-signal.SIGKILL, 3.0, 2),
    ],
)
def test_only_an_end_that_nobody_can_have_caused_from_outside_is_certain(code: int, still_s: float, alone: int) -> None:
    role = Role()
    role.pass_time(1.0)
    role.stand_still(RECORD)
    role.pass_time(still_s)
    role.processes[0].code = code
    role.pass_time(0.2)
    assert [(one.ends, one.alone) for one in role.recorder.attempts()] == [(1, alone)]


def test_a_role_that_ends_between_records_or_in_order_leaves_no_failed_attempt() -> None:
    role = Role()
    for code in (0, 1, supervisor.UNAVAILABLE, -signal.SIGKILL, -signal.SIGSEGV):
        role.inside.begin(RECORD)
        role.inside.end()
        role.processes[-1].code = code
        role.pass_time(40.0)
    assert role.recorder.attempts() == []
    assert len(role.processes) == 6


def test_a_new_parent_finds_in_the_folder_what_the_whole_agent_was_reading_when_it_ended(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    Recorder.made("collector").begin(RECORD)
    assert Recorder.made("learner").settle() is None
    again = Recorder.made("collector")
    assert str(again.settle()) == "raw/3/117"
    assert again.settle() is None
    assert Recorder.made("collector").attempts() == again.attempts() != []


@pytest.mark.parametrize("content", [b"\xff" * 8192, b"x" * 100, b""])
def test_a_damaged_recorder_holds_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    (tmp_path / "scalewatch-collector").write_bytes(content)
    recorder = Recorder.made("collector")
    assert (recorder.settle(), recorder.attempts()) == (None, [])


def test_a_folder_that_cannot_be_written_to_does_not_keep_a_role_from_starting(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "missing"))
    Recorder.made("collector").beat()


def test_a_role_finds_the_recorder_that_its_parent_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Recorder.inherited() is None
    recorder = Recorder.made("collector")
    monkeypatch.setenv(RECORDER_FD, str(recorder.descriptor))
    inside = Recorder.inherited()
    assert inside is not None
    inside.begin(RECORD)
    assert recorder.reads() == RECORD


def test_a_role_without_a_parent_ends_although_its_interpreter_is_locked() -> None:
    """The expression takes years, in one call of C that holds the lock."""
    locked = (
        "import re; from agent.app import supervisor; from agent.clock import SystemClock\n"
        "supervisor.READING_MAX_S = 0.2\n"
        "supervisor.Fuse(SystemClock())(True)\n"
        "re.match('(a+)+$', 'a' * 60 + 'b')"
    )
    ended = subprocess.run([sys.executable, "-c", locked], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert 'File "<string>", line 4' in ended.stderr


def test_a_fuse_is_armed_anew_when_reading_begins_and_else_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    armed = list[float]()
    monkeypatch.setattr("faulthandler.dump_traceback_later", lambda seconds, **_: armed.append(seconds))
    clock = FakeClock()
    fuse = Fuse(clock)
    for reading, passed_s in ((False, 0.1), (True, 0.1), (False, 0.1), (True, 0.1), (True, 1.0), (False, 0.1)):
        fuse(reading)
        clock.advance(passed_s)
    assert armed == [WAITING_MAX_S, READING_MAX_S, WAITING_MAX_S]
