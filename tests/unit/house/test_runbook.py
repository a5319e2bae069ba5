"""Whoever is woken finds a heading: the runbook has one for each alert, and none for alerts that are gone."""

import re
from pathlib import Path

from processors.alerts.rules import ALERTS
from tests.kit.cases import each

ROOT = Path(__file__).parents[3]
RUNBOOK = (ROOT / "deploy" / "RUNBOOK.md").read_text()
HEADINGS = RUNBOOK.split("# Alerts about applications and hosts")[1].split("\n# ")[0]


@each("name", ALERTS)
def test_every_alert_has_a_heading(name: str) -> None:
    assert f"\n## {name}\n" in HEADINGS


def test_no_heading_is_for_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^## (\w+)$", HEADINGS, re.MULTILINE)) == set(ALERTS)
