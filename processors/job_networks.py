"""What the network did for a job, as features, held until its runs settle."""

from collections.abc import Sequence
from typing import Final

import msgspec

from agent.contracts.events import Network
from processors.models.communication.features import features
from processors.models.communication.traffic import told
from processors.models.digits import six_digits

TOLD_MAX: Final = 4  # of a job; of more the oldest two become one


class NetworkTold(msgspec.Struct, frozen=True, array_like=True):
    """Features of communication, and when they were told."""

    time_ms: int
    features: dict[str, float]


def features_of(event: Network, names_max: int) -> dict[str, float]:
    """Return ready features and those that arrays amount to; a ready one goes before. ValueError where arrays do not fit.

    >>> features_of(Network("exa", "1", 0, {"max_bytes": 7.0}, fifo_messages=(3.0, 5.0)), 64)
    {'max_bytes': 7.0, 'max_fifo': 5.0}
    """
    found = features(told(event.links, event.messages, event.fifo_messages)) | event.features
    kept = sorted((name, six_digits(value)) for name, value in found.items() if abs(value) < float("inf"))
    return dict(kept[:names_max])


def joined(before: Sequence[NetworkTold], new: NetworkTold) -> tuple[NetworkTold, ...]:
    """Return what is told with something new, in the order of time; what is told again for a moment replaces that.

    >>> joined([NetworkTold(5, {"a": 1.0})], NetworkTold(5, {"a": 2.0}))
    (NetworkTold(time_ms=5, features={'a': 2.0}),)
    """
    kept = sorted([*(each for each in before if each.time_ms != new.time_ms), new], key=lambda each: each.time_ms)
    if len(kept) > TOLD_MAX:
        kept[:2] = [NetworkTold(kept[1].time_ms, kept[0].features | kept[1].features)]
    return tuple(kept)


def parted(
    known: Sequence[NetworkTold], start_ms: int, until_ms: int
) -> tuple[dict[str, float], tuple[NetworkTold, ...]]:
    """Return the features of a run that began and had settled then, and what is not of it; what was told last counts.

    >>> told = [NetworkTold(5, {"a": 1.0}), NetworkTold(9, {"a": 2.0, "b": 3.0}), NetworkTold(99, {"a": 7.0})]
    >>> parted(told, 0, 10)
    ({'a': 2.0, 'b': 3.0}, (NetworkTold(time_ms=99, features={'a': 7.0}),))
    """
    found: dict[str, float] = {}
    for each in known:
        if start_ms <= each.time_ms <= until_ms:
            found |= each.features
    return found, tuple(each for each in known if not start_ms <= each.time_ms <= until_ms)
