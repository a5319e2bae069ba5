"""Metrics of the alerts that the agent raises."""

from typing import Final

from agent.metrics.declarations import APPLICATION, Declaration, Label

KINDS: Final = ("anomaly", "reliability")
SEVERITIES: Final = ("info", "warning", "critical")
SUBJECT: Final = (*APPLICATION, Label("n"), Label("host"), Label("partition"), Label("rack"))
ALERTS: Final = (
    Declaration(
        "scalewatch_alerts", "gauge", "Alerts by kind, severity and status.",
        (
            Label("kind", values=KINDS),
            Label("severity", values=SEVERITIES),
            Label("status", values=("pending", "firing", "resolved")),
        ),
        at_scrape=True,
    ),
    Declaration(
        "scalewatch_alert_firing", "gauge",
        "Firing alerts by name and what they are about: of each the labels that it has, the most severe ones first.",
        (Label("alertname"), Label("kind", values=KINDS), Label("severity", values=SEVERITIES), *SUBJECT),
        at_scrape=True,
    ),
)  # fmt: skip
