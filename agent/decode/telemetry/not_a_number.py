"""JSON as producers write it that print what is no number as ``nan``, ``NaN`` or ``-inf``: no JSON, but plain enough."""

import re
from typing import Final

_TEXT_OR_NONE: Final = re.compile(rb'"(?:[^"\\]|\\.?)*(?:"|\Z)|-?\b(?:nan|inf(?:inity)?)\b', re.DOTALL | re.IGNORECASE)
_NONE: Final = re.compile(rb"\b(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


def without_nan(value: bytes) -> bytes | None:
    """Return the message with null in place of what is no number, in no text; None where nothing in it is such.

    >>> without_nan(b'{"nan": NaN, "load": -inf}'), without_nan(b'{"load": 1.5}')
    (b'{"nan": null, "load": null}', None)
    """
    if not _NONE.search(value):
        return None
    return _TEXT_OR_NONE.sub(lambda found: found[0] if found[0].startswith(b'"') else b"null", value)
