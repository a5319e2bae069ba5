"""Differences between two configurations, and configurations changed by `key=value` texts."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec
from pydantic import BaseModel, SecretStr

from agent.config.load import loads
from agent.config.reference import Cost, price
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError, KeyPath, Problem, parse, path_text
from processors.contracts.alerts import AlertDefaults, AlertSettings, inherits
from processors.contracts.errors import ConfigError

ABSENT = "(absent)"
_SECRET = "(secret)"  # noqa: S105 - shown in place of a secret


class KeyChange(msgspec.Struct, frozen=True):
    """A changed key: its old and new value as JSON, the action that the change needs, and the effect until that action."""

    path: KeyPath
    before: str
    after: str
    cost: Cost
    meaning: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.before} -> {self.after} [{self.cost}: {self.meaning}]"


def changes(old: Config, new: Config) -> tuple[KeyChange, ...]:
    """Return all keys whose values differ, in the order of the configuration tree; secrets are compared but not shown.

    A changed key of `alerts.defaults` is listed once, not again for each alert section that inherits it.
    """
    return tuple(change for change in _changes(old, new, ()) if not _is_inherited(change.path, old, new))


def _is_inherited(path: KeyPath, old: Config, new: Config) -> bool:
    """Return whether the alert section's value equals the one in `alerts.defaults`, both before and after the change.

    Such a change is listed once, at `alerts.defaults`.
    """
    if path[0] != "alerts" or len(path) != 3 or path[2] not in AlertDefaults.model_fields:
        return False
    section, key = str(path[1]), str(path[2])
    return inherits(AlertSettings.model_fields[section].annotation, key) and all(
        getattr(getattr(alerts, section), key) == getattr(alerts.defaults, key) for alerts in (old.alerts, new.alerts)
    )


def _changes(old: Any, new: Any, path: KeyPath) -> Iterator[KeyChange]:
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
        yield _change(path, _shown(old), _shown(new))


def _list_changes(old: tuple[Any, ...], new: tuple[Any, ...], path: KeyPath) -> Iterator[KeyChange]:
    """Yield the changes of a list. Items are compared with their old counterparts, so that an inserted rule counts as one change."""
    before, after = ([_shown(item) for item in items] for items in (old, new))
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        # compare items even if they look equal, because all secrets are shown alike
        if kind == "equal" or (kind == "replace" and end - start == new_end - new_start):
            for index, other in zip(range(start, end), range(new_start, new_end), strict=True):
                yield from _changes(old[index], new[other], (*path, other))
            continue
        if kind in ("replace", "delete"):
            for index in range(start, end):
                yield _change((*path, index), before[index], ABSENT)
        if kind in ("replace", "insert"):
            for index in range(new_start, new_end):
                yield _change((*path, index), ABSENT, after[index])


def _change(path: KeyPath, before: str, after: str) -> KeyChange:
    return KeyChange(path, before, after, *price(path))


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        return _SECRET
    if isinstance(value, str) and value == ABSENT:
        return ABSENT
    plain: Any = value.model_dump(mode="json", exclude_defaults=True) if isinstance(value, BaseModel) else value
    return msgspec.json.encode(plain).decode()


NAME: Final = "--set"


def settings_of(text: str) -> dict[str, str]:
    """Return the values by configuration key from a text such as ``KEY=VALUE; KEY=VALUE``.

    Raise ConfigError if the text is malformed, is empty or sets a key twice.
    """
    values: dict[str, str] = {}
    for part in filter(str.strip, text.split(";")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not all(key.split(".")):
            raise ConfigError(f"{NAME} {part.strip()!r} is not KEY=VALUE, such as alerts.strange_run.factor_min=1.5.")
        if key in values:
            raise ConfigError(f"{NAME} {text!r} sets {key} twice.")
        values[key] = value
    if not values:
        raise ConfigError(f"{NAME} needs KEY=VALUE, such as alerts.strange_run.factor_min=1.5.")
    return values


def changed(config: Config, settings: dict[str, str], sections: Sequence[str]) -> Config:
    """Return the configuration with new values from `settings`, which maps keys to values in YAML.

    Only keys in the given top-level `sections` can change. Raise InvalidConfigError with the problems of all invalid settings.
    """
    tree = {section: getattr(config, section).model_dump(mode="json") for section in sections}
    if "alerts" in tree:  # drop inherited keys, so that a new value of `alerts.defaults` reaches them
        tree["alerts"] = _without_inherited(config.alerts)
    for key, text in settings.items():
        _put(tree, key, text)
    try:
        new = loads(msgspec.json.encode(tree).decode(), NAME)
    except InvalidConfigError as error:
        problems = [Problem(NAME, 0, 0, problem.path, problem.message) for problem in error.problems]
        raise InvalidConfigError(problems) from None
    retained = {name: getattr(config, name) for name in Config.model_fields}
    return Config(**retained | {section: getattr(new, section) for section in sections})


def _without_inherited(alerts: AlertSettings) -> dict[str, Any]:
    plain = alerts.model_dump(mode="json")
    for name, section in alerts:
        for key in AlertDefaults.model_fields:
            if inherits(type(section), key) and plain[name][key] == plain["defaults"][key]:
                del plain[name][key]
    return plain


def _put(tree: dict[str, Any], key: str, text: str) -> None:
    first, *rest = key.split(".")
    if first not in tree or not rest:
        raise ConfigError(f"{NAME} {key}: only keys of the sections {', '.join(tree)} can be set.")
    inner = tree[first]
    for part in rest[:-1]:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
    if not isinstance(inner, dict):
        raise ConfigError(f"{NAME} {key}: has a value above it, not a section.")
    inner[rest[-1]] = _value(key, text)


def _value(key: str, text: str) -> Any:
    document = parse(text, NAME)
    if document.problems:
        raise InvalidConfigError([Problem(NAME, 0, 0, (key,), problem.message) for problem in document.problems])
    return document.data
