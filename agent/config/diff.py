"""What changes between two configurations, and what each change costs."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import msgspec
from pydantic import BaseModel, SecretStr

from agent.config.costs import Cost, price
from agent.config.problems import Path, path_text
from agent.config.tree import Config

ABSENT = "(absent)"
_SECRET = "(secret)"  # noqa: S105 - what is shown instead of one


class Change(msgspec.Struct, frozen=True):
    """One key that changes: its values as JSON, its cost and what that means.

    >>> print(Change(("http", "port"), "8080", "9100", "restart", "taken over when the role starts again"))
    http.port: 8080 -> 9100 [restart: taken over when the role starts again]
    """

    path: Path
    before: str
    after: str
    cost: Cost
    meaning: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.before} -> {self.after} [{self.cost}: {self.meaning}]"


def changes(old: Config, new: Config) -> tuple[Change, ...]:
    """Return every key whose value differs, in the order of the tree; secrets are compared and not shown.

    >>> from agent.config.roles import LogSettings
    >>> [(change.path, change.cost) for change in changes(Config(), Config(log=LogSettings(level="debug")))]
    [(('log', 'level'), 'restart')]
    """
    return tuple(_changes(old, new, ()))


def _changes(old: Any, new: Any, path: Path) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, BaseModel) and isinstance(new, BaseModel):
        for name in type(new).model_fields:
            yield from _changes(getattr(old, name), getattr(new, name), (*path, name))
    elif isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from _changes(old.get(name, ABSENT), new.get(name, ABSENT), (*path, name))
    elif isinstance(old, tuple) and isinstance(new, tuple) and _sections(old + new):
        yield from _list_changes(old, new, path)
    else:
        found = price(path)
        yield Change(path, _shown(old), _shown(new), found.cost, found.meaning)


def _sections(items: tuple[Any, ...]) -> bool:
    return any(isinstance(item, BaseModel) for item in items)


def _list_changes(old: tuple[Any, ...], new: tuple[Any, ...], path: Path) -> Iterator[Change]:
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
