"""Checks of single values that more than one format needs."""

from functools import lru_cache
from typing import Annotated, Final
from unicodedata import category
from urllib.parse import quote

import msgspec

from agent.contracts.names import SAFE, run_id
from agent.decode.reasons import invalid, shown

TEXT_MAX: Final = 256
PATH_MAX: Final = 1024
SCRIPT_MAX: Final = 65_536
HOSTS_MAX: Final = 262_144  # characters of all host lists of a job
COUNT_MAX: Final = 1e9
SECONDS_MAX: Final = 1e9

Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
Path = Annotated[str, msgspec.Meta(max_length=PATH_MAX)]
Script = Annotated[str, msgspec.Meta(max_length=SCRIPT_MAX)]
Count = Annotated[float, msgspec.Meta(gt=0, le=COUNT_MAX)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=SECONDS_MAX)]

_CONTROL = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of surrogate pairs, line and paragraph separators


def has_control(text: str) -> bool:
    """Tell whether a text holds a character that could break a line, a terminal or an encoder.

    >>> has_control("run 7"), has_control("run" + chr(27) + "[2J")
    (False, True)
    """
    return not text.isprintable() and any(category(character) in _CONTROL for character in text)


def refuse_control(text: str, name: str) -> None:
    """Raise InvalidInputError (``text``) where a text has control characters.

    >>> refuse_control("lammps", "application")
    """
    if has_control(text):
        raise invalid("text", f"The {name} {shown(text)} has control characters.")


def own_text(text: str | None, name: str, length_max: int = TEXT_MAX) -> str | None:
    """Return a scheduler's text, cut to its bound; None where it is blank.

    A user may give a job a name of any length; that must not cost the run. Control characters are refused.

    >>> own_text("gmx_prod_07", "job name"), own_text("", "job name"), len(own_text("x" * 999, "job name"))
    ('gmx_prod_07', None, 256)
    """
    if not text or text.isspace():
        return None
    if len(text) > length_max:
        text = text[:length_max]
    if not text.isprintable():
        refuse_control(text, name)
    return text


def run_identity(system: str, job_id: str, start_ms: int) -> str:
    """Return the `run_id` of the contract; job numbers need no escaping, and the same few systems come again.

    >>> run_identity("archer2", "812", 1795168800000)
    'archer2/812@1795168800000'
    """
    if job_id.isascii() and job_id.isalnum():
        return f"{_escaped(system)}/{job_id}@{start_ms}"
    return run_id(system, job_id, start_ms)


@lru_cache(maxsize=1024)
def _escaped(system: str) -> str:
    return quote(system, safe=SAFE)
