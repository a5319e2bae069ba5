"""Evaluation of a structural model with current values: the result is a histogram of the run time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from processors.models.histogram import (
    Histogram,
    add,
    divide,
    from_samples,
    maximum,
    maximum_over,
    may_be_zero,
    minimum,
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

# Monte Carlo: the equation is evaluated many times. Each value gets one random number, the same wherever the value occurs.

DRAWS = 4096
DRAWS_MIN = 256
NUMBERS_MAX = 2**20  # random numbers for one value over all hosts; with more hosts there are fewer draws
ALL_NUMBERS_MAX = 2**23  # random numbers of all values that differ by host: 64 MB
# quantiles from which a value is drawn: of one window, of the window of each host
DRAWN_LEVELS, HOST_LEVELS = 2**16, 2**10
QUICK_HOSTS = 64  # with more hosts the largest value would lie beyond the last of HOST_LEVELS quantiles
SEED = 20011


class Draws:
    """Monte Carlo draws of the forms of a table: arrays (1, draws), or (hosts, draws) if each host has its own value.

    A value with the same distribution on all hosts is drawn for each host if `every` is True, because a maximum over hosts needs
    this, else once. `count` is the number of draws, by default DRAWS, and fewer with many hosts.
    """

    def __init__(self, table: AtomTable, inputs: EquationInputs, *, every: bool, count: int | None = None) -> None:
        self._table = table
        self._inputs = inputs
        self._hosts = min(max(round(inputs.hosts), 1), HOSTS_MAX)  # more hosts hardly raise the maximum
        self._every = every
        own = sum(atom.hosted for atom in table.atoms)
        numbers = min(NUMBERS_MAX, ALL_NUMBERS_MAX // max(own, 1))
        self.count = count or min(max(numbers // self._hosts, DRAWS_MIN), DRAWS)
        self._atoms: dict[int, Floats] = {}

    def form(self, form: Form) -> Floats:
        terms = [
            self.product(monomial) if coefficient == 1 else coefficient * self.product(monomial)
            for monomial, coefficient in form.items()
            if monomial
        ]
        number = form.get((), 0.0)
        return reduce(np.add, terms if terms and not number else [np.full((1, 1), number), *terms])

    def product(self, monomial: Monomial) -> Floats:
        """Return the draws of a product of powers; callers have checked that no divisor is 0."""
        result = np.ones((1, 1))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # callers check that all results are finite
            for atom, exponent in monomial:
                value = self._atom(atom)
                raised = value if abs(exponent) == 1 else value ** abs(exponent)
                result = result / raised if exponent < 0 else result * raised
        return result

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
            return reduce(np.maximum if atom.kind == "max" else np.minimum, forms)
        return np.asarray((forms[0].max if atom.kind == "max_over" else forms[0].min)(axis=0, keepdims=True))

    def _alone(self, number: int) -> bool:
        """Return whether an atom is a maximum or minimum over hosts that can be drawn from the distribution of a single host.

        All its values must have the same distribution on all hosts, and occur in no other maximum or minimum over hosts.
        """
        atom, beneath = self._table.atoms[number], self._table.beneath(number)
        alike = all(name in self._inputs.hosted and not self._inputs.hosted[name].hosts for name in atom.variables)
        if atom.kind not in OVER or not alike or any(part.kind in (*OVER, "fixed") for part in beneath):
            return False
        return sum(bool(other.variables & atom.variables) for other in self._table.atoms if other.kind in OVER) == 1

    def _extreme(self, number: int) -> Floats:
        """Return draws (1, count) of a maximum or minimum over n hosts with equal distributions F, by inverting F^n.

        F is estimated from DRAWN_LEVELS draws of one host.
        """
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
    """Return draws (hosts, count) from the histogram of each host.

    With up to QUICK_HOSTS hosts, one of HOST_LEVELS quantiles is drawn, which is faster; with more hosts the draws are exact.
    """
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
    """Return `count` evenly spaced quantiles of a histogram; drawing one of these quantiles is quicker than drawing from the histogram."""
    return _inverse(x, (np.arange(count) + 0.5) / count)


def _inverse(x: Histogram, levels: Floats) -> Floats:
    filled = np.concatenate([[0.0], np.cumsum(x.shares)])
    return np.interp(levels, filled / filled[-1], x.edges)


class Calculus:
    """Evaluates the forms of a table with histogram arithmetic."""

    def __init__(self, table: AtomTable, inputs: EquationInputs) -> None:
        self._table = table
        self._inputs = inputs
        self._atoms: dict[int, Histogram] = {}
        self.draws = Draws(table, inputs, every=True)
        self._one_host = Draws(table, inputs, every=False)

    def form(self, form: Form) -> Histogram:
        """Return the histogram of a form, (m,) or (hosts, m). Raise ValueError if a result is too large or a divisor is 0."""
        number: Floats = np.array(form.get((), 0.0))
        parts: list[Histogram] = []
        for component in self._components(form):
            if self._table.variables(component):
                parts.append(self._component(component))
            else:
                number = number + self._certain(component)
        if not parts:
            return point(number)
        total = reduce(add, parts)
        return shifted(total, number) if np.any(number) else total

    def check_divisors(self) -> None:
        """Raise EquationError if a divisor may be 0, even if the divisor cancelled out of the form."""
        for number, place in self._table.divisors.items():
            atom = self._table.atoms[number]
            names = ", ".join(sorted(atom.variables)) or atom.name
            zero = (
                may_be_zero(self._atom(number)) if atom.variables else not self.draws.form(self._table.of(number)).all()
            )
            if zero:
                raise EquationError(place, f"the divisor may be 0{f', with {names}' if names else ''}.")

    def _certain(self, component: Form) -> Floats:
        """Return the value, () or (hosts,), of terms that contain no stochastic values."""
        value: Floats = self.draws.form(component)[:, 0]
        return value if value.size > 1 else value.reshape(())

    def _components(self, form: Form) -> list[Form]:
        """Return the terms of a form in groups; terms of different groups have no stochastic value in common."""
        groups: list[tuple[frozenset[str], Form]] = []
        for monomial, coefficient in form.items():
            if not monomial or not coefficient:
                continue
            variables, joined = self._table.within(monomial), {monomial: coefficient}
            for group in [group for group in groups if group[0] & variables]:
                groups.remove(group)
                variables, joined = variables | group[0], {**group[1], **joined}
            groups.append((variables, joined))
        return [terms for _, terms in groups]

    def _component(self, component: Form) -> Histogram:
        if len(component) == 1:
            ((monomial, coefficient),) = component.items()
            return scaled(self._product(monomial), coefficient)
        factor = tuple(sorted(set.intersection(*(set(monomial) for monomial in component))))
        rest = {tuple(x for x in monomial if x not in factor): value for monomial, value in component.items()}
        stochastic = self._table.within(factor)
        if not stochastic or self._table.variables(rest) & stochastic:
            return self._drawn(component)
        return self._product(factor, self.form(rest))

    def _product(self, monomial: Monomial, other: Histogram | None = None) -> Histogram:
        """Return the histogram of a product, multiplied by the histogram `other` of independent values.

        It divides by a value in one operation, because a histogram of the inverse in equal intervals would distort its distribution.
        """
        stochastic = [(atom, exponent) for atom, exponent in monomial if self._table.atoms[atom].variables]
        certain = tuple(pair for pair in monomial if pair not in stochastic)
        if _repeats(self._table.atoms[atom].variables for atom, _ in stochastic):
            drawn = self._drawn({monomial: 1.0})
            return drawn if other is None else multiply(drawn, other)
        stochastic.sort(key=lambda pair: pair[1] < 0)
        result = other or self._power(*stochastic.pop(0))
        for atom, exponent in stochastic:
            result = (multiply if exponent > 0 else divide)(result, self._power(atom, abs(exponent)))
        return scaled(result, self._certain({certain: 1.0})) if certain else result

    def _power(self, atom: int, exponent: int) -> Histogram:
        return power(self._atom(atom), exponent)

    def _atom(self, number: int) -> Histogram:
        if number not in self._atoms:
            self._atoms[number] = self._evaluated(number, self._table.atoms[number])
        return self._atoms[number]

    def _evaluated(self, number: int, atom: Atom) -> Histogram:
        if atom.kind == "variable":
            return self._inputs.shared.get(atom.name) or self._inputs.hosted[atom.name]
        forms = [self._table.forms[argument] for argument in atom.arguments]
        if atom.kind == "sum":
            return self.form(forms[0])
        if atom.kind in ("max", "min"):
            if _repeats(self._table.variables(form) for form in forms):
                return self._drawn(self._table.of(number))
            return reduce(maximum if atom.kind == "max" else minimum, [self.form(form) for form in forms])
        nested = any(part.kind in OVER for part in self._table.beneath(number))
        if nested or atom.variables & self._inputs.shared.keys():  # the hosts are not independent in this case
            return self._drawn(self._table.of(number))
        by_host = self.form(forms[0])
        counts = None if by_host.hosts else self._inputs.hosts
        return (maximum_over if atom.kind == "max_over" else minimum_over)(by_host, counts=counts)

    def _drawn(self, form: Form) -> Histogram:
        """Return the histogram of a form by Monte Carlo draws."""
        draws = self._one_host if any(self._table.hosted(monomial) for monomial in form) else self.draws
        values = draws.form(form)
        if not np.isfinite(values).all():
            raise ValueError("The result is too large for a number.")
        return from_samples(values if values.shape[0] > 1 else values[0])


def _repeats(parts: Iterable[frozenset[str]]) -> bool:
    """Return whether a name is in more than one of the sets."""
    names = [name for part in parts for name in part]
    return len(set(names)) < len(names)


LEVELS = (0.05, 0.5, 0.95)
GAP_MAX = 0.15  # share of the range; beyond this gap, Monte Carlo draws replace the histogram arithmetic


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A run time in seconds under the current load: its histogram, and its 5 %, 50 % and 95 % quantiles.

    `mc_gap` compares histogram arithmetic with Monte Carlo draws: the larger of their differences at the 5 % and 95 % quantiles, as
    a share of the histogram's range; positive if arithmetic gives the larger value, None without draws. If the gap exceeds
    GAP_MAX, the draws replace histogram and quantiles.
    """

    histogram: Histogram
    quantiles_s: tuple[float, float, float]
    mc_gap: float | None


