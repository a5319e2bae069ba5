"""What one run used in energy, and how much of that was measured: decided here once, for pages, messages and reports."""

from typing import Final, NamedTuple

from processors.contracts.hosts import Profile
from processors.contracts.outputs import CurvePoint

SYSTEM: Final = "system"  # the component that is a whole host; parts of one are not its energy


class RunEnergy(NamedTuple):
    """The energy of a run on all its hosts in J, its band, and which shares of its node-seconds were measured and estimated.

    The rest of the shares is unknown. The band is the energy itself where a meter reported it.
    """

    energy_j: float | None = None
    low_j: float | None = None
    high_j: float | None = None
    measured: float = 0.0
    estimated: float = 0.0

    @property
    def unknown(self) -> float:
        """The share of node-seconds of which neither a meter nor a model tells anything."""
        return max(1.0 - self.measured - self.estimated, 0.0)


UNKNOWN: Final = RunEnergy()


def energy_of_run(
    profile: Profile | None,
    scheduler_j: float | None,
    *,
    exclusive: bool | None = None,
    run_time_s: float = 0.0,
    predicted: CurvePoint | None = None,
) -> RunEnergy:
    """Return the energy of a run from the first source that knows it.

    The meters of its hosts go first: they know which minutes the run shared, of whose energy it has what is split by a rule, which counts as estimated. Then
    the meter of the scheduler, which counts
    the whole node for each job on it: so not of a run that is known to share. Last `predicted`, the power that the model of its
    application gives to its size, for as long as it ran (`run_time_s`).
    """
    metered = _metered(profile) if profile is not None else None
    if metered is not None:
        return metered
    shares_hosts = exclusive is False or (profile is not None and profile.shared > 0)
    if scheduler_j is not None and not shares_hosts:
        return RunEnergy(scheduler_j, scheduler_j, scheduler_j, measured=1.0)
    if predicted is None or predicted.power_w is None:
        return UNKNOWN
    ends = (predicted.power_w, predicted.power_low_w, predicted.power_high_w)
    middle_j, low_j, high_j = (None if watts is None else watts * run_time_s for watts in ends)
    return RunEnergy(middle_j, low_j, high_j, estimated=1.0)


def _metered(profile: Profile) -> RunEnergy | None:
    """Return what the meters of its hosts tell of a run: of its own minutes, and of those that it shared; None where they tell of neither."""
    own_j = profile.energy_j.get(SYSTEM)
    if own_j is None and not profile.split_j:
        return None
    of = float(profile.expected) or 1.0
    measured, estimated = (each.get(SYSTEM, 0.0) * profile.coverage for each in (profile.measured, profile.estimated))
    estimated = min(estimated + profile.split / of, 1.0 - measured)
    energy_j = (own_j or 0.0) * (1.0 - profile.shared / of) + profile.split_j
    return RunEnergy(energy_j, energy_j, energy_j, measured, estimated)
