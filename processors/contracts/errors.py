"""Errors by what the caller does about them."""


class ScalewatchError(Exception):
    """Base of every error the product raises on purpose; its text is one full sentence for a person."""


class InvalidInputError(ScalewatchError):
    """The input can never succeed: dead-letter it and go on.

    >>> InvalidInputError("missing-field", "run_time_s is missing.").reason
    'missing-field'
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class UnavailableError(ScalewatchError):
    """Something outside is away for now: keep what is held, wait, try again."""


class RebalancingError(UnavailableError):
    """The group shares its partitions out anew, and nothing was committed: poll, then commit what is still owned."""


class FencedError(ScalewatchError):
    """Another owner has taken this shard: drop everything and stop."""


class CheckpointLostError(ScalewatchError):
    """A checkpoint could not be confirmed: drop everything and take over anew."""


class ConfigError(ScalewatchError):
    """The configuration or the command line is wrong: refuse to start."""
