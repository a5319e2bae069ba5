"""Settings of features: what is known of a job before it runs, and decides how long it runs besides its size."""

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from agent.contracts.settings_base import Settings

ATTRIBUTES_MAX = 32
Pattern = Annotated[str, Field(min_length=1, max_length=256)]


class FeatureSettings(Settings):
    """Which attributes of jobs their run times are learned from.

    >>> FeatureSettings(attributes=("atoms", "mesh_*")).names("mesh_x"), FeatureSettings().names("atoms")
    (True, False)
    """

    attributes: tuple[Pattern, ...] = Field(
        default=(),
        max_length=ATTRIBUTES_MAX,
        description="attributes of jobs that their run times are learned from, besides the size: names, or patterns with *; "
        "numbers and words; module, container, executable, partition, account, qos, user and time_limit_s can be named, too",
    )

    def names(self, attribute: str) -> bool:
        """Tell whether an attribute is one of them."""
        return any(fnmatchcase(attribute, pattern) for pattern in self.attributes)
