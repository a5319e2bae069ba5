"""Load of the shared nodes of the simulated centre, known at every moment: calm and bursty hosts, and two things amiss.

One host slows down for good, as with a program that was left behind on it; later a whole rack is held up for a while, as
by a storm of its file system.
"""

from dataclasses import dataclass
from math import exp
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
RESOURCES: Final = ("cpu_available", "memory_free", "bandwidth")
STEP_MS: Final = 10_000
HOUR_MS: Final = 3_600_000
STEPS: Final = HOUR_MS // STEP_MS  # of one hour, which is made as a whole
HOURS_KEPT: Final = 8
BUSY_S: Final = 2_100.0
IDLE_S: Final = 7_500.0  # the mean times for which a bursty host is busy, and is not
RESTLESS: Final = 0.12  # deviation of the load of a busy host from sample to sample
MEMORY_B: Final = 256e9
BANDWIDTH_B_S: Final = 12.5e9
_MEMORY_STEPS: Final = 6.0  # over which noise of the load fades


@dataclass(frozen=True, slots=True)
class Host:
    """A shared node: its rack, how its load is, and its shares of processor and memory while nobody else is on it.

    >>> Host("r1n01", rack=1, temper="calm", idle=0.9, busy=0.5, memory=0.7).name
    'r1n01'
    """

    name: str
    rack: int
    temper: Literal["calm", "bursty"]
    idle: float
    busy: float
    memory: float


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something amiss with hosts from `start_ms` to `end_ms`: what is left of each of RESOURCES.

    >>> Trouble((3,), 0, 20_000, (0.5, 0.5, 1.0)).hosts
    (3,)
    """

    hosts: tuple[int, ...]
    start_ms: int
    end_ms: int
    left: tuple[float, float, float]


def shared_hosts(seed: int, racks: int = 3, of_rack: int = 12) -> tuple[Host, ...]:
    """Return the shared nodes by rack; every fourth one is bursty.

    >>> [host.temper for host in shared_hosts(seed=1)][:4]
    ['calm', 'calm', 'calm', 'bursty']
    """
    random = np.random.default_rng([seed, 1])
    return tuple(
        Host(
            name=f"r{rack}n{place:02d}",
            rack=rack,
            temper="bursty" if place % 4 == 0 else "calm",
            idle=float(random.uniform(0.78, 0.96)),
            busy=float(random.uniform(0.55, 0.65)),
            memory=float(random.uniform(0.5, 0.8)),
        )
        for rack in range(1, racks + 1)
        for place in range(1, of_rack + 1)
    )


class Loads:
    """What the hosts measure every ten seconds from `start_ms` on; the same seed gives the same values.

    Time goes forward: hours are made one after the other, and only the last HOURS_KEPT are kept.

    >>> loads = Loads(1, 0, shared_hosts(1))
    >>> loads.at(HOUR_MS).shape  # (hosts, resources)
    (36, 3)
    """

    def __init__(self, seed: int, start_ms: int, hosts: tuple[Host, ...], troubles: tuple[Trouble, ...] = ()) -> None:
        self.hosts, self.troubles = hosts, troubles
        self._start_ms = start_ms
        self._random = np.random.default_rng([seed, 2])
        self._hours: dict[int, Floats] = {}
        self._next = 0
        self._is_bursty = np.array([host.temper == "bursty" for host in hosts])
        self._is_busy = self._is_bursty & (self._random.uniform(size=len(hosts)) < BUSY_S / (BUSY_S + IDLE_S))
        self._drift = np.zeros((2, len(hosts)))

    def at(self, time_ms: int) -> Floats:
        """Return the values at the last step at or before a time, (hosts, resources); ValueError for one long past."""
        step = (time_ms - self._start_ms) // STEP_MS
        values: Floats = self._hour(step // STEPS)[step % STEPS]
        return values

    def end_ms(self, start_ms: int, hosts: tuple[int, ...], work_s: float, longest_s: float) -> int:
        """Return when work that takes `work_s` on idle hosts is done, at the pace of the slowest; at most so late.

        All hosts wait for the slowest one at every moment, as a program does that talks after each step.
        """
        left_s, step = work_s, (start_ms - self._start_ms) // STEP_MS
        from_ms, last_ms = start_ms, start_ms + round(longest_s * 1000)
        while left_s > 0 and from_ms < last_ms:
            paces = self._hour(step // STEPS)[step % STEPS :, list(hosts), 0].min(axis=-1)
            ends_ms = self._start_ms + (step + 1 + np.arange(len(paces))) * STEP_MS
            done_s = np.cumsum(paces * np.diff(ends_ms, prepend=from_ms) / 1000)
            if done_s[-1] >= left_s:
                place = int(np.searchsorted(done_s, left_s))
                return min(int(ends_ms[place]) - int((done_s[place] - left_s) / paces[place] * 1000), last_ms)
            left_s, step, from_ms = left_s - float(done_s[-1]), step + len(paces), int(ends_ms[-1])
        return last_ms

    def _hour(self, hour: int) -> Floats:
        while self._next <= hour:
            self._hours[self._next] = self._made(self._next)
            self._hours.pop(self._next - HOURS_KEPT, None)
            self._next += 1
        if hour not in self._hours:
            raise ValueError(f"Hour {hour} of the load is not known any more.")
        return self._hours[hour]

    def _made(self, hour: int) -> Floats:
        values = np.empty((STEPS, len(self.hosts), len(RESOURCES)))
        busy = self._bursts()
        noise, memory_noise = self._noise()
        jumps = RESTLESS * busy * self._random.normal(size=busy.shape)
        idle_cpu, busy_cpu, memory = (
            np.array([getattr(host, name) for host in self.hosts]) for name in ("idle", "busy", "memory")
        )
        values[..., 0] = np.where(busy, busy_cpu, idle_cpu) + noise + jumps
        values[..., 1] = MEMORY_B * (memory * np.where(busy, 0.7, 1.0) + 0.2 * memory_noise)
        values[..., 2] = BANDWIDTH_B_S * (0.9 + 0.05 * self._random.normal(size=busy.shape))
        self._spoil(values, self._start_ms + hour * HOUR_MS)
        np.clip(values[..., 0], 0.02, 1.0, out=values[..., 0])
        return np.maximum(values, 0.0)

    def _bursts(self) -> npt.NDArray[np.bool_]:
        """Return which host is busy when: times in each state are random without memory."""
        changes = self._random.uniform(size=(STEPS, len(self.hosts)))
        busy = np.empty(changes.shape, np.bool_)
        step_s = STEP_MS / 1000
        for step in range(STEPS):
            leaves = changes[step] < np.where(self._is_busy, step_s / BUSY_S, step_s / IDLE_S)
            self._is_busy = self._is_busy ^ (leaves & self._is_bursty)
            busy[step] = self._is_busy
        return busy

    def _noise(self) -> Floats:
        """Return noise of processor and memory (2, steps, hosts) that fades within a minute; more on bursty hosts."""
        keep = exp(-1 / _MEMORY_STEPS)
        size = np.where(self._is_bursty, 0.03, 0.012) * (1 - keep**2) ** 0.5
        fresh = self._random.normal(size=(2, STEPS, len(self.hosts))) * size
        noise = np.empty(fresh.shape)
        for step in range(STEPS):
            self._drift = keep * self._drift + fresh[:, step]
            noise[:, step] = self._drift
        return noise

    def _spoil(self, values: Floats, start_ms: int) -> None:
        for trouble in self.troubles:
            first = max(0, -(-(trouble.start_ms - start_ms) // STEP_MS))
            last = min(STEPS, -(-(trouble.end_ms - start_ms) // STEP_MS))
            if first < last:
                values[first:last, list(trouble.hosts)] *= np.array(trouble.left)
