"""A configuration with some keys changed, as `key=value` texts say: what if they were set so."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agent.config.load import loads
from agent.config.nodes import parse
from agent.config.problems import InvalidConfigError, Problem
from agent.config.tree import Config
from agent.contracts.errors import ConfigError

NAME: Final = "--set"


def settings_of(text: str) -> dict[str, str]:
    """Return the settings in a text, value by key; ConfigError where one is no `key=value`. Semicolons part them.

    >>> settings_of("alerts.strange_run.factor_min=1.5; alerts.slow_size.enabled=false")
    {'alerts.strange_run.factor_min': '1.5', 'alerts.slow_size.enabled': 'false'}
    """
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

    >>> found = changed(Config(), {"alerts.slow_size.deviation_min": "0.3"}, ["alerts"])
    >>> found.alerts.slow_size.deviation_min, found.alerts.strange_run.factor_min
    (0.3, 1.15)
    >>> changed(Config(), {"alerts.slow_siz.deviation_min": "0.3"}, ["alerts"])
    Traceback (most recent call last):
    agent.config.problems.InvalidConfigError: --set: alerts.slow_siz: is no key of alerts; did you mean slow_size?
    """
    tree = {section: getattr(config, section).model_dump(mode="json") for section in sections}
    for key, text in settings.items():
        _put(tree, key, text)
    try:
        found = loads(msgspec.json.encode(tree).decode(), NAME)
    except InvalidConfigError as error:
        raise InvalidConfigError([_without_place(problem) for problem in error.problems]) from None
    kept = {name: getattr(config, name) for name in Config.model_fields}
    return Config(**kept | {section: getattr(found, section) for section in sections})


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
        raise InvalidConfigError([Problem(NAME, 0, 0, (key,), problem.sentence) for problem in document.problems])
    return document.data


def _without_place(problem: Problem) -> Problem:
    return Problem(NAME, 0, 0, problem.path, problem.sentence)
