"""The table against the source: what is counted anywhere is declared, and what is declared can be counted."""

import re
from pathlib import Path

from agent.identify import LEFT_OUT
from sinks.prometheus.table import AGENT, BOUNDS, METRICS

ROOT = Path(__file__).parents[3]


def found(pattern: str, *folders: str) -> set[str]:
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "table.py")
    return {name for path in files for name in re.findall(pattern, path.read_text())}


def test_every_metric_that_the_code_names_is_declared() -> None:
    named = found(r'"(scalewatch_[a-z_]+)"', "agent", "processors", "sinks")
    assert named - {"scalewatch_build_info"} <= {entry.name for entry in METRICS}
    assert {"scalewatch_events_total", "scalewatch_restores_total"} <= named


def test_the_bounds_that_the_code_reports_are_those_of_the_table() -> None:
    reported = found(r'\["bound", "(\w+)"\]', "processors") | found(r'\.bound\("(\w+)"\)', "agent")
    reported |= found(r'bound="([a-z]\w+)"', "agent") | found(r'"(http_\w+_max)"', "sinks/web")
    reported |= found(r'"(deduplication_\w+_max)"', "processors/pipeline")
    reported |= {f"evidence_{field}_bytes_max" for field in LEFT_OUT}
    assert reported == set(BOUNDS)


def test_every_label_of_the_agents_own_metrics_is_closed() -> None:
    assert all(label.values or label.given_as for entry in AGENT for label in entry.labels)
