"""A YAML reader that returns plain data, with the line and column of every key and value.

Scalars follow JSON: only `true` and `false` are booleans, and only decimal numbers are numbers. So `no`, `12:30` and
`2026-01-03` stay strings.
"""

import errno
import math
import os
import re
import stat
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from processors.contracts.errors import ConfigError

KeyPath = tuple[str | int, ...]


class Problem(msgspec.Struct, frozen=True):
    """A problem of a file: line and column from 1 (0 if unknown), key, and a sentence."""

    file: str
    line: int
    column: int
    path: KeyPath
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {path_text(self.path)}: {self.message}" if self.path else f"{where}: {self.message}"


class InvalidConfigError(ConfigError):
    """An error about an invalid configuration; the message has one line for each problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def path_text(path: KeyPath) -> str:
    """Return a path of keys as text for messages, such as sources[0].topics."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def at_most(problems: Sequence[Problem], problems_max: int, file: str) -> list[Problem]:
    """Return the first `problems_max` problems of a file, and a last one with the number of those left out."""
    left_out = len(problems) - problems_max
    more = [Problem(file, 0, 0, (), f"and {left_out} more problems.")] if left_out > 0 else []
    return [*problems[:problems_max], *more]


DEPTH_MAX: Final = 20
NODES_MAX: Final = 100_000  # limits the expansion of YAML aliases, with which a small file can describe a huge document
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,4})?")
_LITERALS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset(
    _TAG + name for name in ("null", "bool", "int", "float", "str", "timestamp", "merge", "value", "seq", "map")
)


Position = tuple[int, int]
"""Line and column, both counted from 1."""


class Document(msgspec.Struct):
    """A parsed file: plain data, the positions of keys and values, and the problems of the file."""

    file: str
    data: Any = None
    keys: dict[KeyPath, Position] = {}
    values: dict[KeyPath, Position] = {}
    problems: list[Problem] = []
    nodes: int = 0
    too_large: bool = False

    def position(self, path: KeyPath) -> Position:
        """Return the position of a key or of its value; if the key is missing, the position of the nearest key above it."""
        for length in range(len(path), -1, -1):
            position = self.keys.get(path[:length]) or self.values.get(path[:length])
            if position:
                return position
        return 0, 0

    def problem(self, path: KeyPath, message: str, *, at_value: bool = False) -> Problem:
        """Return a problem of a key, located at the key or, with `at_value`, at its value."""
        position = (self.values.get(path) if at_value else None) or self.position(path)
        return Problem(self.file, *position, path, message)


def parse(text: str, file: str) -> Document:
    """Return the document in a YAML text; its `problems` are errors of the syntax, such as a repeated key."""
    document = Document(file)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        document.problems.append(_syntax_problem(error, file))
    except RecursionError:
        document.problems.append(Problem(file, 0, 0, (), f"is nested more than {DEPTH_MAX} deep."))
    else:
        document.data = None if root is None else _plain(root, (), document)
    return document


def _syntax_problem(error: yaml.YAMLError, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    if reason.startswith("but ") and getattr(error, "context", None):
        reason = f"{getattr(error, 'context', '')} {reason}"
    if "'\\t'" in reason:
        reason = "a tab stands where YAML allows spaces only"
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return Problem(file, line, column, (), f"this is not valid YAML: {reason}.")


def _plain(node: Node, path: KeyPath, document: Document) -> Any:
    document.nodes += 1
    document.values.setdefault(path, _position(node))
    if len(path) > DEPTH_MAX or document.nodes > NODES_MAX:
        if not document.too_large:
            document.too_large = True
            _refused(document, path, f"is more than {DEPTH_MAX} levels deep, or one of more than {NODES_MAX} values.")
        return None
    if node.tag not in _TAGS:
        return _refused(document, path, f"the tag {node.tag.removeprefix(_TAG)!r} is not supported.")
    if isinstance(node, MappingNode):
        return _mapping(node, path, document)
    if isinstance(node, SequenceNode):
        return [_plain(item, (*path, index), document) for index, item in enumerate(node.value)]
    return _scalar(node, path, document)


def _mapping(node: MappingNode, path: KeyPath, document: Document) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, ScalarNode) or not key_node.value.isprintable():
            message = "a key has to be a plain word."
            document.problems.append(Problem(document.file, *_position(key_node), path, message))
            continue
        key = str(key_node.value)
        key_path = (*path, key)
        if key in result:
            message = f"is given twice, first in line {document.keys[key_path][0]}."
            document.problems.append(Problem(document.file, *_position(key_node), key_path, message))
            continue
        document.keys[key_path] = _position(key_node)
        result[key] = _plain(value_node, key_path, document)
    return result


def _scalar(node: Node, path: KeyPath, document: Document) -> Any:
    text = str(node.value)
    if any("\ud800" <= character <= "\udfff" for character in text):
        return _refused(document, path, "holds half a character (a lone surrogate).")
    if getattr(node, "style", None):  # quoted strings and blocks stay strings, even if they look like numbers
        return text
    if text in _LITERALS:
        return _LITERALS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    return number if math.isfinite(number) else _refused(document, path, "is too large a number.")


def _refused(document: Document, path: KeyPath, message: str) -> None:
    document.problems.append(document.problem(path, message, at_value=True))


def _position(node: Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raise OSError for other kinds of files: reading a named pipe may block for ever."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # for a directory, the operating system raises its own error
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return path.open("rb")
