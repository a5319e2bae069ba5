"""Power and energy: the most efficient size, plausible sensor values, and the power of hosts without a sensor."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import least_squares_not_negative

# R. Gonzalez, M. Horowitz, "Energy dissipation in general purpose microprocessors" (1996) propose energy times delay, which
# does not reward slow runs.


class Efficient(NamedTuple):
    """Energy of each size in joules (k,), and the sizes with the least energy and the least energy times delay."""

    energy_j: Floats
    least_energy_n: float
    least_energy_delay_n: float


def efficient(n: Floats, run_time_s: Floats, power_w: Floats) -> Efficient:
    """Return the energy of sizes (k,) from their run times and the power of all their nodes together; ties go to the smallest size.

    Raises ValueError without sizes or if a value is not positive and finite.

    >>> efficient(np.array([1.0, 2.0, 4.0]), np.array([100.0, 52.0, 30.0]), np.array([200.0, 380.0, 800.0]))
    Efficient(energy_j=array([20000., 19760., 24000.]), least_energy_n=2.0, least_energy_delay_n=4.0)
    """
    figures = np.array([n, run_time_s, power_w])
    if not figures.size or not ((figures > 0) & np.isfinite(figures)).all():
        raise ValueError("Sizes, run times and power are positive.")
    order = np.argsort(n, kind="stable")
    energy_j = run_time_s * power_w
    least = n[order[np.argmin(energy_j[order])]]
    delayed = n[order[np.argmin((energy_j * run_time_s)[order])]]
    return Efficient(energy_j, float(least), float(delayed))


def believable(power_w: npt.ArrayLike, *, most_w: npt.ArrayLike = np.inf) -> Floats:
    """Return the plausible values of power sensors, nan in place of the others.

    A value is implausible if it is missing, negative, zero while the host runs, or above `most_w`.

    >>> believable([220.0, np.nan, -1.0, 0.0, 9e9], most_w=2000.0).tolist()
    [220.0, nan, nan, nan, nan]
    """
    power = np.asarray(power_w, np.float64)
    return np.where((power > 0) & (power <= np.asarray(most_w, np.float64)) & (power < np.inf), power, np.nan)


# Power from events, learned on hosts with a sensor and again whenever the error grows.
# After SmartWatts (G. Fieni, R. Rouvoy, L. Seinturier, CCGRID 2020): the power of a host, or of a socket, is a sum of events
# with weights >= 0, with one model for each frequency layer. It estimates hosts of the same kind without a sensor.

VERSION: Final = 1
WINDOW: Final = 60
SAMPLES_MIN: Final = 10
ERROR_MAX_W: Final = 2.0
LAYERS_MAX: Final = 16
_RIDGE: Final = 1e-6  # of a column's squared length, so that redundant events share their weight


@dataclass(slots=True)
class Layer:
    """The newest samples at one frequency layer, the model fitted to some of them, and its errors.

    `weights` are watts per event (p,), `idle_w` is the power without events; both are unset before the first fit.

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
        """Add a sample; refit if the recent median error exceeds ERROR_MAX_W."""
        self.samples.append([power_w, *events])
        if self.weights:
            error = abs(power_w - self.idle_w - float(np.dot(self.weights, events)))
            self.errors.append(error)
        del self.samples[:-WINDOW], self.errors[:-WINDOW]
        if len(self.samples) < SAMPLES_MIN:
            return
        if not self.weights or (len(self.errors) >= SAMPLES_MIN and float(np.median(self.errors)) > ERROR_MAX_W):
            self._fit(most_idle_w)

    def _fit(self, most_idle_w: float) -> None:
        """Fit weights to the samples; fit the idle power only from a full window and only if it is plausible."""
        data = np.array(self.samples)
        power, events = data[:, 0], data[:, 1:]
        full = len(data) == WINDOW
        columns = np.concatenate([events, np.ones((len(data), 1))], axis=1) if full else events
        length = np.sqrt((columns**2).sum(axis=0))
        unit = np.divide(1.0, length, out=np.zeros(len(length)), where=length > 0)
        ridge = np.sqrt(_RIDGE) * np.eye(len(unit))
        rows = np.concatenate([columns * unit, ridge])
        solution = least_squares_not_negative(rows, np.concatenate([power, np.zeros(len(unit))])) * unit
        weights, idle = (solution[:-1], float(solution[-1])) if full else (solution, 0.0)
        self.errors.clear()
        if idle < most_idle_w:
            self.weights, self.idle_w = weights.tolist(), idle
            self.relearned += 1


