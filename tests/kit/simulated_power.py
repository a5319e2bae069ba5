"""The true power of the measured applications of a simulated centre."""

from agent.simulation.centre import Centre
from agent.simulation.meters import ALONE, APPLICATIONS, IDLE_W, LOSSES, PER_EVENT_J
from agent.simulation.workload import FULL_CYCLES


def true_power_w(centre: Centre, application_id: str, n: float) -> float | None:
    """Return the total power in W of a run of `n` hosts; None if the power of the application is not measured."""
    measured = (entry for entry in centre.applications if entry.name in APPLICATIONS)
    application = next((entry for entry in measured if entry.key(centre.system).id == application_id), None)
    if application is None:
        return None
    parts_w = IDLE_W[1:] + PER_EVENT_J @ (FULL_CYCLES * ALONE * application.activity.per_cycle(n))
    return round(n * float(LOSSES * (IDLE_W[0] + parts_w.sum())), 1)
