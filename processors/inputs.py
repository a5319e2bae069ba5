"""The inputs of one application that were run: how large each is, and its run time at a few sizes in nodes.

From these an input that was never run is predicted. A curve with three sizes and more tells up to four of them, the
smallest and the largest among them, and one beyond, as they were published; a shorter one tells what was run.
"""

import math
import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from agent.contracts.names import ApplicationKey, escaped
from processors.models.curve import BAND_DEVIATIONS
from processors.models.input_size.curves import Input, Knot
from processors.models.input_size.forecast import ln_sizes
from processors.run_time import RunTime

INPUTS_MAX: Final = 24  # of an application in one unit; a new one takes the place of the one most like it
KNOTS_MAX: Final = 5
OWN_SIZES_MAX: Final = 2  # a curve of more sizes stands on its own
AHEAD: Final = 2.0  # times the largest size
RUN_DEVIATION: Final = 0.03  # of ln t, where few runs are all there is
DEVIATION_MIN: Final = 0.02
_SEPARATORS = re.compile(r"[,;\s]+")


class StoredKnot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A point of a curve: size, run time in s, and standard deviation of ln t in hundredths."""

    n: float
    run_time_s: float
    percent: int


class InputRecord(msgspec.Struct, frozen=True, array_like=True):
    """One input: system and name as in the application's id, its sizes (0 where one is not known), knots by rising n.

    `n_max` is the largest size that was run.
    """

    key: str
    sizes: tuple[float, ...]
    n_max: float
    knots: tuple[StoredKnot, ...]


class InputFact(NamedTuple):
    """What is known of one input now, and the names of its sizes."""

    names: tuple[str, ...]
    record: InputRecord


class InputsState(msgspec.Struct, omit_defaults=True):
    """Stored form: names of the sizes, and the records, the newest last."""

    names: tuple[str, ...] = ()
    inputs: list[InputRecord] = []


class Inputs:
    """The inputs of one application in one unit, on all systems; at most INPUTS_MAX.

    >>> inputs = Inputs.build()
    >>> inputs.learn(InputFact(("atoms",), InputRecord("exa/a", (32000.0,), 8.0, (StoredKnot(8.0, 60.0, 3),))))
    >>> [record.key for record in inputs.records]
    ['exa/a']
    """

    name: ClassVar[str] = "inputs"
    version: ClassVar[int] = 1

    def __init__(self, state: InputsState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: InputsState | None = None) -> "Inputs":
        """Return the inputs of a stored state, or none."""
        return cls(msgspec.structs.replace(state) if state else InputsState())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sizes."""
        return self._state.names

    @property
    def records(self) -> tuple[InputRecord, ...]:
        """The inputs, the newest last."""
        return tuple(self._state.inputs)

    def of(self, key: str) -> InputRecord | None:
        """Return one input, None where it is not kept."""
        return next((record for record in self._state.inputs if record.key == key), None)

    def score(self, fact: InputFact) -> bool:
        """Tell whether it is news."""
        return fact.names != self._state.names or fact.record not in self._state.inputs

    def overflows(self, fact: InputFact) -> bool:
        """Tell whether another input would have to go for this one."""
        return len(self._others(fact)) >= INPUTS_MAX

    def learn(self, fact: InputFact) -> None:
        """Take an input in. Names may be added at the end; with any other ones than before all begins anew."""
        if not self.score(fact):
            return
        others = self._others(fact)
        if self.overflows(fact):
            others.remove(_most_like(fact.record, others, fact.names))
        self._state.names, self._state.inputs = fact.names, [*others, fact.record]

    def forget(self, key: str) -> bool:
        """Forget an input; tell whether any is left."""
        self._state.inputs = [record for record in self._state.inputs if record.key != key]
        return bool(self._state.inputs)

    def _others(self, fact: InputFact) -> list[InputRecord]:
        """Return the other inputs with 0 for sizes whose names are new."""
        had = len(self._state.names)
        if fact.names[:had] != self._state.names:
            return []
        unknown = (0.0,) * (len(fact.names) - had)
        kept = (record for record in self._state.inputs if record.key != fact.record.key)
        return [msgspec.structs.replace(record, sizes=record.sizes + unknown) for record in kept]

    def due_ms(self) -> int | None:
        """Return None: inputs change with their runs."""
        return None

    def snapshot(self) -> InputsState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state, inputs=list(self._state.inputs))


