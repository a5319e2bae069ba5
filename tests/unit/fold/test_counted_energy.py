"""Node-seconds and energy of runs that settled, by how their energy is known: what Prometheus counts."""

from typing import Any

import msgspec
import pytest

from processors.contracts.events import JobProfile
from processors.contracts.hosts import Profile
from tests.kit.scenario import SYSTEM, Scenario, completed


def counted(profile: Profile | None, energy_j: float | None = None, **evidence: Any) -> dict[str, int]:
    """Return what a run of 4 nodes adds that took 6,000 s."""
    centre = Scenario().at("02:00")
    event = completed("1", centre.now_ms - 6_000_000, 6000.0, application="lammps", nodes=4, **evidence)
    event = msgspec.structs.replace(event, energy_j=energy_j)
    centre.fold(event)
    if profile is not None:
        centre.fold(JobProfile(SYSTEM, "1", event.run_id, profile))
    centre.at("03:00")
    return {name: count for name, count in centre.tally.items() if name.startswith(("node_s:", "energy_j:")) and count}


@pytest.mark.parametrize(
    ("profile", "energy_j", "evidence", "expected"),
    [
        (None, None, {}, {"node_s:unknown": 24_000}),
        (None, 5e6, {}, {"node_s:measured": 24_000, "energy_j:measured": 5_000_000}),
        (None, 5e6, {"exclusive": False}, {"node_s:unknown": 24_000}),
        (
            Profile(hosts=4, minutes=400, expected=400, energy_j={"system": 8e6}, measured={"system": 0.75}, estimated={"system": 0.25}),
            None,
            {},
            {"node_s:measured": 18_000, "node_s:estimated": 6_000, "energy_j:measured": 6_000_000, "energy_j:estimated": 2_000_000},
        ),
        (
            Profile(hosts=4, expected=400, shared=400, split=200.0, split_j=3e6),
            None,
            {},
            {"node_s:estimated": 12_000, "node_s:unknown": 12_000, "energy_j:estimated": 3_000_000},
        ),
    ],
    ids=["nothing", "the scheduler's meter", "its meter of shared nodes", "meters and counters", "split between jobs"],
)  # fmt: skip
def test_a_run_counts_by_how_its_energy_is_known(
    profile: Profile | None, energy_j: float | None, evidence: dict[str, Any], expected: dict[str, int]
) -> None:
    assert counted(profile, energy_j, **evidence) == expected
