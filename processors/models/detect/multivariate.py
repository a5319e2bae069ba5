"""All resources of a host together: a measurement is strange when it does not go with the others and with the one before.

Each resource is scaled by its own mean and deviation. The covariance of the scaled values of this step and of the one before
is kept with forgetting; a little is added to its diagonal (ridge regression: Hoerl, Kennard 1970), and the energy of
the values under its inverse (Mahalanobis 1936) is that of the residuals of each resource given all others. The root of
the energy per value, smoothed, is compared with its own usual level, the 95 % quantile of the past (by stochastic
approximation: Robbins, Monro 1951).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.detect.record import Column, Table

Floats = NDArray[np.float64]

PEERS_MIN: Final = 4  # hosts in a group, of which one can be told apart
NORMAL: Final = 1.4826  # a normal distribution's deviation in median absolute deviations
PEER_FLOOR: Final = 0.01  # of the median: hosts that differ by less are alike


class Peers(NamedTuple):
    """Each value (m,) against its group: robust deviations above the median, that median, and how many are in the group.

    >>> Peers(np.zeros(1), np.ones(1), np.ones(1, np.intp)).usual
    array([1.])
    """

    deviations: NDArray[np.float64]
    usual: NDArray[np.float64]
    peers: NDArray[np.intp]


def compared_with_peers(value: NDArray[np.float64], group: NDArray[np.int64]) -> Peers:
    """Return how far each value (m,) is from its group (m,).

    The deviation is that of the median absolute deviation (Hampel 1974), at least a hundredth of the median. Zero for
    what is not finite, and in groups of fewer than four finite values; what is not finite has no median and no group.

    >>> compared_with_peers(np.array([1.0, 1.1, 0.9, 1.0, 4.0, 7.0]), np.array([0, 0, 0, 0, 0, 1])).deviations.round(1).tolist()
    [0.0, 0.7, -0.7, 0.0, 20.2, 0.0]
    """
    found = Peers(np.zeros(value.size), np.full(value.size, np.nan), np.zeros(value.size, np.intp))
    use = np.flatnonzero(np.isfinite(value))
    if use.size == 0:
        return found
    _, of, count = np.unique(group[use], return_inverse=True, return_counts=True)
    finite = value[use]
    median = _medians(finite, of, count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        off = finite - median[of]
        deviation = np.maximum(NORMAL * _medians(np.abs(off), of, count), PEER_FLOOR * np.abs(median))[of]
        robust_z = np.where(deviation > 0.0, off / deviation, np.where(off == 0.0, 0.0, np.copysign(np.inf, off)))
    found.deviations[use] = np.where((count[of] >= PEERS_MIN) & ~np.isnan(robust_z), robust_z, 0.0)
    found.usual[use], found.peers[use] = median[of], count[of]
    return found


def _medians(value: NDArray[np.float64], of: NDArray[np.intp], count: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the median of each group; `of` numbers the groups from 0, `count` is how many values each has."""
    ordered = value[np.lexsort((value, of))]
    first = np.cumsum(count) - count
    lower, upper = ordered[first + (count - 1) // 2], ordered[first + count // 2]
    return np.asarray(0.5 * lower + 0.5 * upper, np.float64)


Rows = NDArray[np.intp]

RESOURCES_MAX: Final = 20  # more would take more memory than a series may: it goes with their square
FLOOR: Final = 1e-4  # of the largest deviation seen: what moves by less counts as still
LEVEL: Final = 0.95
LEVEL_STEP: Final = 0.01
LEVEL_MIN: Final = float(np.log(0.5))  # a host that stood still may move again
HOSTS_PER_BATCH: Final = 128  # hosts at a time


@dataclass(frozen=True, slots=True)
class CombinedSettings:
    """How quickly scale and covariance forget (per step), the ridge, the smoothing, and when it fires.

    Scaled values are cut at `cut`: one resource alone is for the record rule. It fires at `factor` times the usual level,
    after `warm_up` steps.

    >>> CombinedSettings().factor
    1.25
    """

    scale_rate: float = 0.001
    covariance_rate: float = 0.0003
    ridge: float = 0.001
    smoothing: float = 0.15
    cut: float = 5.0
    factor: float = 1.25
    warm_up: int = 300


@dataclass(frozen=True, slots=True)
class CombinedStep:
    """What a step found of each host (m,) and each of its resources (m, d).

    `score` in [0, 1), whether it `fired`, and how many times the usual level it is (`ratio`, 0 while it warms up). The
    value that the others let expect, and how far off that a value is (`residual`, in deviations; 0 where there is none).

    >>> CombinedStep.empty(3, 2).expected.shape
    (3, 2)
    """

    score: Floats
    fired: NDArray[np.bool_]
    ratio: Floats
    expected: Floats
    residual: Floats

    @classmethod
    def empty(cls, hosts: int, resources: int) -> "CombinedStep":
        """Return a step in which nothing was found."""
        one, each = (hosts,), (hosts, resources)
        return cls(np.zeros(one), np.zeros(one, bool), np.zeros(one), np.zeros(each), np.zeros(each))

    def put(self, part: slice, found: "CombinedStep") -> None:
        """Set the hosts of a part."""
        self.score[part], self.fired[part], self.ratio[part] = found.score, found.fired, found.ratio
        self.expected[part], self.residual[part] = found.expected, found.residual


class CombinedRule:
    """The combined score of many hosts, one row each, with places for `resources` resources.

    >>> rule = CombinedRule(2, CombinedSettings(warm_up=50))
    >>> for i in range(400):
    ...     load = np.sin(i)
    ...     step = rule.step(np.array([0]), np.array([[load, 5.0 - 2.0 * load + 0.05 * np.cos(7 * i)]]))
    >>> bool(step.fired[0]), bool(rule.step(np.array([0]), np.array([[0.9, 6.0]])).fired[0])
    (False, True)
    """

    def __init__(self, resources: int, settings: CombinedSettings | None = None) -> None:
        """ValueError where there are no resources or more than RESOURCES_MAX."""
        if not 0 < resources <= RESOURCES_MAX:
            message = f"{resources} resources: 1 to {RESOURCES_MAX} can be scored together"
            raise ValueError(message)
        self.resources = resources
        self._settings = settings or CombinedSettings()
        each, both = Column((resources,), "float64", 0.0), Column((2 * resources, 2 * resources), "float32", 0.0)
        count, one = Column((), "int32", 0), Column((), "float64", 0.0)
        seen, before = Column((resources,), "int32", 0), Column((resources,), "float64", np.nan)
        columns = {"seen": seen, "mean": each, "variance": each, "reach": each, "before": before, "covariance": both}
        self._table = Table(columns | {"count": count, "smooth": one, "level": one})

    @property
    def host_bytes(self) -> int:
        """What a host takes, in memory and stored."""
        return self._table.row_bytes

    @property
    def size(self) -> int:
        """How many hosts there are."""
        return self._table.size

    def grow(self, rows: int) -> None:
        """Have at least so many hosts."""
        self._table.grow(rows)

    def clear(self, rows: Rows) -> None:
        """Let these hosts start anew."""
        self._table.clear(rows)

    def anew(self, row: int, place: int) -> None:
        """Let a host learn anew how its resources go together, with another one in this place."""
        for name, start in (("seen", 0), ("mean", 0.0), ("variance", 0.0), ("reach", 0.0), ("before", np.nan)):
            self._table[name][row, place] = start
        self._table["count"][row] = 0

    def stored(self, first: int, last: int) -> bytes:
        """Return the state of the hosts from `first` to before `last`."""
        return self._table.stored(first, last)

    def restore(self, first: int, last: int, state: bytes) -> None:
        """Put hosts back; ValueError where they are of another form."""
        self._table.restore(first, last, state)

    def step(self, rows: Rows, values: Floats) -> CombinedStep:
        """Score one measurement (m, d) of each of these hosts (m,), then learn it; nan where a resource has none.

        A row comes once; new rows are made as they come.
        """
        found = CombinedStep.empty(rows.size, self.resources)
        if rows.size == 0:
            return found
        self._table.grow(int(rows.max()) + 1)
        for first in range(0, rows.size, HOSTS_PER_BATCH):
            part = slice(first, first + HOSTS_PER_BATCH)
            found.put(part, self._step(rows[part], values[part]))
        return found

    def _step(self, rows: Rows, values: Floats) -> CombinedStep:
        """Score and learn as many hosts as fit in the processor's own memory."""
        scaled, mean, deviation = self._scale(rows, values)
        pair = np.concatenate([scaled, self._table["before"][rows]], axis=1)
        there = np.isfinite(pair)
        pair = np.where(there, pair, 0.0)
        inverse_pair, alone = self._regress(rows, pair, there)
        energy = np.maximum(np.einsum("mi,mi->m", pair, inverse_pair), 0.0)
        # what is missing is learnt as what the others let expect: then the covariance stays one
        pair = np.where(there, pair, np.einsum("mij,mj->mi", self._table["covariance"][rows], inverse_pair))
        expected = mean + deviation * np.where(there, pair - inverse_pair / alone, pair)[:, : self.resources]
        residual = np.where(there, inverse_pair / np.sqrt(alone), 0.0)[:, : self.resources]
        score, fired, ratio = self._judge(rows, np.sqrt(energy / np.maximum(there.sum(axis=1), 1)))
        self._learn(rows, pair, scaled)
        return CombinedStep(score, fired, ratio, expected, residual)

    def _scale(self, rows: Rows, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return scaled values (nan where there is none), and mean and deviation that they were scaled with; learn them."""
        table, settings = self._table, self._settings
        seen, mean, variance, reach = (table[name][rows] for name in ("seen", "mean", "variance", "reach"))
        there = np.isfinite(values) & (np.abs(values) < 1e150)  # the square of more is infinite
        mean = np.where(seen > 0, mean, np.where(there, values, 0.0))
        off = np.where(there, values, mean) - mean
        deviation = np.sqrt(variance) + FLOOR * reach
        with np.errstate(all="ignore"):
            scaled = np.where(deviation > 0.0, np.clip(off / deviation, -settings.cut, settings.cut), np.sign(off))
        rate = np.where(there, np.maximum(settings.scale_rate, 1.0 / (seen + 2.0)), 0.0)
        table["mean"][rows] = mean + rate * off
        table["variance"][rows] = (1.0 - rate) * (variance + rate * off * off)
        table["reach"][rows] = np.maximum(reach, np.abs(off))
        table["seen"][rows] = seen + there
        return np.where(there, scaled, np.nan), mean, deviation

    def _regress(self, rows: Rows, pair: Floats, there: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return the inverse covariance of what is there times the values, and its diagonal, each (m, 2 d)."""
        covariance = self._table["covariance"][rows].astype(float) * (there[:, :, None] & there[:, None, :])
        places = np.arange(pair.shape[1])
        covariance[:, places, places] += np.where(there, self._settings.ridge, 1.0)
        inverse = np.linalg.inv(covariance)
        return np.einsum("mij,mj->mi", inverse, pair), inverse[:, places, places]

    def _judge(self, rows: Rows, root: Floats) -> tuple[Floats, NDArray[np.bool_], Floats]:
        """Smooth the root of the energy, compare it with its usual level, and move that level."""
        table, settings = self._table, self._settings
        count, before, level = table["count"][rows], table["smooth"][rows], table["level"][rows]
        early = count < 50  # the covariance knows nothing yet
        smooth = np.where(early, root, before + settings.smoothing * (root - before))
        log = np.log(smooth + 1e-9)
        level = np.maximum(np.where(early, log, level), LEVEL_MIN)
        ready = count >= settings.warm_up
        ratio = np.where(ready, np.exp(log - level), 0.0)
        fired = ready & (log > level + np.log(settings.factor))
        move = np.maximum(LEVEL_STEP, 2.0 / (count + 1.0))
        table["level"][rows] = level + move * ((log > level) - (1.0 - LEVEL))
        table["smooth"][rows] = smooth
        table["count"][rows] = count + 1
        return np.where(ready, smooth / (1.0 + smooth), 0.0), fired, ratio

    def _learn(self, rows: Rows, pair: Floats, scaled: Floats) -> None:
        """Move the covariance, which starts as that of independent resources, towards these values."""
        table = self._table
        count = table["count"][rows]  # this step counts already
        rate = np.maximum(self._settings.covariance_rate, 1.0 / (count + 9.0))[:, None, None]
        covariance = table["covariance"][rows]
        covariance = np.where(count[:, None, None] == 1, np.eye(pair.shape[1]), covariance)
        table["covariance"][rows] = covariance + rate * (pair[:, :, None] * pair[:, None, :] - covariance)
        table["before"][rows] = scaled
