"""A checkpoint is written while the fold goes on: what it holds, when it counts, and how it ends."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

import msgspec
import pytest

from agent.app import compose
from agent.config.roles import LearnerSettings
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.learner.learner import Learner, Save, Saving, at_once, in_thread
from agent.log.memory import MemoryLog
from processors.contracts.errors import CheckpointLostError, UnavailableError
from processors.contracts.events import JournalRecord, Tick, encode_record
from processors.contracts.log import Marker

CONFIG = Config(learner=LearnerSettings(checkpoint_interval_s=10.0))
PLAN = msgspec.structs.replace(compose.plan(CONFIG), checkpoint_records_max=4)


@dataclass
class Holding:
    """A save that ends when it is told to, or when somebody waits for it."""

    work: Callable[[], float]
    error: Exception | None = None
    seconds: float | None = None

    def done(self) -> bool:
        return self.error is not None or self.seconds is not None

    def result(self) -> float:
        if self.error is not None:
            raise self.error
        if self.seconds is None:
            self.seconds = self.work()
        return self.seconds


@dataclass
class Centre:
    """A learner on a memory log, and what it saves."""

    saves: list[Holding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = MemoryLog(state_topic=CONFIG.topics.state)
        self.log.create(own_topics(CONFIG))
        self.producer = self.log.producer()
        self.learner = self.starts(self.hold)
        self.learner.step(0.0, 0.0)

    def starts(self, saving: Saving) -> Learner:
        return Learner(
            self.log, PLAN, compose.metrics(), "a",
            on_emission=lambda _: None, monotonic_s=lambda: 0.0, saving=saving,
        )  # fmt: skip

    def hold(self, work: Callable[[], float]) -> Save:
        self.saves.append(Holding(work))
        return self.saves[-1]

    def ticks(self, *seconds: int) -> None:
        for second in seconds:
            record = JournalRecord(event=Tick(system="", time_ms=1_795_168_800_000 + second * 1000))
            self.producer.send(CONFIG.topics.journal, encode_record(record), None, 0, 0)
        self.producer.flush(1.0)

    def saved(self) -> Marker | None:
        return self.log.checkpoints(0).take_over().marker


def test_the_fold_goes_on_and_the_marker_is_the_place_of_the_snapshot() -> None:
    centre = Centre()
    centre.ticks(1, 2)
    centre.learner.step(20.0, 0.0)
    centre.ticks(3)
    centre.learner.step(21.0, 0.0)
    shard = centre.learner.shards()[0]
    assert (shard.offset, shard.saved_s, len(centre.saves)) == (3, 0.0, 1)
    centre.saves[0].result()
    centre.learner.step(22.0, 0.0)
    assert shard.saved_s == 20.0
    saved = centre.saved()
    assert saved is not None
    assert saved.offset == 2


def test_a_checkpoint_that_fails_ends_the_learner_at_its_next_step() -> None:
    centre = Centre()
    centre.ticks(1)
    centre.learner.step(20.0, 0.0)
    centre.saves[0].error = CheckpointLostError("It is not there.")
    with pytest.raises(CheckpointLostError):
        centre.learner.step(21.0, 0.0)
    centre.learner.close()
    assert centre.saved() is None


def test_a_fold_far_ahead_waits_for_the_checkpoint_on_its_way() -> None:
    centre = Centre()
    centre.ticks(1)
    centre.learner.step(20.0, 0.0)
    centre.ticks(2, 3, 4, 5)
    centre.learner.step(21.0, 0.0)
    assert centre.saves[0].done()


def test_an_orderly_end_waits_and_saves_what_came_meanwhile() -> None:
    centre = Centre()
    centre.ticks(1)
    centre.learner.step(20.0, 0.0)
    centre.ticks(2)
    centre.learner.step(21.0, 0.0)
    centre.learner.checkpoint(22.0)
    centre.learner.close()
    saved = centre.saved()
    assert saved is not None
    assert (saved.offset, saved.number) == (2, 2)


def test_a_learner_that_closes_lets_its_checkpoint_end_first() -> None:
    centre = Centre()
    centre.ticks(1)
    centre.learner.step(20.0, 0.0)
    centre.learner.close()
    saved = centre.saved()
    assert saved is not None
    assert saved.offset == 1


def test_in_a_thread_the_caller_goes_on_and_gets_what_was_raised() -> None:
    go = Event()

    def work() -> float:
        assert go.wait(30.0)
        raise UnavailableError("gone")

    save = in_thread(work)
    assert not save.done()
    go.set()
    with pytest.raises(UnavailableError, match="gone"):
        save.result()


def test_at_once_is_done_when_it_returns() -> None:
    save = at_once(lambda: 2.0)
    assert save.done()
    assert save.result() == 2.0
