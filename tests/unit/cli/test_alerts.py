"""`scalewatch alerts --replay`: what a policy would have raised, what it withholds, and how much of it was real."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from processors.alerts.policy import fingerprint

EVENTS = str(Path(__file__).parents[2] / "cases/fold/a-size-becomes-slow/events.jsonl")
LABELS = {"application": "nektar", "system": "exa", "input": "", "unit": "nodes", "direction": "slow"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["alerts", "--replay", EVENTS, *arguments], env={"COLUMNS": "120"})


def test_one_line_lists_when_an_alert_fired_for_how_long_and_about_what() -> None:
    shown = run()
    assert shown.exit_code == 0
    first, head, *lines = shown.output.splitlines()
    assert first.endswith("alerts about 3 causes")
    assert head.split() == ["FIRED", "FOR", "ALERT", "ABOUT", "WHAT"]
    assert [re.findall(r"(StrangeRun|SlowSize) +nektar (slow|fast|8)", line) for line in lines] == [
        [("StrangeRun", "slow")], [("SlowSize", "8")], [("StrangeRun", "fast")],
    ]  # fmt: skip


def test_the_same_is_given_as_json_for_programs() -> None:
    found = json.loads(run("--json").output)
    assert [one["alertname"] for one in found] == ["StrangeRun", "SlowSize", "StrangeRun"]
    assert found[0]["labels"]["application"] == "nektar"
    assert found[0]["runs"][0].startswith("exa/")


def test_what_a_dry_run_withholds_is_listed_apart() -> None:
    shown = run("--set", "alerts.strange_run.dry_run=true").output
    raised, withheld = shown.split("\n\n")
    assert raised.startswith("1 alert about 1 cause")
    assert withheld.startswith("Withheld by dry run: ")
    assert "StrangeRun" in withheld


def test_what_an_exclusion_withholds_is_listed_with_its_reason(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("alerts: {exclusions: [{application: nek*, comment: known since May}]}\n")
    shown = run("--config", str(config)).output
    assert shown.startswith("No alert would have fired.\n\nWithheld by exclusion 1 (known since May): ")


def test_the_rate_of_alerts_about_hosts_is_printed_for_several_settings(tmp_path: Path) -> None:
    telemetry, rng = tmp_path / "load.jsonl", np.random.default_rng(1)
    with telemetry.open("w") as lines:
        for minute in range(0, 6 * 1440, 10):
            time = f"2026-11-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00Z"
            for name in ("load1", "memory_free", "power"):
                record = {"type": "load", "system": "exa", "host": "n1", "resource": name, "time": time}
                lines.write(json.dumps({**record, "value": 100.0 + rng.random()}) + "\n")
    shown = CliRunner().invoke(main, ["alerts", "--replay", str(telemetry)]).output.split("\n\n")
    assert shown[0] == "No alert would have fired."
    title, note, head, *rows = shown[1].splitlines()
    assert title == "0 HostAnomaly alerts in 3 host-days: 0 per host and day (false_per_host_day: 0.01)"
    assert note.startswith("At other rates")
    assert head.split() == ["RATE", "HOST-DAYS", "PER", "HOST", "AND", "DAY"]
    assert [row.split()[0] for row in rows] == ["0.1", "0.03", "0.01", "0.003", "0.001"]
    assert [row.split()[1] for row in rows] == ["0"] * 5


def test_labels_give_which_share_of_the_alerts_was_real(tmp_path: Path) -> None:
    key = fingerprint("StrangeRun", LABELS)
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"fingerprint": key, "time": "2026-11-20T14:00:00Z", "real": False}) + "\n")
    shown = run("--labels", str(labels)).output.split("\n\n")[-1].splitlines()
    assert shown[0] == "Share of real alerts among the labelled ones"
    assert shown[-1].split() == ["StrangeRun", "1", "0", "0", "%"]


@pytest.mark.parametrize("line", ["{}", "no JSON", '{"fingerprint": "f", "time": "yesterday", "real": true}'])
def test_a_line_that_is_no_label_is_named(line: str, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text(f"\n{line}\n")
    shown = run("--labels", str(labels))
    assert shown.exit_code == 2
    assert "Line 2 of the label file is invalid" in shown.output


def test_a_key_of_another_section_is_refused() -> None:
    shown = run("--set", "http.port=1")
    assert shown.exit_code == 2
    assert "http.port" in shown.output
