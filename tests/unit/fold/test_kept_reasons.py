"""The reason for which a host raised an alert stands first in its text, even if the reason is over when the alert is sent."""

import re
from collections.abc import Mapping

import numpy as np
import pytest

from processors.alerts.hosts import Contradicts, Odd, host_anomaly
from processors.contracts.alerts import AlertSettings, HostAnomaly
from processors.contracts.outputs import Alert
from processors.contracts.settings import JobSettings, RunTimeSettings
from processors.hosts.detectors import Mark
from processors.hosts.jobs import HostJobs
from processors.hosts.windows import MinuteBatch
from processors.pipeline.host_alerts import HostAlerts
from processors.pipeline.host_state import HostShardState, encoded
from processors.pipeline.state import FoldSettings

MINUTE_MS = 60_000
DAYS = 2940  # minutes: two days in which the host is learned, and an hour
BURST = DAYS + 20
RESOURCES = ("cpu_available", "load1", "memory_free")
SETTINGS = {"learn_s": 3600, "keep_firing_s": 600, "not_again_s": 0}


def means(number: int, factor: float = 1.0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """One load moves three resources; with another `factor`, the second one does not follow."""
    rng = np.random.default_rng(number)
    load = np.sin(number / 3.0) + 0.3 * rng.normal() + np.zeros(6)
    own = np.array([1.0, factor, 1.0])[:, None] * load
    return np.asarray(own + 0.03 * rng.normal(size=(3, 6)))


def new_state() -> HostShardState:
    alerts = AlertSettings.model_validate({"host_anomaly": SETTINGS})
    return HostShardState(FoldSettings(JobSettings(), RunTimeSettings(), alerts, "test"))


def story(state: HostShardState, minutes: range, odd: Mapping[int, float]) -> list[Alert]:
    """Let the host report minutes; return the alerts."""
    part, sent = HostAlerts(state, HostJobs(state)), list[Alert]()
    for number in minutes:
        rows = np.array([state.index.enter("exa", "nid1", name, number * MINUTE_MS) for name in RESOURCES], np.intp)
        whole = np.full(len(rows), number * MINUTE_MS)
        part.take(MinuteBatch(rows[:, 0], rows[:, 1], whole, means(number, odd.get(number, 1.0))))
        for later_ms in (20_000, 50_000):
            before_ms, state.now_ms = state.now_ms, (number + 1) * MINUTE_MS + later_ms
            sent += [message for message in part.tick(before_ms) if isinstance(message, Alert)]
    return sent


def restarted(state: HostShardState) -> HostShardState:
    again = new_state()
    again.restore({key: value for key, value in encoded(state.copied()).items() if value is not None}, state.now_ms)
    return again


@pytest.fixture(scope="module")
def learned() -> dict[str, bytes]:
    state = new_state()
    assert story(state, range(DAYS), {}) == []
    return {key: value for key, value in encoded(state.copied()).items() if value is not None}


def of_day(learned: dict[str, bytes]) -> HostShardState:
    state = new_state()
    state.restore(learned, (DAYS + 1) * MINUTE_MS)
    return state


CONTRADICTION = "nid1 on exa: its metrics stopped fitting together as usual at 01:20 on 3 Jan (UTC), load1 least: "


@pytest.mark.parametrize("restart", [False, True], ids=["no-restart", "restart"])
def test_a_burst_of_one_minute_is_named_with_its_own_resource_figures_and_time(
    *, restart: bool, learned: dict[str, bytes]
) -> None:
    state, odd = of_day(learned), {BURST: -40.0}
    assert story(state, range(DAYS, BURST + 2), odd) == [], "other hosts of the rack may follow"
    (sent,) = story(restarted(state) if restart else state, range(BURST + 2, BURST + 10), odd)
    summary, evidence = sent.annotations["summary"], sent.evidence
    assert summary.startswith(CONTRADICTION)
    first, second = summary.split("; ")
    assert f"{evidence.observed:.3g} where the others predict {evidence.expected:.3g}" in first
    assert second.startswith("1 of 3 resources became anomalous at 01:20 on 3 Jan (UTC): load1 ")
    assert evidence.observed == pytest.approx(means(BURST, -40.0)[1].mean(), rel=1e-3)
    assert re.match(r"Its resources deviated \d\d\.\d times as much as usual\. ", sent.annotations["description"])


def test_a_reason_that_lasts_is_named_with_the_figures_of_its_first_minute(learned: dict[str, bytes]) -> None:
    lasting = dict.fromkeys(range(BURST, BURST + 10), -40.0)
    (sent,) = story(of_day(learned), range(DAYS, BURST + 10), lasting)
    assert sent.annotations["summary"].startswith(CONTRADICTION)
    assert sent.evidence.observed == pytest.approx(means(BURST, -40.0)[1].mean(), rel=1e-3)


def test_a_host_whose_resources_fit_together_has_no_reason_and_no_alert(learned: dict[str, bytes]) -> None:
    assert story(of_day(learned), range(DAYS, BURST + 15), {}) == []


def test_records_come_first_if_they_raised_the_alert() -> None:
    mark = Mark(MINUTE_MS, MINUTE_MS, 9.0, 1.0, 2.0, "value")
    for fired in (True, False):
        contradicts = Contradicts("power_w", 300.0, 200.0, 2 * MINUTE_MS, fired=fired)
        odd = Odd(MINUTE_MS, {"load1": mark}, 1, contradicts, ("exa/812",))
        condition = host_anomaly({"system": "exa", "host": "nid1"}, odd, HostAnomaly(), 3 * MINUTE_MS)
        findings = condition.summary.partition(": ")[2].split("; ")
        assert [finding.startswith("1 of 1 resources") for finding in findings] == [not fired, fired]
        assert condition.evidence.observed == (300.0 if fired else 9.0)
        assert condition.description.startswith("It runs job exa/812. Compare the host with its neighbours.")
