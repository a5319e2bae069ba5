"""What a learner makes of output topics that hold more than its own messages: other versions, other programs, garbage."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from agent.app import compose
from agent.app.roles import LearnerRole
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.events import JournalRecord, Tick, encode_record
from processors.contracts.outputs import Message
from sinks.prometheus.registry import Metrics
from sinks.web.server import create_app
from tests.kit.clock import FakeClock
from tests.kit.get import get
from tests.kit.messages import alert, job, prediction

CONFIG = Config()
PAGES = ("/", "/jobs", "/alerts", "/agent", "/api/v1/applications", "/api/v1/jobs", "/api/v1/alerts", "/metrics")
Records = dict[str, list[tuple[bytes | None, bytes | None]]]


def started(records: Records) -> tuple[LearnerRole, Metrics]:
    """Return a learner that began on output topics with these records."""
    log = MemoryLog(MemoryBroker(), state_topic=CONFIG.topics.state)
    log.create(own_topics(CONFIG))
    producer = log.producer()
    for kind, found in records.items():
        for key, value in found:
            producer.send(getattr(CONFIG.topics, kind), value, key)
    clock = FakeClock()
    producer.send(CONFIG.topics.journal, encode_record(JournalRecord(Tick("", time_ms=clock.now_ms()))), None, 0)
    producer.flush(1.0)
    metrics = compose.metrics()
    role = LearnerRole(CONFIG, log, metrics, clock, restarts=0)
    role.open()
    while not role.service.health()[0].ready:
        role.step()
    return role, metrics


def fields(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(message))
    return plain


def without(message: Message, names: Iterable[str]) -> bytes:
    return msgspec.json.encode({name: value for name, value in fields(message).items() if name not in names})


GOOD: Records = {
    "predictions": [(b"archer2/lammps/rhodo/nodes", msgspec.json.encode(prediction()))],
    "job_predictions": [(b"archer2/812", msgspec.json.encode(job()))],
    "alerts": [(b"f1", msgspec.json.encode(alert()))],
    "runs": [],
}
OLDER = {  # as a version would write them that did not have a field which this one needs
    "predictions": without(prediction("gromacs"), ["quality"]),
    "job_predictions": without(job("9"), ["probability_exceeds_limit"]),
    "alerts": without(alert("f9"), ["evidence"]),
    "runs": b'{"schema": "scalewatch.run/1", "id": "x", "run_id": "exa/7@1"}',
}
BAD: dict[str, tuple[bytes | None, bytes | None]] = {
    "an empty object": (b"x", b"{}"),
    "no JSON": (b"x", b"\xff\x00 nonsense"),
    "no bytes": (b"x", b""),
    "deep nesting": (b"x", b"[" * 100_000),
    "a key that is not UTF-8": (b"\xff\xfe", b"{}"),
    "a tombstone whose key is not UTF-8": (b"\xff\xfe", None),
}


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("bad", BAD)
def test_a_record_that_is_no_message_is_left_out_counted_and_named(
    kind: str, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    role, metrics = started({**GOOD, kind: [*GOOD[kind], BAD[bad]]})
    app = create_app(role.service, metrics)
    assert {path: get(app, path).status_code for path in PAGES} == dict.fromkeys(PAGES, 200)
    shown = (len(role.service.predictions()), len(role.service.jobs()), len(role.service.alerts()))
    assert shown == (1, 1, 1)
    assert metrics.value("scalewatch_outputs_unreadable_total", topic=kind) == 1
    role.follow()
    assert metrics.value("scalewatch_outputs_unreadable_total", topic=kind) == 1, "it is counted once"
    assert f"{getattr(CONFIG.topics, kind)}/0/{len(GOOD[kind])}" in capsys.readouterr().out
    assert "could not be read" in get(app, "/agent").text


def test_a_tombstone_after_garbage_leaves_nothing_behind() -> None:
    role, _ = started({"alerts": [(b"f1", b"{}"), (b"f1", None)]})
    assert role.service.alerts() == []


@pytest.mark.parametrize("kind", OLDER)
def test_a_message_of_an_older_version_that_lacks_a_field_costs_itself_alone(kind: str) -> None:
    role, metrics = started({**GOOD, kind: [*GOOD[kind], (b"older", OLDER[kind])]})
    assert (len(role.service.predictions()), len(role.service.jobs()), len(role.service.alerts())) == (1, 1, 1)
    assert metrics.value("scalewatch_outputs_unreadable_total", topic=kind) == 1


def test_messages_of_a_newer_version_are_read_without_what_is_new_in_them() -> None:
    newer: Records = {
        kind: [(key, msgspec.json.encode({**msgspec.json.decode(value or b""), "carbon_g": 7.5, "more": {"x": [1]}}))]
        for kind, found in GOOD.items()
        for key, value in found
    }
    role, metrics = started(newer)
    assert list(role.service.predictions()) == [prediction()]
    assert list(role.service.jobs()) == [job()]
    assert role.service.alerts() == [alert()]
    assert all(metrics.value("scalewatch_outputs_unreadable_total", topic=kind) == 0 for kind in newer)


def test_a_prediction_from_before_the_first_tick_is_read() -> None:
    early = prediction(time="1970-01-01T00:00:00Z", as_of="1970-01-01T00:00:00Z")
    role, _ = started({"predictions": [(b"archer2/lammps/rhodo/nodes", msgspec.json.encode(early))]})
    assert list(role.service.predictions()) == [early]


@pytest.mark.parametrize(
    "changes", [{"schema": "scalewatch.alert/2"}, {"status": "snoozed"}, {"starts": "yesterday"}, {"time": "soon"}]
)
def test_what_another_major_version_means_is_not_guessed(changes: dict[str, str]) -> None:
    role, metrics = started({"alerts": [(b"f1", msgspec.json.encode(fields(alert()) | changes))]})
    assert role.service.alerts() == []
    assert metrics.value("scalewatch_outputs_unreadable_total", topic="alerts") == 1
