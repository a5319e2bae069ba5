"""The metadata of a committed position, stored with a mark where it ends.

confluent-kafka 2.16 writes a NUL behind it, and reads on to the next NUL: beyond its end, where kafka-python wrote it
without one (librdkafka's issue 4649). What follows may be a digit as well as no text at all. So both end it alike.
"""

from typing import Final

END: Final = "\n"
NUL: Final = "\0"


def marked(metadata: str) -> str:
    """Return metadata as it is stored."""
    return metadata + END


def unmarked(stored: str, *, exact: bool) -> str:
    """Return the metadata up to its mark. Without one it is older: kept where the client reads it exactly, else left out."""
    text, mark, _ = stored.partition(END)
    if mark:
        return text
    return stored.rstrip(NUL) if exact else ""
