"""Hostile records: one value of a real one replaced, or some of its bytes."""

import json
import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

DEEP: Final = 3_000
ALLOWED: Final = 3_000
MANY: Final = 12_000
HOSTILE: Final[tuple[bytes, ...]] = tuple(text.encode() if isinstance(text, str) else text for text in (
    "null", "true", "false", "0", "-0", "1", "-1", "0.5", "-1.5", "1e-400", "5e-324", "1e308", "-1e308", "1e400", "-1e400",
    "2147483648", "4294967294", "9007199254740993", "9223372036854775808", "18446744073709551614", "18446744073709551616",
    "-9223372036854775809", "1" + "0" * 30, "1" + "0" * 400, "-1" + "0" * 400, "9" * 5_000, "0." + "9" * 400, "1e99999999",
    "NaN", "Infinity", "-Infinity", '"NaN"', '"nan"', '"inf"', '"-1e400"', '"1e400"', f'"{"9" * 400}"', '""', '" "', '"0"',
    '"-1"', '"None"', '"Unknown"', '"UNLIMITED"', '"1:0"', '"0x10"', '"1_000"', '"٣"', '"²"', '"0001-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59-23:59"', '"2026-11-20T10:00:60Z"', '"2026-02-30T10:00:00Z"', '"2026-11-20T10:00:00.123456789012345Z"',
    '"nid["', '"nid[1-"', '"nid[9-1]"', '"nid[1-99999999]"', '"nid[1-3],[2]"', '"a[1-2][3-4]"', '"CANCELLED by 0"', '"RUNNING"',
    '"cpu=1e400"', '"cpu=-1,node="', '"gres/gpu:=1"', '"1-2-3:4"', '"99999999-00:00:00"', f'"{"a" * 300}"', f'"{"é" * 70_000}"',
    f'"{"a/" * 2_000}"', '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', b'"\xed\xa0\x80"', b'"\xff"', b'"\x01"', '"\\u001b[2J"',
    '"\\u2028"', '"\\u202e"', '"\\ufeff"', '"😀"', '"../../etc/passwd"', '"<script>"', '"%s%n{0}${x}"', '"a|b^c;d,e=f g"', "[]",
    "{}", "[[]]", '[""]', "[null]", "[1,[2,[3]]]", '{"a":{}}', '{"a":1,"a":2}', '{"":null}', "[" * 100 + "]" * 100,
    "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" + "0," * MANY + "0]", "[" + "{}," * MANY + "{}]",
    "[" + "{}," * ALLOWED + "{}]",
    "{" + ",".join(f'"k{number}":{number}' for number in range(2_000)) + "}", "", "{", "]",
))  # fmt: skip
TOKEN: Final = re.compile(rb"[^\s|^;,=\[\]]+")  # in records that are no JSON


class Value(NamedTuple):
    """Where a value of a document begins and ends in its text."""

    path: str
    begin: int
    end: int


class Document(NamedTuple):
    """A record as compact text, with all its values, those that hold others too."""

    text: bytes
    values: tuple[Value, ...]
    names: tuple[Value, ...]


class Mutant(NamedTuple):
    """A hostile record, and what was done to a real one."""

    value: bytes
    how: str


@cache
def document(record: bytes) -> Document | None:
    """Return a record of JSON with its values; None where it is none.

    >>> found = document(b'{"a": [1]}')
    >>> found.text, [(each.path, found.text[each.begin:each.end]) for each in found.values]
    (b'{"a":[1]}', [('.a[0]', b'1'), ('.a', b'[1]'), ('', b'{"a":[1]}')])
    """
    try:
        plain = json.loads(record)
    except ValueError:
        return None
    if not isinstance(plain, dict | list):
        return None
    text, values, names = bytearray(), list[Value](), list[Value]()
    _write(plain, "", text, values, names)
    return Document(bytes(text), tuple(values), tuple(names))


def _write(plain: Any, path: str, text: bytearray, values: list[Value], names: list[Value]) -> None:
    begin = len(text)
    if isinstance(plain, dict):
        for number, (name, inner) in enumerate(plain.items()):
            text += b"," if number else b"{"
            names.append(Value(f"{path}.{name}", len(text), len(text) + len(_json(name))))
            text += _json(name) + b":"
            _write(inner, f"{path}.{name}", text, values, names)
        text += b"}" if plain else b"{}"
    elif isinstance(plain, list):
        for number, inner in enumerate(plain):
            text += b"," if number else b"["
            _write(inner, f"{path}[{number}]", text, values, names)
        text += b"]" if plain else b"[]"
    else:
        text += _json(plain)
    values.append(Value(path, begin, len(text)))


def _json(plain: Any) -> bytes:
    return json.dumps(plain, ensure_ascii=False).encode("utf-8", "surrogatepass")


def mutant(record: bytes, others: Sequence[bytes], dice: random.Random) -> Mutant:
    """Return a hostile record made of a real one, by chance: as it is, a value replaced, or bytes changed."""
    draw = dice.random()
    if draw < 0.03:
        return Mutant(record, "as it is")
    if draw < 0.65:
        return replaced(record, dice)
    return changed(record, others, dice)


def replaced(record: bytes, dice: random.Random) -> Mutant:
    """Return a record with one value replaced, left out or named otherwise."""
    found = document(record)
    hostile = dice.choice(HOSTILE)
    if found is None:
        token = dice.choice(list(TOKEN.finditer(record)) or list(re.finditer(rb"\A", record)))
        return Mutant(_put(record, *token.span(), hostile.strip(b'"')), f"{_shown(token.group())} <- {_shown(hostile)}")
    if found.names and dice.random() < 0.1:
        name = dice.choice(found.names)
        by = (
            hostile
            if hostile.startswith(b'"')
            else dice.choice([found.text[one.begin : one.end] for one in found.names])
        )
        return Mutant(_put(found.text, name.begin, name.end, by), f"the name {name.path} <- {_shown(by)}")
    value = dice.choice(found.values)
    return Mutant(_put(found.text, value.begin, value.end, hostile), f"{value.path} <- {_shown(hostile)}")


def changed(record: bytes, others: Sequence[bytes], dice: random.Random) -> Mutant:
    """Return a record some of whose bytes were flipped, cut, inserted, or are those of another one."""
    kind = dice.choice(("flip", "cut", "insert", "splice", "end"))
    text = bytearray(record)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randrange(len(text) + 1)
        if kind == "flip" and at < len(text):
            text[at] ^= 1 << dice.randrange(8)
        elif kind == "cut":
            del text[at : at + dice.choice((1, 2, 8, 64))]
        elif kind == "insert":
            text[at:at] = dice.randbytes(dice.choice((1, 2, 8)))
        elif kind == "splice":
            other = dice.choice(others)
            begin = dice.randrange(len(other) + 1)
            text[at : at + dice.randrange(40)] = other[begin : begin + dice.randrange(40)]
        elif kind == "end":
            del text[at:]
    return Mutant(bytes(text), kind)


def _put(text: bytes, begin: int, end: int, by: bytes) -> bytes:
    return text[:begin] + by + text[end:]


def _shown(text: bytes) -> str:
    return ascii(text[:40].decode(errors="replace"))
