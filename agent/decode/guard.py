"""Guards around all decoders: they open envelopes, and an exception costs only the message at fault.

A decoder refuses input with InvalidInputError. Any other exception is a defect of the decoder: the message becomes a dead letter
with the reason ``decoder``, so that it can be examined and sent again.
"""

from collections.abc import Callable, Sequence

from agent.decode.envelopes import may_be_envelopes, opened
from agent.decode.telemetry.columns import joined, nothing
from processors.contracts.errors import InvalidInputError, ScalewatchError, defect
from processors.contracts.events import Decode, Decoded
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex


def guarded(decode: Decode) -> Decode:
    """Return a decoder of messages that raises only errors of the product.

    >>> def decode(value: bytes, received_ms: int) -> Decoded:
    ...     raise OverflowError("too large")
    >>> guarded(decode)(b"{}", 0)
    Traceback (most recent call last):
    processors.contracts.errors.InvalidInputError: The decoder raised OverflowError: too large
    """

    def decode_safely(value: bytes, received_ms: int) -> Decoded:
        try:
            return decode(opened(value), received_ms)
        except ScalewatchError:
            raise
        except Exception as error:  # a defect of a decoder costs the message alone
            raise defect(error) from error

    return decode_safely


def guarded_samples(make: Callable[[], DecodeSamples]) -> DecodeSamples:
    """Return a decoder of slices that never raises; `make` makes the decoder, and makes a new one after a failure.

    After a failure, the messages of the slice are decoded one by one to find the message at fault. The new decoder starts without
    memory, for example of the programs it reported, because the results of the failed slice were discarded.

    >>> def decode(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
    ...     return nothing([(0, Decoded(unknown_fields=len(values[0])))])
    >>> batch = guarded_samples(lambda: decode)([b"{}", None], [0, 0], SeriesIndex(9))
    >>> [other.unknown_fields for _, other in batch.others]
    [2]
    >>> batch = guarded_samples(lambda: decode)([None, b"{}"], [0, 0], SeriesIndex(9))
    >>> [(at, [error.reason for error in other.rejects]) for at, other in batch.others]
    [(0, ['decoder']), (1, [])]
    """
    decode = make()

    def decode_all(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        if may_be_envelopes(b"\n".join(filter(None, values))):  # one look for all is enough
            return _opened(decode_safely, values, received_ms, index)
        return decode_safely(values, received_ms, index)

    def decode_safely(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        nonlocal decode
        try:
            return decode(values, received_ms, index)
        except Exception:  # noqa: BLE001  see `defect`; which message it was, only the search below tells
            decode = make()
        return joined(
            [([at], _decoded_alone(decode, value, received_ms[at], index)) for at, value in enumerate(values)]
        )

    return decode_all


def _opened(
    decode: DecodeSamples, values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex
) -> DecodedBatch:
    """Decode messages of which some are in an envelope. Messages with a bad envelope are refused."""
    whole: list[int] = []
    messages: list[bytes | None] = []
    refused = []
    for at, value in enumerate(values):
        try:
            messages.append(value and opened(value))
            whole.append(at)
        except InvalidInputError as error:
            refused.append((at, Decoded(rejects=[error])))
    batch = decode(messages, [received_ms[at] for at in whole], index)
    return joined([(whole, batch), ([*range(len(values))], nothing(refused))])


def _decoded_alone(decode: DecodeSamples, value: bytes | None, received_ms: int, index: SeriesIndex) -> DecodedBatch:
    try:
        return decode([value], [received_ms], index)
    except Exception as error:  # noqa: BLE001  a defect of a decoder costs the message alone
        return nothing([(0, Decoded(rejects=[defect(error)]))])
