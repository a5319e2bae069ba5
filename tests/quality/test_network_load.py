"""What bandwidth adds to run times under load, on a centre whose truth is known: the guard of what the table tells."""

import pytest

from tests.quality.network_load import compared

# CRPS with the network over that without it at most, and the share that is reported, at least and at most
GUARD = {
    "most waits": (0.85, 0.4, 0.9),
    "none waits": (1.01, 0.0, 0.05),
}


@pytest.mark.parametrize("name", ["most waits", pytest.param("none waits", marks=pytest.mark.thorough)])
def test_run_times_under_the_load_of_the_network_are_predicted_as_well_as_they_were(name: str) -> None:
    ratio, least, most = GUARD[name]
    found = compared(name, [1], runs=140)
    assert found.runs == 60
    assert found.crps <= ratio * found.plain_crps
    assert least <= found.share <= most
