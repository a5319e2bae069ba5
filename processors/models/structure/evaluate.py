"""Evaluation of a structural model with current values: a histogram of the run time, and the methods used for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from processors.models.histogram import (
    INTERVALS,
    Histogram,
    add,
    check_intervals,
    divide,
    from_samples,
    maximum,
    maximum_of,
    maximum_over,
    may_be_zero,
    minimum,
    minimum_of,
    minimum_over,
    multiply,
    point,
    power,
    quantiles,
    scaled,
    shifted,
    variation,
)
from processors.models.numerics.arrays import Floats
from processors.models.structure.form import (
    HOSTS_MAX,
    OVER,
    Atom,
    AtomTable,
    Builder,
    EquationInputs,
    Form,
    Monomial,
    Value,
    sorted_out,
)
from processors.models.structure.parse import Equation, EquationError

# Monte Carlo: the equation is evaluated many times with one random number for each value, the same wherever it occurs.

DRAWS = 4096
DRAWS_MIN = 256
NUMBERS_MAX = 2**20  # random numbers for one value over all hosts; with more hosts there are fewer draws
ALL_NUMBERS_MAX = 2**23  # random numbers of all values that differ by host: 64 MB
DRAWN_LEVELS, HOST_LEVELS = 2**16, 2**10  # numbers of quantiles from which a value is drawn
QUICK_HOSTS = 64  # with more hosts the largest value lies beyond the last of HOST_LEVELS
SEED = 20011


class Draws:
    """Draws for the forms of a table: (1, draws), or (hosts, draws) if each host has its own value.

    With `every`, a value that is distributed alike on all hosts is drawn for each host, as a maximum over them needs; else for one host.
    `count` is the number of draws, by default DRAWS, fewer with many hosts.
    """

    def __init__(self, table: AtomTable, inputs: EquationInputs, *, every: bool, count: int | None = None) -> None:
        self._table = table
        self._inputs = inputs
        self._hosts = min(max(round(inputs.hosts), 1), HOSTS_MAX)  # the maximum over more hosts is hardly larger
        self._every = every
        own = sum(atom.hosted for atom in table.atoms)
        numbers = min(NUMBERS_MAX, ALL_NUMBERS_MAX // max(own, 1))
        self.count = count or min(max(numbers // self._hosts, DRAWS_MIN), DRAWS)
        self._atoms: dict[int, Floats] = {}

    def form(self, form: Form) -> Floats:
        """Return the draws of a form."""
        number = form.get((), 0.0)
        total: Floats = np.full((1, 1), number)
        for index, (monomial, coefficient) in enumerate(pair for pair in form.items() if pair[0]):
            term = self.product(monomial)
            term = term if coefficient == 1 else coefficient * term
            total = term if not index and not number else total + term  # arrays are large: skip adding to an empty sum
        return total

    def product(self, monomial: Monomial) -> Floats:
        """Return the draws of a product; its divisors are checked before."""
        result: Floats | None = None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # callers check whether all is finite
            for atom, power in monomial:
                value = self._atom(atom)
                raised = value if abs(power) == 1 else value ** abs(power)
                if power < 0:
                    result = (1.0 if result is None else result) / raised
                else:
                    result = raised if result is None else result * raised
        return np.ones((1, 1)) if result is None else result

    def _atom(self, number: int) -> Floats:
        if number not in self._atoms:
            alone = self._every and self._alone(number)
            self._atoms[number] = self._extreme(number) if alone else self._drawn(self._table.atoms[number])
        return self._atoms[number]

    def _drawn(self, atom: Atom) -> Floats:
        if atom.kind == "fixed":
            return self._inputs.fixed[atom.name][:, None]
        if atom.kind == "variable":
            return self._variable(atom.name)
        forms = [self.form(self._table.forms[number]) for number in atom.arguments]
        if atom.kind == "sum":
            return forms[0]
        if atom.kind in ("max", "min"):
            result = forms[0]
            for form in forms[1:]:
                result = np.maximum(result, form) if atom.kind == "max" else np.minimum(result, form)
            return result
        return np.asarray((forms[0].max if atom.kind == "max_over" else forms[0].min)(axis=0, keepdims=True))

    def _alone(self, number: int) -> bool:
        """Return whether an atom is an extreme over identical hosts, of values that occur nowhere else."""
        atom, beneath = self._table.atoms[number], self._table.beneath(number)
        alike = all(name in self._inputs.hosted and not self._inputs.hosted[name].hosts for name in atom.variables)
        if atom.kind not in OVER or not alike or any(part.kind in (*OVER, "fixed") for part in beneath):
            return False
        return sum(bool(other.variables & atom.variables) for other in self._table.atoms if other.kind in OVER) == 1

    def _extreme(self, number: int) -> Floats:
        """Return draws of an extreme over identical hosts from many draws of one host: F^n inverted."""
        atom = self._table.atoms[number]
        one = Draws(self._table, self._inputs, every=False, count=DRAWN_LEVELS).form(
            self._table.forms[atom.arguments[0]]
        )
        random = np.random.default_rng([SEED, number])
        rank = random.random((1, self.count)) ** (1 / self._inputs.hosts)
        index = np.minimum((rank * DRAWN_LEVELS).astype(np.int64), DRAWN_LEVELS - 1)
        return np.sort(one[0])[index if atom.kind == "max_over" else DRAWN_LEVELS - 1 - index]

    def _variable(self, name: str) -> Floats:
        random = np.random.default_rng([SEED, *name.encode()])
        window = self._inputs.shared.get(name, self._inputs.hosted.get(name))
        if window is None:
            raise KeyError(name)
        if not window.hosts:
            hosts = self._hosts if self._every and name in self._inputs.hosted else 1
            return _drawn_levels(window, DRAWN_LEVELS).take(
                random.integers(0, DRAWN_LEVELS, (hosts, self.count), dtype=np.uint16)
            )
        return _each(window, random, self.count)


def _each(x: Histogram, random: np.random.Generator, count: int) -> Floats:
    """Return draws (hosts, count) of each host's histogram: quick for few hosts, from the full tails for many."""
    drawn: Floats = np.empty((x.hosts[0], count))
    if len(drawn) > QUICK_HOSTS:
        for host, levels in enumerate(random.random(drawn.shape)):
            drawn[host] = _inverse(x.host(host), levels)
        return drawn
    index = random.integers(0, HOST_LEVELS, drawn.shape, dtype=np.uint16)
    for host, row in enumerate(index):
        np.take(_drawn_levels(x.host(host), HOST_LEVELS), row, out=drawn[host], mode="clip")  # quicker than "raise"
    return drawn


