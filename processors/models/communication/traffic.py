"""What a run's network did, as bounded arrays: links, messages, injection queues."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LINKS_MAX: Final = 1 << 17
MESSAGES_MAX: Final = 1 << 17
QUEUES_MAX: Final = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Per link (l,): bytes, buffered and received packets. Per message (m,): hops (its dilation) and bytes. Per queue (q,).

    `fifo_messages` are messages per injection FIFO of a node. All links of the allocation are told, idle ones too. What a
    producer does not have is empty.

    >>> told(links=([10.0], [0.0], [1.0])).link_bytes.tolist()
    [10.0]
    """

    link_bytes: Floats
    buffered: Floats
    received: Floats
    dilation: Floats
    message_bytes: Floats
    fifo_messages: Floats


def told(
    links: tuple[Sequence[float], Sequence[float], Sequence[float]] = ((), (), ()),
    messages: tuple[Sequence[float], Sequence[float]] = ((), ()),
    fifo_messages: Sequence[float] = (),
) -> Traffic:
    """Return the traffic of links (bytes, buffered, received), messages (hops, bytes) and queues.

    Raises ValueError where columns differ in length, something is negative or not finite, or there is too much of it.

    >>> told(links=([1.0], [0.0], []))
    Traceback (most recent call last):
    ValueError: Each link, and each message, has all of its columns.
    """
    carried, buffered, received = (np.asarray(each, np.float64) for each in links)
    dilation, volume = (np.asarray(each, np.float64) for each in messages)
    queues = np.asarray(fifo_messages, np.float64)
    if not carried.shape == buffered.shape == received.shape or dilation.shape != volume.shape:
        raise ValueError("Each link, and each message, has all of its columns.")
    limits = [(carried, LINKS_MAX), (dilation, MESSAGES_MAX), (queues, QUEUES_MAX)]
    if any(each.ndim != 1 or each.size > most for each, most in limits):
        raise ValueError(f"At most {LINKS_MAX} links, {MESSAGES_MAX} messages and {QUEUES_MAX} queues are one run's.")
    if not all(
        ((each >= 0) & np.isfinite(each)).all() for each in (carried, buffered, received, dilation, volume, queues)
    ):
        raise ValueError("What a network did is not negative and finite.")
    return Traffic(carried, buffered, received, dilation, volume, queues)
