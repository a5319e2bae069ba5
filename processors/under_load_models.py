"""Structural models of the configuration: which equation is an application's own, and where its values come from."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from agent.contracts.hosts import Windows
from agent.contracts.under_load import StructuralModel, UnderLoadSettings
from processors.models.structure.inputs import Alike, Value
from processors.models.structure.parse import parse
from processors.models.structure.syntax import DEDICATED, HOSTS, Model
from processors.under_load_hosts import Load, Place, TooLittleError, first_window, load, pooled

MASTER: Final = "master_"  # how names begin that the first host of a job measures, for all of its hosts
KEPT_MAX: Final = 10_000


class Structure(NamedTuple):
    """An equation that was read, and the settings that it came from."""

    model: Model
    settings: StructuralModel

    @property
    def needs_curve(self) -> bool:
        """Whether the equation contains T(n)."""
        return DEDICATED in self.model.names


class Structures:
    """The structural models, in their order; the first whose pattern is found is an application's own.

    >>> sor = StructuralModel(application="^sor", equation="60 / cpu_available")
    >>> structures = Structures(UnderLoadSettings(models=(sor,)))
    >>> structures.of("sor-2d").settings is sor, structures.of("gromacs")
    (True, None)
    """

    def __init__(self, settings: UnderLoadSettings) -> None:
        self._known = [(re.compile(model.application), model) for model in settings.models]
        self._read: dict[int, Structure] = {}
        self._index = lru_cache(KEPT_MAX)(self._found)

    def of(self, application: str) -> Structure | None:
        """Return the model of an application; None where it has none. EquationError for one that can not be read."""
        index = self._index(application) if self._known else None
        if index is None:
            return None
        if index not in self._read:
            settings = self._known[index][1]
            model = parse(settings.equation, (*settings.parameters, *settings.resources))
            self._read[index] = Structure(model, settings)
        return self._read[index]

    def _found(self, application: str) -> int | None:
        found = (index for index, (pattern, _) in enumerate(self._known) if pattern.search(application))
        return next(found, None)


class Measured(NamedTuple):
    """The values of an equation, and what the windows were like that they came from, by resource."""

    values: dict[str, Value]
    loads: dict[str, Load]


def measured(structure: Structure, windows: Windows, place: Place, n: float, until_ms: int) -> Measured:
    """Return the values of an equation but T(n): parameters, size, windows. TooLittleError where windows are missing.

    >>> from agent.contracts.hosts import NoWindows
    >>> from processors.under_load_hosts import of_hosts
    >>> sor = StructuralModel(application="^sor", equation="work_s * hosts / n", parameters={"work_s": 60.0})
    >>> structure = Structures(UnderLoadSettings(models=(sor,))).of("sor")
    >>> measured(structure, NoWindows(), of_hosts("exa", ["nid[1-4]"]), 4.0, 0).values
    {'n': 4.0, 'hosts': 4, 'work_s': 60.0}
    """
    settings = structure.settings
    values: dict[str, Value] = {"n": n, HOSTS: place.hosts, **settings.parameters}
    loads = {}
    for resource in _resources(structure):
        values[resource], found = _value(windows, place, resource, until_ms)
        if found is not None:
            loads[resource] = found
    return Measured(values, loads)


def _resources(structure: Structure) -> Iterator[str]:
    return (name for name in structure.settings.resources if name in structure.model.names)


def _value(windows: Windows, place: Place, resource: str, until_ms: int) -> tuple[Value, Load | None]:
    if not resource.startswith(MASTER):
        found = load(windows, place, resource, until_ms)
        return (found.rows if place.each else Alike(found.rows.host(0))), found
    plain = resource.removeprefix(MASTER)
    if place.first is None:  # any host of the partition may come to lead the job
        found = load(windows, place, plain, until_ms)
        return pooled(found), found
    for name in (resource, plain):
        window = first_window(windows, place, name, until_ms)
        if window is not None:
            return window, None
    raise TooLittleError(f"{place.first}, the first host, has no window of {plain}.")
