"""Equations evaluated once more and in another way: number by number, straight from what was read."""

import numpy as np
import numpy.typing as npt

from processors.models.structure.parse import Call, Chain, Expression, Name, Number

Draws = npt.NDArray[np.float64]
SIGNS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def valued(expression: Expression, draws: dict[str, Draws]) -> Draws:
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


def _called(call: Call, parts: list[Draws]) -> Draws:
    if call.function.endswith("_over"):
        over = np.maximum if call.function == "max_over" else np.minimum
        one: Draws = over.reduce(parts[0], axis=0, keepdims=True)
        return one
    left, right = parts
    found: Draws = (np.maximum if call.function == "max" else np.minimum)(left, right)
    return found
