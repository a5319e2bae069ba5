"""What is wrong with the equations of applications under load: each with its place in the equation."""

import re
from collections.abc import Iterator

from agent.config.problems import Path
from agent.contracts.under_load import StructuralModel
from processors.models.structure.parse import parse
from processors.models.structure.syntax import RESERVED, EquationError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def model_faults(model: StructuralModel) -> Iterator[tuple[Path, str]]:
    """Yield the key of a model that is at fault and a sentence.

    >>> list(model_faults(StructuralModel(application="sor", equation="2 * cpu_availabel")))
    [(('equation',), 'line 1, column 5: cpu_availabel has no value here; did you mean cpu_available?')]
    """
    try:
        re.compile(model.application)
    except re.error as error:
        yield ("application",), f"{model.application!r} is no regular expression: {error}."
    named = list(_name_faults(model))
    yield from named
    if named:
        return  # what the equation says of these names would only follow from it
    try:
        used = parse(model.equation, (*model.parameters, *model.resources)).names
    except EquationError as error:
        yield ("equation",), str(error)
        return
    for name in model.parameters:
        if name not in used:
            yield ("parameters", name), "is not in the equation."


def _name_faults(model: StructuralModel) -> Iterator[tuple[Path, str]]:
    places: list[tuple[Path, str]] = [(("parameters", name), name) for name in model.parameters]
    places += [(("resources", index), name) for index, name in enumerate(model.resources)]
    seen: set[str] = set()
    for path, name in places:
        if not _NAME.fullmatch(name):
            yield path, f"{name!r} is no name for an equation: letters, digits and underscores, no digit first."
        elif name in (*RESERVED, "T"):
            yield path, f"{name} means something else in equations; choose another name."
        elif name in seen:
            yield path, f"{name} is there twice."
        seen.add(name)
