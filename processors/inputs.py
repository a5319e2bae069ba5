"""The known inputs of one application: sizes of each input, and run times of each input at a few numbers of nodes.

Known inputs predict a new input. A curve with three or more sizes contributes up to four published points, including the
smallest and the largest size, and one point beyond the largest size. A shorter curve contributes the medians of its runs.
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
from processors.models.input_size import ExpectedLnTime, Input, Knot, expected, pooled
from processors.models.numerics.arrays import Floats, Interval
from processors.store import PlainProcessor

INPUTS_MAX: Final = 24  # most inputs of an application in one unit; a new input evicts the most similar input
KNOTS_MAX: Final = 5
OWN_SIZES_MAX: Final = 2  # a curve with more sizes needs no other inputs
AHEAD: Final = 2.0  # the point beyond the curve, as a multiple of its largest size
RUN_DEVIATION: Final = 0.03  # standard deviation of ln t for inputs with few runs
DEVIATION_MIN: Final = 0.02
_SEPARATORS = re.compile(r"[,;\s]+")


class StoredKnot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A point of a curve: number of nodes, run time in s, and standard deviation of ln t, times 100 and rounded (`percent`)."""

    n: float
    run_time_s: float
    percent: int


class InputRecord(msgspec.Struct, frozen=True, array_like=True):
    """One input: system and name as in the id of the application, its sizes (0 if unknown), and knots in ascending order of n.

    `n_max` is the largest observed number of nodes.
    """

    key: str
    sizes: tuple[float, ...]
    n_max: float
    knots: tuple[StoredKnot, ...]


class InputFact(NamedTuple):
    """The current record of one input, and the names of its sizes."""

    names: tuple[str, ...]
    record: InputRecord


class ApplicationInputs(PlainProcessor, omit_defaults=True):
    """The known inputs of one application in one unit of size, on all systems; at most INPUTS_MAX records, newest last."""

    name: ClassVar[str] = "inputs"
    version: ClassVar[int] = 1

    names: tuple[str, ...] = ()
    records: list[InputRecord] = msgspec.field(default_factory=list, name="inputs")

    def of(self, key: str) -> InputRecord | None:
        return next((record for record in self.records if record.key == key), None)

    def score(self, fact: InputFact) -> bool:
        return fact.names != self.names or fact.record not in self.records

    def overflows(self, fact: InputFact) -> bool:
        """Return whether learning the input `fact` would evict another input."""
        return len(self._others(fact)) >= INPUTS_MAX

    def learn(self, fact: InputFact) -> None:
        """Add or replace an input; if that is one too many, drop the most similar input. If known names of sizes change, drop all others."""
        if not self.score(fact):
            return
        other_records = self._others(fact)
        if self.overflows(fact):
            other_records.remove(_most_like(fact.record, other_records, fact.names))
        self.names, self.records = fact.names, [*other_records, fact.record]

    def forget(self, key: str) -> bool:
        """Forget an input; return whether any input is left."""
        self.records = [record for record in self.records if record.key != key]
        return bool(self.records)

    def _others(self, fact: InputFact) -> list[InputRecord]:
        """Return the records of all inputs except that of `fact`. A size whose name is new to an input is 0."""
        had = len(self.names)
        if fact.names[:had] != self.names:
            return []
        unknown = (0.0,) * (len(fact.names) - had)
        retained = (record for record in self.records if record.key != fact.record.key)
        return [msgspec.structs.replace(record, sizes=record.sizes + unknown) for record in retained]


def input_key(key: ApplicationKey) -> str:
    return f"{escaped(key.system)}/{escaped(key.input)}"


def place(key: str, names: Sequence[str]) -> str:
    """Return the system and the name of an input without its sizes, which inputs that differ only in their sizes have in common."""
    system, _, name = key.partition("/")
    rest = (part for part in _SEPARATORS.split(name) if part and part.partition("=")[0] not in names)
    return f"{system}/{','.join(rest)}"


def as_input(record: InputRecord, names: Sequence[str]) -> Input:
    """Return an input in the form of the regression; only inputs with the same place and the same known sizes are compared."""
    known = [name for name, size in zip(names, record.sizes, strict=True) if size]
    knots = tuple(Knot(knot.n, math.log(knot.run_time_s), knot.percent / 100) for knot in record.knots)
    where = f"{place(record.key, names)}:{','.join(known)}"
    return Input(where, tuple(math.log(size or 1.0) for size in record.sizes), knots)


class OwnCurve(Protocol):
    """The runs of an input: observed numbers of nodes, median run times in seconds, and the published curve."""

    @property
    def published(self) -> PublishedCurve | None: ...
    def sizes(self) -> tuple[float, ...]: ...
    def medians_s(self) -> Mapping[float, float]: ...


def summarised(key: str, sizes: tuple[float, ...], model: OwnCurve) -> InputRecord:
    """Return the record of an input: points of its published curve, or its median run times if only few numbers of nodes were run."""
    sizes_run, curve = model.sizes(), model.published
    if curve is None or len(sizes_run) <= OWN_SIZES_MAX:
        medians = sorted(model.medians_s().items())
        knots = [_stored(*medians[i], RUN_DEVIATION) for i in spread(len(medians), KNOTS_MAX)]
    else:
        published_sizes = [*(sizes_run[i] for i in spread(len(sizes_run), KNOTS_MAX - 1)), AHEAD * sizes_run[-1]]
        points = [point for n in published_sizes if (point := curve.at(n)) is not None]
        knots = [_stored(p.n, p.run_time_s, math.log(p.high_s / p.low_s) / 2 / BAND_DEVIATIONS) for p in points]
    return InputRecord(key, sizes, sizes_run[-1], tuple(knots))