def _drawn_levels(x: Histogram, count: int) -> Floats:
    """Return `count` evenly spaced quantiles of a histogram, from which drawing is quicker."""
    return _inverse(x, (np.arange(count) + 0.5) / count)


def _inverse(x: Histogram, levels: Floats) -> Floats:
    filled = np.concatenate([[0.0], np.cumsum(x.shares)])
    return np.interp(levels, filled / filled[-1], x.edges)


WayKind = Literal["collected", "factored", "shared draws", "monte carlo"]


@dataclass(frozen=True, slots=True)
class Way:
    """The method for values that occur more than once, and these values.

    `collected`: like terms were combined; `factored`: a common factor was taken out; `shared draws`: this part was computed by
    Monte Carlo, with the same random number in each place; `monte carlo`: the whole equation was, because histogram arithmetic
    deviated too much.
    """

    kind: WayKind
    variables: tuple[str, ...]


class Calculus:
    """Evaluates the forms of a table with histograms of `intervals` intervals."""

    def __init__(self, table: AtomTable, inputs: EquationInputs, intervals: int) -> None:
        self._table = table
        self._inputs = inputs
        self._intervals = intervals
        self._atoms: dict[int, Histogram] = {}
        self.draws = Draws(table, inputs, every=True)
        self._one_host = Draws(table, inputs, every=False)
        self.ways: list[Way] = []

    def form(self, form: Form) -> Histogram:
        """Return the histogram of a form, (m,) or (hosts, m); ValueError if it is too large, or divides by 0."""
        number: Floats = np.array(form.get((), 0.0))
        parts: list[Histogram] = []
        for component in self._components(form):
            if self._table.variables(component):
                parts.append(self._component(component))
            else:
                number = number + self._certain(component)
        if not parts:
            return point(number)
        total = reduce(lambda x, y: add(x, y, self._intervals), parts)
        return shifted(total, number) if np.any(number) else total

    def check_divisors(self) -> None:
        """Raise EquationError if a divisor may be 0, also one that cancelled out of the form."""
        for number, place in self._table.divisors.items():
            atom = self._table.atoms[number]
            names = ", ".join(sorted(atom.variables)) or atom.name
            zero = (
                may_be_zero(self._atom(number)) if atom.variables else not self.draws.form(self._table.of(number)).all()
            )
            if zero:
                raise EquationError(place, f"the divisor may be 0{f', with {names}' if names else ''}.")

    def _certain(self, component: Form) -> Floats:
        """Return the value of terms without stochastic values, () or (hosts,)."""
        value: Floats = self.draws.form(component)[:, 0]
        return value if value.size > 1 else value.reshape(())

    def _components(self, form: Form) -> list[Form]:
        """Return the terms in groups that share no stochastic value."""
        groups: list[tuple[frozenset[str], Form]] = []
        for monomial, coefficient in form.items():
            if not monomial or not coefficient:
                continue
            variables, joined = self._table.within(monomial), {monomial: coefficient}
            apart = []
            for others, terms in groups:
                if others & variables:
                    variables, joined = variables | others, {**terms, **joined}
                else:
                    apart.append((others, terms))
            groups = [*apart, (variables, joined)]
        return [terms for _, terms in groups]

    def _component(self, component: Form) -> Histogram:
        if len(component) == 1:
            ((monomial, coefficient),) = component.items()
            return scaled(self._product(monomial), coefficient)
        common = set.intersection(*(set(monomial) for monomial in component))
        factor = tuple(sorted(common))
        rest = {tuple(x for x in monomial if x not in common): value for monomial, value in component.items()}
        inner = self._table.variables(rest)
        if not factor or not self._table.within(factor) or inner & self._table.within(factor):
            return self._shared(component)
        self._explain("factored", self._table.within(factor))
        return self._product(factor, self.form(rest))

    def _product(self, monomial: Monomial, other: Histogram | None = None) -> Histogram:
        """Return the histogram of a product with stochastic values, times `other`, which shares none with it.

        Division is one step, because an inverse rebinned into equal intervals would be another value.
        """
        stochastic = [(atom, power_) for atom, power_ in monomial if self._table.atoms[atom].variables]
        certain = tuple(pair for pair in monomial if pair not in stochastic)
        if self._repeats(self._table.atoms[atom].variables for atom, _ in stochastic):
            drawn = self._shared({monomial: 1.0})
            return drawn if other is None else multiply(drawn, other, self._intervals)
        stochastic.sort(key=lambda pair: pair[1] < 0)
        result = other or self._power(*stochastic.pop(0))
        for atom, exponent in stochastic:
            joined = multiply if exponent > 0 else divide
            result = joined(result, self._power(atom, abs(exponent)), self._intervals)
        return scaled(result, self._certain({certain: 1.0})) if certain else result

    def _power(self, atom: int, exponent: int) -> Histogram:
        return power(self._atom(atom), exponent, self._intervals)

    def _atom(self, number: int) -> Histogram:
        if number not in self._atoms:
            self._atoms[number] = self._evaluated(number, self._table.atoms[number])
        return self._atoms[number]

    def _evaluated(self, number: int, atom: Atom) -> Histogram:
        if atom.kind == "variable":
            return self._inputs.shared.get(atom.name) or self._inputs.hosted[atom.name]
        forms = [self._table.forms[each] for each in atom.arguments]
        if atom.kind == "sum":
            return self.form(forms[0])
        if atom.kind in ("max", "min"):
            if self._repeats(self._table.variables(form) for form in forms):
                return self._shared({((number, 1),): 1.0})
            pair: Callable[[Histogram, Histogram, int], Histogram] = maximum if atom.kind == "max" else minimum
            return reduce(lambda x, y: pair(x, y, self._intervals), [self.form(form) for form in forms])
        nested = any(part.kind in OVER for part in self._table.beneath(number))
        if nested or atom.variables & self._inputs.shared.keys():  # the hosts are not independent in this case
            return self._shared({((number, 1),): 1.0})
        return self._over(atom, self.form(forms[0]))

    def _over(self, atom: Atom, each: Histogram) -> Histogram:
        largest = atom.kind == "max_over"
        if each.hosts:
            return (maximum_over if largest else minimum_over)(each, self._intervals)
        return (maximum_of if largest else minimum_of)(each, self._inputs.hosts, self._intervals)

    def _shared(self, form: Form) -> Histogram:
        """Return the histogram of a form by Monte Carlo draws."""
        draws = self._one_host if any(self._table.hosted(monomial) for monomial in form) else self.draws
        self._explain("shared draws", self._table.variables(form))
        values = draws.form(form)
        if not np.isfinite(values).all():
            raise ValueError("The result is too large for a number.")
        return from_samples(values if values.shape[0] > 1 else values[0], self._intervals)

    def _repeats(self, parts: Iterable[frozenset[str]]) -> bool:
        seen: set[str] = set()
        for part in parts:
            if seen & part:
                return True
            seen |= part
        return False

    def _explain(self, kind: WayKind, variables: frozenset[str]) -> None:
        way = Way(kind, tuple(sorted(variables)))
        if way not in self.ways:
            self.ways.append(way)


