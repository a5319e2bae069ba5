"""Equations evaluated once more and in another way: number by number, straight from what was read."""

import numpy as np

from processors.models.structure.parse import Call, Chain, Expression, Name, Number

SIGNS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def valued(expression: Expression, draws: dict[str, np.ndarray]) -> np.ndarray:
    """Return the draws (1, count) or (hosts, count) of an expression from those of its names."""
    if isinstance(expression, Number):
        return np.full((1, 1), expression.value)
    if isinstance(expression, Name):
        return draws[expression.text]
    if isinstance(expression, Chain):
        total = valued(expression.parts[0][1], draws)
        for sign, part in expression.parts[1:]:
            total = SIGNS[sign](total, valued(part, draws))
        return total
    return _called(expression, [valued(part, draws) for part in expression.arguments])


def _called(call: Call, parts: list[np.ndarray]) -> np.ndarray:
    if call.function.endswith("_over"):
        return (np.max if call.function == "max_over" else np.min)(parts[0], axis=0, keepdims=True)
    return (np.maximum if call.function == "max" else np.minimum)(*parts)