def _stored(n: float, run_time_s: float, deviation: float) -> StoredKnot:
    return StoredKnot(n, float(f"{run_time_s:.5g}"), round(100 * min(max(deviation, DEVIATION_MIN), 10.0)))


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of the indices below `count`, evenly spaced, including the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _most_like(fresh: InputRecord, records: Sequence[InputRecord], names: Sequence[str]) -> InputRecord:
    """Return the input at the same place with the nearest sizes; if there is none at this place, the oldest input."""
    new = as_input(fresh, names)
    near = [(record, old) for record in records if (old := as_input(record, names)).place == new.place]
    if not near:
        return records[0]
    return min(near, key=lambda pair: math.dist(pair[1].ln_sizes, new.ln_sizes))[0]


NAME: Final = "input_size"  # name of the regression in messages
UNSEEN: Final = "unseen_input"
INPUTS_MIN: Final = 3  # with fewer inputs, the exponents of the sizes would be guesses
NAMED_MAX: Final = 3
LN_T_MAX: Final = 300.0
Sizes = tuple[tuple[str, float], ...]


class TransferPrediction(NamedTuple):
    """Data for predicting a new input: the other inputs of the application, and place, ln sizes and knots of the new input.

    `names` are the other inputs on the same system, nearest first. `n_max` is the largest number of nodes on which these inputs ran.
    """

    inputs: tuple[Input, ...]
    place: str
    ln_sizes: tuple[float, ...]
    own: tuple[Knot, ...]
    names: tuple[str, ...]
    n_max: float

    def band(self, n: Sequence[float]) -> Interval:
        """Return the expected run times and bands in seconds at m numbers of nodes."""
        return _seconds(self._expected(n, self.own))

    def pooled(self, law: Interval, n: Floats, observed: Sequence[Knot]) -> tuple[Interval, Floats]:
        """Return run times in s, predicted from the other inputs and `law`, the input's own law, and the weight (m,) of the other inputs."""
        own_law = ExpectedLnTime(np.log(law.middle), np.log(law.high / law.low) / 2)
        both, share = pooled(self._expected(n, observed), own_law, n, [knot.n for knot in observed])
        return _seconds(both), share

    def reliability(self) -> Reliability:
        verdict = "uncertain" if len(self.names) >= INPUTS_MIN else "insufficient"
        known = f"This input has no curve yet: the prediction comes from {self.shown}."
        return Reliability(verdict, (UNSEEN,), (known,))

    @property
    def shown(self) -> str:
        """The other inputs as text for a person."""
        some = ", ".join(name or "(none)" for name in self.names[:NAMED_MAX])
        more = len(self.names) - NAMED_MAX
        return f"the input{'s' if len(self.names) > 1 else ''} {some}" + (f" and {more} more" if more > 0 else "")

    def _expected(self, n: Sequence[float] | Floats, own: Sequence[Knot]) -> ExpectedLnTime:
        return expected(self.inputs, self.place, self.ln_sizes, n, own)


def transfer_prediction(known: ApplicationInputs, key: ApplicationKey, sizes: Sizes) -> TransferPrediction | None:
    """Return the prediction for an input with `sizes`; None if no other input of its system is known, or if a size is unknown."""
    sizes_by_name, names, own_key = dict(sizes), known.names, input_key(key)
    if not sizes_by_name or not set(sizes_by_name) <= set(names):
        return None
    requested = as_input(InputRecord(own_key, tuple(sizes_by_name.get(name, 0.0) for name in names), 0.0, ()), names)
    inputs = [(record, as_input(record, names)) for record in sorted(known.records, key=lambda record: record.key)]
    sizes_known, system = requested.place.rpartition(":")[2], own_key.partition("/")[0] + "/"
    comparable = [
        (record, other)
        for record, other in inputs
        if record.key != own_key and other.place.rpartition(":")[2] == sizes_known
    ]
    on_system = [(record, other) for record, other in comparable if record.key.startswith(system)]
    if not on_system:
        return None
    on_system.sort(key=lambda pair: (pair[1].place != requested.place, math.dist(pair[1].ln_sizes, requested.ln_sizes)))
    own_record = known.of(own_key)
    return TransferPrediction(
        tuple(other for _, other in comparable),
        requested.place,
        requested.ln_sizes,
        as_input(own_record, names).knots if own_record else (),
        tuple(unquote(record.key.partition("/")[2]) for record, _ in on_system),
        max(record.n_max for record, _ in on_system),
    )


def _seconds(prediction: ExpectedLnTime) -> Interval:
    ends = (prediction.ln_run_time + end for end in (0.0, -prediction.half_width, prediction.half_width))
    return Interval(*(np.exp(np.clip(end, -LN_T_MAX, LN_T_MAX)) for end in ends))
