"""The profile of a run: what the telemetry of its hosts says of it, once it has settled."""

from typing import Protocol

import msgspec


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """Means over the host-minutes that were a run's own: whole minutes of hosts on which nothing else ran.

    `hosts` is how many the run had, `minutes` the host-minutes that count, of `expected` ones; `shared` of them had another
    job and say nothing of this one. `short` tells that no whole minute lay within the run, so that parts of minutes were
    taken. `retrospective` tells that the run's start was not known: that it was alone is then only not disproved.

    `counters` are rates per second and host, `nic` those of network interfaces. `power_w` is mean power per host by
    component, `energy_j` that of all hosts over the whole run; `measured` is the share of host-minutes with a sensor of the
    component: what is missing was estimated from counters, where it could be, and else taken to be like the rest.
    `estimated` is the share that was. `left_out` counts readings that were not believed, by reason. `network` are the
    features of the run's communication.

    >>> Profile(hosts=2, minutes=8, expected=10, power_w={"system": 400.0}, measured={"system": 0.8}).coverage
    0.8
    """

    hosts: int
    minutes: int = 0
    expected: int = 0
    shared: int = 0
    short: bool = False
    retrospective: bool = False
    counters: dict[str, float] = {}
    nic: dict[str, float] = {}
    power_w: dict[str, float] = {}
    energy_j: dict[str, float] = {}
    measured: dict[str, float] = {}
    estimated: dict[str, float] = {}
    left_out: dict[str, int] = {}
    network: dict[str, float] = {}

    @property
    def coverage(self) -> float:
        """The share of the host-minutes that were seen and were the run's own (0 to 1)."""
        return min(self.minutes / self.expected, 1.0) if self.expected else 0.0


class Profiles(Protocol):
    """What the learner of runs asks of hosts; answers follow from the journal up to this place alone."""

    def profile(self, job: str, run_id: str) -> Profile | None:
        """Return what is known of a run that ended, by the key of its job; None where nothing was told of its hosts."""


class NoProfiles:
    """Knows no run.

    >>> NoProfiles().profile("exa/1", "exa/1@0")
    """

    def profile(self, job: str, run_id: str) -> Profile | None:
        """Return nothing."""
        del job, run_id
        return None
