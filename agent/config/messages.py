"""What a validation error means, as a sentence for a person."""

import difflib
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import ErrorDetails

from agent.config.reference import keys, model_at, secret_paths
from agent.config.yaml import Path, path_text

SHOWN_MAX: Final = 40
PATTERNS: Final[dict[str, str]] = {
    "bootstrap": "must be host:port, more of them separated by commas",
    "topics": "must be the name of a topic (letters, digits, full stop, dash, underscore) or start with ^",
    "client_id": "must be letters, digits, full stops, dashes and underscores only",
    "host": "must be a host name or an address",
    "resource": "must be a word of printable ASCII characters without >, which stands before a peer",
    "resources": "must be a word of printable ASCII characters without >, which stands before a peer",
}
TOPIC_SENTENCE: Final = "must be the name of a topic: up to 249 letters, digits, full stops, dashes and underscores"
WORD_SENTENCE: Final = "must be a word of printable ASCII characters without spaces"


def sentence(error: ErrorDetails) -> str:
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


def _hint(path: Path) -> str:
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
    if isinstance(value, dict | list) or _pattern_of(error["loc"]) in secret_paths():
        return ""
    if value is None:
        return ", not empty"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return f", not {text[:SHOWN_MAX]}{'...' if len(text) > SHOWN_MAX else ''}"


def _pattern_of(path: Path) -> tuple[str, ...]:
    return tuple("[]" if isinstance(part, int) else part for part in path)


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
    words = error["ctx"]["expected"].replace("'", "")
    return f"must be {words}"


def _pattern(error: ErrorDetails) -> str:
    path: tuple[Any, ...] = error["loc"]
    words = [part for part in path if isinstance(part, str) and part != "[key]"]
    if words[0] == "sources" and words[-1] == "topics":
        return PATTERNS["topics"]
    if words[0] == "topics":
        return TOPIC_SENTENCE
    return PATTERNS.get(words[-1], WORD_SENTENCE)


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
