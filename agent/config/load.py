"""From a YAML file to the tree: every problem at once, each with its line, its key and a sentence."""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agent.config.checks import Fault, faults
from agent.config.patterns import pattern_fault
from agent.config.reference import items_model, keys, model_at, secret_paths, section_model
from agent.config.references import read_references, retain
from agent.config.tree import Config
from agent.config.yaml import Document, InvalidConfigError, KeyPath, Problem, open_regular, parse, path_text
from agent.identify import rule_faults
from processors.contracts.alerts import AlertDefaults, AlertSettings, inherits
from processors.contracts.settings import EVIDENCE_FIELDS, Rule

SECRET_BYTES_MAX: Final = 64 * 1024
_ENVIRONMENT = re.compile(r"\$\{env:([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Resolver(msgspec.Struct):
    """Puts values in the place of references, and notes in the document what cannot be found.

    With `reveal` False a reference stays the text that it is: enough to check or to compare a file elsewhere.
    """

    folder: Path
    environment: Mapping[str, str]
    secret_paths: frozenset[tuple[str, ...]]
    document: Document
    reveal: bool = True

    def resolve(self, value: Any, path: KeyPath) -> Any:
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

    def _text(self, text: str, path: KeyPath) -> str:
        if _as_pattern(path) in self.secret_paths and not _ENVIRONMENT.fullmatch(text):
            self._problem(path, "is a secret: write ${env:NAME} or {file: PATH} here, never the secret itself.")
            return ""
        return _ENVIRONMENT.sub(lambda match: self._variable(match, path), text)

    def _variable(self, match: re.Match[str], path: KeyPath) -> str:
        name = match.group(1)
        if not _NAME.fullmatch(name):
            self._problem(path, "${env:NAME} needs the name of an environment variable.")
        elif not self.reveal:
            return match.group(0)
        elif not self.environment.get(name):
            self._problem(path, f"the environment variable {name} is not set.")
        return self.environment.get(name, "")

    def _file(self, name: str, path: KeyPath) -> str:
        if not self.reveal:
            return f"{{file: {name}}}"
        try:
            with open_regular(self.folder / os.path.expanduser(name)) as file:  # noqa: PTH111 - "~" of an unknown user must not raise
                content = file.read(SECRET_BYTES_MAX + 1)
            text = content.decode().rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self._problem(path, f"the file {name!r} cannot be read: {reason}.")
            return ""
        if not text or len(content) > SECRET_BYTES_MAX:
            self._problem(path, f"the file {name!r} is empty or longer than {SECRET_BYTES_MAX} bytes.")
        return text

    def _problem(self, path: KeyPath, message: str) -> None:
        self.document.problems.append(self.document.problem(path, message))


def _as_pattern(path: KeyPath) -> tuple[str, ...]:
    """Return the path as the list of keys has it, where `[]` stands for each item of a list."""
    return tuple("[]" if isinstance(part, int) else part for part in path)


SHOWN_MAX: Final = 40
PATTERNS: Final[dict[str, str]] = {
    "bootstrap": "must be host:port, more of them separated by commas",
    "topics": "must be the name of a topic (letters, digits, full stop, dash, underscore) or start with ^",
    "client_id": "must be letters, digits, full stops, dashes and underscores only",
    "host": "must be a host name or an address",
    "url": "must be an address such as https://registry:8081",
    "resource": "must be a word of printable ASCII characters without >, which stands before a peer",
    "resources": "must be a word of printable ASCII characters without >, which stands before a peer",
}
TOPIC_MESSAGE: Final = "must be the name of a topic: up to 249 letters, digits, full stops, dashes and underscores"
WORD_MESSAGE: Final = "must be a word of printable ASCII characters without spaces"


def error_text(error: ErrorDetails) -> str:
    """Return the sentence for one error of the validation; a secret is never part of it."""
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        return f"is no key of {path_text(path[:-1]) or 'the configuration'}; {_hint(path)}"
    if error["type"] == "missing":
        return "is missing."
    if error["type"] == "value_error":
        return _finished(str(error["ctx"]["error"]))
    wanted = _WANTED.get(error["type"], _default)(error)
    return f"{wanted}{_given(error)}."


def _hint(path: KeyPath) -> str:
    model, name = model_at(path[:-1]), str(path[-1])
    names = list(model.model_fields) if model else []
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    elsewhere = [".".join(key.path) for key in keys() if key.path[-1] == name]
    if len(elsewhere) == 1:
        return f"it belongs to {elsewhere[0].rpartition('.')[0] or 'the top level'}."
    return f"its keys are {', '.join(names)}."


def _given(error: ErrorDetails) -> str:
    value = error["input"]
    if isinstance(value, dict | list) or _as_pattern(error["loc"]) in secret_paths():
        return ""
    if value is None:
        return ", not empty"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return f", not {text[:SHOWN_MAX]}{'...' if len(text) > SHOWN_MAX else ''}"


def _finished(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _default(error: ErrorDetails) -> str:
    return error["msg"].lower()


def _context(template: str) -> Callable[[ErrorDetails], str]:
    def wanted(error: ErrorDetails) -> str:
        limits = error.get("ctx", {})
        return template.format(**{name: _number(limit) for name, limit in limits.items()})

    return wanted


def _number(limit: Any) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _one_of(error: ErrorDetails) -> str:
    parts = error["ctx"]["expected"].replace("'", "")
    return f"must be {parts}"


def _pattern(error: ErrorDetails) -> str:
    path: tuple[Any, ...] = error["loc"]
    parts = [part for part in path if isinstance(part, str) and part != "[key]"]
    if parts[0] == "sources" and parts[-1] == "topics":
        return PATTERNS["topics"]
    if parts[0] == "topics":
        return TOPIC_MESSAGE
    return PATTERNS.get(parts[-1], WORD_MESSAGE)


_WANTED: Final[dict[str, Callable[[ErrorDetails], str]]] = {
    "int_type": _context("must be a whole number"),
    "int_from_float": _context("must be a whole number"),
    "int_parsing_size": _context("is too large a number"),
    "float_type": _context("must be a number"),
    "finite_number": _context("must be a number"),
    "bool_type": _context("must be true or false"),
    "string_type": _context("must be a text (put it between quotes if it looks like a number)"),
    "tuple_type": _context("must be a list"),
    "dict_type": _context("must be a section of names, each with its keys indented below"),
    "model_type": _context("must be a section, with its keys indented below"),
    "model_attributes_type": _context("must be a section, with its keys indented below"),
    "greater_than_equal": _context("must be at least {ge}"),
    "greater_than": _context("must be more than {gt}"),
    "less_than_equal": _context("must be at most {le}"),
    "less_than": _context("must be less than {lt}"),
    "string_too_long": _context("must have at most {max_length} characters"),
    "string_too_short": _context("must have at least {min_length} characters"),
    "too_short": _context("must have an entry"),
    "too_long": _context("must have at most {max_length} entries"),
    "literal_error": _one_of,
    "string_pattern_mismatch": _pattern,
}


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


def match_faults(path: KeyPath, data: Any) -> list[tuple[KeyPath, str]]:
    """Return every unknown field and bad pattern of one rule; the validation stops at the first."""
    for part in path:
        data = data[part]
    found: list[tuple[KeyPath, str]] = []
    for field, pattern in data.items():
        if field not in EVIDENCE_FIELDS and not field.startswith("attributes."):
            close = difflib.get_close_matches(field, EVIDENCE_FIELDS, n=1)
            hint = (
                f"did you mean {close[0]}?" if close else f"use one of {', '.join(EVIDENCE_FIELDS)}, attributes.NAME."
            )
            found.append(((*path, field), f"is not a job field; {hint}"))
        if (message := pattern_fault(pattern)) is not None:
            found.append(((*path, field), message))
    return found


def rules_faults(data: Any) -> list[tuple[KeyPath, str]]:
    """Return what is wrong with the templates of those rules that are sound in themselves."""
    identify = data.get("identify")
    rules = identify.get("rules") if isinstance(identify, dict) else None
    found: list[tuple[KeyPath, str]] = []
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
    path: str | Path,
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
    file = Path(path)
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
    folder: Path | None = None,
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
    resolver = Resolver(folder or Path(), environment or {}, secret_paths(), document, reveal=reveal_secrets)
    config = _checked(without_empty_sections(resolver.resolve(data, ()), Config), document)
    config = config.model_copy(update={"reference": config.reference.below(folder or Path())})
    systems, clusters = tuple(config.systems), tuple(config.partitions_by_system)
    content, found = read_references(config.reference, systems, clusters) if references else (None, [])
    if sources_required and not data.get("sources"):
        document.problems.append(document.problem(("sources",), "is missing: the agent would read nothing."))
    if document.problems or found:
        raise InvalidConfigError(_ordered(document) + found)
    if content is not None:
        retain(config.reference, content)
    return config


def _ordered(document: Document) -> list[Problem]:
    problems = sorted(document.problems, key=lambda problem: (problem.line, problem.column))
    if len(problems) > PROBLEMS_MAX:
        more = Problem(document.file, 0, 0, (), f"and {len(problems) - PROBLEMS_MAX} more problems.")
        return [*problems[:PROBLEMS_MAX], more]
    return problems


def _text(file: Path) -> str:
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
    data = with_alert_defaults(data)
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


def with_alert_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the keys of `alerts.defaults` filled into the alert sections that inherit them."""
    alerts = data.get("alerts")
    if not isinstance(alerts, dict):
        return data
    shared = alerts.get("defaults")
    if not isinstance(shared, dict) or not _are_valid(shared):
        return data  # the validation reports errors of `defaults` at their own place
    sections = {
        name: {key: value for key, value in shared.items() if inherits(field.annotation, key)}
        for name, field in AlertSettings.model_fields.items()
    }
    filled = {
        name: values | alerts.get(name, {})
        for name, values in sections.items()
        if values and isinstance(alerts.get(name, {}), dict)
    }
    return data | {"alerts": alerts | filled}


def _are_valid(shared: dict[str, Any]) -> bool:
    try:
        AlertDefaults.model_validate(shared, strict=True)
    except ValidationError:
        return False
    return True


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
    return [(path, error_text(error))]
