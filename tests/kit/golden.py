"""What a golden folder expects, as a text whose changes read well, and how what came out differs from it."""

import json
import math
from collections.abc import Iterator
from typing import Any

# The last digit of a number depends on the processor: vector units add up in another order. Messages hold six digits of
# most numbers, and where the seventh is about a half, the sixth falls to either side.
RELATIVE_TOLERANCE = 1e-5
LINE_MAX = 140


def text(messages: list[Any]) -> str:
    """Return messages as a JSON list, keys sorted: a block each, in which what is short or has no parts is one line."""
    return "[\n" + ",\n\n".join(_block(message, 0) for message in messages) + "\n]\n"


def differences(found: Any, expected: Any, path: str = "") -> Iterator[str]:
    """Say for each place where a value is not as expected what stands there; a float may differ in its last digits."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted(found.keys() | expected.keys()):
            yield from _at(key, found, expected, f"{path}.{key}")
    elif isinstance(found, list) and isinstance(expected, list):
        left, right = dict(enumerate(found)), dict(enumerate(expected))
        for i in range(max(len(found), len(expected))):
            yield from _at(i, left, right, f"{path}[{i}]")
    elif not same(found, expected):
        yield f"{path}: {_short(found)} in the place of {_short(expected)}"


def same(found: Any, expected: Any) -> bool:
    """Return whether two values without parts are the same; true is not 1, and a number with a fraction may be nearly so."""
    numbers = [type(each) for each in (found, expected)]
    if float in numbers and set(numbers) <= {int, float}:
        return math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE)
    return numbers[0] is numbers[1] and found == expected


def _at(key: Any, found: dict[Any, Any], expected: dict[Any, Any], path: str) -> Iterator[str]:
    if key not in expected:
        yield f"{path}: {_short(found[key])}, which is not expected"
    elif key not in found:
        yield f"{path}: missing, {_short(expected[key])} is expected"
    else:
        yield from differences(found[key], expected[key], path)


def _block(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    parts = list(value.values()) if isinstance(value, dict) else value
    whole = not isinstance(value, dict | list) or not any(isinstance(each, dict | list) for each in parts)
    if whole or (depth and len(line) <= LINE_MAX):
        return line
    inner = "  " * (depth + 1)
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {_block(value[key], depth + 1)}" for key in sorted(value)]
    else:
        lines = [_block(each, depth + 1) for each in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return opened + "\n" + ",\n".join(inner + line for line in lines) + "\n" + "  " * depth + closed


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return shown if len(shown) <= 200 else f"{shown[:200]}..."
