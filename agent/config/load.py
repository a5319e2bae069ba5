"""From a YAML file to the tree: every problem at once, each with its line, its key and a sentence."""

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent.config.checks import Fault, faults
from agent.config.empty import without_empty_sections
from agent.config.keys import secret_paths
from agent.config.nodes import Document, parse
from agent.config.problems import InvalidConfigError, Problem
from agent.config.raw_rules import match_faults, rules_faults
from agent.config.references import read_references
from agent.config.secret import Resolver
from agent.config.sentences import sentence
from agent.config.tree import Config

FILE_BYTES_MAX: Final = 1024 * 1024
PROBLEMS_MAX: Final = 100


def load(
    path: str | FilePath,
    *,
    environment: Mapping[str, str] | None = None,
    reveal_secrets: bool = True,
    sources_required: bool = False,
    references: bool = True,
) -> Config:
    """Return the configuration in a file; InvalidConfigError, a ConfigError, names everything that is wrong with it.

    References to secrets are resolved unless `reveal_secrets` is False; they stay readable texts then. A file without
    sources is complete for commands that read files; an agent that runs needs them (`sources_required`). What is wrong with
    reference files is named as well, unless `references` is False.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
    ...     _ = file.write("http: {port: 9100}")
    ...     file.flush()
    ...     load(file.name).http.port
    9100
    """
    file = FilePath(path)
    text = _text(file)
    variables = os.environ if environment is None else environment
    return loads(
        text,
        name=str(path),
        folder=file.parent,
        environment=variables,
        reveal_secrets=reveal_secrets,
        sources_required=sources_required,
        references=references,
    )


def loads(
    text: str,
    name: str = "configuration",
    *,
    folder: FilePath | None = None,
    environment: Mapping[str, str] | None = None,
    reveal_secrets: bool = True,
    sources_required: bool = False,
    references: bool = True,
) -> Config:
    """Return the configuration in a YAML text, as `load` does for a file; files that it names are relative to `folder`.

    >>> loads("http: {prot: 9100}")
    Traceback (most recent call last):
    agent.config.problems.InvalidConfigError: configuration:1:8: http.prot: is no key of http; did you mean port?
    """
    document = parse(text, name)
    data = {} if document.data is None and not document.problems else document.data
    if data is not None and not isinstance(data, dict):
        document.problems.append(document.problem((), "the file has to be a mapping of keys, such as `sources:`."))
    if not isinstance(data, dict):
        raise InvalidConfigError(document.problems)
    resolver = Resolver(folder or FilePath(), environment or {}, secret_paths(), document, reveal=reveal_secrets)
    config = _checked(without_empty_sections(resolver.resolve(data, ()), Config), document)
    config = config.model_copy(update={"reference": config.reference.below(folder or FilePath())})
    found = read_references(config.reference, tuple(config.systems))[1] if references else []
    if sources_required and not data.get("sources"):
        document.problems.append(document.problem(("sources",), "is missing: the agent would read nothing."))
    if document.problems or found:
        raise InvalidConfigError(_ordered(document) + found)
    return config


def _ordered(document: Document) -> list[Problem]:
    problems = sorted(document.problems, key=lambda problem: (problem.line, problem.column))
    if len(problems) > PROBLEMS_MAX:
        more = Problem(document.file, 0, 0, (), f"and {len(problems) - PROBLEMS_MAX} more problems.")
        return [*problems[:PROBLEMS_MAX], more]
    return problems


def _text(file: FilePath) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidConfigError([Problem(str(file), 0, 0, (), f"cannot be read: {error.strerror}.")]) from error
    if len(content) > FILE_BYTES_MAX:
        raise InvalidConfigError([Problem(str(file), 0, 0, (), f"is longer than {FILE_BYTES_MAX} bytes.")])
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidConfigError([Problem(str(file), line, 1, (), "this line is not UTF-8 text.")]) from error


def _checked(data: dict[str, Any], document: Document) -> Config:
    """Return the configuration; sections with problems of their own have their defaults in it."""
    broken = {str(problem.path[0]) for problem in document.problems if problem.path}
    already = {problem.path for problem in document.problems}
    errors = _errors(data)
    found = [fault for error in errors for fault in _described(error, data)]
    broken |= {str(error["loc"][0]) for error in errors}
    if "identify" in broken:
        found += rules_faults(data)
    for path, text in found:
        if path not in already:
            document.problems.append(document.problem(path, text, at_value=bool(path) and isinstance(path[-1], int)))
    sound = Config.model_validate_json(_json({k: v for k, v in data.items() if k not in broken}), strict=True)
    document.problems += [document.problem(path, text) for path, text in faults(sound, frozenset(broken))]
    return sound


def _errors(data: dict[str, Any]) -> list[ErrorDetails]:
    try:
        Config.model_validate_json(_json(data), strict=True)
    except ValidationError as invalid:
        return _own_errors(invalid.errors(include_url=False))
    return []


def _own_errors(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without those that only follow from another: a default of a bad prefix, a list of bad items."""
    above = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}
    return [
        error
        for error in errors
        if error["type"] != "default_factory_not_called"
        and not (error["type"] == "too_short" and error["loc"] in above)
    ]


def _json(data: dict[str, Any]) -> bytes:
    """JSON, because its strict reading takes a list for a tuple and still no text for a number."""
    return msgspec.json.encode(data)


def _described(error: ErrorDetails, data: dict[str, Any]) -> list[Fault]:
    path = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "value_error" and path[-1] == "match":
        return match_faults(path, data)
    return [(path, sentence(error))]
