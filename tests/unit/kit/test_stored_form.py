"""A form that another agent cannot read is noticed, and one that only grew is not."""

from typing import Any

import msgspec
import numpy as np
import pytest

from tests.kit.stored_form import faults, filled, form_of, form_of_rows


class Part(msgspec.Struct, array_like=True):
    n: float
    seen: int = 0


class State(msgspec.Struct):
    name: str
    parts: list[Part] = []
    known: dict[str, tuple[float, ...]] = {}


class Grown(msgspec.Struct, array_like=True):
    n: float
    seen: int = 0
    late: int = 0


class Turned(msgspec.Struct, array_like=True):
    seen: int = 0
    n: float = 0.0


def with_parts(part: type[msgspec.Struct], name: str = "name", **more: type) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (name, str),
        ("parts", list[part], []),  # type: ignore[valid-type]  # the part is given
        ("known", dict[str, tuple[float, ...]], {}),
        *more.items(),
    ]
    return msgspec.defstruct("Other", fields, kw_only=True)


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        (with_parts(Part), []),
        (with_parts(Grown), []),
        (with_parts(Turned), [".parts has no names, and its fields have another order"]),
        (with_parts(Part, "label"), [".name is gone", ".label is new and has no default"]),
        (with_parts(Part, since_ms=int), [".since_ms is new and has no default"]),
    ],
    ids=["the-same", "a-field-more-at-the-end", "another-order", "another-name", "a-field-without-default"],
)
def test_what_older_and_newer_agents_could_not_read_is_named(other: type[msgspec.Struct], fault: list[str]) -> None:
    assert list(faults(form_of(State), form_of(other))) == fault


def test_another_type_is_named_with_its_place() -> None:
    other = msgspec.defstruct("Other", [("n", int), ("seen", int, 0)], array_like=True)
    assert list(faults(form_of(Part), form_of(other))) == [".n is integer in the place of number"]


def test_rows_differ_by_names_types_and_order() -> None:
    forms = [
        form_of_rows(np.dtype(fields))
        for fields in ([("a", "<i4"), ("b", "<f8", (2,))], [("b", "<f8", (2,)), ("a", "<i4")])
    ]
    assert forms[0] == [["a", "<i4"], ["b", ["<f8", [2]]]]
    assert list(faults(*forms)) != []


def test_an_example_has_every_field() -> None:
    example = filled(State)
    assert example == {"name": "name", "parts": [[1.5, 3]], "known": {"a": [1.5]}}
    assert msgspec.convert(example, State).parts == [Part(1.5, 3)]
