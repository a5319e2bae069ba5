"""Why an input is refused: one closed list, so that counters by reason have a bounded set of labels."""

from typing import Final, Literal, get_args

from agent.contracts.errors import InvalidInputError

Reason = Literal[
    "empty",  # no bytes at all, or a tombstone
    "too-large",  # more bytes than a message or a line may have
    "encoding",  # a byte order mark, broken UTF-8, half a surrogate pair
    "not-json",
    "nesting",  # deeper than any event
    "array-bomb",  # more elements than a batch may have
    "not-an-object",
    "duplicate-key",
    "unknown-format",
    "unknown-type",
    "unsupported-type",
    "missing-field",
    "wrong-type",
    "out-of-range",
    "text",  # too long, or with control characters
    "time",  # no time, or outside 1990 to 2100
    "future",
    "state",
    "unit",
    "hosts",  # no host list
    "host",  # a number of a host that nobody has named
    "columns",  # a table without the columns it takes, or a row that does not fit them
    "file",  # a damaged file
]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
SHOWN_MAX: Final = 40  # characters of a payload that an error may repeat


def invalid(reason: Reason, detail: str) -> InvalidInputError:
    """Return the error of an input that can never succeed; `detail` is one sentence.

    >>> invalid("state", "The state is unknown.").reason
    'state'
    """
    return InvalidInputError(reason, detail)


def shown(text: str) -> str:
    """Return the part of a payload that an error may repeat, quoted, so that it stays one line of plain ASCII.

    >>> shown("RUNNING"), len(shown("x" * 1000))
    ("'RUNNING'", 42)
    """
    return ascii(text[:SHOWN_MAX])
