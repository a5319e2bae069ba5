"""The inputs of one application that were run: how large each is, and its run time at a few sizes in nodes.

From these an input that was never run is predicted. A curve with three sizes and more tells up to four of them, the
smallest and the largest among them, and one beyond, as they were published; a shorter one tells what was run.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol
from urllib.parse import unquote

import msgspec
import numpy as np

from processors.contracts.names import ApplicationKey, escaped
from processors.contracts.outputs import Reliability
from processors.facts import PublishedCurve
from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.input_size import ExpectedLnTime, Input, Knot, expected, ln_sizes, pooled
from processors.models.numerics.arrays import Floats, Interval
from processors.store import Untimed

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


class ApplicationInputs(Untimed):
    """The inputs of one application in one unit, on all systems; at most INPUTS_MAX."""

    name: ClassVar[str] = "inputs"
    version: ClassVar[int] = 1

    def __init__(self, state: InputsState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: InputsState | None = None) -> "ApplicationInputs":
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
        """Return whether it is news."""
        return fact.names != self._state.names or fact.record not in self._state.inputs

    def overflows(self, fact: InputFact) -> bool:
        """Return whether another input would have to go for this one."""
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
        retained = (record for record in self._state.inputs if record.key != fact.record.key)
        return [msgspec.structs.replace(record, sizes=record.sizes + unknown) for record in retained]

    def snapshot(self) -> InputsState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state, inputs=list(self._state.inputs))


def input_key(key: ApplicationKey) -> str:
    """Return the key of an input among those of its application."""
    return f"{escaped(key.system)}/{escaped(key.input)}"


def place(key: str, names: Sequence[str]) -> str:
    """Return what two inputs have in common that differ in their sizes alone: the system, and the rest of the name."""
    system, _, name = key.partition("/")
    rest = (part for part in _SEPARATORS.split(name) if part and part.partition("=")[0] not in names)
    return f"{system}/{','.join(rest)}"


def as_input(record: InputRecord, names: Sequence[str]) -> Input:
    """Return an input as the regression takes it; inputs of which other sizes are known are of another place."""
    known = [name for name, size in zip(names, record.sizes, strict=True) if size]
    knots = tuple(Knot(knot.n, math.log(knot.run_time_s), knot.percent / 100) for knot in record.knots)
    where = f"{place(record.key, names)}:{','.join(known)}"
    return Input(where, ln_sizes([size or 1.0 for size in record.sizes]), knots)


class OwnCurve(Protocol):
    """What an input's own runs say: the sizes that were run, their medians in seconds, and the published curve."""

    @property
    def published(self) -> PublishedCurve | None: ...
    def sizes(self) -> tuple[float, ...]: ...
    def medians_s(self) -> Mapping[float, float]: ...


def summarised(key: str, sizes: tuple[float, ...], model: OwnCurve) -> InputRecord:
    """Summarise an input for the others: its curve as published, or the medians of its runs by size where those are few."""
    run = model.sizes()
    curve = model.published
    if curve is None or len(run) <= OWN_SIZES_MAX:
        medians = sorted(model.medians_s().items())
        retained = [medians[i] for i in spread(len(medians), KNOTS_MAX)]
        return InputRecord(key, sizes, run[-1], tuple(_stored(n, time_s, RUN_DEVIATION) for n, time_s in retained))
    wanted = [*(run[i] for i in spread(len(run), KNOTS_MAX - 1)), AHEAD * run[-1]]
    points = [point for n in wanted if (point := curve.at(n)) is not None]
    knots = [_stored(p.n, p.run_time_s, math.log(p.high_s / p.low_s) / 2 / BAND_DEVIATIONS) for p in points]
    return InputRecord(key, sizes, run[-1], tuple(knots))


