"""Reads the configuration from a YAML file, and reports all its problems at once, each with line, key and a sentence."""

import difflib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent.config.checks import Fault, faults, rule_problems
from agent.config.reference import inner_type, keys, model_at, secret_paths, section_model
from agent.config.references import read_references, retain
from agent.config.tree import Config
from agent.config.yaml import Document, InvalidConfigError, KeyPath, Problem, at_most, open_regular, parse, path_text
from processors.contracts.alerts import AlertDefaults, AlertSettings, inherits
from processors.contracts.settings import Rule

SECRET_BYTES_MAX: Final = 64 * 1024
_ENVIRONMENT = re.compile(r"\$\{env:([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Resolver(msgspec.Struct):
    """Replaces references by their values, and adds a problem to the document for each reference without a value.

    Unless `reveal` is set, references stay unresolved, so that a file can be checked or compared on a machine without the secrets.
    """

    folder: Path
    environment: Mapping[str, str]
    secret_paths: frozenset[tuple[str, ...]]
    document: Document
    reveal: bool = True

    def resolve(self, value: Any, path: KeyPath = (), kind: Any = Config) -> Any:
        """Return a value with its references replaced, and without empty sections, lists and name tables.

        `kind` is the type annotation of the value. Empty sections are removed because an operator may comment out all lines of a
        section. An empty single value stays, and the validation refuses it if the key needs a value.
        """
        model, items = section_model(kind), inner_type(kind)
        if isinstance(value, list):
            return [self.resolve(item, (*path, index), items) for index, item in enumerate(value)]
        if isinstance(value, str):
            return self._text(value, path)
        if not isinstance(value, dict):
            return value
        if set(value) == {"file"} and isinstance(value["file"], str):
            return self._file(value["file"], path)
        resolved: dict[str, Any] = {}
        for key, below in value.items():
            inner = model.model_fields[key].annotation if model and key in model.model_fields else items
            is_empty = below is None and (section_model(inner) or inner_type(inner))
            if not (is_empty and model):
                resolved[key] = {} if is_empty else self.resolve(below, (*path, key), inner)
        return resolved

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
            return match.group()
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
    """Return a path in the form of `Key.path`, with `[]` in place of a list index."""
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
    """Return the sentence for a validation error; the sentence never contains a secret."""
    path, kind = error["loc"], error["type"]
    if kind == "extra_forbidden":
        return f"is not a key of {path_text(path[:-1]) or 'the configuration'}; {_hint(path)}"
    if kind == "missing":
        return "is missing."
    if kind == "value_error":
        text = str(error["ctx"]["error"])
        return text if text.endswith((".", "?", "!")) else f"{text}."
    return f"{_condition(error)}{_shown_value(error)}."


def _condition(error: ErrorDetails) -> str:
    """Return the condition that the invalid value violates."""
    context = error.get("ctx", {})
    if error["type"] == "string_pattern_mismatch":
        return _pattern(error)
    if error["type"] == "literal_error":
        return f"must be {context['expected']}".replace("'", "")
    limits = {
        name: int(limit) if isinstance(limit, float) and limit.is_integer() else limit
        for name, limit in context.items()
    }
    template = CONDITIONS.get(error["type"])
    return error["msg"].lower() if template is None else template.format_map(limits)


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


def _shown_value(error: ErrorDetails) -> str:
    value = error["input"]
    if isinstance(value, dict | list) or _as_pattern(error["loc"]) in secret_paths():
        return ""
    if value is None:
        return ", not empty"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return f", not {text[:SHOWN_MAX]}{'...' if len(text) > SHOWN_MAX else ''}"


def _pattern(error: ErrorDetails) -> str:
    path: tuple[Any, ...] = error["loc"]
    parts = [part for part in path if isinstance(part, str) and part != "[key]"]
    if parts[0] == "sources" and parts[-1] == "topics":
        return PATTERNS["topics"]
    if parts[0] == "topics":
        return TOPIC_MESSAGE
    return PATTERNS.get(parts[-1], WORD_MESSAGE)


CONDITIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("int_type", "int_from_float"), "must be a whole number"),
    "int_parsing_size": "is too large a number",
    **dict.fromkeys(("float_type", "finite_number"), "must be a number"),
    "bool_type": "must be true or false",
    "string_type": "must be a text (put it between quotes if it looks like a number)",
    "tuple_type": "must be a list",
    "dict_type": "must be a section of names, each with its keys indented below",
    **dict.fromkeys(("model_type", "model_attributes_type"), "must be a section, with its keys indented below"),
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_short": "must have an entry",
    "too_long": "must have at most {max_length} entries",
}


