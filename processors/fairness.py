"""Fair shares: lanes take turns whatever their amount of work, and the lanes with most keys lose keys first if room runs out.

Work and places belong to *lanes*, such as one for each user of a system. A lane with 60,000 waiting keys delays only
its own keys. The part of a lane's name before the first slash is its group, a system; groups take turns, too.
"""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote

from processors.contracts.names import escaped

REMEMBERED = 8192  # cached results; every run asks for the same few


def go_on() -> None:
    """Do nothing: the default callback for callers that need not give way to others."""


FLOOD_MIN = 500  # fewest waiting keys of one lane that count as a flood


def flood(waiting: Mapping[str, int]) -> str | None:
    """Return a text that names the lane with more waiting keys than all others together; None if no lane has FLOOD_MIN or no majority."""
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
    """Return the lane of an application that several users run; all inputs of the application share this lane."""
    system, application, *_ = application_id.split("/")
    return f"{system}/application/{application}"


@lru_cache(maxsize=REMEMBERED)
def lane_of_run(application_id: str, user: str | None, before: str | None) -> str:
    """Return the lane of an application after a run of `user`; `before` is the former lane, None for the first run.

    The application stays in the user's lane until another user runs it.
    """
    system = application_id.partition("/")[0]
    lane = f"{system}/user/{escaped(user)}" if user else system
    return lane if before in (None, lane) else lane_of_application(application_id)
