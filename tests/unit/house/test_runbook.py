"""Whoever is woken finds a heading: the runbook has one for each alert, and none for alerts that are gone."""

import re
from pathlib import Path

import pytest

from processors.alerts.applications import ALERT_NAMES

ROOT = Path(__file__).parents[3]
RUNBOOK = (ROOT / "deploy" / "RUNBOOK.md").read_text()
ALERTS = RUNBOOK.split("# Alerts about applications and hosts")[1].split("\n# ")[0]


@pytest.mark.parametrize("name", ALERT_NAMES)
def test_every_alert_has_a_heading(name: str) -> None:
    assert f"\n## {name}\n" in ALERTS


def test_no_heading_is_for_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^## (\w+)$", ALERTS, re.MULTILINE)) == set(ALERT_NAMES)