def rules_faults(data: Any) -> list[Fault]:
    """Return problems that the schema does not detect, such as unknown job fields, if section `identify` failed the validation.

    Rules that fail the validation themselves are skipped, because the validation has reported them.
    """
    identify = data.get("identify")
    rules = identify.get("rules") if isinstance(identify, dict) else None
    problems: list[Fault] = []
    for index, raw in enumerate(rules if isinstance(rules, list) else []):
        with suppress(ValidationError):  # the validation has already reported the other rules
            problems += rule_problems(index, Rule.model_validate(raw))
    return problems


FILE_BYTES_MAX: Final = 1024 * 1024
PROBLEMS_MAX: Final = 100


class LoadOptions(TypedDict, total=False):
    """Options of `load`; see `loads` for their defaults. The default `environment` is that of the process.

    Unless `reveal_secrets` is set, references to secrets stay unresolved. `sources_required` makes sources mandatory: a running
    agent needs sources, commands that read files do not. `references` also checks the reference files.
    """

    environment: Mapping[str, str]
    reveal_secrets: bool
    sources_required: bool
    references: bool


def load(path: str | Path, **options: Unpack[LoadOptions]) -> Config:
    """Return the configuration in a file. Raise InvalidConfigError with all problems of the file."""
    options.setdefault("environment", os.environ)
    return loads(_text(Path(path)), str(path), folder=Path(path).parent, **options)


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
    """Return the configuration in a YAML text; like `load`, but file paths in the text are relative to `folder`."""
    document = parse(text, name)
    data = {} if document.data is None and not document.problems else document.data
    if data is not None and not isinstance(data, dict):
        document.problems.append(document.problem((), "the file has to be a mapping of keys, such as `sources:`."))
    if not isinstance(data, dict):
        raise InvalidConfigError(document.problems)
    resolver = Resolver(folder or Path(), environment or {}, secret_paths(), document, reveal=reveal_secrets)
    config = _checked(resolver.resolve(data), document)
    config = config.model_copy(update={"reference": config.reference.below(folder or Path())})
    systems, clusters = tuple(config.systems), tuple(config.partitions_by_system)
    content, file_problems = read_references(config.reference, systems, clusters) if references else (None, [])
    if sources_required and not data.get("sources"):
        document.problems.append(document.problem(("sources",), "is missing: the agent would read nothing."))
    if document.problems or file_problems:
        problems = sorted(document.problems, key=lambda problem: (problem.line, problem.column))
        raise InvalidConfigError(at_most(problems, PROBLEMS_MAX, name) + file_problems)
    if content is not None:
        retain(config.reference, content)
    return config


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
    """Return the configuration, using defaults for sections that have problems, and add all problems to the document."""
    data = with_alert_defaults(data)
    reported = {problem.path for problem in document.problems}
    errors = _errors(data)
    broken = {str(path[0]) for path in (*reported, *(error["loc"] for error in errors)) if path}
    invalid: list[Fault] = [
        (tuple(part for part in error["loc"] if part != "[key]"), error_text(error)) for error in errors
    ]
    if "identify" in broken:
        invalid += rules_faults(data)
    for path, text in invalid:
        if path not in reported:
            document.problems.append(document.problem(path, text, at_value=bool(path) and isinstance(path[-1], int)))
    sound = _validated({key: value for key, value in data.items() if key not in broken})
    document.problems += [document.problem(path, text) for path, text in faults(sound, frozenset(broken))]
    return sound


def with_alert_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the keys of `alerts.defaults` copied into the alert sections that inherit them."""
    alerts = data.get("alerts")
    if not isinstance(alerts, dict):
        return data
    shared = alerts.get("defaults", {})
    try:
        AlertDefaults.model_validate(shared, strict=True)
    except ValidationError:
        return data  # the validation reports errors in `defaults` at the position of `defaults`
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


def _errors(data: dict[str, Any]) -> list[ErrorDetails]:
    """Return the validation errors that are not consequences of other errors.

    Examples of consequences are a default derived from an invalid prefix, and a list that is empty only because its items are
    invalid.
    """
    try:
        _validated(data)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)
    else:
        return []
    above = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}
    return [
        error
        for error in errors
        if error["type"] != "default_factory_not_called"
        and not (error["type"] == "too_short" and error["loc"] in above)
    ]


def _validated(data: dict[str, Any]) -> Config:
    """Return the configuration. It is validated as JSON, because pydantic's strict mode accepts a list for a tuple only in JSON."""
    return Config.model_validate_json(msgspec.json.encode(data), strict=True)
