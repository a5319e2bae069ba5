"""From a YAML file to the tree: every problem at once, each with its line, its key and a sentence."""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agent.config.checks import Fault, faults
from agent.config.messages import sentence
from agent.config.reference import items_model, secret_paths, section_model
from agent.config.references import read_references
from agent.config.secret import Resolver
from agent.config.tree import Config
from agent.config.yaml import Document, InvalidConfigError, Path, Problem, parse
from agent.identify import rule_faults
from processors.contracts.settings import EVIDENCE_FIELDS, Rule

# Sections that are written and left empty.


def without_empty_sections(data: Any, model: type[BaseModel] | None) -> Any:
    """Return the data without sections, lists and name tables that hold nothing: all their lines are comments.

    A single value that is left empty stays, and is refused where it may not be empty.
    """
    if model is None or not isinstance(data, dict):
        return data
    result: dict[str, Any] = {}
    for key, value in data.items():
        field = model.model_fields.get(key)
        section = section_model(field.annotation) if field else None
        items, is_table = items_model(field.annotation) if field else (None, False)
        if value is None and (section is not None or is_table):
            continue
        if isinstance(value, list):
            result[key] = [without_empty_sections(item, items) for item in value]
        elif is_table and isinstance(value, dict):
            result[key] = {
                name: {} if below is None and items else without_empty_sections(below, items)
                for name, below in value.items()
            }
        else:
            result[key] = without_empty_sections(value, section)
    return result


# Rules of identification as they stand in the file: each looked at by itself, so that none hides another's faults.


def match_faults(path: Path, data: Any) -> list[tuple[Path, str]]:
    """Return every unknown field and bad pattern of one rule; the validation stops at the first."""
    for part in path:
        data = data[part]
    found: list[tuple[Path, str]] = []
    for field, pattern in data.items():
        if field not in EVIDENCE_FIELDS and not field.startswith("attributes."):
            close = difflib.get_close_matches(field, EVIDENCE_FIELDS, n=1)
            hint = (
                f"did you mean {close[0]}?" if close else f"use one of {', '.join(EVIDENCE_FIELDS)}, attributes.NAME."
            )
            found.append(((*path, field), f"is no field of a job; {hint}"))
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(((*path, field), f"{pattern!r} is no regular expression: {error}."))
    return found


def rules_faults(data: Any) -> list[tuple[Path, str]]:
    """Return what is wrong with the templates of those rules that are sound in themselves."""
    identify = data.get("identify")
    rules = identify.get("rules") if isinstance(identify, dict) else None
    found: list[tuple[Path, str]] = []
    for index, raw in enumerate(rules if isinstance(rules, list) else []):
        try:
            rule = Rule.model_validate(raw)
        except ValidationError:
            continue  # its own problems are already named
        found += [(("identify", "rules", index), fault) for fault in rule_faults(rule)]
    return found


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
    """Return the configuration in a YAML text, as `load` does for a file; files that it names are relative to `folder`."""
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
