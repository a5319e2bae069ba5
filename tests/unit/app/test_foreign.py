"""Each folder of tests/cases/foreign is a small input made after a public report, and what the commands must make of it."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import main

CASES = Path(__file__).parents[2] / "cases" / "foreign"


def records(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_of(value: dict[str, Any]) -> dict[str, Any]:
    """Return what the cases ask of a run; it takes no longer than from its start to its end, and its name is printable."""
    event, name = value["event"], value["event"]["evidence"].get("job_name", "")
    assert event["run_time_s"] <= (event["end_ms"] - event["start_ms"]) / 1000
    assert name.isprintable()
    return {**event, **event["evidence"].get("sizes", {})}


def replayed(folder: Path) -> dict[str, Any]:
    """Return what a replay wrote."""
    summary, settled = json.loads((folder / "summary.json").read_text()), records(folder / "runs.jsonl")
    runs = defaultdict(list)
    for run in sorted((run_of(record["value"]) for record in settled), key=lambda run: run["start_ms"]):
        runs[run["job_id"]].append(run)
    learned_sizes = {record["value"]["n"] for record in settled if record["value"]["application_id"]}
    reasons = [record["value"]["detail"] for record in records(folder / "deadletters.jsonl")]
    return {
        "events": summary["events"],
        "refused": summary["refused"],
        "samples": summary["telemetry"].get("taken", 0),
        "runs": runs,
        "learned_sizes": sorted(learned_sizes - {None}),
        "told": json.dumps([*reasons, *summary["remarks"]]),
    }


def answered(command: list[str], out: Path) -> dict[str, Any]:
    replay = command[0] == "replay"
    result = CliRunner().invoke(main, [*command, *(("--out", str(out)) if replay else ())], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit)
    answer: dict[str, Any] = {"told": "", **(replayed(out) if replay else {})}
    if "--json" in command:
        answer["json"] = json.loads(result.stdout.splitlines()[0] if command[0] == "validate" else result.stdout)
    return answer | {"told": result.output + answer["told"]}


def holds(answer: Any, expected: Any) -> bool:
    """Return whether an answer has everything that is expected; keys that are not expected may be there, too."""
    if isinstance(expected, dict):
        return all(key in answer and holds(answer[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(answer) == len(expected) and all(map(holds, answer, expected))
    return bool(answer == expected)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_an_input_after_a_public_report_gives_what_its_folder_states(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CASES / case)
    expected = json.loads(Path("expected.json").read_text())
    answer = answered(expected["command"], tmp_path / "out")
    assert holds(answer, expected["answer"]), answer
    assert [text for text in expected.get("says", ()) if text not in answer["told"]] == []
    assert [text for text in expected.get("never_says", ()) if text in answer["told"]] == []
