import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.outputs import Emission
from sinks.topics import JsonLines, emission, tombstone
from tests.kit.messages import alert, job, prediction


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_each_topic_gets_a_file_and_a_silent_topic_an_empty_one(tmp_path: Path) -> None:
    with JsonLines(tmp_path / "out") as files:
        files.write([emission(prediction()), emission(alert())])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "alerts.jsonl", "answers.jsonl", "deadletters.jsonl", "hosts.jsonl", "job-predictions.jsonl", "predictions.jsonl", "runs.jsonl",
    ]  # fmt: skip
    assert (tmp_path / "out" / "runs.jsonl").read_bytes() == b""
    assert lines(tmp_path / "out" / "alerts.jsonl")[0]["value"]["fingerprint"] == "f1"


def test_records_keep_their_order_and_a_removed_key_is_a_null(tmp_path: Path) -> None:
    with JsonLines(tmp_path) as files:
        files.write([emission(job("1")), emission(job("2"))])
        files.write([tombstone("job_predictions", "archer2/1")])
    records = lines(tmp_path / "job-predictions.jsonl")
    assert [record["key"] for record in records] == ["archer2/1", "archer2/2", "archer2/1"]
    assert records[-1]["value"] is None
    assert files.written["job_predictions"] == 3


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        with JsonLines(tmp_path / folder) as files:
            files.write([emission(prediction())])
    name = "predictions.jsonl"
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_replay_that_fails_leaves_no_file_that_looks_complete(tmp_path: Path) -> None:
    (tmp_path / "predictions.jsonl").write_text("of an earlier replay\n")

    def broken() -> Iterator[Emission]:
        yield emission(prediction())
        raise KeyError

    with pytest.raises(KeyError), JsonLines(tmp_path) as files:
        files.write(broken())
    assert (tmp_path / "predictions.jsonl").read_text() == "of an earlier replay\n"
    assert (tmp_path / "predictions.jsonl.partial").exists()
    assert not (tmp_path / "alerts.jsonl").exists()


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match="file/out cannot be written: Not a directory"),
        JsonLines(tmp_path / "file" / "out"),
    ):
        pass


def test_a_full_disk_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "alerts.jsonl.partial").symlink_to("/dev/full")
    with pytest.raises(UnavailableError, match="No space left on device"), JsonLines(tmp_path) as files:
        files.write([emission(alert())])