def input_key(key: ApplicationKey) -> str:
    """Return the key of an input among those of its application.

    >>> input_key(ApplicationKey("lmp", "exa", "atoms=32000", "nodes"))
    'exa/atoms=32000'
    """
    return f"{escaped(key.system)}/{escaped(key.input)}"


def place(key: str, names: Sequence[str]) -> str:
    """Return what two inputs have in common that differ in their sizes alone: the system, and the rest of the name.

    >>> place("exa/solver=cg,atoms=32000", ["atoms"])
    'exa/solver=cg'
    """
    system, _, name = key.partition("/")
    rest = (part for part in _SEPARATORS.split(name) if part and part.partition("=")[0] not in names)
    return f"{system}/{','.join(rest)}"


def as_input(record: InputRecord, names: Sequence[str]) -> Input:
    """Return an input as the regression takes it; inputs of which other sizes are known are of another place.

    >>> as_input(InputRecord("exa/a", (1.0, 0.0), 8.0, (StoredKnot(8.0, 1.0, 3),)), ["atoms", "steps"])
    Input(place='exa/a:atoms', ln_sizes=(0.0, 0.0), knots=(Knot(n=8.0, ln_run_time=0.0, deviation=0.03),))
    """
    known = [name for name, size in zip(names, record.sizes, strict=True) if size]
    knots = tuple(Knot(knot.n, math.log(knot.run_time_s), knot.percent / 100) for knot in record.knots)
    where = f"{place(record.key, names)}:{','.join(known)}"
    return Input(where, ln_sizes([size or 1.0 for size in record.sizes]), knots)


def summarised(key: str, sizes: tuple[float, ...], model: RunTime) -> InputRecord:
    """Return what is told of an input to the others: its curve as published, or its runs where those are few.

    >>> from processors.facts import RunFact
    >>> from agent.contracts.settings import RunTimeSettings
    >>> model = RunTime.build(RunTimeSettings())
    >>> model.learn(RunFact("r", n=4, run_time_s=60.0, start_ms=0, end_ms=1, seen_ms=1))
    >>> summarised("exa/a", (32000.0,), model).knots
    (StoredKnot(n=4.0, run_time_s=60.0, percent=3),)
    """
    run = model.sizes()
    curve = model.published
    if curve is None or len(run) <= OWN_SIZES_MAX:
        medians = sorted(model.medians_s().items())
        kept = [medians[i] for i in spread(len(medians), KNOTS_MAX)]
        return InputRecord(key, sizes, run[-1], tuple(_stored(n, time_s, RUN_DEVIATION) for n, time_s in kept))
    wanted = [*(run[i] for i in spread(len(run), KNOTS_MAX - 1)), AHEAD * run[-1]]
    points = [point for n in wanted if (point := curve.at(n)) is not None]
    knots = [_stored(p.n, p.run_time_s, math.log(p.high_s / p.low_s) / 2 / BAND_DEVIATIONS) for p in points]
    return InputRecord(key, sizes, run[-1], tuple(knots))


def _stored(n: float, run_time_s: float, deviation: float) -> StoredKnot:
    return StoredKnot(n, float(f"{run_time_s:.5g}"), round(100 * min(max(deviation, DEVIATION_MIN), 10.0)))


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` places of `count`, the first and the last among them.

    >>> spread(9, 4)
    [0, 3, 5, 8]
    """
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _most_like(fresh: InputRecord, others: Sequence[InputRecord], names: Sequence[str]) -> InputRecord:
    """Return the input of the same place with the nearest sizes; the oldest where there is none."""
    one = as_input(fresh, names)
    near = [(record, other) for record in others if (other := as_input(record, names)).place == one.place]
    if not near:
        return others[0]
    return min(near, key=lambda pair: math.dist(pair[1].ln_sizes, one.ln_sizes))[0]
