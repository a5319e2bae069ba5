"""Features of traffic: averages, maxima and sums, over everything or over the outliers.

Outliers of a set are the values above its mean (average outliers, `_ao`); top outliers those within five percent of its
maximum (`_to`). Where all values are alike there are no average outliers: an average is then the value itself, a sum 0.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.communication.traffic import Traffic

Floats = npt.NDArray[np.float64]

TOP: Final = 0.95  # of the maximum
LINK_FEATURES: Final = tuple(
    f"{quantity}{of}" for quantity in ("avg_bytes", "avg_buffer", "avg_delay") for of in ("", "_ao", "_to")
)
MESSAGE_FEATURES: Final = ("max_dilation", "avg_dilation", "sum_dilation_ao", "hop_bytes", "avg_hops_per_byte")
NAMES: Final = (*LINK_FEATURES, "max_bytes", *MESSAGE_FEATURES, "max_fifo")


def features(traffic: Traffic) -> dict[str, float]:
    """Return the features that this traffic has, by name; those of links, messages or queues it does not tell are left out.

    >>> from processors.models.communication.traffic import told
    >>> found = features(told(messages=([1, 1, 2], [10, 10, 40]), fifo_messages=[3, 5]))
    >>> found["max_dilation"], found["sum_dilation_ao"], found["hop_bytes"], found["max_fifo"]
    (2.0, 2.0, 100.0, 5.0)
    """
    found: dict[str, float] = {}
    if traffic.link_bytes.size:
        received = traffic.received
        delay = np.divide(traffic.buffered, received, out=np.zeros(len(received)), where=received > 0)
        for name, values in (("bytes", traffic.link_bytes), ("buffer", traffic.buffered), ("delay", delay)):
            found[f"avg_{name}"] = float(values.mean())
            found[f"avg_{name}_ao"] = average_outliers(values)
            found[f"avg_{name}_to"] = top_outliers(values)
        found["max_bytes"] = float(traffic.link_bytes.max())
    if traffic.dilation.size:
        found |= _of_messages(traffic)
    if traffic.fifo_messages.size:
        found["max_fifo"] = float(traffic.fifo_messages.max())
    return found


def average_outliers(values: Floats) -> float:
    """Return the mean of the values above the mean of all, the common value where none is.

    >>> average_outliers(np.array([10.0, 20.0, 30.0, 40.0, 100.0, 98.0])), average_outliers(np.array([4.0, 4.0]))
    (99.0, 4.0)
    """
    chosen = values[_above(values)]
    return float(chosen.mean()) if chosen.size else float(values.max())


def top_outliers(values: Floats) -> float:
    """Return the mean of the values within five percent of the maximum.

    >>> top_outliers(np.array([10.0, 20.0, 30.0, 40.0, 100.0, 98.0]))
    99.0
    """
    return float(values[values >= TOP * values.max()].mean())


def _above(values: Floats) -> npt.NDArray[np.bool_]:
    # the mean of values that are all alike may round to just below them
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
