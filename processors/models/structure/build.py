"""From what was read to forms: names get their values, like terms are collected, what all hosts share leaves maxima."""

import math

from processors.models.structure.form import Form, Kind, Table
from processors.models.structure.inputs import Inputs
from processors.models.structure.syntax import Call, Chain, EquationError, Expression, Model, Name, Number


class Builder:
    """Builds the form of a model in a table of its own.

    >>> from processors.models.structure.inputs import sorted_out
    >>> from processors.models.structure.parse import parse
    >>> model = parse("2 * x + x", names=("x",))
    >>> Builder(model, sorted_out({"x": 3.0}, model.names)).result()
    {(): 9.0}
    """

    def __init__(self, model: Model, inputs: Inputs) -> None:
        self.table = Table()
        self._model = model
        self._inputs = inputs
        self._parts: dict[str, Form] = {}

    def result(self) -> Form:
        """Return the form of the run time. EquationError where it has a value for each host, or divides by 0."""
        form = self._form(self._model.result)
        for monomial in form:
            for atom, _ in monomial:
                if self.table.atoms[atom].hosted:
                    names = ", ".join(sorted(self._names(atom)))
                    sentence = (
                        f"{names} is a host's own, and there are {self._inputs.hosts:g}; use max_over(hosts, ...)."
                    )
                    raise EquationError(self._model.result.place, sentence)
        return form

    def _names(self, atom: int) -> set[str]:
        kind = self.table.atoms[atom]
        below = {
            name for number in kind.arguments for m in self.table.forms[number] for a, _ in m for name in self._names(a)
        }
        return {kind.name} if kind.name else below

    def _form(self, expression: Expression) -> Form:
        form = self._read(expression)
        if not all(math.isfinite(coefficient) for coefficient in form.values()):
            raise EquationError(expression.place, "the result is too large for a number.")
        return form

    def _read(self, expression: Expression) -> Form:
        if isinstance(expression, Number):
            return {(): expression.value}
        if isinstance(expression, Name):
            return self._name(expression.text)
        return self._chain(expression) if isinstance(expression, Chain) else self._call(expression)

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
        if call.function in ("max_over", "min_over"):
            return self._over("max_over" if call.function == "max_over" else "min_over", forms[0])
        return self._extreme("max" if call.function == "max" else "min", forms)

    def _extreme(self, kind: Kind, forms: list[Form]) -> Form:
        table = self.table
        numbers = [form.get((), 0.0) for form in forms if not form.keys() - {()}]
        different = {table.number(_tidy(form)): form for form in forms if form.keys() - {()}}
        if numbers:
            bound: Form = {(): max(numbers) if kind == "max" else min(numbers)}
            different[table.number(bound)] = bound
        if len(different) == 1:
            return next(iter(different.values()))
        hosted = any(table.hosted(monomial) for form in different.values() for monomial in form)
        variables = frozenset().union(*(table.variables(form) for form in different.values()))
        return table.of(table.atom(kind, "", tuple(sorted(different)), variables, hosted=hosted))

    def _over(self, kind: Kind, form: Form) -> Form:
        """Return the extreme over hosts: terms that all hosts share, and a positive coefficient, stand outside of it."""
        table = self.table
        shared = {monomial: value for monomial, value in form.items() if not table.hosted(monomial)}
        own = {monomial: value for monomial, value in form.items() if table.hosted(monomial) and value}
        if not own:
            return form
        scale = abs(own[min(own)])
        inner = {monomial: value / scale for monomial, value in own.items()}
        atom = table.atom(kind, "", (table.number(inner),), table.variables(inner))
        return table.add(shared, {((atom, 1),): scale})


def _tidy(form: Form) -> Form:
    return {monomial: coefficient for monomial, coefficient in form.items() if coefficient}
