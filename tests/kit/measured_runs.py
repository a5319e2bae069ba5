"""A centre whose hosts tell their power and counters: runs of one application with profiles, one after the other."""

import json
from typing import Any

import msgspec

from processors.contracts.hosts import HostCause, Hosts, Profile
from processors.pipeline.shard import Shard
from tests.kit.contended_runs import contended_run
from tests.kit.copies import copied
from tests.kit.scenario import DAY_MS, Scenario

EVERY_MS = 300_000
KEY = "exa/lammps//nodes"


class Reported(Hosts):
    """Profiles by run, as hosts would tell them once it ended."""

    def __init__(self) -> None:
        self.by_run: dict[str, Profile] = {}
        self.odd: HostCause | None = None

    def profile(self, job: str, run_id: str) -> Profile | None:
        del job
        return self.by_run.get(run_id)

    def cause(self, system: str, hosts: tuple[str, ...], start_ms: int, end_ms: int) -> HostCause | None:
        del system, start_ms, end_ms
        return self.odd if self.odd is not None and self.odd.host in hosts else None


class MeasuredCentre(Scenario):
    """A centre whose hosts know profiles of runs, also after a restart."""

    def __init__(self, **alerts: Any) -> None:
        self.predicted = Reported()
        super().__init__(alerts=alerts)

    def new_shard(self) -> Shard:
        shard = super().new_shard()
        shard.state.profiles = self.predicted
        return shard


class Measured:
    """An application that is run every five minutes at four sizes in turn; further arguments are settings of alerts."""

    def __init__(self, **alerts: Any) -> None:
        self.centre = MeasuredCentre(**alerts)
        self.runs = 0

    def runs_on(
        self,
        runs: int,
        *,
        profiles: bool = True,
        estimated: float = 0.0,
        hosts: tuple[str, ...] = (),
        excess_w: float = 0.0,
        disturbed: float = 0.0,
        watts: float = 1.0,
    ) -> "Measured":
        """Report so many runs, with their profiles; `disturbed` and `watts` are those of `contended_run`.

        Of `hosts` together `excess_w` more is drawn than counters tell.
        """
        for _ in range(runs):
            i, self.runs = self.runs, self.runs + 1
            fact = contended_run(i, disturbed=disturbed, watts=watts)
            self.centre.at_ms(DAY_MS + self.runs * EVERY_MS)
            event = self.centre.ran(f"r{i}", "lammps", fact.n, fact.run_time_s, hosts=hosts)
            shares = {"measured": {"system": 1.0 - estimated}, "estimated": {"system": estimated}}
            powers = {
                name: power_w + excess_w / len(hosts) if hosts else power_w
                for name, power_w in fact.profile.power_w.items()
            }
            profile = msgspec.structs.replace(
                fact.profile, hosts=len(hosts) or fact.profile.hosts, power_w=powers, **shares
            )
            if profiles:
                self.centre.predicted.by_run[event.run_id] = profile
        return self

    def settles(self) -> "Measured":
        """Let everything that waits for time come about."""
        self.centre.at_ms(self.centre.now_ms + 700_000)
        return self

    @property
    def prediction(self) -> dict[str, Any]:
        """The newest prediction."""
        reported: dict[str, Any] = self.centre.topic("predictions")[KEY]
        return reported

    def published(self, alert: str) -> list[dict[str, Any]]:
        """Return the messages of the alerts of a name."""
        return [output for output in self.centre.messages("alerts") if output["labels"]["alertname"] == alert]


def measured_after(runs: int, hosts: tuple[str, ...] = (), **alerts: Any) -> Measured:
    """Return an application after so many usual runs on these hosts; further arguments are settings of alerts."""
    return _measured_after(runs, hosts, json.dumps(alerts))


@copied
def _measured_after(runs: int, hosts: tuple[str, ...], alerts: str) -> Measured:
    return Measured(**json.loads(alerts)).runs_on(runs, hosts=hosts)
