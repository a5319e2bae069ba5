"""What a schema registry answers, and what is made of it: a schema, none, or a wait. Nothing is lost for an answer that says neither."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from agent.app import compose
from agent.clock import Clock
from agent.collector.registry import (
    ABSENT_S,
    ANSWER_BYTES_MAX,
    FAULTY_S,
    KNOWN_MAX,
    REFUSED_S,
    WANTED_MAX,
    SchemaRegistry,
)
from agent.config.roles import SchemaRegistrySettings
from processors.contracts.errors import ConfigError, InvalidInputError
from sinks.prometheus.registry import Metrics
from tests.kit.agent_process import until
from tests.kit.clock import FakeClock
from tests.kit.schema_registry import LOADAVG, FakeRegistry, basic, schema_registry

TEXT = json.dumps(LOADAVG).encode()


class Outages:
    """Notes of what is reported of the registry."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.ends = 0
        self.changed = threading.Condition()

    def failed(self, reason: str) -> None:
        with self.changed:
            self.reasons.append(reason)
            self.changed.notify_all()

    def over(self) -> None:
        self.ends += 1

    def first(self) -> str:
        """Return the first failure, once there is one."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.reasons, 20.0)
        return self.reasons[0]


class Asking:
    """A registry, and who asks it."""

    def __init__(self, fake: FakeRegistry) -> None:
        self.fake, self.outages, self.metrics, self._stack = fake, Outages(), compose.metrics(), ExitStack()

    def client(self, clock: Clock | None = None, **given: Any) -> SchemaRegistry:
        """Return one who asks."""
        url = given.pop("url", self.fake.url)
        settings = SchemaRegistrySettings.model_validate({"url": url, **given})
        made = SchemaRegistry(settings, self.outages, self.metrics, clock or FakeClock())
        return self._stack.enter_context(closing(made))

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def asking() -> Iterator[Asking]:
    with schema_registry() as fake, closing(Asking(fake)) as made:
        yield made


def found(registry: SchemaRegistry, number: int) -> bytes:
    return until(lambda: registry.text(number), 20.0, lambda: "the schema is there")


def refusal(registry: SchemaRegistry, number: int) -> str:
    with pytest.raises(InvalidInputError) as error:
        found(registry, number)
    assert error.value.reason == "schema"
    return str(error.value)


def lookups(metrics: Metrics, outcome: str) -> float:
    return metrics.value("scalewatch_schema_lookups_total", outcome=outcome)


def test_a_schema_is_there_after_one_question(asking: Asking) -> None:
    asking.fake.hold(37, LOADAVG)
    registry = asking.client()
    assert registry.text(37) is None
    assert (found(registry, 37), found(registry, 37)) == (TEXT, TEXT)
    assert asking.fake.requests == ["/schemas/ids/37"]
    assert lookups(asking.metrics, "found") == 1


def test_a_registry_below_a_path_is_asked_there(asking: Asking) -> None:
    asking.fake.answers["/apis/ccompat/v7/schemas/ids/37"] = json.dumps({"schema": "{}"}).encode()
    assert found(asking.client(url=f"{asking.fake.url}/apis/ccompat/v7/"), 37) == b"{}"


@pytest.mark.parametrize(
    ("given", "log_in"),
    [
        ({}, None),
        ({"username": "reader", "password": "s3cret-word"}, basic("reader", "s3cret-word")),
        ({"token": "s3cret-token"}, "Bearer s3cret-token"),
    ],
)
def test_it_logs_in_as_configured_and_repeats_no_secret(
    asking: Asking, given: dict[str, str], log_in: str | None
) -> None:
    asking.fake.status = 401
    registry = asking.client(None, **given)
    registry.text(37)
    assert asking.outages.first().startswith(
        "The schema registry answered 401 ('Error in the backend') to the request for schema 37."
    )
    assert asking.fake.log_ins[0] == log_in
    assert "s3cret" not in "".join(asking.outages.reasons) + repr(SchemaRegistrySettings.model_validate(given))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"schema": "x", "schemaType": "PROTOBUF"}, "The schema 7 of the registry has the type 'PROTOBUF', which is not supported."),
        ({"schema": "{}", "references": [{"name": "a"}]}, "The schema 7 of the registry has references, which are not supported."),
        ({"schema": "x" * ANSWER_BYTES_MAX}, "The schema 7 of the registry is longer than 1048576 bytes."),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_is_none(asking: Asking, answer: dict[str, Any], message: str) -> None:
    asking.fake.answers["/schemas/ids/7"] = json.dumps(answer).encode()
    assert refusal(asking.client(), 7) == message
    assert asking.outages.reasons == []


def test_what_the_registry_does_not_have_is_none_and_looked_up_again_later(asking: Asking) -> None:
    clock = FakeClock()
    registry = asking.client(clock)
    assert refusal(registry, 7) == refusal(registry, 7) == "The schema registry has no schema 7."
    assert (len(asking.fake.requests), lookups(asking.metrics, "absent")) == (1, 1)
    asking.fake.hold(7, LOADAVG)
    clock.advance(ABSENT_S + 1)
    assert found(registry, 7) == TEXT


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"<html>", None), (b'{"schema": 7}', None), (b"", None), (b"", 404), (b"", 500), (b"", 302), (b"", 403)],
)
def test_an_answer_that_is_none_of_a_registry_is_waited_out(asking: Asking, body: bytes, status: int | None) -> None:
    asking.fake.answers["/schemas/ids/37"], asking.fake.status = body, status
    registry = asking.client()
    assert registry.text(37) is None
    expected = f"The schema registry {f'answered {status}' if status else 'did not answer with a schema'}"
    assert asking.outages.first().startswith(expected)
    assert registry.text(37) is None
    asking.fake.status = None
    asking.fake.hold(37, LOADAVG)
    assert found(registry, 37) == TEXT
    assert asking.outages.ends == 1


def test_a_registry_that_nobody_reaches_is_waited_for_and_a_close_ends_that() -> None:
    asking = Asking(FakeRegistry())
    registry = asking.client(url="http://127.0.0.1:9")
    assert registry.text(37) is None
    assert asking.outages.first() == (
        "The request for schema 37 failed: ConnectError. Messages with an unknown schema wait in their topics."
    )
    asking.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "schemas"]
    assert registry.text(38) is None, "and nobody is asked any more"
    assert not [thread for thread in threading.enumerate() if thread.name == "schemas"]


class StandingClock(FakeClock):
    """A clock on which a sleep takes long, unless something ends it."""

    def sleep(self, seconds: float, stop: threading.Event) -> bool:
        return stop.wait(60.0)


def test_the_back_off_of_one_schema_delays_no_other_one(asking: Asking) -> None:
    asking.fake.statuses["/schemas/ids/1"] = 500
    registry = asking.client(StandingClock())
    assert registry.text(1) is None
    asking.outages.first()
    asking.fake.hold(2, LOADAVG)
    assert found(registry, 2) == TEXT
    assert asking.fake.requests.count("/schemas/ids/1") == 1


@pytest.mark.parametrize(
    ("status", "answered"),
    [
        (500, "500 ('Error in the backend')"),
        (404, "404 ('Error in the backend')"),
        (302, "302, a redirect to 'http://other.example/login' that is not followed,"),
    ],
)
def test_a_schema_that_fails_while_others_are_answered_is_refused_after_some_minutes(
    asking: Asking, status: int, answered: str
) -> None:
    asking.fake.hold(37, LOADAVG)
    asking.fake.statuses["/schemas/ids/1"], asking.fake.location = status, "http://other.example/login?token=1"
    clock = FakeClock()
    registry = asking.client(clock)
    assert found(registry, 37) == TEXT
    assert refusal(registry, 1) == (
        f"The schema registry answered {answered} to the request for schema 1. The registry still answers for other schemas."
    )
    assert clock.monotonic_s() >= FAULTY_S
    assert asking.outages.ends == 2
    del asking.fake.statuses["/schemas/ids/1"]
    asking.fake.hold(1, LOADAVG)
    clock.advance(REFUSED_S + 1)
    assert found(registry, 1) == TEXT, "no message is refused before the registry was asked again"


def test_in_an_outage_a_refused_schema_waits_like_all_others(asking: Asking) -> None:
    asking.fake.hold(37, LOADAVG)
    asking.fake.statuses["/schemas/ids/1"] = 500
    clock = FakeClock()
    registry = asking.client(clock)
    assert found(registry, 37) == TEXT
    assert refusal(registry, 1)
    asking.fake.status = 503
    clock.advance(REFUSED_S + 1)
    begin_s = clock.monotonic_s()
    while clock.monotonic_s() < begin_s + 3 * FAULTY_S:
        assert registry.text(1) is None


def test_a_redirect_to_another_host_gets_no_log_in(asking: Asking) -> None:
    with schema_registry() as other:
        log_in = {"username": "reader", "password": "s3cret-word"}
        asking.fake.status, asking.fake.location = 302, f"{other.url}/schemas/ids/37"
        registry = asking.client(None, **log_in)
        assert registry.text(37) is None
        assert f"302, a redirect to '{other.url}/schemas/ids/37' that is not followed," in asking.outages.first()
        assert other.requests == []


def test_numbers_that_wait_and_schemas_that_are_kept_have_a_bound(asking: Asking) -> None:
    registry = asking.client()
    for number in range(KNOWN_MAX + 40):
        asking.fake.hold(number, LOADAVG)
    asking.fake.status = 503
    for number in range(2 * WANTED_MAX):
        assert registry.text(number) is None
    assert len(registry._wanted) == WANTED_MAX
    asking.fake.status = None
    last = KNOWN_MAX + 39

    def is_last_found() -> bool | None:
        waiting = [number for number in range(KNOWN_MAX + 40) if registry.text(number) is None]
        return lookups(asking.metrics, "found") > last or not waiting or None

    until(is_last_found, 60.0, lambda: "all were looked up")
    assert len(registry._answers) == KNOWN_MAX


def test_a_schema_of_the_configuration_goes_before_the_registry(asking: Asking) -> None:
    registry = asking.client(schemas=({"id": 37, "text": "{}"},))
    assert registry.text(37) == b"{}"
    assert asking.fake.requests == []


def test_certificates_that_cannot_be_used_end_the_start(asking: Asking) -> None:
    with pytest.raises(ConfigError, match="certificates of schema_registry cannot be used: No such file or directory"):
        asking.client(url="https://127.0.0.1:9", ca_file="/no/such/file")