def evaluate(model: Equation, variables: Mapping[str, Value], *, check: bool = True) -> Evaluated:
    """Return the run time of an equation for the values `variables`, by name; the same values give the same result.

    A value is one of: a number; a histogram shared by all hosts; a histogram or array of numbers with an axis of hosts; or `Alike`,
    a pooled window from which each host has an independent value. Values of different names are independent, and so are hosts; a
    name has one value per host in the whole equation. `hosts` is the number of hosts, needed if no value has an axis. With `check`
    the result is compared with Monte Carlo draws. Raise EquationError if a value is missing or invalid, a divisor may be 0, or the
    result is too large.

    >>> from processors.models.histogram import given
    >>> from processors.models.structure.parse import parse
    >>> model = parse("work_s / cpu_available", names=("work_s", "cpu_available"))
    >>> evaluate(model, {"work_s": 10.0, "cpu_available": given([0.8, 1.0], [1.0])}).histogram.edges.tolist()
    [10.0, 10.5, 11.0, 11.5, 12.0, 12.5]
    """
    inputs = sorted_out(variables, model.names)
    builder = Builder(model, inputs)
    form = builder.result()
    calculus = Calculus(builder.table, inputs)
    try:
        calculus.check_divisors()
        histogram = calculus.form(form)
        if histogram.hosts:  # a constant on a single host
            histogram = histogram.host(0)
        if check and inputs.shared.keys() | inputs.hosted.keys():
            return _checked(histogram, calculus.draws.form(form).ravel())
        return Evaluated(histogram, _levels(histogram), None)
    except EquationError:
        raise
    except ValueError as error:
        raise EquationError(model.result.place, "the result is too large for a number.") from error


def _levels(x: Histogram) -> tuple[float, float, float]:
    low, middle, high = quantiles(x, LEVELS).tolist()
    return low, middle, high


def _checked(histogram: Histogram, draws: Floats) -> Evaluated:
    quantiles_s, length = _levels(histogram), float(variation(histogram))
    if not length:
        return Evaluated(histogram, quantiles_s, 0.0)
    low, middle, high = np.quantile(draws, LEVELS).tolist()
    gap = max((quantiles_s[0] - low) / length, (quantiles_s[2] - high) / length, key=abs)
    if abs(gap) <= GAP_MAX:
        return Evaluated(histogram, quantiles_s, gap)
    return Evaluated(from_samples(draws) if draws.size > 1 else point(draws[0]), (low, middle, high), gap)
