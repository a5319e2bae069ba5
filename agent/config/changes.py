"""A configuration with some keys changed, as `key=value` texts say: what if they were set so."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec
from pydantic import BaseModel, SecretStr

from agent.config.load import loads
from agent.config.reference import Cost, price
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError, KeyPath, Problem, parse, path_text
from processors.contracts.errors import ConfigError

ABSENT = "(absent)"
_SECRET = "(secret)"  # noqa: S105 - what is shown instead of one


class Change(msgspec.Struct, frozen=True):
    """One key that changes: its values as JSON, its cost and what that means."""

    path: KeyPath
    before: str
    after: str
    cost: Cost
    meaning: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.before} -> {self.after} [{self.cost}: {self.meaning}]"


def changes(old: Config, new: Config) -> tuple[Change, ...]:
    """Return every key whose value differs, in the order of the tree; secrets are compared and not shown."""
    return tuple(_changes(old, new, ()))


def _changes(old: Any, new: Any, path: KeyPath) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, BaseModel) and isinstance(new, BaseModel):
        for name in type(new).model_fields:
            yield from _changes(getattr(old, name), getattr(new, name), (*path, name))
    elif isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from _changes(old.get(name, ABSENT), new.get(name, ABSENT), (*path, name))
    elif isinstance(old, tuple) and isinstance(new, tuple) and any(isinstance(item, BaseModel) for item in old + new):
        yield from _list_changes(old, new, path)
    else:
        found = price(path)
        yield Change(path, _shown(old), _shown(new), found.cost, found.meaning)


def _list_changes(old: tuple[Any, ...], new: tuple[Any, ...], path: KeyPath) -> Iterator[Change]:
    """Match items that stayed, so that one more rule at the top is one change and not a change of each."""
    before, after = ([_shown(item) for item in items] for items in (old, new))
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == new_end - new_start):  # secrets look alike
            for index, other in zip(range(start, end), range(new_start, new_end), strict=True):
                yield from _changes(old[index], new[other], (*path, other))
            continue
        found = price(path)
        if kind in ("replace", "delete"):
            for index in range(start, end):
                yield Change((*path, index), before[index], ABSENT, found.cost, found.meaning)
        if kind in ("replace", "insert"):
            for index in range(new_start, new_end):
                yield Change((*path, index), ABSENT, after[index], found.cost, found.meaning)


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        return _SECRET
    if isinstance(value, str) and value == ABSENT:
        return ABSENT
    plain: Any = value.model_dump(mode="json", exclude_defaults=True) if isinstance(value, BaseModel) else value
    return msgspec.json.encode(plain).decode()


NAME: Final = "--set"


def settings_of(text: str) -> dict[str, str]:
    """Return the settings in a text, value by key; ConfigError where one is no `key=value`. Semicolons part them."""
    found: dict[str, str] = {}
    for part in filter(str.strip, text.split(";")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not all(key.split(".")):
            raise ConfigError(f"{NAME} {part.strip()!r} is no KEY=VALUE, such as alerts.strange_run.factor_min=1.5.")
        if key in found:
            raise ConfigError(f"{NAME} {text!r} sets {key} twice.")
        found[key] = value
    if not found:
        raise ConfigError(f"{NAME} needs KEY=VALUE, such as alerts.strange_run.factor_min=1.5.")
    return found


def changed(config: Config, settings: dict[str, str], sections: Sequence[str]) -> Config:
    """Return the configuration with settings of some of its sections changed; values are written as in the file.

    ConfigError says of every setting what is wrong with it, as `validate` does of a file.
    """
    tree = {section: getattr(config, section).model_dump(mode="json") for section in sections}
    for key, text in settings.items():
        _put(tree, key, text)
    try:
        found = loads(msgspec.json.encode(tree).decode(), NAME)
    except InvalidConfigError as error:
        problems = [Problem(NAME, 0, 0, problem.path, problem.message) for problem in error.problems]
        raise InvalidConfigError(problems) from None
    retained = {name: getattr(config, name) for name in Config.model_fields}
    return Config(**retained | {section: getattr(found, section) for section in sections})


def _put(tree: dict[str, Any], key: str, text: str) -> None:
    first, *rest = key.split(".")
    if first not in tree or not rest:
        raise ConfigError(f"{NAME} {key}: only keys of {', '.join(tree)} can be set here.")
    inner = tree[first]
    for part in rest[:-1]:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
    if not isinstance(inner, dict):
        raise ConfigError(f"{NAME} {key}: is below a value, not below a section.")
    inner[rest[-1]] = _value(key, text)


def _value(key: str, text: str) -> Any:
    document = parse(text, NAME)
    if document.problems:
        raise InvalidConfigError([Problem(NAME, 0, 0, (key,), problem.message) for problem in document.problems])
    return document.data
