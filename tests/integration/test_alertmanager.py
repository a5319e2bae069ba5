"""Alerts in a real Alertmanager: grouped, silenced, resolved."""

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from agent.app import compose
from agent.app.alertmanager import AlertmanagerSink, SilencedService
from agent.clock import SystemClock
from agent.config.tree import AlertmanagerSettings
from processors.contracts.names import rfc3339
from sinks.prometheus.registry import Metrics
from sinks.web.server import create_app
from tests.kit.agent_process import until
from tests.kit.alertmanager import alertmanager
from tests.kit.messages import alert
from tests.kit.pages import read
from tests.kit.read_by import text_of
from tests.kit.service import FixedService
from tests.kit.tools import tool

pytestmark = pytest.mark.tools
HOUR_MS = 3_600_000


def test_alerts_arrive_grouped_a_silenced_one_stays_quiet_and_one_that_is_over_is_resolved(tmp_path: Path) -> None:
    clock = SystemClock()
    now_ms = clock.now_ms()
    labels = alert().labels
    starts = rfc3339(now_ms)  # what is older than group_wait is told without waiting for its group
    slow = alert(fingerprint="slow", starts=starts)
    outlier = alert(fingerprint="strange", starts=starts, labels={**labels, "alertname": "StrangeRun"})
    service = FixedService(alerts=[slow, outlier])
    with ExitStack() as opened:
        real = opened.enter_context(alertmanager(tool("prometheus-alertmanager", "alertmanager"), tmp_path))
        settings = AlertmanagerSettings(urls=(real.url,))
        sink = opened.enter_context(closing(AlertmanagerSink(settings, service, compose.metrics(), clock)))
        sink.look()
        first = real.notification()
        assert first is not None
        assert {each["labels"]["alertname"] for each in first["alerts"]} == {"SlowSize", "StrangeRun"}  # in one group
        assert first["status"] == "firing"

        real.silence("StrangeRun", rfc3339(now_ms - 60_000), rfc3339(now_ms + HOUR_MS))
        over = {"status": "resolved", "ends": rfc3339(clock.now_ms())}
        service.held_alerts = [alert(fingerprint="slow", id="over", starts=starts, **over), outlier]
        sink.look()
        second = real.notification()
        assert second is not None
        assert {each["labels"]["alertname"]: each["status"] for each in second["alerts"]}["SlowSize"] == "resolved"
        states = until(lambda: _states(real.alerts()), 10.0, "only the silenced alert is left")
        assert states == {"StrangeRun": "suppressed"}


def test_an_alert_that_somebody_silenced_leaves_the_headline_and_shows_by_whom_until_when_and_why(
    tmp_path: Path,
) -> None:
    clock = SystemClock()
    now_ms = clock.now_ms()
    slow, outlier = alert(fingerprint="slow"), alert(fingerprint="strange")
    outlier = alert(fingerprint="strange", labels={**outlier.labels, "alertname": "StrangeRun", "direction": ""})
    service, metrics = FixedService(alerts=[slow, outlier]), compose.metrics()
    with ExitStack() as opened:
        real = opened.enter_context(alertmanager(tool("prometheus-alertmanager", "alertmanager"), tmp_path))
        settings = AlertmanagerSettings(urls=(real.url,))
        opened.enter_context(closing(AlertmanagerSink(settings, service, metrics, clock))).look()
        silenced = opened.enter_context(closing(SilencedService(settings, service, metrics, clock)))
        app = create_app(silenced, Metrics(formats=(), reasons=(), processors=()))
        silenced.look()
        assert "2 alerts are open" in read(app, "/alerts")

        real.silence("StrangeRun", rfc3339(now_ms - 60_000), rfc3339(now_ms + HOUR_MS))

        def shown() -> str | None:
            silenced.look()
            return text_of(read(app, "/alerts")) if "strange" in silenced.silences() else None

        listed = until(shown, 10.0, "the page knows of the silence")
        assert "1 alert is open: 1 warning. 1 is silenced." in listed
        ends = rfc3339(now_ms + HOUR_MS)[:16].replace("T", " ")
        assert f"Silenced by test until {ends} UTC: known." in listed
        assert "1 open alert " in text_of(read(app, "/"))
        real.expire_silences()
        until(lambda: (silenced.look(), not silenced.silences())[1] or None, 10.0, "the silence is over")
        assert "2 alerts are open" in read(app, "/alerts")


def _states(alerts: list[dict[str, dict[str, str]]]) -> dict[str, str] | None:
    found = {each["labels"]["alertname"]: each["status"]["state"] for each in alerts}
    return found if len(found) == 1 else None
