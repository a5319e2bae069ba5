"""Every key of the configuration with its type, default and meaning, read from the tree itself."""

import functools
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agent.config.problems import Path
from agent.config.tree import Config

_PLAIN: Final = {str: "text", int: "whole number", float: "number", bool: "true or false", SecretStr: "secret"}
_COMPOSED: Final[dict[Any, Callable[[list[str]], str]]] = {
    Annotated: lambda texts: texts[0],
    Literal: " or ".join,
    Union: lambda texts: f"{' or '.join(texts)} or null",
    types.UnionType: lambda texts: f"{' or '.join(texts)} or null",
    dict: lambda texts: f"{texts[1]} by name",
    tuple: lambda texts: f"list of {texts[0]}",
}


class Key(msgspec.Struct, frozen=True):
    """One key: where, of what type, within which limits, its default (unset: it has to be given) and its meaning.

    In the path `*` stands for a name that the operator chooses and `[]` for each item of a list.
    """

    path: tuple[str, ...]
    type: str
    limits: str
    default: Any
    required: bool
    secret: bool
    section: bool
    meaning: str


@functools.cache
def keys(model: type[BaseModel] = Config) -> tuple[Key, ...]:
    """Return every key of a model, sections before their keys, in the order of the tree.

    >>> [key.path for key in keys() if key.path[0] == "http"]  # doctest: +ELLIPSIS
    [('http',), ('http', 'host'), ('http', 'port'), ('http', 'access'), ...]
    """
    return tuple(_walk(model, (), _example(model)))


@functools.cache
def secret_paths() -> frozenset[tuple[str, ...]]:
    """Return the paths of keys whose value must never be shown.

    >>> ("kafka", "security", "password") in secret_paths()
    True
    """
    return frozenset(key.path for key in keys() if key.secret)


def model_at(path: Path) -> type[BaseModel] | None:
    """Return the model that a path leads to, None where it leads to a value.

    >>> model_at(("identify", "rules", 0)).__name__
    'Rule'
    """
    annotation: Any = Config
    for part in path:
        model, inner = section_model(annotation), _inner(annotation)
        if model is not None and part in model.model_fields:
            annotation = model.model_fields[str(part)].annotation
        elif inner is not None:
            annotation = inner
        else:
            return None
    return section_model(annotation)


def section_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a section, None for any other type.

    >>> section_model(Config).__name__
    'Config'
    """
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def items_model(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return the model of a list's or a name table's items, None for plain values; and whether it is either.

    >>> items_model(tuple[int, ...])
    (None, True)
    """
    inner = _inner(annotation)
    return section_model(inner), inner is not None


def _walk(model: type[BaseModel], above: tuple[str, ...], example: BaseModel | None) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        path, annotation = (*above, name), field.annotation
        section = section_model(annotation)
        default = None if example is None else getattr(example, name)
        yield _key(path, field, default, section=section is not None)
        inner = items_model(annotation)[0]
        if section is not None:
            yield from _walk(section, path, default if isinstance(default, BaseModel) else None)
        elif inner is not None:
            yield from _walk(inner, (*path, "*" if get_origin(annotation) is dict else "[]"), _example(inner))


def _key(path: tuple[str, ...], field: FieldInfo, default: Any, *, section: bool) -> Key:
    return Key(
        path=path,
        type=_type_text(field.annotation),
        limits=_limits(field),
        default=field.get_default() if default is None and field.default is not PydanticUndefined else default,
        required=field.is_required(),
        secret=SecretStr in (field.annotation, *get_args(field.annotation)),
        section=section,
        meaning=field.description or _first_sentence(section_model(field.annotation)),
    )


def _example(model: type[BaseModel]) -> BaseModel | None:
    """Return the model with all defaults, None where a key has to be given."""
    return None if any(field.is_required() for field in model.model_fields.values()) else model()


def _inner(annotation: Any) -> Any:
    """Return the type of a list's items or of a dictionary's values, None for any other type."""
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    return arguments[0] if get_origin(annotation) is tuple else None


def _first_sentence(model: type[BaseModel] | None) -> str:
    text = (model.__doc__ or "") if model else ""
    return text.strip().partition("\n")[0].rstrip(".")


def _type_text(annotation: Any) -> str:
    if section_model(annotation):
        return "section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _PLAIN[annotation]
    named = arguments[:1] if origin in (Annotated, tuple) else arguments  # the rest is metadata, or an ellipsis
    texts = [str(part) if origin is Literal else _type_text(part) for part in named if part is not type(None)]
    return _COMPOSED[origin](texts)


def _limits(field: FieldInfo) -> str:
    words = {Ge: ("at least", "ge"), Gt: ("more than", "gt"), Le: ("at most", "le"), Lt: ("less than", "lt")}
    parts = []
    for limit in field.metadata:
        for kind, (text, attribute) in words.items():
            if isinstance(limit, kind):
                parts.append(f"{text} {getattr(limit, attribute):,}".replace(",", " "))
    return ", ".join(parts)
