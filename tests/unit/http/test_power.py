"""Power and energy on the page of an application and in what the interface returns."""

import msgspec
import pytest
from starlette.applications import Starlette

from processors.contracts.outputs import CurvePoint, Explained, ProfileModel, UsefulSizes
from sinks.web.formatting import energy_advice
from tests.kit.get import get
from tests.kit.messages import alert, curve, power_fields, powered_curve, prediction
from tests.kit.pages import HOSTILE, parsed, read
from tests.kit.service import FixedService

PAGE = "/applications/archer2/lammps/rhodo/nodes"


@pytest.fixture
def powered(app: Starlette, service: FixedService) -> Starlette:
    service.held_predictions = [prediction(**power_fields())]
    return app


def test_the_page_shows_power_and_energy_with_their_bands(powered: Starlette) -> None:
    text = read(powered, PAGE)
    point = powered_curve()[6]
    assert point.power_w == 25_600.0
    assert "25.6 kW" in text
    assert "24.3 kW to 26.9 kW" in text
    assert 'data-label="Power of lammps against nodes"' in text
    assert 'data-label="Energy of a run of lammps against nodes"' in text


def test_the_page_states_which_size_takes_least_energy_and_what_the_fastest_costs(powered: Starlette) -> None:
    text = read(powered, PAGE)
    assert (
        "A run uses the least energy, 400 kJ, at 1 node; 128 nodes are 56 times as fast for 2.3 times the energy."
        in text
    )
    assert "<dt>size with the least energy</dt><dd>1</dd>" in text
    assert "<dt>size with the least energy-delay product</dt><dd>64</dd>" in text


def test_the_page_states_what_was_measured_and_which_counters_explain_it(powered: Starlette) -> None:
    text = read(powered, PAGE)
    assert "75 % of the host-minutes were measured by sensors, 25 % estimated from counters." in text
    assert "30 predictions scored: median error 2.1 %, 93 % inside the 90 % band." in text
    assert "<td>PAPI_TOT_INS</td>" in text
    assert [part in text for part in ("79 %", "+16.2 W", "-4.4 W")] == [True] * 3
    assert "not scored yet" in text


def test_without_power_the_page_states_why_and_from_when_on(app: Starlette, service: FixedService) -> None:
    service.held_predictions = [prediction()]
    text = read(app, PAGE)
    assert "The power of lammps is unknown." in text
    assert "least energy" not in text
    assert "What counters explain" not in text


def test_names_of_counters_cannot_leave_their_place(app: Starlette, service: FixedService) -> None:
    hostile = ProfileModel(
        target=HOSTILE, model=HOSTILE, runs=1, scored=0, explained=(Explained(HOSTILE, 1.0, 1.0, 1.0),)
    )
    service.held_predictions = [prediction(**(power_fields() | {"profiles": (hostile,)}))]
    text = read(app, PAGE)
    assert HOSTILE not in text
    parsed(text)


def test_the_interface_returns_power_energy_and_what_explains_them(powered: Starlette) -> None:
    shown = get(powered, "/api/v1/applications/archer2/lammps/rhodo/nodes").json()
    assert shown["curve"][6]["power_w"] == 25_600.0
    assert shown["curve"][6]["energy_j"] == powered_curve()[6].energy_j
    assert shown["power"]["measured"] == 0.75
    assert shown["profiles"][0]["explained"][0]["counter"] == "PAPI_TOT_INS"
    listed = get(powered, "/api/v1/applications").json()["rows"][0]
    assert listed["useful_n"]["least_energy"] == 1.0
    assert listed["power"]["median_error"] == 0.021


def test_an_alert_about_power_is_no_point_of_the_curve_of_run_times(app: Starlette, service: FixedService) -> None:
    service.held_predictions = [prediction()]
    evidence = msgspec.structs.replace(alert().evidence, detail={"target": "system_power_w"})
    service.held_alerts = [alert(evidence=evidence)]
    assert 'data-kind="anomaly"' not in read(app, PAGE)
    service.held_alerts = [alert()]
    assert 'data-kind="anomaly"' in read(app, PAGE)


def test_the_fastest_size_that_also_takes_least_energy_is_reported_as_both() -> None:
    useful = UsefulSizes(least_energy=64.0)
    points = [point for point in powered_curve() if point.n == 64.0]
    assert (
        energy_advice(points, useful, "nodes")
        == "A run uses the least energy, 652 kJ, at 64 nodes, which is also the fastest size."
    )


@pytest.mark.parametrize("points", [(), curve()])
def test_without_energy_there_is_no_advice(points: tuple[CurvePoint, ...]) -> None:
    assert not energy_advice(points, UsefulSizes(), "nodes")