LEVELS = (0.05, 0.5, 0.95)
GAP_MAX = 0.15  # share of the range; beyond it the Monte Carlo draws replace the histogram arithmetic


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A run time in seconds under the current load: its histogram, and its 5 %, 50 % and 95 % quantiles.

    `mc_gap` compares histogram arithmetic with Monte Carlo draws: the larger of their differences at the 5 % and 95 % quantiles, as
    a share of the histogram's range; positive if arithmetic gives more, None without draws. If it exceeds GAP_MAX, the draws
    replace histogram and quantiles. `ways` are the methods used for values that occur more than once.
    """

    histogram: Histogram
    quantiles_s: tuple[float, float, float]
    mc_gap: float | None
    ways: tuple[Way, ...]


def evaluate(
    model: Equation, variables: Mapping[str, Value], *, check: bool = True, intervals: int = INTERVALS
) -> Evaluated:
    """Return the run time of an equation with these values.

    A value is a number; a histogram shared by all hosts; a histogram or array of numbers with an axis of hosts; or `Alike`, a
    pooled window that each host has independently. Values of different names are independent, and so are hosts; one name has
    one value on a host wherever it occurs. `hosts` is the number of hosts, needed if no value has an axis. The result is
    deterministic. Raises EquationError if a value is missing or invalid, a divisor may be 0, or the result is too large.

    >>> from processors.models.histogram import given
    >>> from processors.models.structure.parse import parse
    >>> model = parse("work_s / cpu_available", names=("work_s", "cpu_available"))
    >>> found = evaluate(model, {"work_s": 10.0, "cpu_available": given([0.8, 1.0], [1.0])})
    >>> found.histogram.edges.tolist(), found.ways
    ([10.0, 10.5, 11.0, 11.5, 12.0, 12.5], ())
    """
    check_intervals(intervals)
    inputs = sorted_out(variables, model.names)
    builder = Builder(model, inputs)
    form = builder.result()
    calculus = Calculus(builder.table, inputs, intervals)
    try:
        calculus.check_divisors()
        found = _plain(calculus.form(form))
        evaluated = Evaluated(found, _levels(found), None, ())
        if check and inputs.shared.keys() | inputs.hosted.keys():
            evaluated = _checked(calculus, form, found, intervals)
    except EquationError:
        raise
    except ValueError as error:
        raise EquationError(model.result.place, "the result is too large for a number.") from error
    collected = [Way("collected", tuple(sorted(builder.table.collected)))] if builder.table.collected else []
    return Evaluated(
        evaluated.histogram, evaluated.quantiles_s, evaluated.mc_gap, (*collected, *calculus.ways, *evaluated.ways)
    )


def _plain(x: Histogram) -> Histogram:
    """Return a histogram without an axis of hosts, which a certain value on a single host may have."""
    return x.host(0) if x.hosts else x


def _levels(x: Histogram) -> tuple[float, float, float]:
    low, middle, high = (float(value) for value in quantiles(x, LEVELS))
    return low, middle, high


def _checked(calculus: Calculus, form: Form, found: Histogram, intervals: int) -> Evaluated:
    draws = calculus.draws.form(form).ravel()
    drawn = np.quantile(draws, LEVELS)
    given, length = _levels(found), float(variation(found))
    if not length:
        return Evaluated(found, given, 0.0, ())
    gaps = [(given[index] - float(drawn[index])) / length for index in (0, 2)]
    gap = max(gaps, key=abs)
    if abs(gap) <= GAP_MAX:
        return Evaluated(found, given, gap, ())
    low, middle, high = (float(value) for value in drawn)
    histogram = from_samples(draws, intervals) if draws.size > 1 else point(draws[0])
    return Evaluated(histogram, (low, middle, high), gap, (Way("monte carlo", ()),))
