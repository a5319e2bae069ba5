"""What an Alertmanager is told: at once, again while it fires, and all of it after it was away."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from pydantic import SecretStr

from agent.app import compose
from agent.app.alertmanager import AlertmanagerSink
from agent.config.tree import AlertmanagerSettings
from processors.contracts.service import Health
from tests.kit.alertmanager import receiver
from tests.kit.clock import FakeClock
from tests.kit.messages import alert
from tests.kit.service import FixedService

MINUTE_S = 60.0
Sink = Callable[..., AlertmanagerSink]


@pytest.fixture
def sink() -> Iterator[Sink]:
    """Makes what tells one address, or several."""
    with ExitStack() as opened:

        def make(service: FixedService, clock: FakeClock, *urls: str, **settings: Any) -> AlertmanagerSink:
            reported = AlertmanagerSink(AlertmanagerSettings(urls=urls, **settings), service, compose.metrics(), clock)
            opened.enter_context(closing(reported))
            return reported

        yield make


def test_an_alert_that_fires_is_reported_at_once_and_again_every_minute(sink: Sink) -> None:
    clock, service = FakeClock(), FixedService(alerts=[alert()])
    with receiver() as (url, reported):
        reporting = sink(service, clock, url)
        for _ in range(3):
            reporting.look()
            clock.advance(MINUTE_S / 2)
        assert reported.qsize() == 2
        (first,) = reported.get()
        assert first["labels"]["alertname"] == "SlowSize"
        assert (first["startsAt"], first["endsAt"]) == ("2026-11-20T09:00:00Z", "2026-11-20T10:04:00Z")


def test_an_alert_that_only_pends_is_not_reported(sink: Sink) -> None:
    with receiver() as (url, reported):
        sink(FixedService(alerts=[alert(status="pending")]), FakeClock(), url).look()
        assert reported.empty()


def test_a_resolved_alert_is_reported_at_once_and_for_a_quarter_of_an_hour(sink: Sink) -> None:
    clock, service = FakeClock(), FixedService(alerts=[alert()])
    with receiver() as (url, reported):
        reporting = sink(service, clock, url)
        reporting.look()
        service.held_alerts = [alert(id="b", status="resolved", ends="2026-11-20T09:59:00Z")]
        for _ in range(40):
            reporting.look()
            clock.advance(MINUTE_S)
        ends = [reported.get()[0]["endsAt"] for _ in range(reported.qsize())]
    assert ends == ["2026-11-20T10:04:00Z", *["2026-11-20T09:59:00Z"] * 15]


def test_an_alert_that_was_resolved_long_before_the_agent_started_is_not_reported(sink: Sink) -> None:
    with receiver() as (url, reported):
        old = alert(status="resolved", ends="2026-11-20T09:00:00Z")
        sink(FixedService(alerts=[old]), FakeClock(), url).look()
        assert reported.empty()


def test_an_alert_that_fires_again_is_reported_as_firing_whatever_was_resolved_before(sink: Sink) -> None:
    with receiver() as (url, reported):
        over = alert(id="a", status="resolved", ends="2026-11-20T09:59:00Z")
        sink(FixedService(alerts=[alert(id="b"), over]), FakeClock(), url).look()
        assert [each["endsAt"] for each in reported.get()] == ["2026-11-20T10:04:00Z"]


def test_one_that_refuses_is_left_alone_for_a_while_and_then_reported_everything(sink: Sink) -> None:
    clock, service = FakeClock(), FixedService(alerts=[alert()])
    with receiver(status=503) as (url, reported):
        reporting = sink(service, clock, url)
        for _ in range(4):  # at 0 s, then not before 2 s
            reporting.look()
            clock.advance(1.0)
        assert reported.qsize() == 2
        assert reported.get() != []


def test_an_alertmanager_that_is_away_does_not_keep_the_other_from_being_reported(sink: Sink) -> None:
    with receiver() as (gone, _):
        pass
    with receiver() as (url, reported):
        sink(FixedService(alerts=[alert()]), FakeClock(), gone, url).look()
        assert reported.qsize() == 1


def test_a_learner_without_a_shard_reports_nothing(sink: Sink) -> None:
    with receiver() as (url, reported):
        service = FixedService(
            alerts=[alert()], health=[Health(role="learner", ready=False, working=False, reasons=("waits",))]
        )
        sink(service, FakeClock(), url).look()
        assert reported.empty()


def test_many_alerts_come_in_several_messages(sink: Sink) -> None:
    with receiver() as (url, reported):
        sink(FixedService(alerts=[alert(fingerprint=f"{i}") for i in range(1200)]), FakeClock(), url).look()
        assert [len(reported.get()) for _ in range(reported.qsize())] == [500, 500, 200]


def test_alerts_carry_a_link_to_the_page(sink: Sink) -> None:
    with receiver() as (url, reported):
        service = FixedService(alerts=[alert(fingerprint="f1")])
        sink(service, FakeClock(), url, external_url="https://scalewatch.example/").look()
        assert reported.get()[0]["generatorURL"] == "https://scalewatch.example/alerts/f1"


def test_a_password_without_a_user_name_is_refused() -> None:
    with pytest.raises(ValueError, match="username and password together"):
        AlertmanagerSettings(password=SecretStr("x"))
