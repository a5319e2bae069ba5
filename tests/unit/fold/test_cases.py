"""Each folder of tests/cases/fold is an afternoon of a centre and what came out of it; a bug report becomes a folder.

A folder holds README.md, `events.*` in any format that `scalewatch replay` reads, agent.yaml where the defaults are not
meant, and `expected/`, a file for each output topic. Numbers are compared to three digits, and of a fit only what every good
fit has in common: the run times at observed sizes, to six in a hundred, but neither its band nor its parameters. Of predictions the last
of an application counts, and of jobs' predictions what is said besides the numbers, for how often they are revised is the
fit's too.

After a change that is meant, write the expected files anew and read the difference before it is committed:
``SCALEWATCH_UPDATE_CASES=1 pytest tests/unit/fold/test_cases.py``
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agent.app import compose
from agent.app.replay import Replay
from agent.config.load import load
from agent.config.tree import Config
from sinks.files import JsonLines

CASES = Path(__file__).parents[2] / "cases" / "fold"
NAMES = sorted(path.name for path in CASES.iterdir())
TOPICS = ("predictions", "job-predictions", "answers", "alerts", "runs", "deadletters")
UPDATE = os.environ.get("SCALEWATCH_UPDATE_CASES") == "1"
FIT_TOLERANCE = 0.06
LEFT_OUT = {
    "model", "low", "high", "low_s", "high_s", "end", "end_low", "end_high", "useful_n", "reliable_n", "quality",
    "coverage_measured", "probability_exceeds_limit", "reliability", "description", "preferred_n", "expected",
    "speedup", "efficiency", "extrapolation", "coverage",  # of a fit
    "agent_version", "schema", "as_of", "valid_until",  # of every message
    "event",  # what came in
}  # fmt: skip
_NUMBER = re.compile(r"\d+\.\d+|\b\d{2,}\b")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Stay in the folder of the case, so that no path of this machine is in what comes out."""
    case = request.node.callspec.params["case"] if hasattr(request.node, "callspec") else NAMES[0]
    monkeypatch.chdir(CASES / case)


def replayed(case: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what a replay of a case sends, by topic."""
    own = CASES / case / "agent.yaml"
    config = load(str(own), sources_required=False) if own.exists() else Config()
    with JsonLines(folder) as sink:
        replay = Replay(config, sink)
        replay.run(sorted(path.name for path in Path().glob("events.*")), compose.file_options(config, "UTC"))
        replay.agent.close()
    found = {topic: [plain(record) for record in read(folder / f"{topic}.jsonl")] for topic in TOPICS}
    found["predictions"] = list({record["key"]: record for record in found["predictions"]}.values())
    found["job-predictions"] = without_repeats(found["job-predictions"])
    return found


def without_repeats(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records that differ from the one before of the same key."""
    last: dict[str, Any] = {}
    kept = []
    for record in records:
        if record["key"] not in last or last[record["key"]] != record:
            kept.append(record)
        last[record["key"]] = record
    return kept


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def nearly(value: Any) -> Any:
    """Return expected records whose run times at sizes of a curve need only be met nearly."""
    if isinstance(value, list):
        return [nearly(each) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {name: nearly(each) for name, each in value.items()}
    if fields.get("source") == "observed" and "run_time_s" in fields:
        fields["run_time_s"] = pytest.approx(fields["run_time_s"], rel=FIT_TOLERANCE)
    return fields


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as it is compared."""
    value = record["value"]
    if value is not None and value["schema"] == "scalewatch.job-prediction/1":
        value = {name: each for name, each in value.items() if name not in {"id", "time", "run_time_s"}}
    return {"key": record["key"], "value": _plain(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return _fields(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(f"{value:.3g}") if isinstance(value, float) and not value.is_integer() else value


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    kept = {name: _plain(each) for name, each in value.items() if name not in LEFT_OUT}
    if "summary" in kept:
        kept["summary"] = _NUMBER.sub("_", kept["summary"])  # sentences for people hold numbers of fits
    if "extrapolation" in value:
        observed = value["source"] == "observed"
        kept["run_time_s"] = float(f"{value['run_time_s']:.2g}") if observed else None
    return kept


@pytest.mark.parametrize("case", NAMES)
def test_an_afternoon_gives_what_its_folder_says(case: str, tmp_path: Path) -> None:
    found = replayed(case, tmp_path)
    expected = CASES / case / "expected"
    if UPDATE:
        expected.mkdir(exist_ok=True)
        for topic, records in found.items():
            lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            (expected / f"{topic}.jsonl").write_text(lines)
    assert found == {topic: nearly(read(expected / f"{topic}.jsonl")) for topic in TOPICS}


@pytest.mark.parametrize("case", NAMES)
def test_bands_hold_their_point_and_sizes_rise(case: str, tmp_path: Path) -> None:
    replayed(case, tmp_path)
    curves = [said["value"]["curve"] for said in read(tmp_path / "predictions.jsonl") if said["value"]]
    assert curves
    for curve in curves:
        assert [point["n"] for point in curve] == sorted({point["n"] for point in curve})
        assert all(0 < point["low_s"] < point["run_time_s"] < point["high_s"] for point in curve)


def test_a_replay_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    case = NAMES[0]
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        replayed(case, folder)
    for topic in TOPICS:
        first, second = ((folder / f"{topic}.jsonl").read_bytes() for folder in folders)
        assert first == second


def test_every_case_says_what_it_is_about_and_was_written_once() -> None:
    for case in CASES.iterdir():
        assert len((case / "README.md").read_text()) > 80
        assert sorted(path.stem for path in (case / "expected").iterdir()) == sorted(TOPICS)
