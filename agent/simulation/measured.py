"""Jobs of the whole nodes whose hosts are measured while they run, as by a sampler that starts with the job."""

from collections.abc import Callable
from typing import Final

import numpy as np

from agent.simulation.activity import FULL_CYCLES
from agent.simulation.centre import Centre
from agent.simulation.meters import Metered, Meters
from agent.simulation.watts import Watts
from agent.simulation.workload import hostlist

APPLICATIONS: Final = ("battery-design", "molecules")  # they use a part of the machine that a demo can follow
ALONE: Final = 0.998  # of a processor is left for the job that has its host for itself


class MeasuredJobs:
    """Counters and power of some applications of a centre, which tell of which job they are.

    >>> jobs = MeasuredJobs(Centre(seed=1, start_ms=1795168800000))
    >>> told = jobs.meters().messages(jobs.centre.events())
    >>> next(told).events[:10]
    b'[]'
    >>> round(jobs.power_w("simulated/molecules//nodes", 4.0) or 0.0), jobs.power_w("simulated/molecules/membrane/nodes", 4.0)
    (0, 1745.5)
    """

    def __init__(self, centre: Centre, applications: tuple[str, ...] = APPLICATIONS) -> None:
        self.centre, self.applications = centre, applications
        self._watts = Watts(centre.seed, centre.nodes)

    def meters(self, on_ended: Callable[[Metered], None] = lambda _: None, *, start_ms: int | None = None) -> Meters:
        """Return the meters of the hosts, from the beginning or a time on; hand the truth of each run to `on_ended`."""
        nodes, share = self.centre.nodes, np.full(self.centre.nodes, ALONE)
        return Meters(
            tuple(hostlist([node]) for node in range(nodes)), self._watts, self.centre.start_ms if start_ms is None else start_ms,
            available=lambda _: share, is_told=lambda job: job.application.name in self.applications, on_ended=on_ended,
            system=self.centre.system,
        )  # fmt: skip

    def power_w(self, application_id: str, n: float) -> float | None:
        """Return the true power of all hosts of a usual run together, in W; None for one that is not measured."""
        known = (one for one in self.centre.applications if one.name in self.applications)
        application = next((one for one in known if one.key(self.centre.system).id == application_id), None)
        if application is None or n < 1:
            return None
        per_second = FULL_CYCLES * ALONE * application.activity.per_cycle(n)
        return round(n * float(self._watts.power_w(per_second)[0]), 1)
