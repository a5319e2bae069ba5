"""What is wrong with a configuration: where, and a sentence that says so."""

from collections.abc import Sequence

import msgspec

from agent.contracts.errors import ConfigError

Path = tuple[str | int, ...]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: file, line and column (from 1; 0 where there is none), key and a sentence.

    >>> print(Problem("agent.yaml", 3, 5, ("http", "port"), "must be at most 65535."))
    agent.yaml:3:5: http.port: must be at most 65535.
    """

    file: str
    line: int
    column: int
    path: Path
    sentence: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {path_text(self.path)}: {self.sentence}" if self.path else f"{where}: {self.sentence}"


class InvalidConfigError(ConfigError):
    """A configuration with every problem that was found, one on a line.

    >>> len(InvalidConfigError([Problem("agent.yaml", 0, 0, (), "is empty.")]).problems)
    1
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def path_text(path: Path) -> str:
    """Return a path of keys as it is written in messages.

    >>> path_text(("sources", 0, "topics", 1))
    'sources[0].topics[1]'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
