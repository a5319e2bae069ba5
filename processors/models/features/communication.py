"""Features of a run's communication, sets of features that predict together, and scores of a predicted order.

N. Jain, A. Bhatele, M. Robson, T. Gamblin, L. Kale, "Predicting application performance using supervised learning on
communication features", SC 2013: the load of links, messages and injection queues, averaged over all of them or over the
outliers. A few of these features order the mappings of processes onto a network by their run time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats

# H1 to H6 are the sets of Jain et al.; `dilation` and `bytes` were used before them.

H1: Final = ("avg_bytes", "max_bytes", "max_fifo")
FEATURE_SETS: Final[Mapping[str, tuple[str, ...]]] = {
    "H1": H1,
    "H2": (*H1, "sum_dilation_ao"),
    "H3": (*H1, "avg_buffer"),
    "H4": ("avg_bytes", "max_bytes", "avg_buffer_to"),
    "H5": ("avg_bytes_to", "avg_buffer_to", "avg_delay_ao", "sum_dilation_ao", "max_fifo"),
    "H6": ("avg_bytes_to", "avg_buffer_ao", "avg_delay_to", "avg_delay_ao", "sum_dilation_ao", "max_fifo"),
    "dilation": ("max_dilation", "avg_dilation"),
    "bytes": ("avg_bytes", "max_bytes"),
}
RUNS_MIN: Final = 8


def rcc(predicted: Floats, actual: Floats) -> float:
    """Return the share of pairs that both order alike, as Jain et al. count it: the first of a tied pair is above.

    With ties the result depends on the order of the samples, unlike `rcc_symmetric`. nan for fewer than two samples.

    >>> rcc(np.array([1.0, 1.0]), np.array([1.0, 2.0])), rcc(np.array([1.0, 1.0]), np.array([2.0, 1.0]))
    (1.0, 0.0)
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    return float(np.mean((predicted[first] >= predicted[second]) == (actual[first] >= actual[second])))


def rcc_symmetric(predicted: Floats, actual: Floats) -> float:
    """Return the same share, with a pair tied in one order alone as half; (1 + Kendall's tau) / 2 without ties.

    >>> rcc_symmetric(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])).__round__(4)
    0.8333
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    x, y = (np.sign(each[first] - each[second]) for each in (predicted, actual))
    return float(np.mean(np.where(x == y, 1.0, np.where((x == 0) | (y == 0), 0.5, 0.0))))


def r_squared(predicted: Floats, actual: Floats) -> float:
    """Return the explained share of the variance, below 0 if the mean predicts better; nan without variance.

    >>> r_squared(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0])).__round__(3)
    0.357
    """
    total = float(((actual - actual.mean()) ** 2).sum()) if actual.size else 0.0
    return 1.0 - float(((predicted - actual) ** 2).sum()) / total if total > 0 else float("nan")


LINKS_MAX: Final = 1 << 17
MESSAGES_MAX: Final = 1 << 17
QUEUES_MAX: Final = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Load of the network by one run: bytes, buffered and received packets per link (l,), hops and bytes per message (m,).

    `fifo_messages` (q,) are the messages per injection queue of a node. All links of the allocation are present, also idle
    ones. Arrays that a producer does not report are empty.

    >>> reported_features(links=([10.0], [0.0], [1.0])).link_bytes.tolist()
    [10.0]
    """

    link_bytes: Floats
    buffered: Floats
    received: Floats
    dilation: Floats
    message_bytes: Floats
    fifo_messages: Floats


def reported_features(
    links: tuple[Sequence[float], Sequence[float], Sequence[float]] = ((), (), ()),
    messages: tuple[Sequence[float], Sequence[float]] = ((), ()),
    fifo_messages: Sequence[float] = (),
) -> Traffic:
    """Return the traffic of links (bytes, buffered, received), messages (hops, bytes) and queues.

    Raises ValueError if columns differ in length, exceed the limits, or contain a number that is negative or not finite.

    >>> reported_features(links=([1.0], [0.0], []))
    Traceback (most recent call last):
    ValueError: All columns of links, and all columns of messages, need the same length.
    """
    carried, buffered, received = (np.asarray(each, np.float64) for each in links)
    dilation, volume = (np.asarray(each, np.float64) for each in messages)
    queues = np.asarray(fifo_messages, np.float64)
    if not carried.shape == buffered.shape == received.shape or dilation.shape != volume.shape:
        raise ValueError("All columns of links, and all columns of messages, need the same length.")
    limits = [(carried, LINKS_MAX), (dilation, MESSAGES_MAX), (queues, QUEUES_MAX)]
    if any(each.ndim != 1 or each.size > most for each, most in limits):
        raise ValueError(
            f"At most {LINKS_MAX} links, {MESSAGES_MAX} messages and {QUEUES_MAX} queues can be reported for a run."
        )
    if not all(
        ((each >= 0) & np.isfinite(each)).all() for each in (carried, buffered, received, dilation, volume, queues)
    ):
        raise ValueError("Network figures must be finite and not negative.")
    return Traffic(carried, buffered, received, dilation, volume, queues)


