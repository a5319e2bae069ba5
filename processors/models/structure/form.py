"""Equations with like terms collected: sums of products of numbered atoms.

X + X becomes 2 X, X - X becomes 0, 2 X / X becomes 2. Parentheses are not multiplied out, because a value that occurs once
would then occur several times. Equal atoms and equal forms share a number, so that each is evaluated once.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from processors.models.histogram import AVAILABILITY_MIN, Histogram, at_least
from processors.models.numerics.arrays import Floats
from processors.models.structure.parse import (
    HOSTS,
    Call,
    Chain,
    Equation,
    EquationError,
    Expression,
    Name,
    Number,
    TextPlace,
)

AVAILABILITY = "_available"  # suffix of the names of free shares, such as CPU availability
HOSTS_MAX = 16_384  # most hosts with own windows; windows of more hosts must be pooled
_START = TextPlace(1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """A window of past values, pooled over a partition, from which each host of the job has an independent value."""

    window: Histogram


Value = float | Floats | Histogram | Alike


@dataclass(frozen=True, slots=True, eq=False)
class EquationInputs:
    """The values of an equation by name, one field for each kind of value.

    `numbers` are single numbers, `fixed` are arrays of numbers by host (hosts,). `shared` are histograms (m,) of a value that all hosts
    have in common. `hosted` are histograms by host (hosts, m), or one histogram (m,) of independent values of all hosts. `hosts` is
    the number of hosts.
    """

    numbers: dict[str, float]
    fixed: dict[str, Floats]
    shared: dict[str, Histogram]
    hosted: dict[str, Histogram]
    hosts: float


def sorted_out(variables: Mapping[str, Value], names: frozenset[str]) -> EquationInputs:
    """Return the values of `names`, grouped by kind. Raise EquationError if a value is missing or if values have different numbers of hosts.

    Availabilities are raised to AVAILABILITY_MIN, and a histogram of zero width becomes a number. If the job has one host, the
    histograms by host become histograms for all hosts.

    >>> sorted_out({"speed": 2.0, "cpu_available": Histogram(np.array([0.0, 1.0]), np.ones(1))},
    ...            frozenset({"speed", "cpu_available"})).shared["cpu_available"].edges[0].tolist()
    0.01
    """
    missing = sorted(names - variables.keys() - {HOSTS})
    if missing:
        raise EquationError(_START, f"{', '.join(missing)} has no value.")
    inputs = EquationInputs({}, {}, {}, {}, _hosts(variables, names))
    for name in sorted(names - {HOSTS}):
        _put(inputs, name, variables[name])
    inputs.numbers[HOSTS] = inputs.hosts
    return inputs


def _hosts(variables: Mapping[str, Value], names: frozenset[str]) -> float:
    own = {float(count) for name in names - {HOSTS} if (count := _axis(name, variables[name])) is not None}
    given = variables.get(HOSTS)
    if isinstance(given, Histogram | Alike) or (given is not None and np.shape(given)):
        raise EquationError(_START, "the number of hosts is one number.")
    counts = own if given is None else own | {float(given)}
    if len(counts) > 1:
        raise EquationError(_START, "the values are for different numbers of hosts.")
    if not counts and HOSTS in names:
        raise EquationError(_START, "the number of hosts has no value.")
    hosts = next(iter(counts), 1.0)
    if not 1 <= hosts < np.inf:
        raise EquationError(_START, "there has to be at least one host.")
    if own and hosts > HOSTS_MAX:
        raise EquationError(_START, f"at most {HOSTS_MAX} hosts can have windows of their own; pool them.")
    return hosts


def _axis(name: str, value: Value) -> int | None:
    """Return the length of the axis of hosts of a value; None without this axis."""
    window = value.window if isinstance(value, Alike) else value
    axes = window.hosts if isinstance(window, Histogram) else np.shape(window)
    if len(axes) > (0 if isinstance(value, Alike) else 1):
        raise EquationError(_START, f"{name} has more axes than hosts.")
    return axes[0] if axes else None


def _put(inputs: EquationInputs, name: str, value: Value) -> None:
    window = value.window if isinstance(value, Alike) else value
    if not isinstance(window, Histogram):
        numbers = np.asarray(window, dtype=np.float64)
        if not np.isfinite(numbers).all():
            raise EquationError(_START, f"{name} is no finite number.")
        if numbers.size == 1:
            inputs.numbers[name] = float(numbers.ravel()[0])
        else:
            inputs.fixed[name] = numbers
        return
    by_host = inputs.hosts > 1 and (isinstance(value, Alike) or bool(window.hosts))
    if name.endswith(AVAILABILITY):
        window = at_least(window, AVAILABILITY_MIN)
    if window.hosts and not by_host:
        window = window.host(0)
    if not window.hosts and window.edges[0] == window.edges[-1]:
        inputs.numbers[name] = float(window.edges[0])
    else:
        (inputs.hosted if by_host else inputs.shared)[name] = window


Kind = Literal["variable", "fixed", "sum", "max", "min", "max_over", "min_over"]
OVER: tuple[Kind, ...] = ("max_over", "min_over")
Monomial = tuple[tuple[int, int], ...]  # atoms by number, ascending, each with its power
Form = dict[Monomial, float]  # products with their coefficients


@dataclass(frozen=True, slots=True)
class Atom:
    """A part of an equation that is not split: a variable, numbers by host, a sum in parentheses, or a maximum or minimum.

    `arguments` are the numbers of the forms inside it, and `variables` the names of the stochastic values inside it. `hosted` is
    True if the atom has a value for each host.
    """

    kind: Kind
    name: str
    arguments: tuple[int, ...]
    variables: frozenset[str]
    hosted: bool


class AtomTable:
    """All atoms and forms of an equation by number; equal atoms share a number, and so do equal forms.

    `divisors` maps an atom that is a divisor to its position in the text.

    >>> table = AtomTable()
    >>> x = table.of(table.atom("variable", "x", variables=frozenset("x")))
    >>> twice = table.add(x, x)
    >>> twice, table.multiply(twice, table.inverse(x))
    ({((0, 1),): 2.0}, {(): 2.0})
    """

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.forms: list[Form] = []
        self.divisors: dict[int, TextPlace] = {}
        self._atoms: dict[tuple[Kind, str, tuple[int, ...]], int] = {}
        self._forms: dict[tuple[tuple[Monomial, float], ...], int] = {}

    def atom(
        self,
        kind: Kind,
        name: str = "",
        arguments: tuple[int, ...] = (),
        variables: frozenset[str] = frozenset(),
        *,
        hosted: bool = False,
    ) -> int:
        """Return the number of an atom, which is added to the table if it is new."""
        key = (kind, name, arguments)
        if key not in self._atoms:
            self._atoms[key] = len(self.atoms)
            self.atoms.append(Atom(kind, name, arguments, variables, hosted))
        return self._atoms[key]

    def number(self, form: Form) -> int:
        """Return the number of a form, which is added to the table if it is new."""
        key = tuple(sorted(form.items()))
        if key not in self._forms:
            self._forms[key] = len(self.forms)
            self.forms.append(form)
        return self._forms[key]

    def of(self, atom: int) -> Form:
        return {((atom, 1),): 1.0}

    def variables(self, form: Form) -> frozenset[str]:
        return frozenset().union(*(self.within(monomial) for monomial in form))

    def within(self, monomial: Monomial) -> frozenset[str]:
        """Return the names of the stochastic values in a product."""
        return frozenset().union(*(self.atoms[atom].variables for atom, _ in monomial))

    def hosted(self, monomial: Monomial) -> bool:
        return any(self.atoms[atom].hosted for atom, _ in monomial)

    def beneath(self, atom: int) -> list[Atom]:
        """Return the atoms inside an atom, at any depth of nesting, without duplicates."""
        inside: set[int] = set()
        pending = list(self.atoms[atom].arguments)
        while pending:
            parts = {part for monomial in self.forms[pending.pop()] for part, _ in monomial} - inside
            inside |= parts
            pending += [argument for part in parts for argument in self.atoms[part].arguments]
        return [self.atoms[part] for part in sorted(inside)]

    def add(self, x: Form, y: Form, sign: float = 1.0) -> Form:
        total = dict(x)
        for monomial, coefficient in y.items():
            total[monomial] = total.get(monomial, 0.0) + sign * coefficient
        return {monomial: coefficient for monomial, coefficient in total.items() if coefficient or not monomial}

    def multiply(self, x: Form, y: Form) -> Form:
        """Return x y. A number multiplies each term; other sums stay in parentheses."""
        for number, other in ((x, y), (y, x)):
            if not number.keys() - {()}:
                factor = number.get((), 0.0)
                return {monomial: value * factor for monomial, value in other.items()} if factor else {(): 0.0}
        (first, first_coefficient), (second, second_coefficient) = self.single(x), self.single(y)
        powers = Counter(dict(first))
        powers.update(dict(second))
        product = tuple(sorted((atom, power) for atom, power in powers.items() if power))
        coefficient = first_coefficient * second_coefficient
        if len(product) == 1 and product[0][1] == 1 and self.atoms[product[0][0]].kind == "sum":
            (inner,) = self.atoms[product[0][0]].arguments  # a sum that is the whole product loses its parentheses
            return {monomial: value * coefficient for monomial, value in self.forms[inner].items()}
        return {product: coefficient}

    def inverse(self, x: Form) -> Form:
        """Return 1 / x. Raise ZeroDivisionError if x is the number 0."""
        monomial, coefficient = self.single(x)
        return {tuple((atom, -power) for atom, power in monomial): 1.0 / coefficient}

    def single(self, x: Form) -> tuple[Monomial, float]:
        """Return a form as one product with its coefficient.

        A sum becomes an atom, scaled so that its first coefficient is 1; the result is this atom with the first coefficient.
        """
        terms = {monomial: coefficient for monomial, coefficient in x.items() if coefficient}
        if len(terms) <= 1:
            return next(iter(terms.items()), ((), 0.0))
        first = terms[min(terms)]
        scaled = {monomial: coefficient / first for monomial, coefficient in terms.items()}
        hosted = any(self.hosted(monomial) for monomial in terms)
        atom = self.atom("sum", "", (self.number(scaled),), self.variables(scaled), hosted=hosted)
        return ((atom, 1),), first


class Builder:
    """Builds the form of an equation, and the table of its atoms."""

    def __init__(self, model: Equation, inputs: EquationInputs) -> None:
        self.table = AtomTable()
        self._model = model
        self._inputs = inputs
        self._parts: dict[str, Form] = {}

    def result(self) -> Form:
        """Return the form of the run time. Raise EquationError if the run time differs between hosts, or if a divisor is 0."""
        form, table = self._form(self._model.result), self.table
        by_host = next((atom for monomial in form for atom, _ in monomial if table.atoms[atom].hosted), None)
        if by_host is not None:
            names = ", ".join(sorted({atom.name for atom in (table.atoms[by_host], *table.beneath(by_host))} - {""}))
            message = f"{names} is a host's own, and there are {self._inputs.hosts:g}; use max_over(hosts, ...)."
            raise EquationError(self._model.result.place, message)
        return form

    def _form(self, expression: Expression) -> Form:
        match expression:
            case Number():
                form: Form = {(): expression.value}
            case Name():
                form = self._name(expression.text)
            case Chain():
                form = self._chain(expression)
            case Call():
                form = self._call(expression)
        if not all(math.isfinite(coefficient) for coefficient in form.values()):
            raise EquationError(expression.place, "the result is too large for a number.")
        return form

    def _name(self, name: str) -> Form:
        inputs, table = self._inputs, self.table
        if name in self._model.definitions:
            if name not in self._parts:
                self._parts[name] = self._form(self._model.definitions[name])
            return self._parts[name]
        if name in inputs.numbers:
            return {(): inputs.numbers[name]}
        if name in inputs.fixed:
            return table.of(table.atom("fixed", name, hosted=True))
        return table.of(table.atom("variable", name, (), frozenset({name}), hosted=name in inputs.hosted))

    def _chain(self, chain: Chain) -> Form:
        form: Form = {(): 0.0} if chain.parts[0][0] == "+" else {(): 1.0}
        for sign, part in chain.parts:
            value = self._form(part)
            if sign in ("+", "-"):
                form = self.table.add(form, value, 1.0 if sign == "+" else -1.0)
            else:
                form = self.table.multiply(form, self._divisor(value, part) if sign == "/" else value)
        return form

    def _divisor(self, form: Form, part: Expression) -> Form:
        try:
            inverse = self.table.inverse(form)
        except ZeroDivisionError:
            raise EquationError(part.place, "the divisor is 0.") from None
        for monomial in inverse:
            for atom, _ in monomial:
                self.table.divisors.setdefault(atom, part.place)
        return inverse

    def _call(self, call: Call) -> Form:
        forms = [self._form(argument) for argument in call.arguments]
        kind = cast("Kind", call.function)
        return self._over(kind, forms[0]) if kind in OVER else self._extreme(kind, forms)

    def _extreme(self, kind: Kind, forms: list[Form]) -> Form:
        table = self.table
        numbers = [form.get((), 0.0) for form in forms if not form.keys() - {()}]
        different = {
            table.number({monomial: value for monomial, value in form.items() if value}): form
            for form in forms
            if form.keys() - {()}
        }
        if numbers:
            bound: Form = {(): max(numbers) if kind == "max" else min(numbers)}
            different[table.number(bound)] = bound
        if len(different) == 1:
            return next(iter(different.values()))
        hosted = any(table.hosted(monomial) for form in different.values() for monomial in form)
        variables = frozenset().union(*(table.variables(form) for form in different.values()))
        return table.of(table.atom(kind, "", tuple(sorted(different)), variables, hosted=hosted))

    def _over(self, kind: Kind, form: Form) -> Form:
        """Return the form of the maximum or minimum of `form` over hosts.

        Terms that are equal on all hosts, and a positive common factor, stay outside of it.
        """
        table = self.table
        shared = {monomial: value for monomial, value in form.items() if not table.hosted(monomial)}
        own = {monomial: value for monomial, value in form.items() if table.hosted(monomial) and value}
        if not own:
            return form
        scale = abs(own[min(own)])
        inner = {monomial: value / scale for monomial, value in own.items()}
        atom = table.atom(kind, "", (table.number(inner),), table.variables(inner))
        return table.add(shared, {((atom, 1),): scale})
