"""What all settings have in common."""

from typing import Final

from pydantic import BaseModel, ConfigDict

LONGEST_S: Final = 10 * 365 * 86_400  # what is longer is a slip, and ends where calendars do


class Settings(BaseModel):
    """Base: frozen, no unknown keys.

    >>> Settings().model_dump()
    {}
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
