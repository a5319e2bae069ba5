"""Features of the communication of a run, sets of features that predict together, and scores of a predicted order.

N. Jain, A. Bhatele, M. Robson, T. Gamblin, L. Kale, "Predicting application performance using supervised learning on
communication features", SC 2013, use the load of links, messages and injection queues, averaged over all values or over the
outliers. A few of these features order the mappings of processes onto a network by their run time.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats

# H1 to H6 are the sets of Jain et al.; `dilation` and `bytes` are older.

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
    """Return the share of pairs of samples that `predicted` and `actual` put in the same order, as Jain et al. count them.

    In a tied pair the later sample counts as larger, so the result depends on the order of the samples. It is nan for fewer than
    two samples.

    >>> rcc(np.array([1.0, 1.0]), np.array([1.0, 2.0])), rcc(np.array([1.0, 1.0]), np.array([2.0, 1.0]))
    (1.0, 0.0)
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    return float(np.mean((predicted[first] >= predicted[second]) == (actual[first] >= actual[second])))


def rcc_symmetric(predicted: Floats, actual: Floats) -> float:
    """Return the share of pairs of samples that both arrays order alike; a pair that is tied in only one array counts half.

    Without ties the result is (1 + Kendall's tau) / 2; for fewer than two samples the result is nan.

    >>> rcc_symmetric(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])).__round__(4)
    0.8333
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    x, y = (np.sign(values[first] - values[second]) for values in (predicted, actual))
    return float(np.mean(np.where(x == y, 1.0, np.where((x == 0) | (y == 0), 0.5, 0.0))))


def r_squared(predicted: Floats, actual: Floats) -> float:
    """Return the share of the variance that the prediction explains; negative if the mean predicts better, nan without variance.

    >>> r_squared(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0])).__round__(3)
    0.357
    """
    total = float(((actual - actual.mean()) ** 2).sum()) if actual.size else 0.0
    return 1.0 - float(((predicted - actual) ** 2).sum()) / total if total > 0 else float("nan")


REPORTED_MAX: Final = 1 << 17  # most links, messages or queues of a run


Links = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Bytes, buffered packets and received packets of each link of the allocation, including idle links."""
Messages = tuple[Sequence[float], Sequence[float]]
"""Hops and bytes of each message."""

# Features of traffic: averages, maxima and sums, over all values or over the outliers.
# Average outliers (`_ao`) are the values above the mean; top outliers (`_to`) are the values within five percent of the maximum.
# If all values are equal there are no average outliers; the average of the outliers is then the value itself, their sum 0.

TOP: Final = 0.95  # share of the maximum
LINK_FEATURES: Final = tuple(
    f"{quantity}{of}" for quantity in ("avg_bytes", "avg_buffer", "avg_delay") for of in ("", "_ao", "_to")
)
MESSAGE_FEATURES: Final = ("max_dilation", "avg_dilation", "sum_dilation_ao", "hop_bytes", "avg_hops_per_byte")
NAMES: Final = (*LINK_FEATURES, "max_bytes", *MESSAGE_FEATURES, "max_fifo")


SUMS: Final = ("sum_dilation_ao", "hop_bytes")  # sums over all messages, which grow with the number of processes


def comparable(features: Mapping[str, float], n: float) -> dict[str, float]:
    """Make the features of a run of size n (> 0) comparable across sizes: sums over messages are divided by n.

    Averages, maxima and features of single links or queues do not change.

    >>> comparable({"max_bytes": 320.0, "sum_dilation_ao": 128.0}, 64)
    {'max_bytes': 320.0, 'sum_dilation_ao': 2.0}
    """
    return {name: value / n if name in SUMS else value for name, value in features.items()}


def features(
    links: Links = ((), (), ()), messages: Messages = ((), ()), fifo_messages: Sequence[float] = ()
) -> dict[str, float]:
    """Return features of the load that one run puts on the network; features of unreported columns are left out.

    `fifo_messages` are the messages per injection queue of a node. Raise ValueError if columns differ in length, exceed the limits,
    or contain a number that is negative or not finite.

    >>> features_by_name = features(messages=([1, 1, 2], [10, 10, 40]), fifo_messages=[3, 5])
    >>> [features_by_name[name] for name in ("max_dilation", "sum_dilation_ao", "hop_bytes", "max_fifo")]
    [2.0, 2.0, 100.0, 5.0]
    >>> features(links=([1.0], [0.0], []))
    Traceback (most recent call last):
    ValueError: All columns of links, and all columns of messages, need the same length.
    """
    columns = [np.asarray(column, np.float64) for column in (*links, *messages, fifo_messages)]
    if len(set(map(len, links))) > 1 or len(set(map(len, messages))) > 1:
        raise ValueError("All columns of links, and all columns of messages, need the same length.")
    if any(column.size > REPORTED_MAX for column in columns):
        raise ValueError(f"At most {REPORTED_MAX} links, messages or queues can be reported for a run.")
    if not all(((column >= 0) & np.isfinite(column)).all() for column in columns):
        raise ValueError("Network figures must be finite and not negative.")
    link_bytes, buffered, received, dilation, message_bytes, queues = columns
    features_by_name: dict[str, float] = {}
    if link_bytes.size:
        delay = np.divide(buffered, received, out=np.zeros(len(received)), where=received > 0)
        for name, values in (("bytes", link_bytes), ("buffer", buffered), ("delay", delay)):
            features_by_name |= averages(f"avg_{name}", values)
        features_by_name["max_bytes"] = float(link_bytes.max())
    if dilation.size:
        features_by_name |= _of_messages(dilation, message_bytes)
    if queues.size:
        features_by_name["max_fifo"] = float(queues.max())
    return features_by_name