# Features of traffic: averages, maxima and sums, over all values or over the outliers.
# Average outliers (`_ao`) are the values above the mean, top outliers (`_to`) those within five percent of the maximum.
# If all values are equal there is no average outlier: their average is the value itself, their sum 0.

TOP: Final = 0.95  # of the maximum
LINK_FEATURES: Final = tuple(
    f"{quantity}{of}" for quantity in ("avg_bytes", "avg_buffer", "avg_delay") for of in ("", "_ao", "_to")
)
MESSAGE_FEATURES: Final = ("max_dilation", "avg_dilation", "sum_dilation_ao", "hop_bytes", "avg_hops_per_byte")
NAMES: Final = (*LINK_FEATURES, "max_bytes", *MESSAGE_FEATURES, "max_fifo")


SUMS: Final = ("sum_dilation_ao", "hop_bytes")  # sums over all messages, which grow with the number of processes


def comparable(features: Mapping[str, float], n: float) -> dict[str, float]:
    """Return features of a run of size n (> 0) that can be compared across sizes: sums over messages are divided by n.

    Averages, maxima and figures of single links or queues stay as they are.

    >>> comparable({"max_bytes": 320.0, "sum_dilation_ao": 128.0}, 64)
    {'max_bytes': 320.0, 'sum_dilation_ao': 2.0}
    """
    return {name: value / n if name in SUMS else value for name, value in features.items()}


def features(traffic: Traffic) -> dict[str, float]:
    """Return the features of the traffic by name; without those of links, messages or queues that are not reported.

    >>> features_by_name = features(reported_features(messages=([1, 1, 2], [10, 10, 40]), fifo_messages=[3, 5]))
    >>> features_by_name["max_dilation"], features_by_name["sum_dilation_ao"], features_by_name["hop_bytes"], features_by_name["max_fifo"]
    (2.0, 2.0, 100.0, 5.0)
    """
    features_by_name: dict[str, float] = {}
    if traffic.link_bytes.size:
        received = traffic.received
        delay = np.divide(traffic.buffered, received, out=np.zeros(len(received)), where=received > 0)
        for name, values in (("bytes", traffic.link_bytes), ("buffer", traffic.buffered), ("delay", delay)):
            features_by_name[f"avg_{name}"] = float(values.mean())
            features_by_name[f"avg_{name}_ao"] = average_outliers(values)
            features_by_name[f"avg_{name}_to"] = top_outliers(values)
        features_by_name["max_bytes"] = float(traffic.link_bytes.max())
    if traffic.dilation.size:
        features_by_name |= _of_messages(traffic)
    if traffic.fifo_messages.size:
        features_by_name["max_fifo"] = float(traffic.fifo_messages.max())
    return features_by_name


def average_outliers(values: Floats) -> float:
    """Return the mean of the values above the mean; the common value if all are equal."""
    outliers = values[_above(values)]
    return float(outliers.mean()) if outliers.size else float(values.max())


def top_outliers(values: Floats) -> float:
    """Return the mean of the values within five percent of the maximum."""
    return float(values[values >= TOP * values.max()].mean())


def _above(values: Floats) -> npt.NDArray[np.bool_]:
    # the mean of equal values may round to just below them
    return np.asarray((values > values.mean()) & (values > values.min()))


def _of_messages(traffic: Traffic) -> dict[str, float]:
    dilation, volume = traffic.dilation, traffic.message_bytes
    hop_bytes, total = float(dilation @ volume), float(volume.sum())
    return {
        "max_dilation": float(dilation.max()),
        "avg_dilation": float(dilation.mean()),
        "sum_dilation_ao": float(dilation[_above(dilation)].sum()),
        "hop_bytes": hop_bytes,
        "avg_hops_per_byte": hop_bytes / total if total > 0 else 0.0,
    }
