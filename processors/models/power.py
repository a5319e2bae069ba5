"""Power and energy: from what sensors tell to watts and joules that can be believed.

Which size takes the least energy, which values of sensors can be, and the watts of hosts without a sensor from their events.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import least_squares_not_negative

# Which size takes the least energy, and which the least energy times delay.
# R. Gonzalez, M. Horowitz, "Energy dissipation in general purpose microprocessors" (1996) name the product: it does not
# reward being slow.


class Efficient(NamedTuple):
    """Energy of each size in joules (k,), the size that takes the least of it, and that of the least energy x delay.

    >>> Efficient(np.array([5.0]), 1.0, 1.0).least_energy_n
    1.0
    """

    energy_j: Floats
    least_energy_n: float
    least_energy_delay_n: float


def efficient(n: Floats, run_time_s: Floats, power_w: Floats) -> Efficient:
    """Return the view of sizes (k,) with their run times and the power of all their nodes together; of equals the least.

    Raises ValueError without sizes or where a value is not positive and finite.

    >>> efficient(np.array([1.0, 2.0, 4.0]), np.array([100.0, 52.0, 30.0]), np.array([200.0, 380.0, 800.0]))
    Efficient(energy_j=array([20000., 19760., 24000.]), least_energy_n=2.0, least_energy_delay_n=4.0)
    """
    given = np.array([n, run_time_s, power_w])
    if not given.size or not ((given > 0) & np.isfinite(given)).all():
        raise ValueError("Sizes, run times and power are positive.")
    order = np.argsort(n, kind="stable")
    energy_j = run_time_s * power_w
    least = n[order[np.argmin(energy_j[order])]]
    delayed = n[order[np.argmin((energy_j * run_time_s)[order])]]
    return Efficient(energy_j, float(least), float(delayed))


def believable(power_w: npt.ArrayLike, *, most_w: npt.ArrayLike = np.inf) -> Floats:
    """Return the values of power sensors that can be, nan in the place of the others.

    These are missing, negative, zero while something runs, or more than `most_w`, which the host draws at most.

    >>> believable([220.0, np.nan, -1.0, 0.0, 9e9], most_w=2000.0).tolist()
    [220.0, nan, nan, nan, nan]
    """
    power = np.asarray(power_w, np.float64)
    return np.where((power > 0) & (power <= np.asarray(most_w, np.float64)) & (power < np.inf), power, np.nan)


# Watts from events: a model that is learned where a sensor is, and again whenever it is off.
# After SmartWatts (G. Fieni, R. Rouvoy, L. Seinturier, CCGRID 2020): power of a host, or of a socket, is a sum of events
# with weights that are not negative, one model for each layer of frequency. It answers for hosts of the same kind without a
# sensor.

VERSION: Final = 1
WINDOW: Final = 60
SAMPLES_MIN: Final = 10
ERROR_MAX_W: Final = 2.0
LAYERS_MAX: Final = 16
_RIDGE: Final = 1e-6  # of a column's length: events that say the same share their weight


@dataclass(slots=True)
class Layer:
    """The last samples at one layer of frequency, the model that was learned from some of them, and how far it was off.

    `weights` are watts per event (p,), `idle_w` what is drawn without any. Both are empty before the first fit.

    >>> layer = Layer()
    >>> for load in range(12):
    ...     layer.learn([float(load)], 3.0 * load, 200.0)
    >>> [round(each, 3) for each in layer.weights], layer.relearned
    ([3.0], 1)
    """

    samples: list[list[float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    idle_w: float = 0.0
    relearned: int = 0

    def learn(self, events: Sequence[float], power_w: float, most_idle_w: float) -> None:
        """Take a sample in; learn the model again where it is off by more than ERROR_MAX_W, by the median recently."""
        self.samples.append([power_w, *events])
        if self.weights:
            off = abs(power_w - self.idle_w - float(np.dot(self.weights, events)))
            self.errors.append(off)
        del self.samples[:-WINDOW], self.errors[:-WINDOW]
        if len(self.samples) < SAMPLES_MIN:
            return
        if not self.weights or (len(self.errors) >= SAMPLES_MIN and float(np.median(self.errors)) > ERROR_MAX_W):
            self._fit(most_idle_w)

    def _fit(self, most_idle_w: float) -> None:
        """Fit to the samples; with what is drawn without events only from a full window, and only where that can be."""
        data = np.array(self.samples)
        power, events = data[:, 0], data[:, 1:]
        full = len(data) == WINDOW
        columns = np.concatenate([events, np.ones((len(data), 1))], axis=1) if full else events
        length = np.sqrt((columns**2).sum(axis=0))
        unit = np.divide(1.0, length, out=np.zeros(len(length)), where=length > 0)
        ridge = np.sqrt(_RIDGE) * np.eye(len(unit))
        rows = np.concatenate([columns * unit, ridge])
        found = least_squares_not_negative(rows, np.concatenate([power, np.zeros(len(unit))])) * unit
        weights, idle = (found[:-1], float(found[-1])) if full else (found, 0.0)
        self.errors.clear()
        if idle < most_idle_w:
            self.weights, self.idle_w = weights.tolist(), idle
            self.relearned += 1


class PowerModel:
    """The power of one kind of host from its events, in the order of `events`.

    `most_idle_w` is what is never reached without load, such as the nominal power. Frequencies in one step of
    `layer_mhz` share a layer; of more than LAYERS_MAX the one that was not heard of for longest goes.

    >>> model = PowerModel(("instructions", "misses"), most_idle_w=300.0)
    >>> for tick in range(70):
    ...     model.learn((tick % 7, tick % 5), 90.0 + 10.0 * (tick % 7) + 4.0 * (tick % 5))
    >>> model.estimates(np.array([[3.0, 2.0]])).round().tolist()
    [128.0]
    """

    def __init__(
        self,
        events: Sequence[str],
        most_idle_w: float = math.inf,
        layer_mhz: float = 100.0,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """ValueError without events, or where the snapshot is of another version or of other events."""
        if not events:
            raise ValueError("Power is a sum of at least one event.")
        self.events = tuple(events)
        self.most_idle_w = most_idle_w
        self.layer_mhz = layer_mhz
        self.rejected = 0
        self.layers: dict[int, Layer] = {}
        if state is not None:
            if state["version"] != VERSION or tuple(state["events"]) != self.events:
                raise ValueError("The snapshot is of another version or of other events.")
            self.rejected = state["rejected"]
            self.layers = {number: Layer(*retained) for number, *retained in state["layers"]}

    def learn(self, events: Sequence[float], power_w: float, frequency_mhz: float = 0.0) -> None:
        """Take what a sensor measured (> 0) while these events happened (>= 0); what cannot be is counted and left out."""
        given = np.asarray(events, np.float64)
        if not (self._possible(given) and 0.0 < power_w < math.inf and 0.0 <= frequency_mhz < math.inf):
            self.rejected += 1
            return
        number = int(frequency_mhz // self.layer_mhz)
        layer = self.layers.pop(number, None) or Layer()
        self.layers[number] = layer  # the last heard of is the last
        if len(self.layers) > LAYERS_MAX:
            del self.layers[next(iter(self.layers))]
        layer.learn(given.tolist(), power_w, self.most_idle_w)

    def estimates(self, events: Floats, frequency_mhz: float = 0.0) -> Floats | None:
        """Return the watts of many hosts with events (k, p), none of them negative; None before a model was learned."""
        layer = self._layer(frequency_mhz)
        return None if layer is None else layer.idle_w + events @ np.array(layer.weights)

    def largest_w(self, frequency_mhz: float = 0.0) -> float | None:
        """Return the most that was measured recently; None before a model was learned."""
        layer = self._layer(frequency_mhz)
        return None if layer is None else max(sample[0] for sample in layer.samples)

    def error_w(self, frequency_mhz: float = 0.0) -> float | None:
        """Return the median error recently; None where none is known since the model was learned."""
        layer = self._layer(frequency_mhz)
        return float(np.median(layer.errors)) if layer is not None and layer.errors else None

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        layers = [
            [
                number,
                [list(each) for each in layer.samples],
                list(layer.errors),
                list(layer.weights),
                layer.idle_w,
                layer.relearned,
            ]
            for number, layer in self.layers.items()
        ]
        return {"version": VERSION, "events": list(self.events), "rejected": self.rejected, "layers": layers}

    def _layer(self, frequency_mhz: float) -> Layer | None:
        """Return the highest layer with a model that is not above the frequency, else the lowest one that has a model."""
        known = sorted(number for number, layer in self.layers.items() if layer.weights)
        if not known:
            return None
        below = [number for number in known if number <= frequency_mhz // self.layer_mhz]
        return self.layers[below[-1] if below else known[0]]

    def _possible(self, events: Floats) -> bool:
        return events.shape == (len(self.events),) and bool(((events >= 0) & np.isfinite(events)).all())