def averages(name: str, values: Floats) -> dict[str, float]:
    """Return the mean of `values`, of those above the mean (`_ao`), and of those near the maximum (`_to`), under `name` and its variants.

    If all values are equal, all three means are this value.
    """
    outliers, top = values[_above(values)], values[values >= TOP * values.max()]
    outliers = outliers if outliers.size else values[:1]
    return {name: float(values.mean()), f"{name}_ao": float(outliers.mean()), f"{name}_to": float(top.mean())}


def _above(values: Floats) -> npt.NDArray[np.bool_]:
    # the mean of equal values may round to just below the values
    return np.asarray((values > values.mean()) & (values > values.min()))


def _of_messages(dilation: Floats, volume: Floats) -> dict[str, float]:
    hop_bytes, total = float(dilation @ volume), float(volume.sum())
    return {
        "max_dilation": float(dilation.max()),
        "avg_dilation": float(dilation.mean()),
        "sum_dilation_ao": float(dilation[_above(dilation)].sum()),
        "hop_bytes": hop_bytes,
        "avg_hops_per_byte": hop_bytes / total if total > 0 else 0.0,
    }


SENT: Final[Mapping[str, float]] = {
    "hni_sts_tx_ok_octets": 1.0,
    "xmit_data": 4.0,
    "xmit_bytes": 1.0,  # as in node_exporter
}
"""Counters of sent data, with the number of bytes of their unit."""
PACKETS: Final = ("hni_pkts_sent_by_tc_", "xmit_packets")
WAITS: Final = ("hni_tx_paused_", "xmit_wait")
"""Names of the counters of packets and of waits; a name that ends in ``_`` is the prefix of counters by traffic class."""
NIC_BYTES: Final = "nic_bytes"
NIC_PACKETS: Final = "nic_packets"
NIC_DELAY: Final = "nic_delay"
BUSIEST_BYTES: Final = "nic_busiest_bytes"
BUSIEST_WAITS: Final = "nic_busiest_waits"
COUNTED: Final = (NIC_BYTES, NIC_PACKETS, NIC_DELAY, BUSIEST_BYTES, BUSIEST_WAITS)
BUSIEST: Final[Mapping[str, str]] = {"bytes": BUSIEST_BYTES, "waits": BUSIEST_WAITS}
"""Quantities of the busiest network adapter, and the feature that each becomes."""


def busiest_of(counter: str) -> tuple[str, float] | None:
    """Return the quantity of BUSIEST that a network counter measures, with the factor to its unit; None for other counters.

    >>> busiest_of("xmit_data"), busiest_of("hni_tx_paused_3"), busiest_of("rcv_data")
    (('bytes', 4.0), ('waits', 1.0), None)
    """
    if counter in SENT:
        return "bytes", SENT[counter]
    return ("waits", 1.0) if _begins(counter, WAITS) else None


def counted_features(
    rates: Mapping[str, float], run_time_s: float, busiest: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return features of a run of `run_time_s` from the rates of the counters of its network adapters, per second and host.

    Bytes and packets are totals that a host sent in the whole run; the delay is the number of waits per packet. `busiest` has
    the rates per second of the busiest adapter, by the names in BUSIEST. Features without a counter are left out.

    >>> counted_features({"xmit_data": 250.0, "xmit_packets": 10.0, "xmit_wait": 5.0, "rcv_data": 1.0}, 100.0)
    {'nic_bytes': 100000.0, 'nic_packets': 1000.0, 'nic_delay': 0.5}
    >>> counted_features({}, 100.0, {"bytes": 3000.0})
    {'nic_busiest_bytes': 300000.0}
    """
    features: dict[str, float] = {}
    sent = [octets * rates[name] for name, octets in SENT.items() if name in rates]
    packets, waits = _total(rates, PACKETS), _total(rates, WAITS)
    if sent:
        features[NIC_BYTES] = max(sent) * run_time_s
    if packets is not None:
        features[NIC_PACKETS] = packets * run_time_s
    if packets is not None and waits is not None:
        features[NIC_DELAY] = waits / packets if packets > 0 else 0.0
    return features | {BUSIEST[name]: rate * run_time_s for name, rate in (busiest or {}).items() if name in BUSIEST}


def _total(rates: Mapping[str, float], beginnings: tuple[str, ...]) -> float | None:
    """Return the sum of the counters with the names or prefixes `beginnings`; None without a counter."""
    matching = [rate for name, rate in rates.items() if _begins(name, beginnings)]
    return sum(matching) if matching else None


def _begins(name: str, beginnings: tuple[str, ...]) -> bool:
    return any(name.startswith(prefix) if prefix.endswith("_") else name == prefix for prefix in beginnings)
