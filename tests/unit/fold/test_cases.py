"""Each folder of tests/cases/fold is an afternoon of a centre and what came out of it; a bug report becomes a folder.

A folder holds README.md, `events.*` in any format that `scalewatch replay` reads, agent.yaml where the defaults are not
meant, and `expected/`, a file for each output topic. Messages are compared whole, key by key; left out is the agent's version
alone. All their times are event time. Of the predictions of an application those are kept that are the first at their sizes, or the first
with their verdict, and the last; of every other topic all.

After a change that is meant, write the expected files anew with `make cases`, and read the difference before it is committed.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.app import compose
from agent.app.replay import Replay
from agent.config.load import load
from agent.config.tree import Config
from sinks.topics import JsonLines
from tests.kit.golden import differences, text

CASES = Path(__file__).parents[2] / "cases" / "fold"
NAMES = sorted(path.name for path in CASES.iterdir())
TOPICS = ("predictions", "job-predictions", "answers", "alerts", "runs", "deadletters")
UPDATE = os.environ.get("SCALEWATCH_UPDATE_CASES") == "1"
SHOWN_MAX = 40


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Stay in the folder of the case, so that no path of this machine is in what comes out."""
    case = request.node.callspec.params["case"] if hasattr(request.node, "callspec") else NAMES[0]
    monkeypatch.chdir(CASES / case)


def replayed(case: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what a replay of a case sends, by topic, as it is compared."""
    own = CASES / case / "agent.yaml"
    config = load(str(own), sources_required=False) if own.exists() else Config()
    with JsonLines(folder) as sink:
        replay = Replay(config, sink)
        replay.run(sorted(path.name for path in Path().glob("events.*")), compose.file_options(config, "UTC"))
        replay.agent.close()
    found = {topic: [compared(record) for record in read(folder / f"{topic}.jsonl")] for topic in TOPICS}
    found["predictions"] = chosen(found["predictions"])
    return found


def chosen(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the predictions that tell something new of the sizes or the verdict of an application, and its last."""
    reported: dict[str, Any] = {}
    last = {record["key"]: record for record in records}
    retained = []
    for record in records:
        value = record["value"]
        new = value and (value["sizes"], value["reliability"]["verdict"])
        if reported.get(record["key"], ()) != new or last[record["key"]] is record:
            retained.append(record)
        reported[record["key"]] = new
    return retained


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def compared(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what no machine and no version has in common with another."""
    value = record["value"]
    if value is None:
        return record
    retained = {name: each for name, each in value.items() if name != "agent_version"}
    if value["schema"].startswith("scalewatch.job-prediction/"):
        # it ends with a hash of numbers with all their digits, of which the last one depends on the processor
        retained["id"] = value["id"].rpartition(":")[0]
    return {"key": record["key"], "value": retained}


@pytest.mark.parametrize("case", NAMES)
def test_an_afternoon_gives_what_its_folder_states(case: str, tmp_path: Path) -> None:
    found = replayed(case, tmp_path)
    expected = CASES / case / "expected"
    if UPDATE:
        expected.mkdir(exist_ok=True)
        for topic, records in found.items():
            (expected / f"{topic}.json").write_text(text(records))
    wanted = {topic: json.loads((expected / f"{topic}.json").read_text()) for topic in TOPICS}
    wrong = list(differences(found, wanted))
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:SHOWN_MAX]])


@pytest.mark.parametrize("case", NAMES)
def test_bands_hold_their_point_and_sizes_rise(case: str, tmp_path: Path) -> None:
    replayed(case, tmp_path)
    curves = [
        prediction["value"]["curve"] for prediction in read(tmp_path / "predictions.jsonl") if prediction["value"]
    ]
    assert curves
    for curve in curves:
        assert [point["n"] for point in curve] == sorted({point["n"] for point in curve})
        assert all(0 < point["low_s"] < point["run_time_s"] < point["high_s"] for point in curve)


@pytest.mark.parametrize("case", NAMES)
def test_speedups_are_of_one_node_or_core_and_go_with_run_times(case: str, tmp_path: Path) -> None:
    replayed(case, tmp_path)
    curves = [
        prediction["value"]["curve"] for prediction in read(tmp_path / "predictions.jsonl") if prediction["value"]
    ]
    for curve in curves:
        if curve[0]["speedup"] is None:  # the run times do not follow the size
            assert {(point["speedup"], point["efficiency"]) for point in curve} == {(None, None)}
            continue
        alone = [point["speedup"] * point["run_time_s"] for point in curve]
        assert alone == pytest.approx([alone[0]] * len(curve), rel=1e-2)  # three digits of a run time are known
        assert all(point["efficiency"] == pytest.approx(point["speedup"] / point["n"], rel=1e-3) for point in curve)
        assert all(point["speedup"] == 1 for point in curve if point["n"] == 1)


def test_a_replay_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    case = NAMES[0]
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        replayed(case, folder)
    for topic in TOPICS:
        first, second = ((folder / f"{topic}.jsonl").read_bytes() for folder in folders)
        assert first == second


def test_every_case_states_what_it_is_about_and_was_written_once() -> None:
    for case in CASES.iterdir():
        assert len((case / "README.md").read_text()) > 80
        assert sorted(path.stem for path in (case / "expected").iterdir()) == sorted(TOPICS)
