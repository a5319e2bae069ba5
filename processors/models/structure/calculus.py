"""Forms with histograms: arithmetic where the parts are independent, shared draws where they are not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from processors.models.histogram.arithmetic import add, maximum, may_be_zero, minimum, multiply, power, scaled, shifted
from processors.models.histogram.pool import maximum_of, maximum_over, minimum_of, minimum_over
from processors.models.histogram.values import Floats, Histogram, from_samples, point
from processors.models.structure.draws import Draws
from processors.models.structure.form import OVER, Atom, Form, Monomial, Table
from processors.models.structure.inputs import Inputs
from processors.models.structure.syntax import EquationError

WayKind = Literal["collected", "factored", "shared draws", "monte carlo"]


@dataclass(frozen=True, slots=True)
class Way:
    """How values that stand more than once were dealt with, and which.

    `collected`: like terms were put together; `factored`: a common factor was taken out; `shared draws`: drawn, the same
    number in each place; `monte carlo`: all was drawn, because arithmetic was off.
    """

    kind: WayKind
    variables: tuple[str, ...]


class Calculus:
    """Evaluates the forms of a table with histograms of `intervals` intervals."""

    def __init__(self, table: Table, inputs: Inputs, intervals: int) -> None:
        self._table = table
        self._inputs = inputs
        self._intervals = intervals
        self._atoms: dict[int, Histogram] = {}
        self.draws = Draws(table, inputs, every=True)
        self._one_host = Draws(table, inputs, every=False)
        self.ways: list[Way] = []

    def form(self, form: Form) -> Histogram:
        """Return the histogram of a form, (m,) or (hosts, m); ValueError where it is too large, or divides by 0.

        >>> table = Table()
        >>> x = table.of(table.atom("variable", "x", (), frozenset("x")))
        >>> inputs = Inputs({}, {}, {"x": Histogram(np.array([0.0, 1.0]), np.ones(1))}, {}, 1.0)
        >>> Calculus(table, inputs, intervals=5).form(table.add(x, {(): 3.0})).edges.tolist()
        [3.0, 4.0]
        """
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
        """Raise EquationError where a divisor may be 0, also one that has gone from the form with what it divided."""
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
        """Return the terms in groups that share no value."""
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
        self._say("factored", self._table.within(factor))
        return multiply(self._product(factor), self.form(rest), self._intervals)

    def _product(self, monomial: Monomial) -> Histogram:
        """Return the histogram of a product that has stochastic values."""
        stochastic = [(atom, power_) for atom, power_ in monomial if self._table.atoms[atom].variables]
        certain = tuple(pair for pair in monomial if pair not in stochastic)
        if self._repeats(self._table.atoms[atom].variables for atom, _ in stochastic):
            return self._shared({monomial: 1.0})
        parts = [self._power(atom, exponent) for atom, exponent in stochastic]
        result = reduce(lambda x, y: multiply(x, y, self._intervals), parts)
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
        if nested or atom.variables & self._inputs.shared.keys():  # then the hosts are not independent
            return self._shared({((number, 1),): 1.0})
        return self._over(atom, self.form(forms[0]))

    def _over(self, atom: Atom, each: Histogram) -> Histogram:
        largest = atom.kind == "max_over"
        if each.hosts:
            return (maximum_over if largest else minimum_over)(each, self._intervals)
        return (maximum_of if largest else minimum_of)(each, self._inputs.hosts, self._intervals)

    def _shared(self, form: Form) -> Histogram:
        """Return the histogram of draws of a form."""
        draws = self._one_host if any(self._table.hosted(monomial) for monomial in form) else self.draws
        self._say("shared draws", self._table.variables(form))
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

    def _say(self, kind: WayKind, variables: frozenset[str]) -> None:
        way = Way(kind, tuple(sorted(variables)))
        if way not in self.ways:
            self.ways.append(way)
