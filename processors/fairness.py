"""Fair shares: lanes with much work take turns with lanes that have little, and lose keys first if room runs out.

Work and places belong to *lanes*, such as one for each user of a system. A lane with 60,000 waiting keys delays only
its own keys. The part of a lane before the first slash is its group, a system: groups take turns, too.
"""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote

from processors.contracts.names import escaped

REMEMBERED = 8192  # the same few are asked for with every run


def go_on() -> None:
    """Do nothing: the callback of a caller for whom nobody waits."""


FLOOD_MIN = 500  # keys of one lane that wait


def flood(waiting: Mapping[str, int]) -> str | None:
    """Return a text that names the lane with more waiting keys than all others together, if there are many."""
    longest = max(waiting, key=lambda lane: (waiting[lane], lane), default=None)
    if longest is None or waiting[longest] < FLOOD_MIN or 2 * waiting[longest] <= sum(waiting.values()):
        return None
    system, *whose = (unquote(part) for part in longest.split("/"))
    return f"{' '.join(whose)} of {system}" if whose else f"system {system}"


@lru_cache(maxsize=REMEMBERED)
def lane_of_user(system: str, user: str | None) -> str:
    """Return the lane of a user; work without a user belongs to the lane of its system."""
    return f"{escaped(system)}/user/{escaped(user)}" if user else escaped(system)


def lane_of_application(application_id: str) -> str:
    """Return the lane that all inputs of an application share if several users run it."""
    system, application, *_ = application_id.split("/")
    return f"{system}/application/{application}"


@lru_cache(maxsize=REMEMBERED)
def lane_of_run(application_id: str, user: str | None, before: str | None) -> str:
    """Return the lane of an application after a run of a user; `before` is its former lane, None for the first run.

    The lane is the user's until another user runs the application.
    """
    system = application_id.partition("/")[0]
    lane = f"{system}/user/{escaped(user)}" if user else system
    return lane if before in (None, lane) else lane_of_application(application_id)
