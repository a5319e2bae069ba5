"""Numbers of quantities: what is summed is kept by number, for there are many sums and few names."""

from collections.abc import Iterable, Sequence
from typing import Final

NAMES_MAX: Final = 2048


class QuantityNames:
    """Numbers of quantities, at most NAMES_MAX; the smallest free one first.

    >>> names = QuantityNames()
    >>> names.add("counter/cycles"), names.number("counter/cycles"), names.number("counter/misses"), names.of(0)
    (0, 0, None, 'counter/cycles')
    """

    def __init__(self, names: Sequence[str | None] = ()) -> None:
        """Begin with these names by number, None of a number that is free; ValueError where one stands twice."""
        self.restore(names)

    def restore(self, names: Sequence[str | None]) -> None:
        """Begin anew with these names."""
        if len(names) > NAMES_MAX or len(set(names) - {None}) < len(names) - list(names).count(None):
            raise ValueError("A quantity stands twice, or there are too many.")
        self.all = list(names)
        self._numbers = {name: number for number, name in enumerate(self.all) if name is not None}

    def __len__(self) -> int:
        """Return how many have a number."""
        return len(self._numbers)

    def number(self, name: str) -> int | None:
        """Return the number of a name; None where it has none."""
        return self._numbers.get(name)

    def of(self, number: int) -> str:
        """Return the name of a number, "" of one that is free."""
        return self.all[number] or ""

    def add(self, name: str) -> int | None:
        """Return the number of a name, a new one where it has none; None where there are too many."""
        if name in self._numbers:
            return self._numbers[name]
        if len(self._numbers) >= NAMES_MAX:
            return None
        number = self.all.index(None) if len(self._numbers) < len(self.all) else len(self.all)
        self.all[number : number + 1] = [name]
        self._numbers[name] = number
        return number

    def keep(self, numbers: Iterable[int]) -> None:
        """Let all names go but those of these numbers.

        >>> names = QuantityNames(["a", "b"])
        >>> names.keep([1]), names.add("c"), names.add("d")
        (None, 0, 2)
        """
        kept = set(numbers)
        self.all = [name if number in kept else None for number, name in enumerate(self.all)]
        while self.all and self.all[-1] is None:
            self.all.pop()
        self._numbers = {name: number for number, name in enumerate(self.all) if name is not None}
