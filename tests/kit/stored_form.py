"""The form of what is stored, as plain data: which fields of which type, and whether an agent of another form can read it.

form_of(MembersState)                # {"fields": [["fits", ..., "default"], ...]}
faults(before, form_of(MembersState))
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import inspect

from processors.contracts.events import Identity, JobCompleted
from processors.contracts.outputs import TIMES

Form = Any
_PLAIN = {
    inspect.AnyType: "any", inspect.NoneType: "none", inspect.BoolType: "true or false", inspect.IntType: "integer",
    inspect.FloatType: "number", inspect.StrType: "text", inspect.BytesType: "bytes", inspect.RawType: "json",
}  # fmt: skip
_RAW = {"event": JobCompleted, "identities": Identity}  # what the settled runs hold as JSON


def form_of(stored: Any) -> Form:
    """Return the form of a type, names of classes left out: they are not stored."""
    return _form(inspect.type_info(stored))


def form_of_rows(dtype: np.dtype[Any]) -> Form:
    """Return the form of rows of a structured type: fields, types, shapes, in their order."""
    if dtype.subdtype is not None:
        return [form_of_rows(dtype.subdtype[0]), list(dtype.subdtype[1])]
    if dtype.names is None:
        return dtype.str
    return [[name, form_of_rows(dtype[name])] for name in dtype.names]


def faults(before: Form, now: Form, path: str = "") -> Iterator[str]:
    """Say for each place why one of two agents cannot read what the other stored: a new field with a default harms neither."""
    if not (_has_fields(before) and _has_fields(now)):
        if before != now:
            yield from _apart(before, now, path)
        return
    if {**before, "fields": 0} != {**now, "fields": 0}:
        yield f"{path or '.'} is tagged or ordered in another way"
    old, new = ({name: (form, rest) for name, form, *rest in each["fields"]} for each in (before, now))
    if before["array"] and list(old) != list(new)[: len(old)]:
        yield f"{path or '.'} has no names, and its fields have another order"
        return
    for name in old.keys() - new.keys():
        yield f"{path}.{name} is gone"
    for name in new.keys() - old.keys():
        if not new[name][1]:
            yield f"{path}.{name} is new and has no default"
    for name in old.keys() & new.keys():
        if old[name][1] != new[name][1]:
            yield f"{path}.{name} has a default in one form only"
        yield from faults(old[name][0], new[name][0], f"{path}.{name}")


def _apart(before: Form, now: Form, path: str) -> Iterator[str]:
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now) and before[0] == now[0]:
        for old, new in zip(before[1:], now[1:], strict=True):
            yield from faults(old, new, path)
    elif isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        for part in before:  # what a record of the journal holds
            yield from faults(before[part], now[part], path)
    else:
        yield f"{path or '.'} is {_short(now)} in the place of {_short(before)}"


def _has_fields(form: Form) -> bool:
    return isinstance(form, dict) and "fields" in form


def _short(form: Form) -> str:
    text = str(form)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _form(kind: Any) -> Form:
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    if isinstance(kind, inspect.StructType):
        fields = [_field(field) for field in kind.fields]
        tag = {} if kind.tag is None else {"tag": [kind.tag_field, kind.tag]}
        return {"array": kind.array_like, "fields": fields, **tag}
    if isinstance(kind, inspect.DataclassType):
        return {"array": False, "fields": [_field(field) for field in kind.fields]}
    if isinstance(kind, inspect.LiteralType):
        return ["one of", *sorted(map(str, kind.values))]
    return [type(kind).__name__.removesuffix("Type").lower(), *_parts(kind)]


def _field(field: inspect.Field) -> list[Any]:
    return [field.encode_name, _form(field.type), *([] if field.required else ["default"])]


def _parts(kind: Any) -> Sequence[Form]:
    if isinstance(kind, inspect.DictType):
        return [_form(kind.key_type), _form(kind.value_type)]
    if isinstance(kind, inspect.TupleType):
        return [_form(each) for each in kind.item_types]
    if isinstance(kind, inspect.UnionType):
        return sorted((_form(each) for each in kind.types), key=str)
    if isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        return [_form(kind.item_type)]
    raise TypeError(f"{kind} is nothing that is stored.")


def filled(stored: Any) -> Any:
    """Return an example of a type as plain data, every field filled; lists have one item."""
    return _example(inspect.type_info(stored), "")


def _example(kind: Any, name: str) -> Any:
    if isinstance(kind, inspect.StructType | inspect.DataclassType):
        found = {field.encode_name: _example(field.type, field.encode_name) for field in kind.fields}
        tag = {} if isinstance(kind, inspect.DataclassType) or kind.tag is None else {kind.tag_field: kind.tag}
        return list(found.values()) if getattr(kind, "array_like", False) else {**tag, **found}
    if isinstance(kind, inspect.UnionType):
        return _example(next(each for each in kind.types if not isinstance(each, inspect.NoneType)), name)
    if isinstance(kind, inspect.DictType):
        return {"a": _example(kind.value_type, name)}
    if isinstance(kind, inspect.TupleType):
        return [_example(each, name) for each in kind.item_types]
    if isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        return [_example(kind.item_type, name)]
    return (
        min(kind.values, key=str) if isinstance(kind, inspect.LiteralType) else _plain_example(_PLAIN[type(kind)], name)
    )


def _plain_example(kind: str, name: str) -> Any:
    if kind == "json":
        return filled(_RAW[name])
    if kind == "text":
        return "2026-11-20T10:00:00Z" if name in TIMES else name
    return {"integer": 3, "number": 1.5, "true or false": True, "bytes": "", "none": None, "any": None}[kind]
