"""What decoders could not place, by name, for an operator who checks a configuration; a running agent only counts it."""

from collections import Counter
from typing import Final

NAMES_MAX: Final = 1_000
NAME_MAX: Final = 200


class Missed:
    """Names that were met and not known, each as often as decoders looked it up: once or a few times, not once a sample.

    `hosts` are names that are not in the file of nodes, `shared` places of several nodes, `units` sensors whose unit is not
    known, `second` sensors beside another one that is the same, `metrics` those that are not taken. At most 1,000 of each.

    >>> missed = Missed()
    >>> missed.note("hosts", "nid7")
    >>> missed.names("hosts")
    ('nid7',)
    """

    def __init__(self) -> None:
        self._names: dict[str, Counter[str]] = {}

    def note(self, kind: str, name: str) -> None:
        """Take a name of a kind."""
        names = self._names.setdefault(kind, Counter())
        if len(names) < NAMES_MAX or name in names:
            names[name[:NAME_MAX]] += 1

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of a kind, sorted."""
        return tuple(sorted(self._names.get(kind, ())))


class _NotNoted(Missed):
    def note(self, kind: str, name: str) -> None:
        """Forget it."""
        del kind, name


NOT_NOTED: Final = _NotNoted()
