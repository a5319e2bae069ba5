"""A replay: files in, messages and a summary out."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.app import compose, embedded
from agent.app.replay import Replay
from agent.config.load import loads
from agent.config.tree import Config
from processors.contracts.errors import ConfigError
from sinks.topics import JsonLines
from tests.kit.scenario import SYSTEM, moment_ms

NINE_MS = moment_ms("09:00")


def event(job: int, minute: int, **changes: Any) -> str:
    n = 2 ** (job % 4)
    fields = {
        "type": "job.completed", "system": SYSTEM, "job_id": str(job), "application": "lammps", "n": n, "unit": "nodes",
        "start": f"2026-11-20T{9 + minute // 60:02d}:{minute % 60:02d}:00Z", "run_time_s": 400.0 / n + 10 + job % 3,
        "state": "COMPLETED",
    }  # fmt: skip
    return json.dumps({key: value for key, value in {**fields, **changes}.items() if value is not None})


def replayed(folder: Path, *lines: str, config: Config | None = None) -> dict[str, Any]:
    path = folder / "events.jsonl"
    path.write_text("\n".join(lines) + "\n")
    replay = Replay(config or Config())
    replay.run([str(path)], compose.file_options(replay.agent.config, "UTC"))
    summary = replay.summary()
    replay.agent.close()
    return summary


def test_the_summary_counts_what_was_read_refused_sent_and_learned(tmp_path: Path) -> None:
    lines = [event(job, job * 7) for job in range(24)]
    summary = replayed(tmp_path, *lines, "{", event(99, 200, n=-1), event(98, 200, run_time_s=5000.0, n=4))
    assert (summary["records"], summary["events"], summary["refused"]) == (27, 25, 2)
    assert sum(summary["refused_by_reason"].values()) == 2
    assert summary["applications"] == sum(summary["verdicts"].values()) == 1
    assert summary["emissions"]["runs"] == 25
    assert summary["emissions"]["deadletters"] == 2
    assert summary["emissions"]["predictions"] >= 1
    assert summary["alerts"] == {"StrangeRun": 1}
    assert summary["quality"]["scored"] > 10
    assert 0 < summary["quality"]["median_of_median_errors"] < 0.05
    assert 0.5 < summary["quality"]["coverage_90"] <= 1
    assert summary["until"] > "2026-11-20T14:00:00Z"


def test_a_file_without_events_has_a_summary_of_nothing(tmp_path: Path) -> None:
    summary = replayed(tmp_path, "not an event")
    assert (summary["events"], summary["applications"], summary["refused"]) == (0, 0, 1)
    assert summary["emissions"] == {"deadletters": 1}
    assert summary["quality"] == {"scored": 0, "median_of_median_errors": None, "coverage_90": None}
    assert summary["until"] == "1970-01-01T00:00:00Z"


def test_events_of_a_system_that_is_not_listed_are_dead_letters(tmp_path: Path) -> None:
    config = loads("systems: {exa: {}}\n", sources_required=False)
    summary = replayed(tmp_path, event(1, 0), event(2, 1, system="other"), config=config)
    assert (summary["events"], summary["refused"]) == (2, 1)
    assert summary["refused_by_reason"] == {"unknown-system": 1}
    assert summary["emissions"]["deadletters"] == 1


def test_what_comes_out_is_what_the_summary_counts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(event(job, job * 7) for job in range(20)))
    with JsonLines(tmp_path / "out") as sink:
        replay = Replay(Config(), sink)
        replay.run([str(path)], compose.file_options(Config(), "UTC"))
        emissions = replay.summary()["emissions"]
        replay.agent.close()
    for kind, count in emissions.items():
        name = kind.replace("_", "-")
        assert len((tmp_path / "out" / f"{name}.jsonl").read_text().splitlines()) == count


def test_progress_is_reported_up_to_the_last_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(event(job, job) for job in range(20)))
    reported: list[int] = []
    replay = Replay(Config())
    replay.run([str(path)], compose.file_options(Config(), "UTC"), reported.append)
    replay.agent.close()
    assert reported[-1] == 20
    assert reported == sorted(reported)


def test_no_record_of_a_thin_history_is_lost_to_the_bound_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "RECORDS_MAX", 4000)
    lines = [
        event(job, 0, start=f"2026-{1 + job // 14:02d}-{1 + 2 * (job % 14):02d}T00:00:00Z") for job in range(150)
    ]  # one job every two days: a hundred ticks for each event
    summary = replayed(tmp_path, *lines)
    assert summary["emissions"]["runs"] == 150


def test_a_file_that_is_not_there_is_a_message(tmp_path: Path) -> None:
    replay = Replay(Config())
    with pytest.raises(ConfigError, match=r"no-such-file"):
        replay.run([str(tmp_path / "no-such-file")], compose.file_options(Config(), "UTC"))
    replay.agent.close()
