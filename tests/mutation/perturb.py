"""What a function returns, a little wrong: numbers by a tenth or by one, of what has parts the first, an object not at all."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

DEPTH_MAX: Final = 3


def perturbed(value: Any) -> Any:
    """Return a wrong value, of the same type where it is known how to change it, otherwise None."""
    other = _changed(value, 0)
    return None if other is value else other


def _changed(value: Any, depth: int) -> Any:
    plain = next((change for kind, change in PLAIN.items() if isinstance(value, kind)), None)
    if plain is not None:
        return plain(value)
    if depth < DEPTH_MAX and isinstance(value, list | tuple | dict):
        return _parts(value, depth)
    if depth < DEPTH_MAX and (
        isinstance(value, msgspec.Struct) or (is_dataclass(value) and not isinstance(value, type))
    ):
        return _fields(value, depth)
    return value


def _array(value: Any) -> Any:
    if value.dtype == bool:
        return ~value
    return value * 1.1 + (value == 0) * 0.1 if value.dtype.kind == "f" else value


def _parts(value: Any, depth: int) -> Any:
    """Change the first part that can be changed; where none can, the last part is missing."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for place, (key, each) in enumerate(items):
        other = _changed(each, depth + 1)
        if other is not each:
            items[place] = (key, other)
            return _again(value, items)
    return _again(value, items[:-1])


def _again(value: Any, items: list[tuple[Any, Any]]) -> Any:
    if isinstance(value, dict):
        return dict(items)
    parts = [each for _, each in items]
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _fields(value: Any, depth: int) -> Any:
    struct = isinstance(value, msgspec.Struct)
    names = value.__struct_fields__ if struct else [each.name for each in fields(value) if each.init]
    for name in names:
        other = _changed(getattr(value, name), depth + 1)
        if other is not getattr(value, name):
            change = {name: other}
            return msgspec.structs.replace(value, **change) if struct else replace(value, **change)
    return value


# true is an integer for Python, so it comes first
PLAIN: Final[dict[Any, Callable[[Any], Any]]] = {
    bool | np.bool_: lambda value: not value,
    int: lambda value: value + 1,
    float | np.floating: lambda value: value * 1.1 if value else type(value)(0.1),
    str: lambda value: f"{value}x",
    np.ndarray: _array,
}