def _stored(n: float, run_time_s: float, deviation: float) -> StoredKnot:
    return StoredKnot(n, float(f"{run_time_s:.5g}"), round(100 * min(max(deviation, DEVIATION_MIN), 10.0)))


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` places of `count`, the first and the last among them."""
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


NAME: Final = "input_size"  # of the regression, where messages name models
UNSEEN: Final = "unseen_input"
INPUTS_MIN: Final = 3  # from so many on the exponents are more than a guess
NAMED_MAX: Final = 3
LN_T_MAX: Final = 300.0
Sizes = tuple[tuple[str, float], ...]


class TransferPrediction(NamedTuple):
    """The other inputs of an application, and the one in question: place, ln sizes, and knots of its own runs.

    `names` are those of the others on the same system, the nearest first, `n_max` the largest size that one of them ran.
    """

    inputs: tuple[Input, ...]
    place: str
    ln_sizes: tuple[float, ...]
    own: tuple[Knot, ...]
    names: tuple[str, ...]
    n_max: float

    def band(self, n: Sequence[float]) -> Interval:
        """Return the expected run times at sizes of positive numbers, (m,)."""
        return _seconds(self._expected(n, self.own))

    def pooled(self, law: Interval, n: Floats, observed: Sequence[Knot]) -> tuple[Interval, Floats]:
        """Return what the others and the input's own law say together, and the share of the others, (m,)."""
        own = ExpectedLnTime(np.log(law.middle), np.log(law.high / law.low) / 2)
        both, share = pooled(self._expected(n, observed), own, n, [knot.n for knot in observed])
        return _seconds(both), share

    def reliability(self) -> Reliability:
        """Return what to think of a prediction that rests on the others alone."""
        verdict = "uncertain" if len(self.names) >= INPUTS_MIN else "insufficient"
        known = f"This input has no curve yet: the prediction comes from {self.shown}."
        return Reliability(verdict, (UNSEEN,), (known,))

    @property
    def shown(self) -> str:
        """The others as a person reads them."""
        some = ", ".join(name or "(none)" for name in self.names[:NAMED_MAX])
        more = len(self.names) - NAMED_MAX
        return f"the input{'s' if len(self.names) > 1 else ''} {some}" + (f" and {more} more" if more > 0 else "")

    def _expected(self, n: Sequence[float] | Floats, own: Sequence[Knot]) -> ExpectedLnTime:
        return expected(self.inputs, self.place, self.ln_sizes, n, own)


def transfer_prediction(known: ApplicationInputs, key: ApplicationKey, sizes: Sizes) -> TransferPrediction | None:
    """Return the other inputs for one with these sizes; None where none was run on its system, or its sizes are unknown."""
    given, names, own_key = dict(sizes), known.names, input_key(key)
    if not given or not set(given) <= set(names):
        return None
    requested = as_input(InputRecord(own_key, tuple(given.get(name, 0.0) for name in names), 0.0, ()), names)
    others = [each for each in _comparable(known, requested) if each.record.key != own_key]
    system = own_key.partition("/")[0] + "/"
    here = [each for each in others if each.record.key.startswith(system)]
    if not here:
        return None
    here.sort(key=lambda each: (each.read.place != requested.place, math.dist(each.read.ln_sizes, requested.ln_sizes)))
    own = known.of(own_key)
    return TransferPrediction(
        tuple(each.read for each in others),
        requested.place,
        requested.ln_sizes,
        as_input(own, names).knots if own else (),
        tuple(unquote(each.record.key.partition("/")[2]) for each in here),
        max(each.record.n_max for each in here),
    )


class _Read(NamedTuple):
    record: InputRecord
    read: Input


def _comparable(known: ApplicationInputs, requested: Input) -> list[_Read]:
    """Return the inputs of which the same sizes are known, in the order of their keys."""
    records = sorted(known.records, key=lambda record: record.key)
    read = [_Read(record, as_input(record, known.names)) for record in records]
    return [each for each in read if _sizes_known(each.read) == _sizes_known(requested)]


def _sizes_known(one: Input) -> str:
    return one.place.rpartition(":")[2]


def _seconds(found: ExpectedLnTime) -> Interval:
    return Interval(*(_exp(found.ln_run_time + end) for end in (0.0, -found.half_width, found.half_width)))


def _exp(ln_t: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(ln_t, -LN_T_MAX, LN_T_MAX)))
