"""An input as its application's other inputs let it be expected: where few runs of it are known, or none."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

import numpy as np

from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import Reliability
from processors.inputs import InputRecord, Inputs, as_input, input_key
from processors.models.input_size.curves import Floats, Input, Knot
from processors.models.input_size.forecast import Expected, expected, pooled

NAME: Final = "input_size"  # of the regression, where messages name models
UNSEEN: Final = "unseen_input"
INPUTS_MIN: Final = 3  # from so many on the exponents are more than a guess
NAMED_MAX: Final = 3
LN_T_MAX: Final = 300.0
Sizes = tuple[tuple[str, float], ...]


class Band(NamedTuple):
    """Run times at m sizes with the band that holds 90 % of the runs, in seconds, (m,)."""

    run_time_s: Floats
    low_s: Floats
    high_s: Floats


class OtherInputs(NamedTuple):
    """The other inputs of an application, and the one in question: place, ln sizes, and knots of its own runs.

    `names` are those of the others on the same system, the nearest first, `n_max` the largest size that one of them ran.

    >>> knots = (Knot(8.0, 4.0, 0.02),)
    >>> others = OtherInputs((Input("exa/", (3.0,), knots), Input("exa/", (4.0,), knots)), "exa/", (3.5,), (), ("a", "b"), 8.0)
    >>> others.band([8.0]).run_time_s.round().tolist(), others.shown
    ([55.0], 'the inputs a, b')
    """

    inputs: tuple[Input, ...]
    place: str
    ln_sizes: tuple[float, ...]
    own: tuple[Knot, ...]
    names: tuple[str, ...]
    n_max: float

    def band(self, n: Sequence[float]) -> Band:
        """Return the expected run times at sizes of positive numbers, (m,)."""
        return _seconds(self._expected(n, self.own))

    def pooled(self, law: Band, n: Floats, observed: Sequence[Knot]) -> tuple[Band, Floats]:
        """Return what the others and the input's own law say together, and the share of the others, (m,)."""
        own = Expected(np.log(law.run_time_s), np.log(law.high_s / law.low_s) / 2)
        both, share = pooled(self._expected(n, observed), own, n, [knot.n for knot in observed])
        return _seconds(both), share

    def reliability(self) -> Reliability:
        """Return what to think of a prediction that rests on the others alone."""
        verdict = "uncertain" if len(self.names) >= INPUTS_MIN else "insufficient"
        told = f"No curve of this input is known: this comes from {self.shown}."
        return Reliability(verdict, (UNSEEN,), (told,))

    @property
    def shown(self) -> str:
        """The others as a person reads them."""
        some = ", ".join(name or "(none)" for name in self.names[:NAMED_MAX])
        more = len(self.names) - NAMED_MAX
        return f"the input{'s' if len(self.names) > 1 else ''} {some}" + (f" and {more} more" if more > 0 else "")

    def _expected(self, n: Sequence[float] | Floats, own: Sequence[Knot]) -> Expected:
        return expected(self.inputs, self.place, self.ln_sizes, n, own)


def other_inputs(known: Inputs, key: ApplicationKey, sizes: Sizes) -> OtherInputs | None:
    """Return the other inputs for one with these sizes; None where none was run on its system, or its sizes are unknown.

    >>> from processors.inputs import InputFact, InputRecord, StoredKnot
    >>> known = Inputs.build()
    >>> known.learn(InputFact(("atoms",), InputRecord("exa/a", (32000.0,), 8.0, (StoredKnot(8.0, 60.0, 3),))))
    >>> found = other_inputs(known, ApplicationKey("lmp", "exa", "b", "nodes"), (("atoms", 64000.0),))
    >>> found.names, other_inputs(known, ApplicationKey("lmp", "exa", "b", "nodes"), ())
    (('a',), None)
    """
    told, names, own_key = dict(sizes), known.names, input_key(key)
    if not told or not set(told) <= set(names):
        return None
    asked = as_input(InputRecord(own_key, tuple(told.get(name, 0.0) for name in names), 0.0, ()), names)
    others = [each for each in _comparable(known, asked) if each.record.key != own_key]
    system = own_key.partition("/")[0] + "/"
    here = [each for each in others if each.record.key.startswith(system)]
    if not here:
        return None
    here.sort(key=lambda each: (each.read.place != asked.place, math.dist(each.read.ln_sizes, asked.ln_sizes)))
    own = known.of(own_key)
    return OtherInputs(
        tuple(each.read for each in others),
        asked.place,
        asked.ln_sizes,
        as_input(own, names).knots if own else (),
        tuple(unquote(each.record.key.partition("/")[2]) for each in here),
        max(each.record.n_max for each in here),
    )


class _Read(NamedTuple):
    record: InputRecord
    read: Input


def _comparable(known: Inputs, asked: Input) -> list[_Read]:
    """Return the inputs of which the same sizes are known, in the order of their keys."""
    records = sorted(known.records, key=lambda record: record.key)
    read = [_Read(record, as_input(record, known.names)) for record in records]
    return [each for each in read if _sizes_known(each.read) == _sizes_known(asked)]


def _sizes_known(one: Input) -> str:
    return one.place.rpartition(":")[2]


def _seconds(found: Expected) -> Band:
    return Band(*(_exp(found.ln_run_time + end) for end in (0.0, -found.half_width, found.half_width)))


def _exp(ln_t: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(ln_t, -LN_T_MAX, LN_T_MAX)))
