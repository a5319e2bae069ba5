"""Silences of Alertmanagers: who says so, for how long it is believed, and what happens while one is away."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from agent.app import compose
from agent.app.alertmanager import BYTES_MAX, SilencedService
from agent.config.tree import AlertmanagerSettings
from sinks.prometheus.registry import Metrics
from tests.kit.alertmanager import answering
from tests.kit.clock import FakeClock
from tests.kit.messages import alert
from tests.kit.service import FixedService

LABELS = {**alert().labels, "severity": "warning", "kind": "anomaly"}
ENDS = "2026-11-20T12:00:00Z"


def answers(labels: dict[str, str] = LABELS, ends: str = ENDS) -> dict[str, bytes]:
    known = [{"labels": labels, "status": {"state": "suppressed", "silencedBy": ["s1"], "inhibitedBy": []}}]
    silence = {"id": "s1", "endsAt": ends, "createdBy": "ann", "comment": "waits for a part", "matchers": []}
    return {
        "/api/v2/alerts": json.dumps(known).encode(),
        "/api/v2/silences": json.dumps([silence, {**silence, "id": "s2", "createdBy": "bob"}]).encode(),
    }


@pytest.fixture
def reading() -> Iterator[Any]:
    """Makes a service that asks one Alertmanager for each set of answers."""
    with ExitStack() as opened:

        def make(*given: dict[str, bytes]) -> tuple[SilencedService, FakeClock, Metrics]:
            urls = tuple(opened.enter_context(answering(each)) for each in given)
            clock, metrics = FakeClock(), compose.metrics()
            service = FixedService(alerts=[alert(), alert("f2", status="pending")])
            silenced = SilencedService(AlertmanagerSettings(urls=urls), service, metrics, clock)
            opened.enter_context(closing(silenced)).look()
            return silenced, clock, metrics

        yield make


def test_a_silence_is_found_by_the_labels_under_which_the_alert_was_sent(reading: Any) -> None:
    silenced, _, _ = reading(answers())
    (one,) = silenced.silences().values()
    assert (one.by, one.until, one.comment) == ("ann", ENDS, "waits for a part")
    assert set(silenced.silences()) == {"f1"}


def test_the_silence_of_another_alert_silences_none(reading: Any) -> None:
    silenced, _, _ = reading(answers({**LABELS, "application": "nektar"}))
    assert silenced.silences() == {}


def test_an_alert_is_silenced_only_where_every_alertmanager_that_answers_has_it_so(reading: Any) -> None:
    none = {"/api/v2/alerts": b"[]", "/api/v2/silences": b"[]"}
    assert reading(answers(), none)[0].silences() == {}
    assert set(reading(answers(), {})[0].silences()) == {"f1"}, "one that is away says nothing"


def test_what_was_answered_holds_while_the_alertmanager_is_away_until_the_silence_ends(reading: Any) -> None:
    given = answers()
    silenced, clock, metrics = reading(given)
    given.clear()
    silenced.look()
    assert set(silenced.silences()) == {"f1"}
    assert metrics.value("scalewatch_alertmanager_unanswered") == 1
    clock.advance(3 * 3600.0)
    assert silenced.silences() == {}


def test_since_when_silences_cannot_be_read_and_why_is_reported_until_they_can_be(reading: Any) -> None:
    given = answers()
    silenced, clock, metrics = reading(given)
    (role,) = silenced.health()
    assert (role.unanswered, metrics.value("scalewatch_alertmanager_unanswered")) == ((), 0)
    given.clear()
    silenced.look()
    clock.advance(600.0)
    silenced.look()
    (role,) = silenced.health()
    (text,) = role.unanswered
    assert text.startswith("The silences of the Alertmanager 127.0.0.1:")
    assert "could not be read since 2026-11-20 10:00 UTC: " in text
    assert role.ready, "alerts and predictions do not wait for it"
    assert metrics.value("scalewatch_alertmanager_unanswered") == 1
    given.update(answers())
    silenced.look()
    assert silenced.health()[0].unanswered == ()
    assert metrics.value("scalewatch_alertmanager_unanswered") == 0


@pytest.mark.parametrize("answer", [b"{}", b"no JSON", b"[{}]", b"\xff", b"[" + b" " * BYTES_MAX + b"]"])
def test_an_answer_that_is_none_is_a_failure_and_no_end(reading: Any, answer: bytes) -> None:
    given = answers()
    given["/api/v2/alerts"] = answer
    silenced, _, metrics = reading(given)
    assert silenced.silences() == {}
    assert metrics.value("scalewatch_alertmanager_unanswered") == 1


def test_a_silence_whose_end_is_no_time_is_a_failure_and_no_end(reading: Any) -> None:
    silenced, _, metrics = reading(answers(ends="never"))
    assert silenced.silences() == {}
    assert metrics.value("scalewatch_alertmanager_unanswered") == 1
