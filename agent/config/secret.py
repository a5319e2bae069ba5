"""Secrets by reference: `${env:NAME}` in a text, or `{file: path}` in its place. Resolved at load, never shown."""

import os
import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec

from agent.config.yaml import Document, Path

SECRET_BYTES_MAX: Final = 64 * 1024
_ENVIRONMENT = re.compile(r"\$\{env:([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Resolver(msgspec.Struct):
    """Puts values in the place of references, and notes in the document what cannot be found.

    With `reveal` False a reference stays the text that it is: enough to check or to compare a file elsewhere.
    """

    folder: FilePath
    environment: Mapping[str, str]
    secret_paths: frozenset[tuple[str, ...]]
    document: Document
    reveal: bool = True

    def resolve(self, value: Any, path: Path) -> Any:
        """Return the value with every reference in it resolved."""
        if isinstance(value, dict):
            if set(value) == {"file"} and isinstance(value["file"], str):
                return self._file(value["file"], path)
            return {key: self.resolve(below, (*path, key)) for key, below in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str):
            return self._text(value, path)
        return value

    def _text(self, text: str, path: Path) -> str:
        if _pattern(path) in self.secret_paths and not _ENVIRONMENT.fullmatch(text):
            self._problem(path, "is a secret: write ${env:NAME} or {file: PATH} here, never the secret itself.")
            return ""
        return _ENVIRONMENT.sub(lambda match: self._variable(match, path), text)

    def _variable(self, match: re.Match[str], path: Path) -> str:
        name = match.group(1)
        if not _NAME.fullmatch(name):
            self._problem(path, "${env:NAME} needs the name of an environment variable.")
        elif not self.reveal:
            return match.group(0)
        elif not self.environment.get(name):
            self._problem(path, f"the environment variable {name} is not set.")
        return self.environment.get(name, "")

    def _file(self, name: str, path: Path) -> str:
        if not self.reveal:
            return f"{{file: {name}}}"
        try:
            with (self.folder / os.path.expanduser(name)).open("rb") as file:  # noqa: PTH111 - "~" of an unknown user must not raise
                content = file.read(SECRET_BYTES_MAX + 1)
            text = content.decode().rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self._problem(path, f"the file {name!r} cannot be read: {reason}.")
            return ""
        if not text or len(content) > SECRET_BYTES_MAX:
            self._problem(path, f"the file {name!r} is empty or longer than {SECRET_BYTES_MAX} bytes.")
        return text

    def _problem(self, path: Path, sentence: str) -> None:
        self.document.problems.append(self.document.problem(path, sentence))


def _pattern(path: Path) -> tuple[str, ...]:
    """Return the path as the list of keys has it, where `[]` stands for each item of a list."""
    return tuple("[]" if isinstance(part, int) else part for part in path)
