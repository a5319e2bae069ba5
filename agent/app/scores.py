"""Scores of samples in a file: a line per sample and per host, written as they come."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from agent.contracts.errors import ConfigError, UnavailableError
from agent.contracts.telemetry import Samples, SeriesIndex
from processors.stream_scores import ScoreLine, StreamScorer

_ENCODER = msgspec.json.Encoder()


class Scores:
    """Writes the scores of samples that come in order of time.

    >>> import io
    >>> scores = Scores(io.BytesIO())
    >>> scores.end()
    >>> scores.lines, scores.unscored
    (0, 0)
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._scorer: StreamScorer | None = None
        self.lines = 0

    @property
    def unscored(self) -> int:
        """How many samples were passed over, for they came after those of a later interval."""
        return 0 if self._scorer is None else self._scorer.late

    def write(self, samples: Samples, index: SeriesIndex) -> None:
        """Score samples and write what is complete. Raises UnavailableError where the file cannot be written."""
        if self._scorer is None:
            self._scorer = StreamScorer(index)
        self._write(self._scorer.score(samples))

    def end(self) -> None:
        """Write the scores of what is still held."""
        if self._scorer is not None:
            self._write(self._scorer.end())

    def _write(self, lines: Iterator[ScoreLine]) -> None:
        every = [*lines]
        self.lines += len(every)
        try:
            self._file.write(_ENCODER.encode_lines(every))
        except OSError as error:
            raise UnavailableError(f"The scores cannot be written: {error.strerror}.") from error


@contextmanager
def scores_file(path: Path) -> Iterator[Scores]:
    """Open a file of scores; ConfigError where it cannot be written.

    >>> with scores_file(Path("no/such/folder/scores.jsonl")):
    ...     pass
    Traceback (most recent call last):
    agent.contracts.errors.ConfigError: The file no/such/folder/scores.jsonl cannot be written: No such file or directory.
    """
    try:
        file = path.open("wb")
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be written: {error.strerror}.") from error
    with file:
        yield Scores(file)
