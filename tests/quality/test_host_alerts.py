"""Alerts about hosts, on load whose truth is known."""

import gzip
from pathlib import Path

import numpy as np

from processors.alerts.hosts import Contradicts, Odd, host_anomaly
from processors.contracts.alerts import AlertSettings, HostAnomaly
from tests.quality.host_alerts import Measured, alerts, hits, table
from tests.quality.stragglers import reported_hosts, slowed

SLOTS, FAULT, RESOURCES = 1180, 1150, 6


def load(seed: int, *, fault: bool) -> Measured:
    """Six resources that follow one load of a day; with the fault, five of them are where they never were."""
    rng = np.random.default_rng(seed)
    day = np.sin(np.arange(SLOTS) / 288 * 2 * np.pi)
    values = day[:, None] + rng.normal(scale=0.1, size=(SLOTS, RESOURCES))
    if fault:
        values[FAULT : FAULT + 12, :5] += 4.0
    return Measured(np.arange(SLOTS), values)


def test_a_planted_fault_has_an_alert_at_once_and_quiet_hosts_have_none() -> None:
    hosts = {"faulty": load(1, fault=True), "quiet": load(2, fault=False)}
    reported = alerts(hosts)
    assert {one.host for one in reported} == {"faulty"}
    assert reported[0].first - FAULT in range(3)
    assert hits(reported[:1], [(FAULT, FAULT + 12)]) == (1, 0)


def test_what_is_switched_off_is_not_reported() -> None:
    settings = AlertSettings.model_validate({"host_anomaly": {"enabled": False}})
    assert alerts({"faulty": load(1, fault=True)}, settings) == []


def test_the_table_reports_both_halves(tmp_path: Path) -> None:
    machines = tmp_path / "bitbrains"
    machines.mkdir()
    for machine in (10, 20):
        quiet = load(machine, fault=machine == 20)
        rows = [
            ["head"] * 11,
            *([300 * i, *[0.0] * 2, row[0], *[0.0] * 2, *row[1:]] for i, row in enumerate(quiet.values)),
        ]
        text = "\n".join(";\t".join(map(str, row)) for row in rows)
        (machines / f"{machine}.csv.gz").write_bytes(gzip.compress(text.encode()))
    chose, reports = table(tmp_path)
    assert "chose: 1 machines, 1 days: 0 alerts" in chose
    assert "tells: 1 machines, 1 days: 1 alerts" in reports


def test_a_slowed_host_of_a_job_is_reported_and_no_other() -> None:
    rng = np.random.default_rng(3)
    job = {f"nid{i}": np.array([18.0, 230.0, 2600.0])[:, None] * rng.normal(1, 0.01, (3, 300)) for i in range(12)}
    assert reported_hosts(job) == []
    ((minute, host),) = reported_hosts(slowed(job, "nid5", 0.3, since=20))
    assert host == "nid5"
    assert 60 < minute - 20 < 180, "on the first day nobody knows how long spells of load last"


def test_a_host_that_works_at_an_hour_at_which_it_rests_on_other_days_has_an_alert() -> None:
    rng = np.random.default_rng(5)
    at = np.arange(0, 12 * 288, 3)
    day = 1.0 - np.cos(at / 288 * 2 * np.pi)
    night = (at >= 11 * 288 + 36) & (at < 11 * 288 + 72)
    hosts = {}
    for name, work in (("busy", night), ("quiet", np.zeros(at.size, bool))):
        own = np.where(work, 1.9, day)[:, None] + rng.normal(scale=0.05, size=(at.size, 3))
        hosts[name] = Measured(at, own + rng.normal(scale=0.02, size=own.shape))
    reported = alerts(hosts)
    assert [(one.host, one.first in range(11 * 288 + 36, 11 * 288 + 75)) for one in reported] == [("busy", True)]
    found = Contradicts("cpu", 0.9, 0.25, 13 * 3_600_000, by_hour=True)
    labels = {"system": "alpha", "host": "n1"}
    summary = host_anomaly(labels, Odd(0, {}, 3, found), HostAnomaly(), 14 * 3_600_000).summary
    assert summary == (
        "n1 on alpha: at 13:00 on 1 Jan (UTC) its resources began to differ from the same hour of other days, "
        "cpu most: 0.9 where 0.25 is usual."
    )