class PowerModel:
    """The power of one kind of host as a weighted sum of the `events`, in their order.

    `most_idle_w` is a power that an idle host never reaches, such as the nominal power. Frequencies in one step of
    `layer_mhz` share a layer; if there are more than LAYERS_MAX the layer without samples for longest is dropped.

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
        """Start empty or from a snapshot; ValueError without events, or for a snapshot of another version or other events."""
        if not events:
            raise ValueError("A power model needs at least one event.")
        self.events = tuple(events)
        self.most_idle_w = most_idle_w
        self.layer_mhz = layer_mhz
        self.rejected = 0
        self.layers: dict[int, Layer] = {}
        if state is not None:
            if state["version"] != VERSION or tuple(state["events"]) != self.events:
                raise ValueError("The snapshot has another version or other events.")
            self.rejected = state["rejected"]
            self.layers = {number: Layer(*retained) for number, *retained in state["layers"]}

    def learn(self, events: Sequence[float], power_w: float, frequency_mhz: float = 0.0) -> None:
        """Learn the measured power (> 0) of a host with these events (>= 0); impossible values only count as rejected."""
        numbers = np.asarray(events, np.float64)
        possible = numbers.shape == (len(self.events),) and bool(((numbers >= 0) & np.isfinite(numbers)).all())
        if not (possible and 0.0 < power_w < math.inf and 0.0 <= frequency_mhz < math.inf):
            self.rejected += 1
            return
        number = int(frequency_mhz // self.layer_mhz)
        layer = self.layers.pop(number, None) or Layer()
        self.layers[number] = layer  # the layer with the newest sample is last
        if len(self.layers) > LAYERS_MAX:
            del self.layers[next(iter(self.layers))]
        layer.learn(numbers.tolist(), power_w, self.most_idle_w)

    def estimates(self, events: Floats, frequency_mhz: float = 0.0) -> Floats | None:
        """Return the power of hosts with events (k, p), >= 0, in W; None before the first fit."""
        layer = self._layer(frequency_mhz)
        return None if layer is None else layer.idle_w + events @ np.array(layer.weights)

    def largest_w(self, frequency_mhz: float = 0.0) -> float | None:
        """Return the largest recent measurement in W; None before the first fit."""
        layer = self._layer(frequency_mhz)
        return None if layer is None else max(sample[0] for sample in layer.samples)

    def error_w(self, frequency_mhz: float = 0.0) -> float | None:
        """Return the recent median error in W; None if there is none since the last fit."""
        layer = self._layer(frequency_mhz)
        return float(np.median(layer.errors)) if layer is not None and layer.errors else None

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data, independent of later samples."""
        layers = [
            [number, list(layer.samples), list(layer.errors), layer.weights, layer.idle_w, layer.relearned]
            for number, layer in self.layers.items()
        ]
        return {"version": VERSION, "events": list(self.events), "rejected": self.rejected, "layers": layers}

    def _layer(self, frequency_mhz: float) -> Layer | None:
        """Return the highest fitted layer up to the frequency, else the lowest fitted one."""
        fitted = sorted(number for number, layer in self.layers.items() if layer.weights)
        if not fitted:
            return None
        below = [number for number in fitted if number <= frequency_mhz // self.layer_mhz]
        return self.layers[below[-1] if below else fitted[0]]
