"""The rules of Prometheus as rules that Grafana evaluates itself, for centres that alert from Grafana.

Each rule asks Prometheus at an instant and fires for every series of the answer. Grafana compares values with zero, and a rule such as
`up == 0` answers with zeros, so the expression `is_number` makes 1 of each value.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
RULES: Final = ROOT / "helm" / "scalewatch" / "files" / "rules" / "scalewatch.yaml"
FOLDER: Final = Path(__file__).parent / "alert-rules"
HEAD: Final = "# Written by `make dashboards` from the rules of Prometheus; load either these or those.\n"
DATASOURCE_UID: Final = "prometheus"
ANSWER, FIRES = "answer", "fires"
WINDOW_S: Final = 600
# with Grafana as the only sender of messages, the alerts about applications, hosts and jobs need a rule of their own
OF_AGENT: Final = {
    "alert": "ScalewatchFound",
    "expr": 'sum without (alertname) (label_replace(scalewatch_alert_firing, "found", "$1", "alertname", "(.*)")) > 0',
    "labels": {},
    "annotations": {
        "summary": "{{ $labels.found }}: {{ $labels.system }} {{ $labels.application }} {{ $labels.host }} {{ $labels.rack }}",
        "description": "The page of the alert says since when, how sure, whom it hits and what to do.",
    },
}


def rules() -> dict[str, Any]:
    """Return the content of the provisioning file.

    >>> rules()["groups"][0]["rules"][0]["title"]
    'ScalewatchDown'
    """
    groups = yaml.safe_load(RULES.read_text())["groups"]
    declared = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"]: rule["expr"].strip() for rule in declared if "record" in rule}
    of_prometheus = [rule for rule in declared if "alert" in rule]
    return {
        "apiVersion": 1,
        "groups": [_group("scalewatch", of_prometheus, recorded), _group("scalewatch-found", [OF_AGENT], recorded)],
    }


def text() -> str:
    return HEAD + yaml.safe_dump(rules(), sort_keys=False, width=140)


def _group(name: str, alerts: list[dict[str, Any]], recorded: Mapping[str, str]) -> dict[str, Any]:
    made = [_rule(alert, recorded) for alert in alerts]
    return {"orgId": 1, "name": name, "folder": "Scalewatch", "interval": "1m", "rules": made}


def _rule(alert: Mapping[str, Any], recorded: Mapping[str, str]) -> dict[str, Any]:
    expr = alert["expr"].strip()
    for name, definition in recorded.items():
        expr = expr.replace(name, f"({definition})")
    annotations = {
        name: value.replace("$value", f"$values.{ANSWER}.Value") for name, value in alert["annotations"].items()
    }
    return {
        "uid": alert["alert"].lower(),
        "title": alert["alert"],
        "condition": FIRES,
        "data": [
            _query(ANSWER, DATASOURCE_UID, {"expr": expr, "instant": True}),
            _query(FIRES, "__expr__", {"type": "math", "expression": f"is_number(${ANSWER})"}),
        ],
        "for": alert.get("for", "0s"),
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": alert["labels"],
        "annotations": annotations,
    }


def _query(name: str, source: str, model: dict[str, Any]) -> dict[str, Any]:
    # Grafana replaces $NAME in queries by variables of its environment; in annotations it does not
    escaped = {key: value.replace("$", "$$") if isinstance(value, str) else value for key, value in model.items()}
    return {
        "refId": name,
        "relativeTimeRange": {"from": WINDOW_S, "to": 0},
        "datasourceUid": source,
        "model": {"refId": name, **escaped},
    }
