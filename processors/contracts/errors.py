"""Error types, one for each reaction of the caller."""

from typing import Final

DECODER: Final = "decoder"
ERROR_MAX: Final = 200  # most characters of an error that a refusal repeats


class ScalewatchError(Exception):
    """Base class of all errors that the product raises on purpose. The text of an error is one full sentence for a person."""


class InvalidInputError(ScalewatchError):
    """The input is invalid. A retry cannot help, so the agent writes a dead letter and continues.

    >>> InvalidInputError("missing-field", "run_time_s is missing.").reason
    'missing-field'
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.place = ""

    def at(self, place: str) -> "InvalidInputError":
        """Return the error with its place in the message: an array element, a line, or the owner of a value.

        >>> InvalidInputError("time", "It is no time.").at("[17]").place
        '[17]'
        """
        self.place = self.place or place
        return self


def defect(error: Exception) -> InvalidInputError:
    """Return the InvalidInputError for a message on which a decoder raised an unexpected exception.

    >>> str(defect(OverflowError("int too large to convert to float")))
    'The decoder raised OverflowError: int too large to convert to float'
    """
    return InvalidInputError(DECODER, f"The decoder raised {described(error)}")


def described(error: Exception) -> str:
    r"""Return type and text of an error as ASCII of bounded length, because the text may repeat the content of a message.

    >>> described(ValueError("nid" + chr(0xD800)))
    'ValueError: nid\\ud800'
    """
    text = str(error)[:ERROR_MAX].encode("ascii", "backslashreplace").decode()
    return f"{type(error).__name__}: {text}"


class UnavailableError(ScalewatchError):
    """An external service is unavailable for now: keep all data, wait and retry."""


class RebalancingError(UnavailableError):
    """The consumer group is rebalancing, so nothing was committed. The caller polls, then commits the partitions that it still owns."""


class FencedError(ScalewatchError):
    """Another process owns this shard now: discard all state and stop."""


class CheckpointLostError(ScalewatchError):
    """A checkpoint could not be confirmed: discard all state and take the shard over again."""


class ConfigError(ScalewatchError):
    """The configuration or the command line is wrong: refuse to start."""
