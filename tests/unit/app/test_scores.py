"""Scores in a file: lines as they come, and errors as sentences."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from agent.app.files import ScoreWriter, scores_file
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.telemetry import Samples, Series, SeriesIndex


def index() -> SeriesIndex:
    found = SeriesIndex(9)
    found.number(Series("exa", "nid1", "cpu_available"))
    return found


def samples(*times_s: int) -> Samples:
    count = len(times_s)
    return Samples(np.zeros(count, np.int32), np.array(times_s, np.int64) * 1000, np.full(count, 0.5))


def test_an_interval_is_written_once_the_next_has_begun_and_the_last_at_the_end() -> None:
    file = io.BytesIO()
    scores, known = ScoreWriter(file), index()
    scores.write(samples(0, 5, 10), known)
    assert [json.loads(line)["time"][17:19] for line in file.getvalue().splitlines()] == ["00", "05"]
    scores.end()
    assert json.loads(file.getvalue().splitlines()[-1]) == {
        "host": "nid1", "resource": "cpu_available", "time": "1970-01-01T00:00:10Z", "score": 0.0, "fired": False,
    }  # fmt: skip
    assert scores.lines == 3


def test_samples_of_an_interval_that_is_over_have_no_score_and_are_counted() -> None:
    scores, known = ScoreWriter(io.BytesIO()), index()
    scores.write(samples(0, 30, 10, 31), known)
    scores.end()
    assert (scores.lines, scores.unscored) == (3, 1)


def test_a_full_disk_is_a_message() -> None:
    class Full(io.BytesIO):
        """A file on a full disk."""

        def write(self, data: object, /) -> int:
            raise OSError(28, "No space left on device")

    scores, known = ScoreWriter(Full()), index()
    with pytest.raises(UnavailableError, match=r"^The scores cannot be written: No space left on device\.$"):
        scores.write(samples(0, 30), known)


def test_a_file_that_cannot_be_opened_is_an_error_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"), scores_file(tmp_path):
        pass
