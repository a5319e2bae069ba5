"""Errors by what the caller does about them."""

from typing import Final

DECODER: Final = "decoder"
ERROR_MAX: Final = 200  # characters of an error that a refusal repeats


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
        self.place = ""

    def at(self, place: str) -> "InvalidInputError":
        """Return the error with its place in the message: an array element, a line, or the owner of a value.

        >>> InvalidInputError("time", "It is no time.").at("[17]").place
        '[17]'
        """
        self.place = self.place or place
        return self


def defect(error: Exception) -> InvalidInputError:
    """Return an InvalidInputError for a message on which a decoder raised an unexpected exception.

    >>> str(defect(OverflowError("int too large to convert to float")))
    'The decoder raised OverflowError: int too large to convert to float'
    """
    return InvalidInputError(DECODER, f"The decoder raised {described(error)}")


def described(error: Exception) -> str:
    r"""Return type and text of an error in bounded plain ASCII, because the text may repeat the content of a message.

    >>> described(ValueError("nid" + chr(0xD800)))
    'ValueError: nid\\ud800'
    """
    text = str(error)[:ERROR_MAX].encode("ascii", "backslashreplace").decode()
    return f"{type(error).__name__}: {text}"


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
