"""Monte Carlo: the equation with one number drawn for each value, many times, the same number wherever a value stands."""

import numpy as np

from processors.models.histogram.values import Floats, Histogram
from processors.models.structure.form import OVER, Atom, Form, Monomial, Table
from processors.models.structure.inputs import HOSTS_MAX, Inputs

DRAWS = 4096
DRAWS_MIN = 256
NUMBERS_MAX = 2**20  # drawn for one value over all hosts; with more hosts there are fewer draws
ALL_NUMBERS_MAX = 2**23  # kept for all parts that hosts have of their own: 64 MB
LEVELS, HOST_LEVELS = 2**16, 2**10  # a value is drawn from so many of its quantiles
QUICK_HOSTS = 64  # more have a largest value beyond the last of HOST_LEVELS
SEED = 20011


class Draws:
    """Draws for the forms of a table: (1, draws), or (hosts, draws) where each host has its own.

    `every` says whether values that are alike are drawn for every host, as a maximum over them needs, or for one host.
    `count` is how many draws there are; without it DRAWS, fewer with many hosts.
    """

    def __init__(self, table: Table, inputs: Inputs, *, every: bool, count: int | None = None) -> None:
        self._table = table
        self._inputs = inputs
        self._hosts = min(max(round(inputs.hosts), 1), HOSTS_MAX)  # the largest of more is hardly larger
        self._every = every
        own = sum(atom.hosted for atom in table.atoms)
        numbers = min(NUMBERS_MAX, ALL_NUMBERS_MAX // max(own, 1))
        self.count = count or min(max(numbers // self._hosts, DRAWS_MIN), DRAWS)
        self._atoms: dict[int, Floats] = {}

    def form(self, form: Form) -> Floats:
        """Return the draws of a form.

        >>> table = Table()
        >>> x = table.of(table.atom("variable", "x", (), frozenset("x")))
        >>> inputs = Inputs({}, {}, {"x": Histogram(np.array([0.0, 1.0]), np.ones(1))}, {}, 1.0)
        >>> drawn = Draws(table, inputs, every=True).form(x)
        >>> drawn.shape, round(float(drawn.mean()), 1)
        ((1, 4096), 0.5)
        """
        number = form.get((), 0.0)
        total: Floats = np.full((1, 1), number)
        for index, (monomial, coefficient) in enumerate(pair for pair in form.items() if pair[0]):
            term = self.product(monomial)
            term = term if coefficient == 1 else coefficient * term
            total = term if not index and not number else total + term  # arrays are large: no sum with nothing
        return total

    def product(self, monomial: Monomial) -> Floats:
        """Return the draws of a product; its divisors have been looked at before."""
        result: Floats | None = None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # who asks looks whether all is finite
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
        """Whether this is an extreme over hosts that are all alike, of values that stand nowhere else."""
        atom, beneath = self._table.atoms[number], self._table.beneath(number)
        alike = all(name in self._inputs.hosted and not self._inputs.hosted[name].hosts for name in atom.variables)
        if atom.kind not in OVER or not alike or any(part.kind in (*OVER, "fixed") for part in beneath):
            return False
        return sum(bool(other.variables & atom.variables) for other in self._table.atoms if other.kind in OVER) == 1

    def _extreme(self, number: int) -> Floats:
        """Return draws of an extreme over hosts that are alike, from many draws of one host: F^n, turned around."""
        atom = self._table.atoms[number]
        one = Draws(self._table, self._inputs, every=False, count=LEVELS).form(self._table.forms[atom.arguments[0]])
        random = np.random.default_rng([SEED, number])
        rank = random.random((1, self.count)) ** (1 / self._inputs.hosts)
        index = np.minimum((rank * LEVELS).astype(np.int64), LEVELS - 1)
        return np.sort(one[0])[index if atom.kind == "max_over" else LEVELS - 1 - index]

    def _variable(self, name: str) -> Floats:
        random = np.random.default_rng([SEED, *name.encode()])
        window = self._inputs.shared.get(name, self._inputs.hosted.get(name))
        if window is None:
            raise KeyError(name)
        if not window.hosts:
            hosts = self._hosts if self._every and name in self._inputs.hosted else 1
            return _levels(window, LEVELS).take(random.integers(0, LEVELS, (hosts, self.count), dtype=np.uint16))
        return _each(window, random, self.count)


def _each(x: Histogram, random: np.random.Generator, count: int) -> Floats:
    """Return draws (hosts, count) of each host's own histogram: of few hosts quickly, of many from all their tails."""
    drawn: Floats = np.empty((x.hosts[0], count))
    if len(drawn) > QUICK_HOSTS:
        for host, levels in enumerate(random.random(drawn.shape)):
            drawn[host] = _inverse(x.host(host), levels)
        return drawn
    index = random.integers(0, HOST_LEVELS, drawn.shape, dtype=np.uint16)
    for host, row in enumerate(index):
        np.take(_levels(x.host(host), HOST_LEVELS), row, out=drawn[host], mode="clip")  # quicker than "raise"
    return drawn


def _levels(x: Histogram, count: int) -> Floats:
    """Return the quantiles of one histogram in the middle of `count` equal parts of its probability: quicker to draw."""
    return _inverse(x, (np.arange(count) + 0.5) / count)


def _inverse(x: Histogram, levels: Floats) -> Floats:
    filled = np.concatenate([[0.0], np.cumsum(x.shares)])
    return np.interp(levels, filled / filled[-1], x.edges)
