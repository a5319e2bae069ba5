"""Communication: how the mapping of processes onto a network decides the run time.

N. Jain, A. Bhatele, M. Robson, T. Gamblin, L. Kale, "Predicting application performance using supervised learning on
communication features", SC 2013: what links, messages and injection queues did, averaged over all of them or over the
outliers; a few such features together, and extremely randomised trees, order mappings by their run time.

`traffic` (the bounded arrays a run brings) -> `features` -> `hybrids` (sets of features, and the models of them) ->
`scores` (how well an order is predicted).
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.numerics.trees import Forest, Growth, growing
from processors.models.training.table import FittedModel, RowPredictions, RunTable, finished, left_out
from processors.models.training.trainer import Kind

# Sets of features that predict together, and the forest of each: which one to believe, every application tells.
# H1 to H6 are the sets of Jain et al.; `dilation` and `bytes` are what was used before them.

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
TREES: Final = 10
DEVIATION_MIN: Final = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A forest of ln of the target on some columns of a table, and its error when runs were left out.

    >>> x = np.arange(16.0)[:, None]
    >>> found = mapped(("max_bytes",), RunTable(("max_bytes",), x, 10.0 + x[:, 0], np.ones(16), np.arange(16)))
    >>> found.predict(np.array([[5.0]])).value.round(6).tolist(), found.importances()
    ([15.0], {'max_bytes': 1.0})
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    forest: Forest
    error: float
    deviation: float

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        found = np.exp(self.forest.mean(values[:, list(self.columns)]))
        return RowPredictions(found, np.full(len(found), self.deviation))

    def importances(self) -> dict[str, float]:
        """Return the share of each feature in what the forest explains."""
        return dict(zip(self.names, self.forest.importances().tolist(), strict=True))


def fitting(names: tuple[str, ...], table: RunTable) -> Generator[None, None, Mapped]:
    """Yield after a few trees each, and return the forest of these columns.

    Raises ValueError for less than RUNS_MIN runs, or where the table has not all of the columns.

    >>> next(fitting(("max_bytes",), RunTable((), np.zeros((9, 0)), np.ones(9), np.ones(9), np.arange(9))))
    Traceback (most recent call last):
    ValueError: No run tells max_bytes.
    """
    missing = [name for name in names if name not in table.names]
    if missing:
        raise ValueError(f"No run tells {', '.join(missing)}.")
    if len(table) < RUNS_MIN:
        raise ValueError(f"A forest of mappings needs {RUNS_MIN} runs.")
    columns = tuple(table.names.index(name) for name in names)
    forest = yield from _forest(table.only(names))
    off = yield from left_out(table, partial(_alone, names))
    return Mapped(names, columns, forest, off.error, max(off.deviation, DEVIATION_MIN))


def mapped(names: tuple[str, ...], table: RunTable) -> Mapped:
    """Return the forest of these columns, all at once; ValueError as `fitting`.

    >>> x = np.arange(16.0)[:, None]
    >>> mapped(("a",), RunTable(("a",), x, 10.0 + x[:, 0], np.ones(16), np.arange(16))).names
    ('a',)
    """
    return finished(fitting(names, table))


def _forest(table: RunTable) -> Generator[None, None, Forest]:
    return growing(table.filled(), np.log(table.target), table.weight, Growth(TREES))


def _alone(names: tuple[str, ...], table: RunTable) -> Generator[None, None, FittedModel]:
    """Return a forest whose error nobody asks for."""
    forest = yield from _forest(table.only(names))
    return Mapped(names, tuple(table.names.index(name) for name in names), forest, 0.0, DEVIATION_MIN)


def _model(names: tuple[str, ...], table: RunTable) -> Generator[None, None, FittedModel]:
    found = yield from fitting(names, table)
    return found


KINDS: Final[Mapping[str, Kind]] = {name: partial(_model, names) for name, names in FEATURE_SETS.items()}


def rcc(predicted: Floats, actual: Floats) -> float:
    """Return the share of pairs that are ordered alike, as the source counts them: of a tie the first of a pair is above.

    With ties it depends on the order of the samples; `rcc_symmetric` does not. nan for less than two samples.

    >>> rcc(np.array([1.0, 1.0]), np.array([1.0, 2.0])), rcc(np.array([1.0, 1.0]), np.array([2.0, 1.0]))
    (1.0, 0.0)
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    return float(np.mean((predicted[first] >= predicted[second]) == (actual[first] >= actual[second])))


def rcc_symmetric(predicted: Floats, actual: Floats) -> float:
    """Return the same, a pair that is tied in one of them alone as half; (1 + Kendall's tau) / 2 without ties.

    >>> rcc_symmetric(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])).__round__(4)
    0.8333
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    x, y = (np.sign(each[first] - each[second]) for each in (predicted, actual))
    return float(np.mean(np.where(x == y, 1.0, np.where((x == 0) | (y == 0), 0.5, 0.0))))


def r_squared(predicted: Floats, actual: Floats) -> float:
    """Return the share of the variance that is explained, below 0 where the mean would do better; nan where there is none.

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
    """Per link (l,): bytes, buffered and received packets. Per message (m,): hops (its dilation) and bytes. Per queue (q,).

    `fifo_messages` are messages per injection FIFO of a node. All links of the allocation are told, idle ones too. What a
    producer does not have is empty.

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

    Raises ValueError where columns differ in length, something is negative or not finite, or there is too much of it.

    >>> reported_features(links=([1.0], [0.0], []))
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


# Features of traffic: averages, maxima and sums, over everything or over the outliers.
# Outliers of a set are the values above its mean (average outliers, `_ao`); top outliers those within five percent of its
# maximum (`_to`). Where all values are alike there are no average outliers: an average is then the value itself, a sum 0.

TOP: Final = 0.95  # of the maximum
LINK_FEATURES: Final = tuple(
    f"{quantity}{of}" for quantity in ("avg_bytes", "avg_buffer", "avg_delay") for of in ("", "_ao", "_to")
)
MESSAGE_FEATURES: Final = ("max_dilation", "avg_dilation", "sum_dilation_ao", "hop_bytes", "avg_hops_per_byte")
NAMES: Final = (*LINK_FEATURES, "max_bytes", *MESSAGE_FEATURES, "max_fifo")


SUMS: Final = ("sum_dilation_ao", "hop_bytes")  # over all messages, so that they grow with the size alone


def comparable(found: Mapping[str, float], n: float) -> dict[str, float]:
    """Return features of a run of size n (> 0) as those of runs of other sizes: sums over messages for each of the n.

    Averages, maxima and what is told of single links or queues are comparable as they are.

    >>> comparable({"max_bytes": 320.0, "sum_dilation_ao": 128.0}, 64)
    {'max_bytes': 320.0, 'sum_dilation_ao': 2.0}
    """
    return {name: value / n if name in SUMS else value for name, value in found.items()}


def features(traffic: Traffic) -> dict[str, float]:
    """Return the features that this traffic has, by name; those of links, messages or queues it does not tell are left out.

    >>> from processors.models.features.communication import reported_features
    >>> found = features(reported_features(messages=([1, 1, 2], [10, 10, 40]), fifo_messages=[3, 5]))
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
